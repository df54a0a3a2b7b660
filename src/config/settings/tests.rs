//! Promises of the settings.

use super::*;
use std::ffi::OsString;

fn env<'a>(vars: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
    move |name| {
        vars.iter()
            .find(|(k, _)| *k == name)
            .map(|(_, v)| OsString::from(v))
    }
}

fn config(text: &str) -> Config {
    file::parse("config.toml", text, &env(&[])).unwrap()
}

fn engine(id: &str) -> EngineId {
    EngineId::parse(id).unwrap()
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|s| (*s).to_owned()).collect()
}

#[test]
fn without_anything_the_defaults_hold() {
    let s = resolve(&Flags::default(), &Config::default(), &env(&[])).unwrap();
    assert_eq!(s.engines.len(), 3);
    assert!(s.engines.iter().all(|e| e.port == PortAsk::Default));
    assert_eq!(
        s.response_header_timeout,
        Cap::After(Duration::from_secs(1800))
    );
    assert_eq!(s.max_request_bytes, 134_217_728);
    assert_eq!(s.drain_timeout, Duration::from_secs(600));
    assert_eq!(s.stream_idle_timeout, Cap::Off);
    assert_eq!(s.allowed_origins, None);
    assert_eq!((s.policy, s.log_level), (Policy::Weighted, None));
    assert!(!s.commit_gate_first_byte && !s.response_headers);
    assert!(s.warnings.is_empty());
}

#[test]
fn a_flag_beats_the_environment_which_beats_the_file() {
    let file = config("response_header_timeout = \"1m\"\n[log]\nlevel = \"warn\"");
    let vars = [
        ("NVPAIR_PROXY_RESPONSE_HEADER_TIMEOUT", "2m"),
        ("NVPAIR_LOG_LEVEL", "error"),
    ];
    let flags = Flags {
        response_header_timeout: Some(Cap::Off),
        log_level: Some(LogLevel::Debug),
        ..Flags::default()
    };
    let minutes = |n: u64| Cap::After(Duration::from_secs(60 * n));
    let none = Flags::default();
    let s = resolve(&none, &file, &env(&[])).unwrap();
    assert_eq!(
        (s.response_header_timeout, s.log_level),
        (minutes(1), Some(LogLevel::Warn))
    );
    let s = resolve(&none, &file, &env(&vars)).unwrap();
    assert_eq!(
        (s.response_header_timeout, s.log_level),
        (minutes(2), Some(LogLevel::Error))
    );
    let s = resolve(&flags, &file, &env(&vars)).unwrap();
    assert_eq!(
        (s.response_header_timeout, s.log_level),
        (Cap::Off, Some(LogLevel::Debug))
    );
}

#[test]
fn a_bad_variable_is_a_warning_and_counts_as_absent() {
    let vars = [
        ("NVPAIR_PROXY_RESPONSE_HEADER_TIMEOUT", "-5s"),
        ("NVPAIR_LOG_LEVEL", "loud"),
        (
            "NVPAIR_PROXY_ALLOWED_HOSTS",
            "Box.lan, http://x ,192.168.1.4",
        ),
        (
            "NVPAIR_PROXY_ALLOWED_ORIGINS",
            "null, *,https://App.example",
        ),
    ];
    let s = resolve(&Flags::default(), &Config::default(), &env(&vars)).unwrap();
    assert_eq!(s.response_header_timeout, Cap::After(RESPONSE_TIMEOUT));
    assert_eq!(s.log_level, None);
    assert_eq!(s.allowed_hosts, ["box.lan", "192.168.1.4"]);
    assert_eq!(
        s.allowed_origins,
        Some(strings(&["null", "https://app.example"]))
    );
    assert_eq!(s.warnings.len(), 4, "{:?}", s.warnings);
}

#[test]
fn engine_flags_restrict_and_their_ports_are_exact() {
    let file =
        config("[engines.lmstudio]\nenabled = false\nport = 2000\n[engines.ollama]\nport = 3000");
    let s = resolve(&Flags::default(), &file, &env(&[])).unwrap();
    let ports = |s: &Settings| {
        s.engines
            .iter()
            .map(|e| (e.engine.as_str(), e.port))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        ports(&s),
        [
            ("ollama", PortAsk::Requested(3000)),
            ("llamacpp", PortAsk::Default)
        ]
    );
    let flags = Flags {
        engines: vec![(engine("llamacpp"), Some(9000)), (engine("lmstudio"), None)],
        ..Flags::default()
    };
    let s = resolve(&flags, &file, &env(&[])).unwrap();
    assert_eq!(
        ports(&s),
        [
            ("lmstudio", PortAsk::Requested(2000)),
            ("llamacpp", PortAsk::Exact(9000))
        ]
    );
}

#[test]
fn every_contradiction_of_flags_is_named_at_once() {
    let (ollama, lmstudio) = (engine("ollama"), engine("lmstudio"));
    let flags = Flags {
        engines: vec![
            (lmstudio, Some(9000)),
            (lmstudio, None),
            (ollama, Some(9000)),
        ],
        aliases: ["127.0.0.1:1", "127.0.0.2:2"]
            .map(|a| (ollama, a.parse().unwrap()))
            .to_vec(),
        ..Flags::default()
    };
    let errors = resolve(&flags, &Config::default(), &env(&[])).unwrap_err();
    let want = [
        "--engine: lmstudio is named twice",
        "--engine: ollama and lmstudio ask for the same port",
        "--alias: ollama takes at most two alias addresses, both on one port",
    ];
    assert_eq!(errors, want);
}

