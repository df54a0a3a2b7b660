//! Aliases and ports: what is refused, what is saved, what is not fatal.

use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

use crate::support::broker::Broker;
use crate::support::free_port;

use super::said_by;

fn connects(host: &str, port: u16) -> bool {
    TcpStream::connect((host, port)).is_ok()
}

#[test]
fn aliases_that_are_not_ours_to_take_leave_no_facade() {
    let broker = Broker::start();
    let (port, p, q) = (free_port(), free_port(), free_port());
    let local = |p: u16| format!("127.0.0.1:{p}");
    for (engine, aliases) in [
        ("ollama", vec![format!("192.0.2.1:{p}")]),
        ("ollama", vec![format!("0.0.0.0:{p}")]),
        ("ollama", vec![format!("[::]:{p}")]),
        ("ollama", vec![format!("example.test:{p}")]),
        ("ollama", vec!["127.0.0.1:0".to_owned()]),
        ("ollama", vec!["127.0.0.1".to_owned()]),
        ("ollama", vec![local(port)]),
        ("ollama", vec![local(p), format!("[::1]:{q}")]),
        (
            "ollama",
            vec![local(p), format!("127.0.0.2:{p}"), format!("[::1]:{p}")],
        ),
        ("lmstudio", vec![local(p)]),
    ] {
        let params = json!({
            "engine": engine, "port": port, "ignorePersistedPort": true,
            "aliasAddresses": aliases,
        });
        assert_eq!(
            said_by(&broker, "facade/enable", &params),
            ["error -32000"],
            "{params}"
        );
        let error = broker
            .call(&format!("{engine}:nodes/list"), &json!({}))
            .unwrap_err();
        assert_eq!(error["code"], -32002, "{params}");
        assert!(!connects("127.0.0.1", port), "{params}");
    }
}

#[test]
fn an_occupied_alias_is_reported_and_the_facade_serves_all_the_same() {
    let broker = Broker::start();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let alias = holder.local_addr().unwrap();
    let port = free_port();
    let params = json!({
        "engine": "ollama", "port": port, "ignorePersistedPort": true,
        "aliasAddresses": [alias.to_string()],
    });
    assert_eq!(
        said_by(&broker, "facade/enable", &params),
        [
            "ollama:errors:report",
            "ollama:ready",
            "ollama:discovery:subscribe",
            "reply"
        ]
    );
    let report = broker.expect("ollama:errors:report", |_| true);
    assert_eq!(report["id"], "ollama-proxy:ollama-host-alias-blocked");
    let message = report["message"].as_str().unwrap();
    assert!(message.contains(&alias.to_string()), "{message}");
    assert!(connects("127.0.0.1", port));
}

#[test]
fn a_facade_stays_on_the_port_it_has_without_a_word_and_saves_it() {
    let (broker, port) = Broker::with_facade("ollama");
    let file = broker.world.path().join("data/proxy-port.json");
    assert!(!file.exists(), "enabling saves nothing");
    let said = said_by(&broker, "ollama:set-port", &json!({"port": port}));
    assert_eq!(said, ["reply"]);
    let saved = std::fs::read_to_string(file).unwrap();
    assert_eq!(saved.trim_end(), format!("{{\"port\":{port}}}"));
}

#[test]
fn a_port_that_is_none_is_refused() {
    let (broker, port) = Broker::with_facade("ollama");
    for bad in [
        json!(0),
        json!(-1),
        json!(65_536),
        json!("1"),
        json!(1.5),
        Value::Null,
    ] {
        let said = said_by(&broker, "ollama:set-port", &json!({"port": bad}));
        assert_eq!(said, ["error -32602"], "{bad}");
    }
    assert!(connects("127.0.0.1", port));
}

#[test]
fn a_port_that_cannot_be_saved_is_given_up_again() {
    let (broker, port) = Broker::with_facade("ollama");
    // No folder can be made where a file is.
    broker.world.file("data", "");
    let other = free_port();
    let said = said_by(&broker, "ollama:set-port", &json!({"port": other}));
    assert_eq!(said, ["error -32000"]);
    assert!(connects("127.0.0.1", port));
    assert!(!connects("127.0.0.1", other));
}

#[test]
fn a_port_file_that_says_nothing_useful_counts_as_none() {
    for text in [
        "",
        "{",
        "{}",
        "7",
        "{\"port\":0}",
        "{\"port\":70000}",
        "{\"port\":\"1\"}",
    ] {
        let broker = Broker::start();
        let data = broker.world.path().join("data");
        std::fs::create_dir_all(&data).unwrap();
        std::fs::write(data.join("proxy-port.json"), text).unwrap();
        let port = free_port();
        let reply = broker.request("facade/enable", &json!({"engine": "ollama", "port": port}));
        assert_eq!(reply["port"], port, "{text}");
    }
}
