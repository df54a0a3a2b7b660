//! What each method answers when it is addressed or filled in wrongly, and lines that are no message.

use serde_json::{Value, json};

use crate::support::broker::Broker;
use crate::support::{LIMIT, wait};

use super::{said_by, said_since, settled};

/// The methods of a facade.
const FACADE: [&str; 7] = [
    "nodes/list",
    "node/select",
    "node/selected",
    "node/add-manual",
    "node/remove-manual",
    "node/set-local-backend",
    "set-port",
];

/// Sends a request as it is written; the reply to `id`.
fn reply_to(broker: &Broker, id: &Value, frame: &str) -> Value {
    broker.raw(&format!("{frame}\n"));
    let find = || broker.frames(0).into_iter().find(|f| f["id"] == *id);
    wait(LIMIT, find).unwrap_or_else(|| panic!("no reply to {frame}"))
}

#[test]
fn a_facade_method_without_the_address_of_an_enabled_engine_reaches_no_facade() {
    let (broker, _) = Broker::with_facade("ollama");
    for method in FACADE {
        for (address, code) in [
            ("", -32002),
            ("lmstudio:", -32002),
            ("vllm:", -32601),
            ("ollama-proxy:", -32601),
            ("OLLAMA:", -32601),
        ] {
            let full = format!("{address}{method}");
            // The facade is looked up before the params are.
            let error = broker.call(&full, &json!(7)).unwrap_err();
            assert_eq!(error["code"], code, "{full}");
        }
    }
}

#[test]
fn missing_params_are_invalid_and_null_is_all_zeros() {
    let (broker, _) = Broker::with_facade("ollama");
    let ask = |id: &str, method: &str, params: &str| {
        let frame =
            format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"ollama:{method}"{params}}}"#);
        reply_to(&broker, &json!(id), &frame)
    };
    for method in FACADE {
        let reply = ask(method, method, "");
        let takes_none = matches!(method, "nodes/list" | "node/selected");
        let code = if takes_none {
            Value::Null
        } else {
            json!(-32602)
        };
        assert_eq!(reply["error"]["code"], code, "{method}: {reply}");
    }
    let null = r#","params":null"#;
    for (method, result) in [
        ("node/select", json!({"id": ""})),
        ("node/remove-manual", json!({"removed": false})),
        ("node/set-local-backend", json!({"ok": true})),
    ] {
        let reply = ask(&format!("{method} null"), method, null);
        assert_eq!(reply["result"], result, "{method}");
    }
}

#[test]
fn an_id_comes_back_as_it_was_and_null_is_no_id() {
    let broker = Broker::start();
    for id in [
        "\"é\"",
        "1.50",
        "[1, {\"a\":null}]",
        "{\"b\":2}",
        "-0",
        "true",
    ] {
        broker.raw(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"no\"}}\n"
        ));
        let wanted = format!("\"id\":{id},");
        let found = || broker.raw_frames().contains(&wanted).then_some(());
        assert!(
            wait(LIMIT, found).is_some(),
            "{id} in {}",
            broker.raw_frames()
        );
    }
    let mark = settled(&broker);
    broker.raw("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"no\"}\n");
    broker.raw("{\"jsonrpc\":\"2.0\",\"id\":3}\n");
    assert!(said_since(&broker, mark).is_empty());
}

#[test]
fn a_line_that_is_no_message_is_skipped_in_silence() {
    let (broker, _) = Broker::with_facade("ollama");
    for line in [
        "",
        "   ",
        "[]",
        "null",
        "{",
        "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"shutdown\"}",
        "{\"id\":1,\"method\":\"shutdown\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"shutdown\"}}",
        "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"shutdown\"}]",
    ] {
        let mark = settled(&broker);
        broker.raw(&format!("{line}\n"));
        assert!(said_since(&broker, mark).is_empty(), "{line}");
    }
}

#[test]
fn a_method_for_requests_is_not_carried_out_as_a_notification() {
    let (broker, _) = Broker::with_facade("ollama");
    broker.node("ollama", "x", 1, &[]);
    let mark = settled(&broker);
    broker.notify("ollama:node/remove-manual", &json!({"id": "x"}));
    broker.notify("shutdown", &json!({}));
    assert!(said_since(&broker, mark).is_empty());
    let nodes = broker.request("ollama:nodes/list", &json!({}));
    assert_eq!(nodes["nodes"][0]["id"], "x");
}

#[test]
fn a_facade_that_is_up_is_answered_with_its_port_and_nothing_else() {
    let (broker, port) = Broker::with_facade("ollama");
    let other = json!({"engine": "ollama", "port": 1, "ignorePersistedPort": true});
    assert_eq!(said_by(&broker, "facade/enable", &other), ["reply"]);
    let reply = broker.request("facade/enable", &other);
    assert_eq!(reply, json!({"engine": "ollama", "port": port}));
    // Validation comes before that.
    let error = broker
        .call(
            "facade/enable",
            &json!({"engine": "ollama", "port": 70_000}),
        )
        .unwrap_err();
    assert_eq!(error["code"], -32000);
}

#[test]
fn the_level_of_the_log_is_set_by_its_whole_name() {
    let (broker, _) = Broker::with_facade("ollama");
    let debug = json!({"level": "debug"});
    assert_eq!(broker.request("log/set-level", &debug), debug);
    let error = broker.call("ollama:log/set-level", &debug).unwrap_err();
    assert_eq!(error["code"], -32601);
    let error = broker
        .call("log/set-level", &json!({"level": "loud"}))
        .unwrap_err();
    assert_eq!(error["code"], -32602);
    let mark = settled(&broker);
    broker.notify("log/set-level", &json!({"level": "loud"}));
    assert!(said_since(&broker, mark).is_empty());
}