#[test]
fn aliases_are_at_most_two_addresses_on_one_port() {
    let with = |list: &[&str]| {
        let one = |a: &&str| (engine("ollama"), a.parse::<SocketAddr>().unwrap());
        let flags = Flags {
            aliases: list.iter().map(one).collect(),
            ..Flags::default()
        };
        resolve(&flags, &Config::default(), &env(&[])).map(|s| s.aliases.len())
    };
    let twice = ["127.0.0.1:11500", "[::1]:11500", "127.0.0.1:11500"];
    assert_eq!(with(&twice), Ok(2));
    assert!(with(&["127.0.0.1:1", "[::1]:2"]).is_err());
    assert!(with(&["127.0.0.1:1", "[::1]:1", "127.0.0.2:1"]).is_err());
}

#[test]
fn a_flag_that_repeats_a_node_of_the_file_adds_nothing() {
    let file = config("[[nodes]]\nengine = \"ollama\"\nurl = \"http://t:1/v1\"\nname = \"rig\"");
    let flags = Flags {
        nodes: [
            ("ollama", "http://t:1"),
            ("lmstudio", "http://t:2"),
            ("lmstudio", "http://t:2"),
        ]
        .map(|(e, url)| (engine(e), NodeUrl::parse(url).unwrap()))
        .to_vec(),
        ..Flags::default()
    };
    let s = resolve(&flags, &file, &env(&[])).unwrap();
    let names: Vec<_> = s
        .nodes
        .iter()
        .map(|n| (n.engine.as_str(), n.name.as_deref()))
        .collect();
    assert_eq!(names, [("ollama", Some("rig")), ("lmstudio", None)]);
}

#[test]
fn only_a_loopback_address_in_a_host_variable_is_taken() {
    for (value, want) in [
        ("127.0.0.1:11500", Some("127.0.0.1:11500")),
        ("localhost", Some("127.0.0.1:11434")),
        ("http://localhost", Some("127.0.0.1:80")),
        ("http://127.0.0.1:5/", Some("127.0.0.1:5")),
        ("[::1]:5", Some("[::1]:5")),
        ("[::1]", Some("[::1]:11434")),
        (":5", Some("127.0.0.1:5")),
        ("0.0.0.0:5", None),
        ("10.0.0.1", None),
        ("https://localhost", None),
        ("127.0.0.1:70000", None),
    ] {
        let got = host_variables(&env(&[("OLLAMA_HOST", value)]));
        let got = got.first().map(|(_, a)| a.to_string());
        assert_eq!(got.as_deref(), want, "{value}");
    }
}

#[test]
fn a_named_file_must_be_there_and_the_default_one_need_not() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().to_str().unwrap();
    let vars = [("XDG_CONFIG_HOME", home)];
    assert!(load(&Flags::default(), &env(&vars)).is_ok());
    let flags = Flags {
        config: Some(dir.path().join("gone.toml")),
        ..Flags::default()
    };
    let e = load(&flags, &env(&vars)).unwrap_err().to_string();
    assert!(
        e.starts_with("cannot read ") && e.contains("gone.toml"),
        "{e}"
    );

    std::fs::create_dir(dir.path().join("nvpair-proxy")).unwrap();
    let default = dir.path().join("nvpair-proxy/config.toml");
    std::fs::write(&default, "policy = \"ordered\"").unwrap();
    let s = load(&Flags::default(), &env(&vars)).unwrap();
    assert_eq!(s.policy, Policy::Ordered);

    std::fs::write(&default, "polcy = 1").unwrap();
    let flags = Flags {
        engines: vec![(engine("ollama"), None); 2],
        ..Flags::default()
    };
    let e = load(&flags, &env(&vars)).unwrap_err();
    assert_eq!(e.flags.len(), 1, "problems of flags and file come together");
    let text = e.to_string();
    assert!(
        text.contains("config.toml:1:1  unknown key `polcy`"),
        "{text}"
    );

    let s = load_brokered(&Flags::default(), &env(&vars)).unwrap();
    assert_eq!(s.policy, Policy::Weighted);
    assert!(s.warnings[0].contains("unknown key `polcy`"), "{s:?}");
    let e = load_brokered(&flags, &env(&vars)).unwrap_err();
    assert_eq!((e.flags.len(), e.file.is_some()), (1, false));
}

#[test]
fn what_nothing_comes_of_is_said() {
    let text = "[gateway]\n[virtual_models]\nm = [\"ollama/m\"]\n[telemetry]\n[admin]\n";
    let told = |flags: &Flags| {
        let s = resolve(flags, &config(text), &env(&[])).unwrap();
        s.warnings.join("\n")
    };
    let all = told(&Flags::default());
    assert!(
        !all.contains("virtual_models") && !all.contains("admin"),
        "{all}"
    );
    let sends = cfg!(feature = "otlp");
    assert_eq!(all.contains("telemetry: this build sends nothing"), !sends);
    let ollama = EngineId::parse("ollama").unwrap();
    let others = Flags {
        engines: vec![(ollama, None)],
        ..Flags::default()
    };
    let said = "virtual_models: not used, since --engine names other facades";
    assert!(told(&others).contains(said), "{}", told(&others));
    let s = resolve(&Flags::default(), &config("[pool]\n"), &env(&[])).unwrap();
    assert_eq!(s.warnings, Vec::<String>::new());
}
