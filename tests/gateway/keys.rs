//! Keys on the gateway: what they open, what a list shows of it, and where they are never sent.

use std::net::{IpAddr, TcpStream};

use serde_json::json;

use super::*;
use crate::support::certs::{Identity, over_tls_at};
use crate::support::client::{Client, Response, get, http};
use crate::support::own_address;

#[track_caller]
fn key(world: &World, name: &str, allow: &str) -> String {
    let made = world.json(&["keys", "create", name, "--allow", allow]);
    made["key"].as_str().unwrap().to_owned()
}

/// One request with this key.
#[track_caller]
fn with(mut client: Client, method: &str, path: &str, key: &str, body: &str) -> Response {
    let bearer = format!("Bearer {key}");
    client.send(method, path, &[("Authorization", &bearer)], body.as_bytes());
    client.answer()
}

fn ids(list: &Response) -> Vec<String> {
    let list = list.json();
    let entries = list["data"].as_array().unwrap().iter();
    entries
        .map(|e| e["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_key_opens_engines_nodes_and_virtual_models_by_name() {
    let ollama = saying("ollama", &["llama3:latest"], "o");
    let lmstudio = saying("lmstudio", &["phi", "other"], "l");
    let world = World::new();
    let nodes = [("ollama", "o", &ollama), ("lmstudio", "l", &lmstudio)];
    let config = "[virtual_models]\nfast = [\"ollama/llama3\"]\nhidden = [\"lmstudio/phi\"]\n";
    let daemon = serve(&world, config, &nodes);
    let port = daemon.port;
    for (i, (allow, listed, chats)) in [
        (
            "all",
            &["fast", "hidden", "llama3:latest", "other", "phi"][..],
            [200, 200, 200, 200],
        ),
        ("virtual/fast", &["fast"], [403, 403, 200, 403]),
        ("lmstudio", &["other", "phi"], [403, 200, 403, 403]),
        ("*/phi", &["phi"], [403, 200, 403, 403]),
        ("o/llama3", &["llama3:latest"], [200, 403, 403, 403]),
        ("pool", &[], [403, 403, 403, 403]),
    ]
    .into_iter()
    .enumerate()
    {
        let key = key(&world, &format!("k{i}"), allow);
        let list = with(Client::connect(port), "GET", "/v1/models", &key, "");
        assert_eq!(ids(&list), listed, "{allow}");
        for (model, want) in ["llama3", "phi", "fast", "hidden"].iter().zip(chats) {
            let body = chat(model).to_string();
            let answer = with(Client::connect(port), "POST", CHAT, &key, &body);
            assert_eq!(answer.status, want, "{allow} {model}");
            if want == 403 {
                let told = answer.json();
                assert_eq!(told["error"]["type"], "permission_error", "{told}");
                assert!(told["error"]["message"].as_str().unwrap().contains(model));
            }
        }
        let one = with(Client::connect(port), "GET", "/v1/models/phi", &key, "");
        let want = if listed.contains(&"phi") { 200 } else { 404 };
        assert_eq!(one.status, want, "{allow}");
        for engine in [&ollama, &lmstudio] {
            let seen = engine.requests();
            let carried = seen
                .iter()
                .find(|r| String::from_utf8_lossy(&r.head).contains(&key[5..]));
            assert!(carried.is_none(), "{carried:?}");
        }
    }
    // Nobody on this machine needs one.
    assert_eq!(ids(&get(port, "/v1/models")).len(), 5);
}

#[test]
fn the_gateway_is_opened_to_other_machines_as_every_facade_is() {
    let Some(own) = own_address() else { return };
    let a = saying("ollama", &["m"], "a");
    let world = World::new();
    let made = rcgen::generate_simple_self_signed(vec!["a".to_owned()]).unwrap();
    world.file("c.pem", &made.cert.pem());
    world.file("k.pem", &made.signing_key.serialize_pem());
    let config = format!(
        "allowed_cidrs = [\"{own}\"]\n[gateway]\ntls_cert = \"c.pem\"\ntls_key = \"k.pem\"\n"
    );
    let daemon = serve(&world, &config, &[("ollama", "a", &a)]);
    let port = daemon.port;
    let all = key(&world, "all", "all");
    let far = |own: IpAddr| Client::of(TcpStream::connect((own, port)).unwrap(), port);
    let body = chat("m").to_string();
    let plain = with(far(own), "POST", CHAT, &all, &body);
    assert_eq!(plain.json()["code"], "tls-required");
    let secured = || {
        over_tls_at((own, port).into(), &Identity::new("c"))
            .unwrap()
            .0
    };
    let answer = with(secured(), "POST", CHAT, &all, &body);
    assert_eq!((answer.status, text(&answer)), (200, json!("a")));
    assert_eq!(with(secured(), "POST", CHAT, "sk-1", &body).status, 401);
    // What a machine tells of itself it tells itself only.
    for path in ["/health", "/status"] {
        assert_eq!(with(secured(), "GET", path, &all, "").status, 403, "{path}");
        assert_eq!(http(port, "GET", path, &[], b"").status, 200, "{path}");
    }
}

#[test]
fn a_provider_is_opened_by_its_name_and_never_sees_a_caller_s_key() {
    let node = saying("ollama", &["m"], "node");
    let service = Engine::always(Reply::json(200, &json!({"text": "groq"})));
    let world = World::new();
    let config = format!(
        "[[providers]]\nname = \"groq\"\nbase_url = \"http://localhost:{}/openai/v1\"\n\
         api_key = \"of-groq\"\nmodels = [\"m\", \"big\"]\n",
        service.port()
    );
    let daemon = serve(&world, &config, &[("ollama", "n", &node)]);
    let port = daemon.port;
    let ask = |key: &str, model: &str| {
        let body = chat(model).to_string();
        with(Client::connect(port), "POST", CHAT, key, &body)
    };
    let (groq, big, ollama) = (
        key(&world, "groq", "groq"),
        key(&world, "big", "groq/big"),
        key(&world, "ollama", "ollama"),
    );
    // Past the node, which it may not use.
    assert_eq!(text(&ask(&groq, "m")), "groq");
    assert_eq!(text(&ask(&big, "big")), "groq");
    assert_eq!(ask(&big, "m").status, 403);
    assert_eq!(text(&ask(&ollama, "m")), "node");
    assert_eq!(ask(&ollama, "big").status, 403);
    let list = |key: &str| ids(&with(Client::connect(port), "GET", "/v1/models", key, ""));
    assert_eq!(list(&groq), ["m", "big"]);
    assert_eq!(list(&big), ["big"]);
    assert_eq!(list(&ollama), ["m:latest"]);
    let seen = service.requests();
    assert_eq!(seen.len(), 2);
    for request in seen {
        assert_eq!(request.header("authorization"), Some("Bearer of-groq"));
        let head = String::from_utf8_lossy(&request.head).into_owned();
        assert!(
            !head.contains(&groq[5..]) && !head.contains(&big[5..]),
            "{head}"
        );
    }
}
