use super::super::discovery::tests::node;
use super::super::discovery::{Extra, Pooled as Told};
use super::super::reservations::Board;
use super::*;

fn pooled(id: &str, port: u16, models: &[&str], told: Told) -> Node {
    Node {
        extra: Extra {
            context: vec![("m".into(), 8192)],
            slots: 4,
            pool: Some(told),
            ..Extra::default()
        },
        ..node(id, port, models)
    }
}

#[test]
fn pool_nodes_serve_inference_lists_and_permissions_and_nothing_else() {
    let v = Setup::new()
        .manual(node("b", 2, &["m"]))
        .pool(pooled("a", 1, &["m"], Told::default()))
        .view();
    assert_eq!(ids(v.candidates(Some("m"))), ["a", "b"]);
    assert_eq!(ids(v.candidates(None)), ["b"]);
    assert_eq!(ids(v.everybody()), ["a", "b"]);
    let owner = &v.candidates(Some("m"))[0];
    assert_eq!((owner.context, owner.target.slots), (Some(8192), 4));
    assert_eq!(
        owner.target.host_header, "host-a:1",
        "named as it registered"
    );
    assert_eq!(
        &*owner.target.authority, "127.0.0.1:1",
        "dialled where it was checked"
    );
}

#[test]
fn a_resting_pool_node_owns_its_models_and_is_no_candidate() {
    let rests = Told {
        resting: Some("draining: the worker said so".into()),
        ..Told::default()
    };
    let one_model = Told {
        resting_models: vec![("m".into(), "resting".into())],
        ..Told::default()
    };
    let v = Setup::new()
        .pool(pooled("a", 1, &["m"], rests))
        .pool(pooled("b", 2, &["m", "n"], one_model))
        .view();
    assert!(v.candidates(Some("m")).is_empty());
    assert_eq!(ids(v.candidates(Some("n"))), ["b"]);
    let resting: Vec<_> = v.resting("m").iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(resting, ["a", "b"]);
    assert!(v.resting("n").is_empty());
}

#[test]
fn a_node_that_is_known_otherwise_is_not_the_pools() {
    let v = Setup::new()
        .manual(node("a", 2, &["m"]))
        .pool(pooled("a", 1, &["m"], Told::default()))
        .view();
    assert_eq!(v.candidates(Some("m"))[0].target.kind, Kind::Manual);
    assert_eq!(v.everybody().len(), 1);
}

struct Setup {
    relayed: BTreeMap<NodeId, Node>,
    manual: BTreeMap<NodeId, Node>,
    pool: BTreeMap<NodeId, Node>,
    aliases: Vec<(String, u16)>,
    backend: Option<(&'static str, u16)>,
    pins: Vec<&'static str>,
    engine: EngineId,
}

impl Setup {
    fn new() -> Self {
        Self {
            relayed: BTreeMap::new(),
            manual: BTreeMap::new(),
            pool: BTreeMap::new(),
            aliases: vec![],
            backend: None,
            pins: vec![],
            engine: engine("lmstudio"),
        }
    }

    fn manual(mut self, n: Node) -> Self {
        self.manual.insert(n.id.clone(), n);
        self
    }

    fn relayed(mut self, n: Node) -> Self {
        self.relayed.insert(n.id.clone(), n);
        self
    }

    fn pool(mut self, n: Node) -> Self {
        self.pool.insert(n.id.clone(), n);
        self
    }

