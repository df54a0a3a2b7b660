use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::candidates::Sources;
use super::super::discovery::Node;
use super::super::discovery::tests::node;
use super::super::ids::Generation;
use super::super::policy::Policy;
use super::*;

fn engine(id: &str) -> EngineId {
    EngineId::parse(id).unwrap()
}

fn arrival(id: u64, created_at: u64, held_ms: u64, model: &str) -> Arrival {
    Arrival {
        run_id: RunId::from_bytes([1; 8]),
        engine: engine("ollama"),
        id: JobId(id),
        model: model.into(),
        path: "/api/chat".into(),
        body_bytes: 10,
        created_at,
        held_ms,
        state: State::Completed,
        status: Some(200),
        streamed: Some(true),
        node: None,
        stats: None,
    }
}

/// A facade's nodes: each with its models and slots.
fn view(nodes: &[(&str, &[&str], u32)]) -> View {
    let manual: BTreeMap<NodeId, Node> = std::iter::zip(1.., nodes)
        .map(|(port, (id, models, slots))| {
            let mut n = node(id, port, models);
            n.extra.slots = *slots;
            (n.id.clone(), n)
        })
        .collect();
    let board = std::cell::RefCell::new(seated());
    View::build(&Sources {
        engine: engine("ollama"),
        relayed: &BTreeMap::new(),
        manual: &manual,
        pool: &BTreeMap::new(),
        port: 0,
        aliases: &[],
        backend: None,
        address: &|n| Some((format!("{}.test", n.id), false)),
        pinned: &|_| false,
        seat: &|n| board.borrow_mut().seat(n),
    })
}

/// A board on which each node that the tests name has the same seat.
fn seated() -> Board {
    let mut board = Board::default();
    for name in 'a'..='h' {
        board.seat(&name.to_string().into());
    }
    board
}

fn run(view: &View, board: Board, policy: Policy, arrivals: &[Arrival], speed: f64) -> Outcome {
    let places = [Place {
        engine: engine("ollama"),
        view,
        pin: None,
        open: true,
    }];
    let virtuals = VirtualModels::default();
    let scene = Scene {
        selector: Selector::new(policy),
        board,
        places: &places,
        virtuals: &virtuals,
    };
    simulate(scene, arrivals, Speed::try_from(speed).unwrap())
}

fn names(outcome: &Outcome) -> Vec<String> {
    let name = |p: &Result<NodeId, Unplaced>| match p {
        Ok(node) => node.to_string(),
        Err(why) => format!("{why:?}"),
    };
    outcome.placed.iter().map(name).collect()
}

#[test]
fn a_burst_spreads_as_live_requests_would_and_frees_nodes_as_it_ends() {
    let v = view(&[("a", &["m"], 1), ("b", &["m"], 1)]);
    let burst = [
        arrival(1, 0, 1000, "m"),
        arrival(2, 0, 50, "m:latest"),
        arrival(3, 100, 10, "m"),
        arrival(4, 110, 10, "m"),
        arrival(5, 111, 10, "m"),
    ];
    let o = run(&v, seated(), Policy::Weighted, &burst, 1.0);
    assert_eq!(names(&o), ["a", "b", "b", "b", "a"]);
    assert_eq!(o.peaks, [("a".into(), 2), ("b".into(), 1)].into());
}

#[test]
fn what_nobody_serves_says_why() {
    let v = view(&[("a", &["m"], 1)]);
    let mut other = arrival(2, 1, 5, "m");
    other.engine = engine("llamacpp");
    let all = [arrival(1, 0, 5, "x"), other, arrival(3, 2, 5, "m")];
    let o = run(&v, seated(), Policy::Listed, &all, 1.0);
    assert_eq!(names(&o), ["NoOwner", "NoFacade", "a"]);
}

#[test]
fn a_pin_and_the_scheduler_s_list_decide_as_they_do_live() {
    let v = view(&[("a", &["m"], 1), ("b", &["m"], 1), ("c", &["n"], 1)]);
    let pin = NodeId::from("b");
    let places = [Place {
        engine: engine("ollama"),
        view: &v,
        pin: Some(&pin),
        open: true,
    }];
    let virtuals = VirtualModels::default();
    let all = [
        arrival(1, 0, 50, "m"),
        arrival(2, 1, 50, "m"),
        arrival(3, 2, 50, "n"),
    ];
    let scene = Scene {
        selector: Selector::new(Policy::Listed),
        board: seated(),
        places: &places,
        virtuals: &virtuals,
    };
    let o = simulate(scene, &all, Speed::RECORDED);
    assert_eq!(names(&o), ["b", "b", "c"]);
    let mut board = seated();
    let ranks = [("a".into(), 2, 0), ("b".into(), 0, 0)];
    assert!(board.apply(Generation(1), vec!["a".into(), "b".into()], ranks));
    let four: Vec<_> = (0..4).map(|i| arrival(i, 0, 50, "m")).collect();
    let o = run(&v, board, Policy::Listed, &four, 1.0);
    assert_eq!(names(&o), ["b", "b", "a", "b"]);
}

