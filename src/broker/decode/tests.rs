//! Tests of `decode`.

use proptest::prelude::*;

use super::*;

/// Not every part of a command can be compared, but each can be shown.
impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

fn engine(id: &str) -> EngineId {
    EngineId::parse(id).unwrap()
}

/// Decodes with ollama enabled; `params` of `-` means none.
fn ask(method: &str, params: &str) -> Result<Call, CommandError> {
    let raw = (params != "-").then(|| RawValue::from_string(params.into()).unwrap());
    request(method, raw.as_deref(), |e| e == engine("ollama"))
}

fn tell(method: &str, params: &str) -> Result<Call, Ignored> {
    let raw = (params != "-").then(|| RawValue::from_string(params.into()).unwrap());
    notification(method, raw.as_deref(), |e| e == engine("ollama"))
}

fn code(method: &str, params: &str) -> i32 {
    ask(method, params).map_or_else(|e| e.code.number(), |_| 0)
}

/// The methods whose class is facade and that read parameters.
const FACADE: [&str; 6] = [
    "node/select",
    "node/add-manual",
    "node/remove-manual",
    "node/set-local-backend",
    "set-port",
    "discovery:nodes",
];

#[test]
fn a_facade_method_without_facade_is_refused_before_its_params_are_read() {
    for bare in FACADE.iter().chain(&["nodes/list", "node/selected"]) {
        for (prefix, named) in [
            ("", ""),
            ("lmstudio:", "lmstudio"),
            ("llamacpp:", "llamacpp"),
        ] {
            for params in ["-", "5", r#"{"port":"x"}"#] {
                let refusal = ask(&format!("{prefix}{bare}"), params).unwrap_err();
                assert_eq!(refusal, CommandError::no_facade(named), "{prefix}{bare}");
            }
        }
    }
}

