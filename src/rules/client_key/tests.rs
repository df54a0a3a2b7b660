use proptest::prelude::*;

use super::*;

fn key(allow: &[&str]) -> ClientKey {
    ClientKey {
        name: "phone".into(),
        hash: KeyHash::of_secret("0123456789abcdef"),
        allow: allow.iter().map(|a| (*a).to_owned()).collect(),
        requests_per_minute: None,
        tokens_per_day: None,
        created_at: 0,
    }
}

fn grants(allow: &[&str]) -> Grants {
    Grants::parse(&key(allow).allow).unwrap()
}

fn engine(name: &str) -> EngineId {
    EngineId::parse(name).unwrap()
}

#[test]
fn a_client_key_is_no_node_key() {
    let made = make([0xab; 32]);
    assert_eq!(made.reveal(), format!("ktms_{}", "ab".repeat(32)));
    assert_eq!(secret_part(made.reveal()), Some(&*"ab".repeat(32)));
    assert_eq!(
        secret_part("llm_0123456789abcdef"),
        Some("0123456789abcdef")
    );
    let node = node_key::make([1; 32]);
    for bad in [
        node.reveal(),
        "llm_node_0123456789abcdef",
        "",
        "ktms_",
        "ktms_short",
        "sk-0123456789abcdef",
        "KTMS_0123456789abcdef",
        "ktms_0123456789abcde f",
    ] {
        assert_eq!(secret_part(bad), None, "{bad:?}");
    }
}

#[test]
fn a_header_shows_a_token_with_its_scheme_or_alone() {
    for (value, want) in [
        ("Bearer ktms_a", "ktms_a"),
        ("bearer  ktms_a ", "ktms_a"),
        (" ktms_a", "ktms_a"),
        ("Bearer", "Bearer"),
        ("Bearerktms_a", "Bearerktms_a"),
        ("Basic ktms_a", "Basic ktms_a"),
        ("", ""),
    ] {
        assert_eq!(token(value.as_bytes()), want.as_bytes(), "{value:?}");
    }
    assert!(may_be_key(b"Bearer ktms_x") && may_be_key(b"llm_x"));
    assert!(!may_be_key(b"Bearer sk-x") && !may_be_key(b"Basic a3Rtc18="));
}

#[test]
fn a_grant_opens_what_it_says_and_nothing_else() {
    let (a, b) = (NodeId::from("tower"), NodeId::from("rig"));
    let groq = NodeId::from("groq");
    let node = |node, e| TargetRef {
        node,
        kind: TargetKind::Node(engine(e)),
    };
    let pool = TargetRef {
        node: &b,
        kind: TargetKind::Pool,
    };
    let provider = TargetRef {
        node: &groq,
        kind: TargetKind::Provider,
    };
    let all = [
        node(&a, "ollama"),
        node(&a, "lmstudio"),
        node(&b, "ollama"),
        pool,
        provider,
    ];
    for (allow, model, want) in [
        (&["all"][..], "m", [true; 5]),
        (&["all"], "", [true; 5]),
        (&["ollama"], "m", [true, false, true, false, false]),
        (&["ollama"], "", [true, false, true, false, false]),
        (&["ollama/q*"], "qwen", [true, false, true, false, false]),
        (&["ollama/q*"], "phi", [false; 5]),
        (&["ollama/q*"], "", [false; 5]),
        (&["ollama/*"], "", [true, false, true, false, false]),
        (&["pool"], "m", [false, false, false, true, false]),
        (&["pool/m"], "m", [false, false, false, true, false]),
        (&["pool/m"], "n", [false; 5]),
        (&["tower"], "m", [true, true, false, false, false]),
        (&["rig/m"], "m", [false, false, true, true, false]),
        (&["groq"], "m", [false, false, false, false, true]),
        (&["*/m"], "m", [true; 5]),
        (&["*/m"], "n", [false; 5]),
        (&["virtual/m"], "m", [false; 5]),
        (
            &["tower/x", "pool/m"],
            "m",
            [false, false, false, true, false],
        ),
    ] {
        let grants = grants(allow);
        assert_eq!(
            all.map(|t| grants.allows(t, model)),
            want,
            "{allow:?} {model}"
        );
    }
    // A name without a tag is the one with `:latest`, and a name's own slashes are its own.
    let t = node(&a, "ollama");
    assert!(grants(&["ollama/qwen3"]).allows(t, "qwen3:latest"));
    assert!(!grants(&["ollama/qwen3"]).allows(t, "qwen3:8b"));
    assert!(grants(&["ollama/qwen3:latest"]).allows(t, "qwen3:latest"));
    assert!(grants(&["ollama/hf.co/a/b"]).allows(t, "hf.co/a/b:latest"));
    assert!(grants(&["ollama/x"]).allows_some(t) && !grants(&["pool"]).allows_some(t));
}

#[test]
fn virtual_models_are_granted_by_name() {
    for (allow, want) in [
        (&["all"][..], true),
        (&["virtual/smart"], true),
        (&["virtual/s*"], true),
        (&["virtual/*"], true),
        (&["virtual/other"], false),
        (&["*/*"], false),
        (&["ollama"], false),
    ] {
        assert_eq!(grants(allow).allows_virtual("smart"), want, "{allow:?}");
    }
    assert!(grants(&["pool", "all"]).is_all() && !grants(&["*/*", "virtual/*"]).is_all());
}

