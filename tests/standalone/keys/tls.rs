//! Certificates of facades, for callers from other machines.

use super::*;
use crate::support::certs::{Identity, over_tls, over_tls_at};

fn certificate(world: &World, name: &str) -> String {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    world.file("c.pem", &made.cert.pem());
    world.file("k.pem", &made.signing_key.serialize_pem());
    "[engines.ollama]\ntls_cert = \"c.pem\"\ntls_key = \"k.pem\"\n".to_owned()
}

#[test]
fn a_certificate_is_for_other_machines_and_follows_its_files() {
    let Some(own) = own_address() else { return };
    let (world, a) = (World::new(), ollama(&["m"], says("a")));
    let tls = certificate(&world, "a");
    let daemon = serve(&world, &format!("{}\n{tls}", open_to(own)), &[("a", &a)]);
    let port = daemon.port;
    let made = key(&world, "k", &["--allow", "all"]);
    let who = Identity::new("client");

    let (mut client, first) = over_tls_at((own, port).into(), &who).expect("a handshake");
    for _ in 0..2 {
        assert_eq!(
            chat_on(&mut client, "/api/chat", "m", Some(&made)).text(),
            "a"
        );
    }
    assert_eq!(chat_on(&mut client, "/api/chat", "m", None).status, 401);
    let plain = chat_on(&mut far(own, port), "/api/chat", "m", Some(&made));
    assert_eq!(
        (plain.status, &plain.json()["code"]),
        (403, &json!("tls-required"))
    );
    // This machine's clients speak as they like, and need no key.
    assert_eq!(post(port, "/api/chat", &chat("m")).text(), "a");
    let (mut here, _) = over_tls(port, &who).expect("a handshake");
    assert_eq!(chat_on(&mut here, "/api/chat", "m", None).text(), "a");

    certificate(&world, "another.name.that.is.longer");
    let second = ask_until("the new certificate", || {
        let (_, leaf) = over_tls_at((own, port).into(), &who)?;
        (leaf != first).then_some(leaf)
    });
    assert_ne!(first, second);
    // A connection that stands is left alone.
    assert_eq!(
        chat_on(&mut client, "/api/chat", "m", Some(&made)).text(),
        "a"
    );

    // Without the certificate the port speaks in the clear again.
    let path = world.path().join("nvpair.toml");
    let text = fs::read_to_string(&path).unwrap().replace(&tls, "");
    fs::write(&path, text).unwrap();
    let told = world.json(&["config", "reload"]);
    assert_eq!(told["changed"], json!(["engines.*.tls_cert"]), "{told}");
    assert_eq!(
        chat_on(&mut far(own, port), "/api/chat", "m", Some(&made)).text(),
        "a"
    );
    assert!(over_tls_at((own, port).into(), &who).is_none());
}

#[test]
fn a_certificate_that_cannot_be_used_lets_nobody_in_in_the_clear() {
    let Some(own) = own_address() else { return };
    let (world, a) = (World::new(), ollama(&["m"], says("a")));
    let tls = certificate(&world, "a");
    world.file("k.pem", "nothing");
    let path = world.file("bad.toml", &tls);
    let told = Standalone::try_start(&world, free_port(), &["--config", path.to_str().unwrap()]);
    let told = told.err().expect("no start");
    assert!(
        told.contains("engines.ollama.tls_cert") && told.contains("k.pem holds no private key"),
        "{told}"
    );

    let daemon = serve(&world, &open_to(own), &[("a", &a)]);
    let made = key(&world, "k", &["--allow", "all"]);
    assert_eq!(
        chat_on(&mut far(own, daemon.port), "/api/chat", "m", Some(&made)).text(),
        "a"
    );
    let path = world.path().join("nvpair.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}{tls}")).unwrap();
    let told = world.json(&["config", "reload"]);
    assert!(
        told["warnings"]
            .to_string()
            .contains("holds no private key"),
        "{told}"
    );
    let refused = chat_on(&mut far(own, daemon.port), "/api/chat", "m", Some(&made));
    assert_eq!(refused.json()["code"], "tls-required");
}