    fn view(&self) -> View {
        let board = std::cell::RefCell::new(Board::default());
        View::build(&Sources {
            engine: self.engine,
            relayed: &self.relayed,
            manual: &self.manual,
            pool: &self.pool,
            port: 11434,
            aliases: &self.aliases,
            backend: self.backend,
            address: &|n| n.addresses.first().map(|a| (a.clone(), false)),
            pinned: &|p| self.pins.contains(&p),
            seat: &|n| board.borrow_mut().seat(n),
        })
    }
}

fn engine(id: &str) -> EngineId {
    EngineId::parse(id).unwrap()
}

fn ids(c: &[Candidate]) -> Vec<&str> {
    c.iter().map(|c| c.target.node.as_str()).collect()
}

#[test]
fn candidates_own_the_model_and_come_by_id() {
    let s = Setup::new()
        .manual(node("c", 3, &["m"]))
        .manual(node("a", 1, &["m", "n"]))
        .manual(node("b", 2, &[]));
    let v = s.view();
    assert_eq!(ids(v.candidates(Some("m"))), ["a", "c"]);
    assert_eq!(ids(v.candidates(Some("n"))), ["a"]);
    assert!(v.candidates(Some("x")).is_empty());
    assert_eq!(ids(v.candidates(None)), ["a", "b", "c"]);
}

#[test]
fn names_compare_as_the_engine_compares() {
    let mut s = Setup::new().manual(node("a", 1, &["llama3", "llama3:latest", ""]));
    s.engine = engine("ollama");
    let v = s.view();
    assert_eq!(ids(v.candidates(Some("llama3:latest"))), ["a"]);
    assert!(
        v.candidates(Some("")).is_empty(),
        "an empty name matches nothing"
    );
}

#[test]
fn our_own_listener_stands_for_the_local_engine() {
    let mut s = Setup::new().manual(node("me", 11434, &["m"]));
    assert_eq!(
        s.view().excluded(),
        [("me".into(), Exclusion::NoLocalBackend)]
    );
    s.backend = Some(("127.0.0.1", 11436));
    let v = s.view();
    let t = &v.candidates(Some("m"))[0].target;
    assert_eq!(
        (t.node.as_str(), &t.kind, &*t.authority),
        ("me", &Kind::Own, "127.0.0.1:11436")
    );
    // A backend that is ourselves would loop.
    s.backend = Some(("localhost", 11434));
    assert_eq!(s.view().excluded(), [("me".into(), Exclusion::OwnListener)]);
}

#[test]
fn an_alias_is_ourselves_only_where_address_and_port_match() {
    let mut a = node("a", 500, &["m"]);
    a.addresses = vec!["127.0.0.2".into()];
    let mut s = Setup::new().manual(a).manual(node("b", 500, &["m"]));
    s.aliases = vec![("127.0.0.2".into(), 500)];
    assert_eq!(ids(s.view().candidates(Some("m"))), ["b"]);
}

#[test]
fn the_same_port_elsewhere_is_not_ourselves() {
    let mut n = node("real", 11434, &["m"]);
    n.addresses = vec!["192.0.2.10".into()];
    assert_eq!(
        ids(Setup::new().manual(n).view().candidates(Some("m"))),
        ["real"]
    );
}

#[test]
fn a_relayed_node_needs_a_live_pin() {
    let n = Node {
        principal: Some("p".into()),
        ..node("r", 5, &["m"])
    };
    let mut s = Setup::new().relayed(n).relayed(node("plain", 6, &["m"]));
    let v = s.view();
    assert_eq!(
        v.excluded(),
        [
            ("plain".into(), Exclusion::NotPinned),
            ("r".into(), Exclusion::NotPinned)
        ]
    );
    s.pins = vec!["p"];
    let v = s.view();
    assert_eq!(ids(v.candidates(Some("m"))), ["r"]);
    assert_eq!(
        v.candidates(Some("m"))[0].target.kind,
        Kind::Peer("p".into())
    );
}

#[test]
fn a_manual_peer_is_dialled_by_its_pin_or_not_at_all() {
    let named = || Node {
        principal: Some("p".into()),
        extra: Extra {
            peer: Some("p".into()),
            ..Extra::default()
        },
        ..node("a", 5, &["m"])
    };
    let mut s = Setup::new().manual(named());
    assert_eq!(s.view().excluded(), [("a".into(), Exclusion::NotPinned)]);
    s.pins = vec!["p"];
    let view = s.view();
    let kind = &view.candidates(Some("m"))[0].target.kind;
    assert_eq!(*kind, Kind::Peer("p".into()));
}

#[test]
fn a_relayed_record_wins_over_a_manual_one_and_stays_reachable() {
    let mut relayed = node("x", 7, &["m"]);
    relayed.addresses = vec!["127.0.0.9".into()];
    let s = Setup::new().relayed(relayed).manual(node("x", 8, &[]));
    let v = s.view();
    let t = &v.candidates(Some("m"))[0].target;
    assert_eq!((&t.kind, &*t.authority), (&Kind::Manual, "127.0.0.9:7"));
}

#[test]
fn a_shared_address_is_kept_once() {
    let s = Setup::new()
        .manual(node("a", 1, &["m"]))
        .manual(node("b", 1, &["m"]));
    let v = s.view();
    assert!(v.shares_addresses());
    let mut c = v.shortlist(Some("m"));
    c.drop_shared();
    assert_eq!(ids(&c.to_vec()), ["a"]);
}

#[test]
fn a_node_whose_probes_fail_is_listed_with_the_reason() {
    let mut n = node("a", 1, &["m"]);
    n.extra.unreachable = Some("connection refused".into());
    let v = Setup::new().manual(n).view();
    assert!(v.candidates(None).is_empty());
    assert_eq!(
        v.excluded()[0].1.to_string(),
        "does not answer: connection refused"
    );
}

#[test]
fn a_warm_model_is_known_per_model() {
    let mut n = node("a", 1, &["m", "n"]);
    n.extra.warm = vec!["n".into()];
    let v = Setup::new().manual(n).view();
    assert!(!v.candidates(Some("m"))[0].warm);
    assert!(v.candidates(Some("n"))[0].warm);
}

#[test]
fn ipv6_targets_are_bracketed() {
    let mut n = node("a", 1, &[]);
    n.addresses = vec!["fd00::1".into()];
    let v = Setup::new().manual(n).view();
    assert_eq!(&*v.candidates(None)[0].target.authority, "[fd00::1]:1");
}