#[test]
fn twice_as_fast_is_twice_as_close_with_the_same_durations() {
    let v = view(&[("a", &["m"], 1)]);
    let all: Vec<_> = (0..10).map(|i| arrival(i, i * 100, 100, "m")).collect();
    let peak = |speed| run(&v, seated(), Policy::Weighted, &all, speed).peaks["a"];
    assert_eq!(
        (peak(1.0), peak(2.0), peak(1000.0), peak(0.5)),
        (1, 2, 10, 1)
    );
}

#[test]
fn a_pick_narrows_sorts_and_takes_each_once() {
    let mut all = vec![
        arrival(3, 30, 1, "m"),
        arrival(1, 10, 1, "m"),
        arrival(2, 20, 1, "m"),
        arrival(3, 30, 1, "m"),
    ];
    let mut other = arrival(9, 25, 1, "m");
    other.engine = engine("lmstudio");
    all.push(other);
    let picked = |pick: Pick| {
        let mut some = all.clone();
        pick.apply(&mut some);
        some.iter().map(|a| a.id.0).collect::<Vec<_>>()
    };
    assert_eq!(picked(Pick::default()), [1, 2, 9, 3]);
    let ollama = Pick {
        engine: Some(engine("ollama")),
        ..Pick::default()
    };
    assert_eq!(picked(ollama), [1, 2, 3]);
    let (last, from_at) = (Some(1), Some(20));
    assert_eq!(picked(Pick { last, ..ollama }), [3]);
    assert_eq!(picked(Pick { from_at, ..ollama }), [2, 3]);
    assert_eq!(
        picked(Pick {
            last: Some(0),
            ..ollama
        }),
        [0; 0]
    );
}

#[test]
fn a_speed_is_a_number_within_limits() {
    for text in ["1", "0.5", "4", "1000", "0.01", "1e2"] {
        assert!(text.parse::<Speed>().is_ok(), "{text}");
    }
    for text in ["0", "-1", "inf", "NaN", "1001", "0.001", "", "2x", "1,5"] {
        let e = text.parse::<Speed>().unwrap_err().to_string();
        assert!(e.contains("0.01 to 1000"), "{e}");
    }
    assert!(serde_json::from_str::<Speed>("0").is_err());
    assert_eq!(serde_json::to_string(&Speed::RECORDED).unwrap(), "1.0");
}

#[test]
fn ten_thousand_arrivals_give_the_same_outcome_twice() {
    let v = view(&[("a", &["m", "n"], 1), ("b", &["m"], 4), ("c", &["n"], 2)]);
    let mut all: Vec<_> = (0..10_000)
        .map(|i| arrival(i, i / 7, i * 31 % 997, ["m", "n", "x"][(i % 3) as usize]))
        .collect();
    Pick::default().apply(&mut all);
    let once = run(&v, seated(), Policy::Weighted, &all, 1.0);
    all.reverse();
    Pick::default().apply(&mut all);
    let again = run(&v, seated(), Policy::Weighted, &all, 1.0);
    assert_eq!(once, again);
    assert_eq!(once.placed.len(), 10_000);
}

/// Most arrivals under way at once, the one that arrives among them.
fn overlapping(all: &[Arrival]) -> u64 {
    let at_once = |i: usize| {
        let before = all[..i].iter();
        let running = before.filter(|a| a.created_at + a.held_ms > all[i].created_at);
        running.count() as u64 + 1
    };
    (0..all.len()).map(at_once).max().unwrap_or(0)
}

