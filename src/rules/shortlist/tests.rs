use std::collections::BTreeMap;

use super::super::candidates::{Kind, ProviderLink, Sources, View};
use super::super::discovery::Node;
use super::super::discovery::tests::node;
use super::super::engine::EngineId;
use super::super::ids::NodeId;
use super::super::reservations::Board;
use super::*;

fn view(nodes: Vec<Node>) -> View {
    let manual: BTreeMap<NodeId, Node> = nodes.into_iter().map(|n| (n.id.clone(), n)).collect();
    let board = std::cell::RefCell::new(Board::default());
    View::build(&Sources {
        engine: EngineId::parse("ollama").unwrap(),
        relayed: &BTreeMap::new(),
        manual: &manual,
        pool: &BTreeMap::new(),
        port: 11434,
        aliases: &[],
        backend: None,
        address: &|n| {
            n.addresses
                .first()
                .map(|a| (a.clone(), n.id.as_str() == "unconfirmed"))
        },
        pinned: &|_| false,
        seat: &|n| board.borrow_mut().seat(n),
    })
}

/// Owners of `m`, each on a port.
fn list(nodes: &[(&str, u16)]) -> Arc<Owners> {
    let nodes = nodes.iter().map(|(id, port)| node(id, *port, &["m"]));
    view(nodes.collect())
        .owners(Some("m:latest"))
        .unwrap()
        .clone()
}

fn provider(id: &str) -> Candidate {
    let own = list(&[(id, 1)]);
    let target = &own.as_slice()[0].target;
    let link = ProviderLink {
        tls: false,
        connect: std::time::Duration::from_secs(1),
    };
    let target = Target {
        node: target.node.clone(),
        kind: Kind::Provider(link),
        seat: target.seat.clone(),
        host: target.host.clone(),
        name: target.name.clone(),
        authority: target.authority.clone(),
        host_header: target.host_header.clone(),
        prefix: String::new(),
        bearer: None,
        ..*target.as_ref()
    };
    Candidate {
        target: Arc::new(target),
        warm: false,
        context: None,
        speed: None,
        send_as: None,
    }
}

fn ids(short: &Shortlist) -> Vec<&str> {
    short.targets().map(|t| t.node.as_str()).collect()
}

#[test]
fn two_lists_go_by_id_together_each_under_its_own_name_of_the_model() {
    let (one, two) = (list(&[("a", 1), ("c", 3)]), list(&[("b", 2), ("d", 4)]));
    let mut short = Shortlist::of(&one);
    short.add(&two, Some("theirs".into()), |c| {
        c.target.node.as_str() != "d"
    });
    assert_eq!(ids(&short), ["a", "c", "b"]);
    short.sort_by_id(1);
    assert_eq!(
        ids(&short),
        ["a", "b", "c"],
        "what is before the place stays"
    );
    assert_eq!(short.send_as(1).map(|n| &**n), Some("theirs"));
    assert_eq!(short.candidate(1).send_as.as_deref(), Some("theirs"));
    assert_eq!(short.candidate(2).send_as, None);
}

#[test]
fn of_one_target_under_one_name_the_first_is_kept_and_ends_move() {
    let one = list(&[("a", 1), ("b", 2)]);
    let two = list(&[("twin", 1), ("c", 3)]);
    let mut short = Shortlist::of(&one);
    short.add(&two, None, |_| true);
    short.push(provider("p"));
    short.push(provider("q"));
    short.push(provider("p"));
    short.add(&one, Some("another".into()), |_| true);
    // As many ends as links: the two lists, nobody, the providers, the first list under another name.
    let mut ends = [4, 4, 7, 9];
    short.drop_again(&mut ends);
    assert_eq!(ids(&short), ["a", "b", "c", "p", "q", "a", "b"]);
    assert_eq!(ends, [3, 3, 5, 7]);
}

#[test]
fn beside_one_list_only_what_is_in_none_is_looked_at() {
    let mut short = Shortlist::of(&list(&[("a", 1), ("b", 2)]));
    short.push(provider("p"));
    short.push(provider("p"));
    let mut ends = [2, 4];
    short.drop_again(&mut ends);
    assert_eq!((ids(&short), ends), (vec!["a", "b", "p"], [2, 3]));
    // Unless two of its nodes share an address.
    let mut short = Shortlist::of(&list(&[("a", 1), ("b", 1)]));
    short.drop_again(&mut ends);
    assert_eq!(ids(&short), ["a"]);
}

#[test]
fn what_is_too_short_is_left_out_and_told_where_nobody_is_left() {
    let of = |context: &[Option<u64>]| {
        let mut owners = Owners::default();
        let nodes = list(&[("a", 1), ("b", 2), ("c", 3)]);
        for (c, context) in nodes.as_slice().iter().zip(context) {
            owners.push(Candidate {
                context: *context,
                ..c.clone()
            });
        }
        Shortlist::of(&Arc::new(owners))
    };
    let not_asked = || -> u64 { panic!("nobody has a bound") };
    assert_eq!(of(&[None, None]).fit(0, not_asked), None);
    for (contexts, needs, want, why) in [
        (&[Some(8), Some(4), None][..], 4, vec!["a", "b", "c"], None),
        (&[Some(8), Some(4), None], 5, vec!["a", "c"], None),
        (&[Some(8), Some(4), None], 9, vec!["c"], None),
        (&[Some(8), Some(4)], 9, vec![], Some((9, 8))),
    ] {
        let mut short = of(contexts);
        let why = why.map(|(needs, fits)| Answer::TooLong { needs, fits });
        assert_eq!(short.fit(0, || needs), why);
        assert_eq!(ids(&short), want);
    }
    // What is before the place is another link's.
    let mut short = of(&[Some(4), Some(8)]);
    assert_eq!(
        short.fit(1, || 9),
        Some(Answer::TooLong { needs: 9, fits: 8 })
    );
    assert_eq!(ids(&short), ["a"]);
}

#[test]
fn a_list_tells_what_all_of_it_have_in_common() {
    let one = list(&[("a", 1), ("b", 2)]);
    assert!(one.all_run(|engine| engine == PoolEngine::Ollama));
    assert!(!Shortlist::of(&one).may_be_unconfirmed());
    assert!(Shortlist::of(&list(&[("a", 1), ("unconfirmed", 2)])).may_be_unconfirmed());
    let mut mixed = Owners::default();
    for (c, runs) in one
        .as_slice()
        .iter()
        .zip([PoolEngine::Vllm, PoolEngine::Tgi])
    {
        let p = provider(c.target.node.as_str());
        let mut target = Arc::into_inner(p.target).unwrap();
        target.runs = runs;
        mixed.push(Candidate {
            target: Arc::new(target),
            ..c.clone()
        });
    }
    assert!(!mixed.all_run(|engine| engine == PoolEngine::Vllm));
    assert!(mixed.all_run(|engine| engine != PoolEngine::Ollama));
}