#[test]
fn what_is_no_grant_says_what_one_looks_like() {
    for (allow, want) in [
        (&[][..], "allow: is empty"),
        (&["all", ""], "allow[1]: begins with no target"),
        (&["/m"], "allow[0]: begins with no target"),
        (&["a b"], "allow[0]: begins with no target"),
        (&["ollama/"], "allow[0]: names no model"),
        (&["*"], "allow[0]: is `*` alone"),
        (&["virtual"], "allow[0]: names no virtual"),
        (&["all/m"], "allow[0]: has something behind"),
        (&["tow*/m"], "allow[0]: has a `*` in the target"),
        (&["all"; 65], "allow: has 65 entries"),
    ] {
        let e = key(allow).check().unwrap_err().to_string();
        assert!(e.starts_with(want), "{want}: {e}");
    }
    type Set = fn(&mut ClientKey);
    for (set, want) in [
        ((|k| k.name = "a b".into()) as Set, "name: "),
        (
            |k| k.requests_per_minute = Some(0),
            "requests_per_minute: is 0",
        ),
        (
            |k| k.requests_per_minute = Some(1_000_001),
            "requests_per_minute: ",
        ),
        (|k| k.tokens_per_day = Some(0), "tokens_per_day: is 0"),
        (|k| k.tokens_per_day = Some(1 << 53), "tokens_per_day: "),
        (
            |k| k.hash = serde_json::from_str("\"x\"").unwrap(),
            "hash: is no SHA-256",
        ),
    ] {
        let mut k = key(&["all"]);
        k.check().unwrap();
        set(&mut k);
        let e = k.check().unwrap_err().to_string();
        assert!(e.starts_with(want), "{want}: {e}");
    }
}

fn at(ms: u64) -> Moment {
    Moment {
        steady_ms: ms,
        unix_ms: ms,
    }
}

fn limits(requests: Option<u32>, tokens: Option<u64>) -> Limits {
    Limits {
        requests: requests.map(PerMinute::new),
        tokens,
    }
}

#[test]
fn requests_are_counted_by_the_minute() {
    let (limits, mut a) = (limits(Some(2), None), Allowance::default());
    for _ in 0..2 {
        let _held = a.charge(limits, at(1_000), 0).unwrap();
    }
    let over = a.charge(limits, at(1_000), 0).unwrap_err();
    assert_eq!(
        over,
        Over::Requests {
            per_minute: 2,
            retry_ms: 30_000
        }
    );
    assert_eq!(over.retry_seconds(), 30);
    let _held = a.charge(limits, at(31_000), 0).unwrap();
}

#[test]
fn tokens_are_set_aside_by_estimate_and_settled_by_what_was_used() {
    let (limits, mut a) = (limits(None, Some(100)), Allowance::default());
    let first = a.charge(limits, at(0), 80).unwrap();
    let over = a.charge(limits, at(0), 30).unwrap_err();
    assert_eq!(
        over,
        Over::Tokens {
            per_day: 100,
            needs: 30,
            left: 20,
            retry_ms: MS_OF_DAY
        }
    );
    a.settle(first, 10);
    assert_eq!(a.today(at(1)), (0, 10));
    let second = a.charge(limits, at(1), 30).unwrap();
    // More than was thought counts in full, and a day that is used up takes nothing more.
    a.settle(second, 95);
    assert_eq!(a.today(at(2)), (0, 105));
    let over = a.charge(limits, at(MS_OF_DAY - 1_500), 0).unwrap_err();
    assert_eq!(over.retry_seconds(), 2);
    let held = a.charge(limits, at(MS_OF_DAY), 100).unwrap();
    a.settle(held, 0);
    assert_eq!(a.today(at(MS_OF_DAY)), (1, 0));
}

#[test]
fn a_request_over_midnight_counts_on_the_day_it_began() {
    let (limits, mut a) = (limits(None, Some(100)), Allowance::default());
    let old = a.charge(limits, at(5), 100).unwrap();
    let new = a.charge(limits, at(MS_OF_DAY), 100).unwrap();
    a.settle(old, 70);
    assert_eq!(a.today(at(MS_OF_DAY)), (1, 0));
    assert!(
        a.charge(limits, at(MS_OF_DAY), 1).is_err(),
        "the new one holds all"
    );
    a.settle(new, 40);
    // A clock set back begins no day again.
    assert_eq!(a.today(at(7)), (1, 40));
    assert_eq!(Allowance::used_before(3, 9).today(at(MS_OF_DAY)), (3, 9));
}

#[test]
fn a_request_that_is_refused_counts_nowhere() {
    let (limits, mut a) = (limits(Some(1), Some(10)), Allowance::default());
    assert!(a.charge(limits, at(0), 11).is_err());
    let held = a.charge(limits, at(0), 10).unwrap();
    a.settle(held, 0);
    assert!(matches!(
        a.charge(limits, at(0), 10),
        Err(Over::Requests { .. })
    ));
    let _held = a.charge(limits, at(60_000), 10).unwrap();
}

proptest! {
    /// Whatever happens, what is set aside and used stays within the day's limit until something
    /// uses more than it said.
    #[test]
    fn no_day_gives_more_than_its_limit(
        steps in prop::collection::vec((0u64..60, any::<bool>(), 0u64..90_000_000), 1..80),
    ) {
        let limits = limits(None, Some(200));
        let (mut a, mut held, mut now) = (Allowance::default(), Vec::new(), 0);
        for (tokens, ends, later) in steps {
            now += later / 40;
            if ends && let Some((reserved, tokens)) = held.pop() {
                a.settle(reserved, tokens);
            } else if let Ok(reserved) = a.charge(limits, at(now), tokens) {
                held.push((reserved, tokens));
            }
            prop_assert!(a.used + a.reserved <= 200);
        }
    }

    #[test]
    fn no_text_makes_a_grant_panic(text in ".{0,40}") {
        let _any = grant(&text);
    }
}