#[test]
fn an_unknown_method_is_named_in_full() {
    for method in [
        "no/such",
        "ollama:no/such",
        "ollama:",
        "ollama:log/set-level",
        "vllm:nodes/list",
        "Ollama:nodes/list",
        "ollama-proxy:nodes/list",
        "node/list",
        "ollama:node/list",
        "ollama:nodes/list ",
        "ollama:ollama:nodes/list",
    ] {
        let refusal = ask(method, r#"{"level":"info"}"#).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::MethodNotFound, "{method}");
        assert_eq!(refusal.message, format!("method not found: {method}"));
    }
}

#[test]
fn an_address_on_a_process_or_bootstrap_method_is_ignored() {
    for prefix in ["", "ollama:", "lmstudio:"] {
        let enable = ask(
            &format!("{prefix}facade/enable"),
            r#"{"engine":"llamacpp"}"#,
        );
        assert!(matches!(enable, Ok(Call::Enable(e)) if e.engine == engine("llamacpp")));
        let priority = ask(&format!("{prefix}node/set-priority"), r#"{"generation":1}"#);
        assert!(matches!(priority, Ok(Call::SetPriority(_))));
        assert_eq!(ask(&format!("{prefix}shutdown"), "-"), Ok(Call::Shutdown));
    }
}

#[test]
fn missing_params_do_not_decode_but_null_is_all_zero() {
    for bare in FACADE {
        assert_eq!(code(&format!("ollama:{bare}"), "-"), -32602, "{bare}");
        assert_eq!(code(&format!("ollama:{bare}"), "[]"), -32602, "{bare}");
        assert_eq!(code(&format!("ollama:{bare}"), "\"x\""), -32602, "{bare}");
    }
    for method in ["facade/enable", "node/set-priority", "log/set-level"] {
        assert_eq!(code(method, "-"), -32602, "{method}");
        assert_eq!(code(method, "7"), -32602, "{method}");
    }
    let ollama = engine("ollama");
    for (method, want) in [
        ("ollama:node/select", Ok(Call::Select(ollama, None))),
        (
            "ollama:node/remove-manual",
            Ok(Call::RemoveManual(ollama, "".into())),
        ),
        (
            "ollama:discovery:nodes",
            Ok(Call::Discovery(ollama, vec![])),
        ),
        (
            "ollama:node/set-local-backend",
            Ok(Call::SetLocalBackend(
                ollama,
                LocalBackend {
                    host: "127.0.0.1".into(),
                    port: 0,
                    healthy: false,
                },
            )),
        ),
    ] {
        assert_eq!(ask(method, "null"), want, "{method}");
    }
    // These have no valid zero value.
    assert_eq!(code("facade/enable", "null"), -32000);
    for method in [
        "node/set-priority",
        "log/set-level",
        "ollama:set-port",
        "ollama:node/add-manual",
    ] {
        assert_eq!(code(method, "null"), -32602, "{method}");
    }
}

#[test]
fn questions_ignore_their_params() {
    for params in ["-", "null", "5", r#"{"id":1}"#] {
        let ollama = engine("ollama");
        assert_eq!(ask("ollama:nodes/list", params), Ok(Call::Nodes(ollama)));
        assert_eq!(
            ask("ollama:node/selected", params),
            Ok(Call::Selected(ollama))
        );
    }
}

#[test]
fn enable_decodes_every_field_and_defaults_the_rest() {
    let want = Enable {
        engine: engine("ollama"),
        port: 11434,
        alias_addresses: vec!["127.0.0.1:11500".into()],
        ignore_persisted_port: true,
    };
    let full = r#"{"Engine":"ollama","PORT":11434,"aliasaddresses":["127.0.0.1:11500"],
            "ignorePersistedPort":true,"more":{}}"#;
    assert_eq!(ask("facade/enable", full), Ok(Call::Enable(want)));
    let bare = Enable {
        engine: engine("lmstudio"),
        port: 0,
        alias_addresses: vec![],
        ignore_persisted_port: false,
    };
    for params in [
        r#"{"engine":"lmstudio"}"#,
        r#"{"engine":"lmstudio","port":null,"aliasAddresses":null}"#,
    ] {
        assert_eq!(ask("facade/enable", params), Ok(Call::Enable(bare.clone())));
    }
}

#[test]
fn enable_refuses_values_with_32000_and_types_with_32602() {
    for (params, want) in [
        (r#"{"engine":"vllm"}"#, -32000),
        (r#"{"engine":""}"#, -32000),
        (r#"{}"#, -32000),
        (r#"{"engine":"ollama","port":-1}"#, -32000),
        (r#"{"engine":"ollama","port":65536}"#, -32000),
        (r#"{"engine":"ollama","port":65535}"#, 0),
        (r#"{"engine":"ollama","port":"1"}"#, -32602),
        (r#"{"engine":"ollama","port":1.0}"#, -32602),
        (r#"{"engine":"ollama","port":1e3}"#, -32602),
        (r#"{"engine":7}"#, -32602),
        (r#"{"engine":"vllm","port":"x"}"#, -32602),
        (r#"{"engine":"ollama","aliasAddresses":"x"}"#, -32602),
        (r#"{"engine":"ollama","ignorePersistedPort":1}"#, -32602),
    ] {
        assert_eq!(code("facade/enable", params), want, "{params}");
    }
    let unknown = ask("facade/enable", r#"{"engine":"vllm"}"#).unwrap_err();
    assert!(unknown.message.contains("ollama, lmstudio, llamacpp"));
}

#[test]
fn set_port_wants_a_port() {
    for (params, want) in [
        (r#"{"port":1}"#, 0),
        (r#"{"port":65535}"#, 0),
        (r#"{"port":0}"#, -32602),
        (r#"{"port":65536}"#, -32602),
        (r#"{"port":-5}"#, -32602),
        (r#"{"port":"80"}"#, -32602),
        (r#"{"port":80.5}"#, -32602),
        (r#"{}"#, -32602),
    ] {
        assert_eq!(code("ollama:set-port", params), want, "{params}");
    }
}

#[test]
fn select_takes_an_id_or_automatic() {
    let ollama = engine("ollama");
    for (params, want) in [
        (r#"{"id":"a"}"#, Some("a")),
        (r#"{"ID":"a"}"#, Some("a")),
        (r#"{"id":""}"#, None),
        (r#"{"id":null}"#, None),
        (r#"{}"#, None),
    ] {
        let want = Ok(Call::Select(ollama, want.map(NodeId::from)));
        assert_eq!(ask("ollama:node/select", params), want, "{params}");
    }
    assert_eq!(code("ollama:node/select", r#"{"id":5}"#), -32602);
    assert_eq!(
        ask("ollama:node/remove-manual", r#"{"id":"a"}"#),
        Ok(Call::RemoveManual(ollama, "a".into()))
    );
    assert_eq!(code("ollama:node/remove-manual", r#"{"id":[]}"#), -32602);
}

#[test]
fn a_manual_node_needs_id_port_and_address() {
    let method = "ollama:node/add-manual";
    let full = r#"{"id":"m","host":"h","port":9,"addresses":["1.2.3.4"],"models":["x"],
            "engine":"other","txt":null}"#;
    match ask(method, full) {
        Ok(Call::AddManual(_, node)) => assert_eq!(
            *node,
            ManualNode {
                record: NodeRecord {
                    id: "m".into(),
                    host: "h".into(),
                    port: 9,
                    addresses: vec!["1.2.3.4".into()],
                    models: vec!["x".into()],
                    ..NodeRecord::default()
                },
                ..ManualNode::default()
            }
        ),
        other => panic!("{other:?}"),
    }
    for params in [
        r#"{"port":9,"addresses":["a"]}"#,
        r#"{"id":"m","addresses":["a"]}"#,
        r#"{"id":"m","port":0,"addresses":["a"]}"#,
        r#"{"id":"m","port":-1,"addresses":["a"]}"#,
        r#"{"id":"m","port":65536,"addresses":["a"]}"#,
        r#"{"id":"m","port":9}"#,
        r#"{"id":"m","port":9,"addresses":[]}"#,
        r#"{"id":"m","port":9,"addresses":"a"}"#,
        r#"{"id":"m","port":9,"addresses":["a"],"models":[1]}"#,
    ] {
        assert_eq!(code(method, params), -32602, "{params}");
    }
}

#[test]
fn a_local_backend_is_on_loopback_and_of_its_engine() {
    let method = "ollama:node/set-local-backend";
    for (host, want) in [
        ("", Some("127.0.0.1")),
        ("127.0.0.1", Some("127.0.0.1")),
        ("127.0.0.2", Some("127.0.0.2")),
        ("::1", Some("::1")),
        ("::ffff:127.0.0.1", Some("127.0.0.1")),
        ("localhost", Some("127.0.0.1")),
        ("LocalHost.", Some("127.0.0.1")),
        ("10.0.0.2", None),
        ("0.0.0.0", None),
        ("::", None),
        ("example.com", None),
        ("localhost..", None),
        ("127.0.0.1:80", None),
    ] {
        let params = format!(r#"{{"host":"{host}","port":11436,"healthy":true}}"#);
        let got = match ask(method, &params) {
            Ok(Call::SetLocalBackend(_, backend)) => {
                assert_eq!((backend.port, backend.healthy), (11436, true));
                Some(backend.host)
            },
            Ok(other) => panic!("{other:?}"),
            Err(e) => {
                assert_eq!(e.code, ErrorCode::InvalidParams);
                None
            },
        };
        assert_eq!(got.as_deref(), want, "{host:?}");
    }
    for (params, want) in [
        (r#"{"engine":"ollama","port":1}"#, 0),
        (r#"{"engine":"","port":1}"#, 0),
        (r#"{"engine":"lmstudio","port":1}"#, -32602),
        (r#"{"engine":"Ollama","port":1}"#, -32602),
        (r#"{"port":-3}"#, 0),
        (r#"{"port":65536}"#, -32602),
        (r#"{"healthy":"yes"}"#, -32602),
        (r#"{"port":1,"slots":{"default":4}}"#, 0),
    ] {
        assert_eq!(code(method, params), want, "{params}");
    }
}

#[test]
fn a_snapshot_is_clamped_and_needs_a_generation() {
    let params = r#"{"generation":7,"nodes":["b","a",null],"ranks":[
            {"id":"a","pending":-2,"gpuPressure":9,"rank":0},
            {"id":"","pending":1},{"id":"b","PENDING":4,"gpuPressure":-1},null]}"#;
    let rank = |id: &str, pending, gpu_pressure| Rank {
        id: id.into(),
        pending,
        gpu_pressure,
    };
    let want = PrioritySnapshot {
        generation: 7,
        nodes: ["b", "a", ""].map(NodeId::from).into(),
        ranks: vec![rank("a", 0, 3), rank("b", 4, 0)],
    };
    assert_eq!(
        ask("node/set-priority", params),
        Ok(Call::SetPriority(want))
    );
    for params in [
        r#"{"nodes":["a"]}"#,
        r#"{"generation":0,"nodes":["a"]}"#,
        r#"{"generation":-1}"#,
        r#"{"generation":1.5}"#,
        r#"{"generation":"1"}"#,
        r#"{"generation":18446744073709551616}"#,
        r#"{"generation":1,"nodes":[1]}"#,
        r#"{"generation":1,"ranks":{}}"#,
        r#"{"generation":1,"ranks":[{"id":"a","rank":"x"}]}"#,
        r#"{"generation":1,"ranks":[{"id":"a","pending":0.5}]}"#,
    ] {
        assert_eq!(code("node/set-priority", params), -32602, "{params}");
    }
    assert_eq!(
        code(
            "node/set-priority",
            r#"{"generation":18446744073709551615}"#
        ),
        0
    );
}

#[test]
fn a_log_level_has_one_spelling() {
    for level in ["debug", "info", "warn", "error"] {
        let params = format!(r#"{{"level":"{level}"}}"#);
        let want = LogLevel::parse(level).map(Call::SetLogLevel);
        assert_eq!(ask("log/set-level", &params).ok(), want);
        assert_eq!(tell("log/set-level", &params).ok(), want);
    }
    for params in [
        r#"{"level":"bogus"}"#,
        r#"{"level":"INFO"}"#,
        "{}",
        r#"{"level":1}"#,
    ] {
        assert_eq!(code("log/set-level", params), -32602, "{params}");
        assert!(matches!(
            tell("log/set-level", params),
            Err(Ignored::Invalid(_))
        ));
    }
}

#[test]
fn a_directory_record_is_read_leniently() {
    let params = r#"{"nodes":[
            {"hostUuid":"u","name":null,"ip":"10.0.0.1","ips":["10.0.0.1","10.0.0.2"],
             "clusterUuid":"c","trusted":true,"services":{"ol":{"port":5,"probe":null},
             "lm":{"port":70000},"lc":null},"models":null,"lastSeen":1.5,
             "modelsByEngine":{"ollama":["m"],"lmstudio":null,"llamacpp":[]},"new":[1]},
            null]}"#;
    let services = [("ol", 5), ("lm", 0), ("lc", 0)];
    let by_engine = [
        ("ollama", Some(vec!["m".to_owned()])),
        ("lmstudio", None),
        ("llamacpp", Some(vec![])),
    ];
    let want = DirectoryNode {
        host_uuid: "u".into(),
        name: String::new(),
        ip: "10.0.0.1".into(),
        ips: Some(vec!["10.0.0.1".into(), "10.0.0.2".into()]),
        cluster_uuid: Some("c".into()),
        services: services
            .map(|(key, port)| (key.into(), ServicePort { port }))
            .into(),
        models: None,
        models_by_engine: Some(by_engine.map(|(key, names)| (key.into(), names)).into()),
    };
    let ollama = engine("ollama");
    let want = vec![want, DirectoryNode::default()];
    assert_eq!(
        tell("ollama:discovery:nodes", params),
        Ok(Call::Discovery(ollama, want))
    );
    for params in [
        "{}",
        r#"{"nodes":null}"#,
        r#"{"nodes":[]}"#,
        r#"{"NODES":[]}"#,
    ] {
        let want = Call::Discovery(ollama, vec![]);
        assert_eq!(tell("ollama:discovery:nodes", params), Ok(want), "{params}");
    }
    for params in [
        "-",
        "[]",
        r#"{"nodes":{}}"#,
        r#"{"nodes":[1]}"#,
        r#"{"nodes":[{"ip":1}]}"#,
    ] {
        let got = tell("ollama:discovery:nodes", params);
        assert!(matches!(got, Err(Ignored::Invalid(_))), "{params}");
    }
}

#[test]
fn only_two_notifications_are_known() {
    for method in ["discovery:nodes", "lmstudio:discovery:nodes"] {
        // Dropped before its parameters are read.
        assert_eq!(tell(method, "5"), Err(Ignored::NoFacade), "{method}");
    }
    for method in [
        "shutdown",
        "facade/enable",
        "node/set-priority",
        "ollama:node/select",
        "ollama:nodes/list",
        "ollama:log/set-level",
        "vllm:discovery:nodes",
        "x",
    ] {
        assert_eq!(tell(method, "{}"), Err(Ignored::Unknown), "{method}");
    }
}

proptest! {
    #[test]
    fn no_message_panics(
        method in prop_oneof![
            "(ollama:|lmstudio:|)(facade/enable|set-port|node/(select|add-manual|set-priority))",
            "(ollama:|)(node/set-local-backend|discovery:nodes|log/set-level|shutdown)",
            ".{0,20}",
        ],
        params in r#"(\{("(engine|port|id|nodes|generation|ranks|level|host|addresses)":("a"|-1|0|1e9|99999999999|null|\[1\]|\["a"\]|\[\{"id":"a"\}\]|\{\}),){0,3}"x":1\}|null|5)"#,
    ) {
        drop(ask(&method, &params));
        drop(tell(&method, &params));
    }
}
