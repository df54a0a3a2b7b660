//! Another configuration while requests are under way, and the end of the daemon.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde_json::json;

use super::*;
use crate::support::client::{Client, get, post};
use crate::support::engine::Gate;
use crate::support::{ask_until, client};

const STREAMS: usize = 300;

/// A provider that is called this, at this engine.
fn provider(name: &str, engine: &Engine, tier: usize) -> String {
    format!(
        "[[providers]]\nname = \"{name}\"\nbase_url = \"http://127.0.0.1:{}/v1\"\ntier = {tier}\nmodels = [\"m\"]\n",
        engine.port()
    )
}

fn stream(gate: &Gate) -> Reply {
    Reply::stream("text/event-stream")
        .chunk("data: {\"x\":1}\n\n")
        .gate(gate)
        .chunk("data: [DONE]\n\n")
        .end()
}

/// So many streams of which the first piece is here.
fn streams(port: u16, model: &str, count: usize) -> Vec<(Client, client::Response)> {
    (0..count)
        .map(|_| {
            let mut client = Client::connect(port);
            client.post(CHAT, &chat(model));
            let mut head = client.head();
            assert!(client.read_until(&mut head, "1}"));
            (client, head)
        })
        .collect()
}

#[test]
fn streams_and_requests_survive_fifty_changes_of_providers_and_virtual_models() {
    let gate = Gate::new();
    let held = Engine::always(stream(&gate));
    let says = |text: &str| Engine::always(Reply::json(200, &json!({ "text": text })));
    let (a, b) = (says("a"), says("b"));
    let world = World::new();
    let text = |i: usize| {
        let bad = if i % 2 == 1 { "mistake = 1\n" } else { "" };
        let first = ["a", "b"][i / 2 % 2];
        // The one that streams come from goes, and comes back with another tier.
        let held = match i % 4 {
            0 => provider("held", &held, i % 7),
            _ => String::new(),
        };
        format!(
            "{bad}[virtual_models]\nv = [\"{first}/m\"]\nw = [\"a/m\"]\n{}{}{held}",
            provider("a", &a, i % 3),
            provider("b", &b, 1)
        )
    };
    let begun = text(0).replace("w = [\"a/m\"]", "w = [\"held/m\"]");
    let daemon = serve(&world, &begun, &[]);
    let (port, path) = (daemon.port, world.path().join("nvpair.toml"));
    let under_way = streams(port, "w", STREAMS);

    let (stop, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let answer = post(port, CHAT, &chat("v"));
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for i in 0..50 {
            // The daemon looks at the file by itself too: cut to nothing for a moment, it is a valid one.
            let aside = path.with_extension("new");
            std::fs::write(&aside, text(i)).unwrap();
            std::fs::rename(&aside, &path).unwrap();
            let said = world.run(&["config", "reload", "--json"]);
            let told: Value = serde_json::from_str(&said.out).unwrap();
            assert_eq!(told["applied"], i % 2 == 0, "{told}");
            if i % 2 == 0 {
                let first = ["a", "b"][i / 2 % 2];
                ask_until("the new target", || {
                    (post(port, CHAT, &chat("v")).json()["text"] == first).then_some(())
                });
            } else {
                assert!(told.to_string().contains("mistake"), "{told}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(asked.load(Ordering::Relaxed) > 0);
    gate.open();
    for (mut client, head) in under_way {
        assert!(client.finish(head).text().ends_with("data: [DONE]\n\n"));
    }
    let log = daemon.process.log.text();
    assert!(log.contains("mistake"), "{log}");
}

#[test]
fn while_it_drains_streams_go_on_and_its_health_says_so() {
    let gate = Gate::new();
    let held = Engine::always(stream(&gate));
    let world = World::new();
    let mut daemon = serve(&world, &provider("held", &held, 0), &[]);
    // Connections that are there are told; new ones are not taken any more.
    let mut idle = Client::connect(daemon.port);
    idle.send("GET", "/health", &[], b"");
    assert_eq!(idle.answer().json(), json!({"status": "ok"}));
    let under_way = streams(daemon.port, "m", 3);
    daemon.process.terminate();
    gate.open();
    for (mut client, head) in under_way {
        assert!(client.finish(head).text().ends_with("data: [DONE]\n\n"));
    }
    assert_eq!(daemon.process.exit_code(), 0);
}

#[test]
fn the_gateway_comes_and_goes_by_the_file_with_the_nodes_of_engines_that_have_no_facade() {
    let a = saying("lmstudio", &["m"], "a");
    let world = World::new();
    let port = support::free_port();
    let node = format!(
        "[[nodes]]\nengine = \"lmstudio\"\nname = \"a\"\nurl = \"http://127.0.0.1:{}\"\n",
        a.port()
    );
    let off = "[engines.lmstudio]\nenabled = false\n[engines.llamacpp]\nenabled = false\n";
    let ollama = support::free_port();
    let text = |on: bool| {
        let engine = format!("[engines.ollama]\nport = {ollama}\n");
        let gateway = format!("[gateway]\nenabled = {on}\nport = {port}\n");
        format!("{off}{engine}{gateway}{node}")
    };
    let path = world.file("nvpair.toml", &text(false));
    let daemon = Standalone::try_start(&world, port, &["--config", path.to_str().unwrap()]);
    let daemon = daemon.unwrap();
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    for _ in 0..2 {
        std::fs::write(&path, text(true)).unwrap();
        assert_eq!(world.run(&["config", "reload"]).code, 0);
        ask_until("its node", || {
            (post(port, CHAT, &chat("m")).status == 200).then_some(())
        });
        assert_eq!(get(port, "/v1/models").json()["data"][0]["id"], "m");
        std::fs::write(&path, text(false)).unwrap();
        assert_eq!(world.run(&["config", "reload"]).code, 0);
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    }
    drop(daemon);
}
