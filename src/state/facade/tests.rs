use super::*;
use crate::rules::discovery::tests::node;
use crate::rules::policy::Policy;

fn scheduler() -> Arc<Scheduler> {
    Arc::new(Scheduler::new(Policy::Listed))
}

fn facade() -> FacadeState {
    let facade = FacadeState::new(
        EngineId::parse("lmstudio").unwrap(),
        Arc::new(Alone),
        scheduler(),
    );
    facade.opened(1234, 0);
    facade
}

#[test]
fn each_snapshot_replaces_the_relayed_set_and_keeps_manual_nodes() {
    let f = facade();
    assert!(f.add_manual(node("m1", 1, &[])));
    let c = f.snapshot(vec![node("s1", 2, &[])]);
    assert_eq!(c.diff.new, [NodeId::from("s1")]);
    assert_eq!(f.nodes().len(), 2);
    let c = f.snapshot(vec![]);
    assert_eq!((c.diff.gone.len(), c.gone.len()), (1, 1));
    assert_eq!(
        f.nodes().iter().map(|n| n.id.as_str()).collect::<Vec<_>>(),
        ["m1"]
    );
}

#[test]
fn a_pin_needs_a_known_node_and_goes_with_it() {
    let f = facade();
    assert!(!f.select(Some("x".into())));
    f.add_manual(node("m", 1, &[]));
    f.snapshot(vec![node("s", 2, &[])]);
    assert!(f.select(Some("s".into())));
    assert_eq!(f.routing().pin, Some("s".into()));
    assert!(f.snapshot(vec![]).unpinned);
    assert_eq!(f.pin(), None);
    assert!(f.select(Some("m".into())));
    assert_eq!(
        f.remove_manual(&"m".into()),
        Some(Removed { was_pinned: true })
    );
    assert_eq!(f.remove_manual(&"m".into()), None);
    assert_eq!(f.pin(), None);
}

#[test]
fn a_waiting_attempt_wakes_when_its_node_goes() {
    let f = facade();
    f.add_manual(node("m", 1, &["x"]));
    let mut rx = f.changes();
    rx.mark_unchanged();
    assert!(f.routing().knows(&"m".into()));
    f.remove_manual(&"m".into());
    assert!(rx.has_changed().unwrap());
    assert!(!rx.borrow().knows(&"m".into()));
}

#[test]
fn a_forgotten_address_makes_way_for_a_confirmed_one() {
    let f = facade();
    let mut n = node("m", 1, &["x"]);
    n.addresses = vec!["127.0.0.2".into(), "127.0.0.3".into()];
    f.add_manual(n);
    let at = |f: &FacadeState| f.routing().view.candidates(None)[0].target.host.clone();
    assert_eq!(at(&f), "127.0.0.2");
    f.forget_address(&"m".into());
    let c = f.confirmation(&"m".into()).unwrap();
    f.confirmed(&c, Some("127.0.0.3".into()));
    assert_eq!(at(&f), "127.0.0.3");
    // Of a node that left nothing is remembered.
    let n = f.nodes().remove(0);
    f.remove_manual(&"m".into());
    f.add_manual(n);
    assert_eq!(at(&f), "127.0.0.2");
}

#[derive(Default)]
struct Cluster(AtomicU64);

impl Surroundings for Cluster {
    fn is_ours(&self, _: IpAddr) -> bool {
        false
    }

    fn is_pinned(&self, _: &str) -> bool {
        self.generation() % 2 == 1
    }

    fn generation(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn the_view_follows_the_pins_when_asked_to() {
    let cluster = Arc::new(Cluster::default());
    let f = FacadeState::new(
        EngineId::parse("ollama").unwrap(),
        cluster.clone(),
        scheduler(),
    );
    let mut peer = node("p", 1, &["x"]);
    peer.principal = Some("p".into());
    f.snapshot(vec![peer]);
    let reachable = |f: &FacadeState| f.routing().view.candidates(None).len();
    assert!(!f.refresh());
    assert_eq!(reachable(&f), 0);
    cluster.0.store(1, Ordering::Relaxed);
    assert!(f.refresh() && !f.refresh());
    assert_eq!(reachable(&f), 1);
    cluster.0.store(2, Ordering::Relaxed);
    assert!(f.refresh());
    assert_eq!(reachable(&f), 0);
}

#[test]
fn a_facade_is_not_its_own_backend() {
    let f = facade();
    let backend = |port, healthy| LocalBackend {
        host: String::new(),
        port,
        healthy,
    };
    assert_eq!(f.usable_backend(), None);
    f.set_backend(backend(1300, true));
    assert_eq!(f.usable_backend(), Some(("127.0.0.1".into(), 1300)));
    f.set_aliases(vec![("127.0.0.1".into(), 1300)]);
    assert_eq!(f.usable_backend(), None);
    f.set_aliases(Vec::new());
    f.set_backend(backend(1300, false));
    assert_eq!(f.usable_backend(), None);
    f.set_backend(backend(1234, true));
    assert_eq!(f.usable_backend(), None);
}

#[test]
fn the_backend_serves_our_own_record() {
    let f = facade();
    f.add_manual(node("me", 1234, &["x"]));
    assert!(f.routing().view.candidates(None).is_empty());
    f.set_backend(LocalBackend {
        host: String::new(),
        port: 1300,
        healthy: true,
    });
    assert_eq!(
        &*f.routing().view.candidates(None)[0].target.authority,
        "127.0.0.1:1300"
    );
    f.set_backend(LocalBackend {
        host: String::new(),
        port: 1300,
        healthy: false,
    });
    assert!(f.routing().view.candidates(None).is_empty());
}