proptest! {
    #[test]
    fn counts_are_conserved_and_nothing_is_left(
        given in prop::collection::vec((0u64..200, 0u64..80, 0usize..3), 0..60),
        slots in prop::collection::vec(1u32..4, 3),
        policy in 0usize..3,
        pin in prop::option::of(0usize..3),
    ) {
        const IDS: [&str; 3] = ["a", "b", "c"];
        let v = view(&[
            (IDS[0], &["m"], slots[0]),
            (IDS[1], &["m", "n"], slots[1]),
            (IDS[2], &["n"], slots[2]),
        ]);
        let policy = [Policy::Listed, Policy::Weighted, Policy::Ordered][policy];
        let pin = pin.map(|i| NodeId::from(IDS[i]));
        let mut all: Vec<_> = std::iter::zip(0.., given)
            .map(|(id, (at, held, model))| arrival(id, at, held, ["m", "n", "x"][model]))
            .collect();
        Pick::default().apply(&mut all);
        let mut board = seated();
        board.apply(Generation(1), IDS.map(NodeId::from).to_vec(), [("a".into(), 1, 2)]);
        let places = [Place { engine: engine("ollama"), view: &v, pin: pin.as_ref(), open: true }];
        let virtuals = VirtualModels::default();
        let mut clock = Clock::new(Scene { selector: Selector::new(policy), board, places: &places, virtuals: &virtuals });
        let first = all.first().map_or(0, |a| a.created_at);
        for a in &all {
            let now = (a.created_at - first) * 1000;
            clock.end_until(now);
            clock.arrive(a, now);
        }
        clock.end_until(u64::MAX);
        // Nothing of it is left, and what the scheduler said still stands.
        for id in IDS {
            let load = clock.scene.board.load(&id.into());
            prop_assert_eq!((load.reserved, load.in_flight), (0, 0));
        }
        prop_assert_eq!(clock.scene.board.load(&"a".into()).estimate(), 3);
        let o = clock.outcome;
        prop_assert_eq!(o.placed.len(), all.len());
        for (a, placed) in std::iter::zip(&all, &o.placed) {
            match (placed, a.model.as_str()) {
                (Ok(n), "m") => prop_assert!(["a", "b"].contains(&n.as_str())),
                (Ok(n), "n") => prop_assert!(["b", "c"].contains(&n.as_str())),
                (got, _) => prop_assert_eq!(got, &Err(Unplaced::NoOwner)),
            }
        }
        let used: BTreeSet<_> = o.placed.iter().flatten().collect();
        prop_assert_eq!(used, o.peaks.keys().collect());
        let most = overlapping(&all);
        for (n, peak) in &o.peaks {
            let got = o.placed.iter().filter(|p| p.as_ref() == Ok(n)).count() as u64;
            prop_assert!(*peak >= 1 && *peak <= got && *peak <= most, "{n} {peak} {got} {most}");
        }
    }
}

#[test]
fn the_gateway_s_workloads_go_along_its_chain() {
    let (a, b) = (view(&[("a", &["m"], 1)]), view(&[("b", &["n"], 1)]));
    let place = |engine, view, open| Place {
        engine,
        view,
        pin: None,
        open,
    };
    let none = View::default();
    // One of the engines has no facade of its own.
    let places = [
        place(engine("ollama"), &a, true),
        place(engine("llamacpp"), &b, false),
        place(EngineId::GATEWAY, &none, true),
    ];
    let link = |place, model: &str| Link {
        place,
        model: model.into(),
    };
    let engine_of = |id| Where::Engine(engine(id));
    let virtuals = VirtualModels::new([
        (
            "fast".to_owned(),
            vec![
                link(engine_of("llamacpp"), "m"),
                link(engine_of("ollama"), "m"),
            ],
        ),
        (
            "cloud".to_owned(),
            vec![
                link(Where::Provider("p".into()), "m"),
                link(engine_of("ollama"), "m"),
            ],
        ),
    ]);
    let of = |engine, id, model: &str| Arrival {
        engine,
        path: "/v1/chat/completions".into(),
        ..arrival(id, id, 50, model)
    };
    let gateway = EngineId::GATEWAY;
    let all = [
        of(gateway, 1, "m"),
        of(gateway, 2, "n:latest"),
        of(gateway, 3, "fast"),
        of(gateway, 4, "other"),
        of(engine("llamacpp"), 5, "n"),
        of(gateway, 6, "cloud"),
        // No provider has this route, and of the engines here only one.
        Arrival {
            path: "/v1/messages".into(),
            ..of(gateway, 7, "cloud")
        },
        Arrival {
            path: "/v1/audio/translations".into(),
            ..of(gateway, 8, "m")
        },
    ];
    let scene = Scene {
        selector: Selector::new(Policy::Weighted),
        board: seated(),
        places: &places,
        virtuals: &virtuals,
    };
    let o = simulate(scene, &all, Speed::RECORDED);
    let want = [
        Ok("a".into()),
        Ok("b".into()),
        Ok("a".into()),
        Err(Unplaced::Provider),
        Err(Unplaced::NoFacade),
        Err(Unplaced::Provider),
        Ok("a".into()),
        Err(Unplaced::Provider),
    ];
    assert_eq!(o.placed, want);
}
