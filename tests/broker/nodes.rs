//! Directory snapshots, manual nodes and the selection: what is told of each change.

use serde_json::{Value, json};

use crate::support::broker::Broker;

use super::{frames_since, record, said_by, said_by_snapshot, settled};

fn ids(broker: &Broker) -> Vec<String> {
    let nodes = broker.request("ollama:nodes/list", &json!({}));
    let nodes = nodes["nodes"].as_array().unwrap();
    nodes
        .iter()
        .map(|n| n["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_snapshot_tells_what_is_new_what_changed_and_what_is_gone_in_that_order() {
    let (broker, _) = Broker::with_facade("ollama");
    let said = said_by_snapshot(&broker, &[record("a", 1, &["m"]), record("b", 2, &[])]);
    assert_eq!(
        said,
        [
            "ollama:node/discovered",
            "ollama:errors:clear",
            "ollama:node/discovered",
            "ollama:errors:clear",
        ]
    );
    let mark = settled(&broker);
    let next = [record("c", 3, &[]), record("b", 2, &["m"])];
    broker.notify("ollama:discovery:nodes", &json!({"nodes": next}));
    let frames = frames_since(&broker, mark);
    let told: Vec<_> = frames
        .iter()
        .map(|f| format!("{} {}", f["method"].as_str().unwrap(), f["params"]["id"]))
        .collect();
    assert_eq!(
        told,
        [
            "ollama:node/discovered \"c\"",
            "ollama:errors:clear \"ollama-proxy:upstream-unreachable:c\"",
            "ollama:node/updated \"b\"",
            "ollama:node/removed \"a\"",
            "ollama:errors:report \"ollama-proxy:upstream-unreachable:a\"",
        ]
    );
    assert_eq!(ids(&broker), ["b", "c"]);
}

#[test]
fn a_snapshot_that_changes_nothing_says_nothing() {
    let (broker, _) = Broker::with_facade("ollama");
    let (a, b) = (record("a", 1, &["m", "n"]), record("b", 2, &["m"]));
    said_by_snapshot(&broker, &[a.clone(), b.clone()]);
    assert!(said_by_snapshot(&broker, &[a.clone(), b.clone()]).is_empty());
    assert!(
        said_by_snapshot(&broker, &[b.clone(), a.clone()]).is_empty(),
        "reordered"
    );
    // Neither do fields that we have no use for.
    let mut seen = a.clone();
    (seen["lastSeen"], seen["trusted"]) = (json!(1), json!(false));
    seen["gpus"] = json!([{"name": "GPU"}]);
    assert!(said_by_snapshot(&broker, &[seen, b.clone()]).is_empty());
    // The order of a node's own models does count.
    let turned = record("a", 1, &["n", "m"]);
    assert_eq!(
        said_by_snapshot(&broker, &[turned, b]),
        ["ollama:node/updated"]
    );
}

#[test]
fn garbage_keeps_the_old_set_and_a_missing_list_empties_it() {
    let (broker, _) = Broker::with_facade("ollama");
    said_by_snapshot(&broker, &[record("a", 1, &[])]);
    for params in [
        json!(7),
        json!([]),
        json!({"nodes": 7}),
        json!({"nodes": [7]}),
    ] {
        broker.notify("ollama:discovery:nodes", &params);
        assert_eq!(ids(&broker), ["a"], "{params}");
    }
    broker.notify("ollama:discovery:nodes", &json!({}));
    assert!(ids(&broker).is_empty());
    said_by_snapshot(&broker, &[record("a", 1, &[])]);
    broker.notify("ollama:discovery:nodes", &json!({"nodes": null}));
    assert!(ids(&broker).is_empty());
}

#[test]
fn a_record_without_our_service_or_an_address_is_no_node() {
    let (broker, _) = Broker::with_facade("ollama");
    let mut other = record("other", 1, &["m"]);
    other["services"] = json!({"lm": {"port": 1234}});
    let mut nowhere = record("nowhere", 1, &["m"]);
    nowhere["ip"] = json!("");
    assert!(said_by_snapshot(&broker, &[other, nowhere]).is_empty());
}

/// The models that we take from a record whose inventory is written so.
fn models_of(broker: &Broker, inventory: &Value) -> Value {
    let mut one = record("a", 1, &[]);
    let fields = one.as_object_mut().unwrap();
    fields.remove("modelsByEngine");
    fields.insert("models".into(), json!(["flat"]));
    fields.extend(inventory.as_object().unwrap().clone());
    broker.notify("ollama:discovery:nodes", &json!({"nodes": [one]}));
    let nodes = broker.request("ollama:nodes/list", &json!({}));
    nodes["nodes"][0]["models"].clone()
}

#[test]
fn the_inventory_of_our_engine_counts_and_the_flat_one_only_where_there_is_none() {
    let (broker, _) = Broker::with_facade("ollama");
    for (inventory, models) in [
        (json!({}), json!(["flat"])),
        (json!({"modelsByEngine": null}), json!(["flat"])),
        (json!({"modelsByEngine": {"ollama": ["m"]}}), json!(["m"])),
        (json!({"modelsByEngine": {"ollama": []}}), Value::Null),
        (json!({"modelsByEngine": {"lmstudio": ["m"]}}), Value::Null),
        (json!({"modelsByEngine": {}}), Value::Null),
        (json!({"models": null}), Value::Null),
    ] {
        assert_eq!(models_of(&broker, &inventory), models, "{inventory}");
    }
}

#[test]
fn manual_nodes_are_told_of_behind_the_answer() {
    let (broker, _) = Broker::with_facade("ollama");
    let node = json!({"id": "m", "host": "h", "port": 9, "addresses": ["192.0.2.1"]});
    let add = "ollama:node/add-manual";
    assert_eq!(
        said_by(&broker, add, &node),
        ["reply", "ollama:node/discovered"]
    );
    assert_eq!(
        said_by(&broker, add, &node),
        ["reply", "ollama:node/updated"]
    );
    for (field, value) in [
        ("id", json!("")),
        ("port", json!(0)),
        ("addresses", json!([])),
    ] {
        let mut bad = node.clone();
        bad[field] = value;
        assert_eq!(said_by(&broker, add, &bad), ["error -32602"], "{field}");
    }
    let gone = json!({"id": "m"});
    let remove = "ollama:node/remove-manual";
    assert_eq!(
        said_by(&broker, remove, &gone),
        ["reply", "ollama:node/removed"]
    );
    assert_eq!(said_by(&broker, remove, &gone), ["reply"]);
}

#[test]
fn a_selection_is_told_of_behind_the_answer_even_if_it_is_the_same() {
    let (broker, _) = Broker::with_facade("ollama");
    broker.node("ollama", "m", 9, &[]);
    let select = |id: &str| said_by(&broker, "ollama:node/select", &json!({"id": id}));
    let told = ["reply", "ollama:node/selection-changed"];
    assert_eq!(select("m"), told);
    assert_eq!(select("m"), told);
    assert_eq!(select("unknown"), ["error -32602"]);
    let selected = || broker.request("ollama:node/selected", &json!({}));
    assert_eq!(selected(), json!({"id": "m"}));
    assert_eq!(select(""), told);
    assert_eq!(selected(), json!({"id": ""}));
}

#[test]
fn a_selection_goes_with_its_manual_node_even_if_the_directory_lists_it() {
    let (broker, _) = Broker::with_facade("ollama");
    broker.node("ollama", "x", 9, &[]);
    said_by_snapshot(&broker, &[record("x", 9, &[])]);
    broker.request("ollama:node/select", &json!({"id": "x"}));
    assert_eq!(
        said_by(&broker, "ollama:node/remove-manual", &json!({"id": "x"})),
        [
            "reply",
            "ollama:node/selection-changed",
            "ollama:node/removed"
        ]
    );
    let selected = broker.request("ollama:node/selected", &json!({}));
    assert_eq!(selected, json!({"id": ""}));
    assert_eq!(ids(&broker), ["x"]);
}
