use std::sync::Arc;

use http::HeaderValue;
use proptest::prelude::*;

use super::super::candidates::{Kind, Pooled, Target};
use super::super::ids::Generation;
use super::super::pool::record::PoolEngine;
use super::super::shortlist::Owners;
use super::super::weighted::{Facts, Health};
use super::*;

/// A board, a policy, and the questions asked of both.
struct Desk {
    board: Board,
    selector: Selector,
}

impl Desk {
    fn new(policy: Policy) -> Self {
        Self {
            board: Board::default(),
            selector: Selector::new(policy),
        }
    }

    fn listed(mut self, list: &[&str], loads: &[(&str, u64)]) -> Self {
        let loads = loads.iter().map(|(n, l)| (NodeId::from(*n), *l, 0));
        let list = list.iter().map(|n| NodeId::from(*n)).collect();
        assert!(self.board.apply(Generation(1), list, loads));
        self
    }

    fn candidate(&mut self, id: &str, slots: u32, warm: bool, kind: Kind) -> Candidate {
        Candidate {
            target: Arc::new(Target {
                node: id.into(),
                facade: EngineId::parse("ollama").unwrap(),
                runs: PoolEngine::Ollama,
                seat: self.board.seat(&id.into()),
                kind,
                host: "127.0.0.1".into(),
                name: "127.0.0.1".into(),
                port: 1,
                authority: "127.0.0.1:1".into(),
                host_header: HeaderValue::from_static("127.0.0.1:1"),
                prefix: String::new(),
                bearer: None,
                slots,
                weight: 1,
                unconfirmed: false,
            }),
            warm,
            context: None,
            speed: None,
            send_as: None,
        }
    }

    fn nodes(&mut self, ids: &[&str]) -> Vec<Candidate> {
        let node = |id: &&str| self.candidate(id, 1, false, Kind::Manual);
        ids.iter().map(node).collect()
    }

    fn pool(&mut self, id: &str, slots: u32, active: u32, health: Health) -> Candidate {
        let pooled = Pooled {
            health,
            active,
            queue: 0,
            tls: false,
        };
        self.candidate(id, slots, true, Kind::Pool(pooled))
    }

    fn ask(pin: Option<&NodeId>) -> Ask<'_> {
        Ask {
            engine: EngineId::parse("ollama").unwrap(),
            model: "m",
            pin,
        }
    }

    fn order(&mut self, pin: Option<&str>, candidates: &mut Vec<Candidate>) -> Ordered {
        let pin = pin.map(NodeId::from);
        let ask = Self::ask(pin.as_ref());
        listed(candidates, |c| self.selector.order(&self.board, ask, c, 0))
    }

    fn reserve(&mut self, candidates: &mut Vec<Candidate>) -> Option<Reservation> {
        let ask = Self::ask(None);
        let board = &mut self.board;
        listed(candidates, |c| {
            self.selector.order_and_reserve(board, ask, c, 0)
        })
        .0
    }

    /// Chooses among those from a place on.
    fn next(&mut self, candidates: &mut Vec<Candidate>, from: usize) {
        let end = candidates.len();
        let ask = Self::ask(None);
        listed(candidates, |c| {
            self.selector.next(&self.board, ask, c, from..end)
        });
    }

    fn preview(&mut self, candidates: &mut Vec<Candidate>) -> Preview {
        let ask = Self::ask(None);
        listed(candidates, |c| {
            self.selector.preview(&self.board, ask, c, 0)
        })
    }

    /// The whole order, one lost after the other.
    fn whole(&mut self, candidates: &mut Vec<Candidate>) -> Vec<String> {
        self.order(None, candidates);
        for i in 1..candidates.len() {
            self.next(candidates, i);
        }
        ids(candidates).into_iter().map(str::to_owned).collect()
    }
}

/// As a list of a view.
fn listed<T>(candidates: &mut Vec<Candidate>, order: impl FnOnce(&mut Shortlist) -> T) -> T {
    let mut owners = Owners::default();
    candidates.drain(..).for_each(|c| owners.push(c));
    let mut list = Shortlist::of(&Arc::new(owners));
    let done = order(&mut list);
    *candidates = list.to_vec();
    done
}

fn ids(c: &[Candidate]) -> Vec<&str> {
    c.iter().map(|c| c.target.node.as_str()).collect()
}

#[test]
fn the_list_orders_and_unlisted_nodes_follow_by_id() {
    for (list, want) in [
        (vec!["c", "a", "b"], ["c", "a", "b"]),
        (vec!["b"], ["b", "a", "c"]),
        (vec!["c", "a"], ["c", "a", "b"]),
        (vec!["x", "c"], ["c", "a", "b"]),
        (vec![], ["a", "b", "c"]),
    ] {
        let mut d = Desk::new(Policy::Listed).listed(&list, &[]);
        let mut c = d.nodes(&["a", "b", "c"]);
        d.order(None, &mut c);
        assert_eq!(ids(&c), want, "{list:?}");
    }
}

#[test]
fn the_least_loaded_listed_node_goes_first_and_the_rest_keep_their_order() {
    let mut d = Desk::new(Policy::Listed).listed(&["b", "a", "c"], &[("a", 5), ("c", 6)]);
    let mut c = d.nodes(&["a", "b", "c"]);
    let r = d.reserve(&mut c).unwrap();
    assert_eq!((ids(&c), r.node().as_str()), (vec!["b", "a", "c"], "b"));
    d.board.release(r);
}

#[test]
fn an_eligible_pin_leads_and_takes_no_reservation() {
    for policy in [Policy::Listed, Policy::Weighted, Policy::Ordered] {
        let mut d = Desk::new(policy).listed(&["a", "b"], &[]);
        let mut c = d.nodes(&["a", "b"]);
        assert_eq!(d.order(Some("b"), &mut c).reserve, None);
        assert_eq!(ids(&c), ["b", "a"]);
    }
    // An ineligible one is ignored.
    let mut d = Desk::new(Policy::Listed).listed(&["a", "b"], &[]);
    let mut c = d.nodes(&["a", "b"]);
    assert_eq!(d.order(Some("z"), &mut c).reserve, Some("a".into()));
}

#[test]
fn nobody_listed_takes_no_reservation() {
    let mut d = Desk::new(Policy::Listed).listed(&["z"], &[]);
    let mut c = d.nodes(&["a", "b"]);
    assert_eq!(d.reserve(&mut c), None);
    assert_eq!(ids(&c), ["a", "b"]);
}

#[test]
fn a_burst_spreads_evenly_over_unequal_loads() {
    let loads = [("a", 0), ("b", 2), ("c", 4)];
    let mut d = Desk::new(Policy::Listed).listed(&["a", "b", "c"], &loads);
    let mut held = vec![];
    for _ in 0..6 {
        let mut c = d.nodes(&["a", "b", "c"]);
        held.push(d.reserve(&mut c).unwrap());
    }
    let totals: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|n| d.board.load(&NodeId::from(*n)).estimate())
        .collect();
    assert_eq!(totals, [4, 4, 4]);
    held.into_iter().for_each(|r| d.board.release(r));
}

#[test]
fn ordered_is_the_bare_default() {
    let mut d = Desk::new(Policy::Ordered).listed(&["c"], &[]);
    let mut c = d.nodes(&["a", "b", "c"]);
    assert_eq!(d.reserve(&mut c), None);
    assert_eq!(ids(&c), ["a", "b", "c"]);
    d.order(Some("b"), &mut c);
    assert_eq!(ids(&c), ["b", "a", "c"]);
}

#[test]
fn warm_goes_before_cold_until_its_slots_are_full() {
    let mut d = Desk::new(Policy::Weighted);
    let mut c = vec![
        d.candidate("cold", 1, false, Kind::Manual),
        d.candidate("warm", 1, true, Kind::Manual),
    ];
    d.order(None, &mut c);
    assert_eq!(ids(&c), ["warm", "cold"]);
    d.board.begin(&"warm".into());
    d.order(None, &mut c);
    let why = "a full warm node counts no more than a cold one";
    assert_eq!(ids(&c), ["cold", "warm"], "{why}");
    d.board.begin(&"cold".into());
    d.order(None, &mut c);
    assert_eq!(ids(&c), ["warm", "cold"], "equally full, warm leads again");
}

#[test]
fn full_nodes_are_loaded_by_slot() {
    let mut d = Desk::new(Policy::Weighted);
    for _ in 0..9 {
        d.board.begin(&"big".into());
    }
    d.board.begin(&"small".into());
    d.board.begin(&"small".into());
    let mut c = vec![
        d.candidate("small", 1, false, Kind::Manual),
        d.candidate("big", 8, false, Kind::Manual),
    ];
    d.order(None, &mut c);
    assert_eq!(ids(&c), ["big", "small"], "9/8 before 2");
}

#[test]
fn a_faster_node_gets_more_and_a_lost_one_is_followed_by_the_next_in_turn() {
    let mut d = Desk::new(Policy::Weighted);
    let engine = EngineId::parse("ollama").unwrap();
    for (id, ttft) in [("slow", 400.0), ("fast", 100.0)] {
        let seat = d.board.seat(&id.into());
        let sample = Sample {
            ttft_ms: Some(ttft),
            tokens_per_second: Some(10.0),
        };
        d.selector.learn(engine, "m", &seat, sample);
    }
    let mut first = vec![];
    for _ in 0..6 {
        let mut c = d.nodes(&["fast", "slow"]);
        d.order(None, &mut c);
        first.push(c[0].target.node.as_str().to_owned());
    }
    assert_eq!(
        first.iter().filter(|n| *n == "fast").count(),
        4,
        "{first:?}"
    );
    let mut c = d.nodes(&["fast", "slow"]);
    let whole = d.whole(&mut c);
    assert_eq!(whole.len(), 2);
    assert_ne!(whole[0], whole[1], "nobody is picked twice in a round");
}

#[test]
fn a_preview_shows_the_order_that_is_taken_and_turns_nothing() {
    let mut d = Desk::new(Policy::Weighted);
    for _ in 0..5 {
        let mut seen = d.nodes(&["a", "b", "c"]);
        let told = d.preview(&mut seen);
        assert_eq!(told.weights, [100, 100, 100]);
        let seen: Vec<_> = ids(&seen).into_iter().map(str::to_owned).collect();
        let mut c = d.nodes(&["a", "b", "c"]);
        assert_eq!(seen, d.whole(&mut c));
    }
}

#[test]
fn pool_nodes_come_after_the_list_and_a_full_one_not_at_all() {
    for policy in [Policy::Listed, Policy::Ordered] {
        let mut d = Desk::new(policy).listed(&["z"], &[]);
        let mut c = vec![
            d.pool("a", 4, 0, Health::Suspect),
            d.pool("b", 4, 1, Health::Healthy),
            d.candidate("c", 1, false, Kind::Manual),
            d.pool("d", 4, 4, Health::Healthy),
            d.candidate("z", 1, false, Kind::Manual),
        ];
        let ordered = d.order(None, &mut c);
        assert_eq!(ordered.full, [NodeId::from("d")]);
        for i in 1..c.len() {
            d.next(&mut c, i);
        }
        let want = match policy {
            Policy::Listed => ["z", "c", "b", "a"],
            _ => ["c", "z", "b", "a"],
        };
        assert_eq!(ids(&c), want, "{policy:?}");
    }
}

#[test]
fn a_probed_node_is_never_refused_for_being_full() {
    let mut d = Desk::new(Policy::Weighted);
    d.board.begin(&"probed".into());
    d.board.begin(&"pooled".into());
    let mut c = vec![
        d.pool("pooled", 1, 0, Health::Healthy),
        d.candidate("probed", 1, true, Kind::Manual),
    ];
    let ordered = d.order(None, &mut c);
    assert_eq!(ids(&c), ["probed"]);
    assert_eq!(ordered.full, [NodeId::from("pooled")], "by our own count");
}

proptest! {
    #[test]
    fn every_candidate_is_placed_exactly_once(
        n in 0usize..8,
        list in prop::collection::vec(0usize..10, 0..10),
        pin in prop::option::of(0usize..10),
        policy in 0u8..3,
    ) {
        let names: Vec<String> = (0..n).map(|i| format!("n{i}")).collect();
        let refs: Vec<&str> = names.iter().map(String::as_str).collect();
        let policy = [Policy::Listed, Policy::Weighted, Policy::Ordered][usize::from(policy)];
        let list: Vec<_> = list.iter().map(|i| format!("n{i}")).collect();
        let list: Vec<_> = list.iter().map(String::as_str).collect();
        let mut d = Desk::new(policy).listed(&list, &[]);
        let mut c = d.nodes(&refs);
        let pin = pin.map(|i| format!("n{i}"));
        let chosen = d.order(pin.as_deref(), &mut c).reserve;
        let mut after = ids(&c);
        if let Some(chosen) = chosen {
            prop_assert_eq!(after[0], chosen.as_str());
        }
        if let Some(pin) = pin.filter(|p| refs.contains(&p.as_str())) {
            prop_assert_eq!(after[0], pin);
        }
        after.sort();
        prop_assert_eq!(after, refs);
    }

    #[test]
    fn equal_nodes_never_differ_by_more_than_one(n in 1usize..6, requests in 0usize..60) {
        let names: Vec<String> = (0..n).map(|i| format!("n{i}")).collect();
        let refs: Vec<&str> = names.iter().map(String::as_str).collect();
        for policy in [Policy::Listed, Policy::Weighted] {
            let mut d = Desk::new(policy).listed(&refs, &[]);
            let mut held = vec![];
            for _ in 0..requests {
                let mut c = d.nodes(&refs);
                held.push(d.reserve(&mut c).unwrap());
            }
            let loads: Vec<_> = refs.iter().map(|n| d.board.load(&NodeId::from(*n)).reserved).collect();
            prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1);
            held.into_iter().for_each(|r| d.board.release(r));
        }
    }
}

/// Everything reckoned anew for each choice, with nothing but standings and speeds remembered.
#[derive(Default)]
struct Plain {
    standing: std::collections::BTreeMap<usize, i64>,
    speeds: std::collections::BTreeMap<usize, Speed>,
}

impl Plain {
    fn facts(&self, board: &Board, c: &Candidate) -> Facts {
        let load = board.load(&c.target.node);
        let told = c.target.pooled();
        let seat = c.target.seat.index();
        Facts {
            seat,
            slots: c.target.slots,
            base_weight: c.target.weight,
            active: load.in_flight.max(load.reserved) + told.map_or(0, |p| u64::from(p.active)),
            queue: load.pending + load.pressure + told.map_or(0, |p| u64::from(p.queue)),
            warm: c.warm,
            health: told.map_or(Health::Healthy, |p| p.health),
            speed: c
                .speed
                .unwrap_or_else(|| self.speeds.get(&seat).copied().unwrap_or_default()),
        }
    }

    fn next(&mut self, board: &Board, rest: &mut [Candidate]) {
        let all: Vec<_> = rest.iter().map(|c| self.facts(board, c)).collect();
        let tier = |f: &Facts| (f.is_full(), f.health, !f.warm);
        let Some(first) = all.iter().map(tier).min() else {
            return;
        };
        let picked = if first.0 {
            // The first whose share, compared without a fraction, nobody's is below.
            let share = |f: &Facts| u128::from(f.active + f.queue);
            let room = |f: &Facts| u128::from(f.slots) * u128::from(f.base_weight);
            (0..all.len()).reduce(|a, b| {
                let (x, y) = (&all[a], &all[b]);
                let (of_x, of_y) = (share(x) * room(y), share(y) * room(x));
                match (of_y, !y.warm) < (of_x, !x.warm) {
                    true => b,
                    false => a,
                }
            })
        } else {
            let eligible: Vec<_> = (0..all.len())
                .filter(|i| (false, tier(&all[*i]).1, tier(&all[*i]).2) == first)
                .filter(|i| !all[*i].is_full())
                .collect();
            let weights = weights(&eligible.iter().map(|i| all[*i]).collect::<Vec<_>>());
            // On the gateway two engines of one machine have one seat: compared as they come.
            let (mut highest, mut picked) = (i64::MIN, None);
            for (i, weight) in eligible.iter().zip(&weights) {
                let standing = self.standing.entry(all[*i].seat).or_default();
                *standing += weight;
                if *standing > highest {
                    (highest, picked) = (*standing, Some(*i));
                }
            }
            if let Some(i) = picked {
                *self.standing.entry(all[i].seat).or_default() -= weights.iter().sum::<i64>();
            }
            picked
        };
        if let Some(i) = picked {
            rest[..=i].rotate_right(1);
        }
    }

    /// The whole order, and who was full.
    fn whole(&mut self, board: &Board, c: &mut Vec<Candidate>) -> Vec<NodeId> {
        let mut full = vec![];
        c.retain(|c| {
            let is_full = c.target.pooled().is_some() && self.facts(board, c).is_full();
            if is_full {
                full.push(c.target.node.clone());
            }
            !is_full
        });
        for i in 0..c.len() {
            self.next(board, &mut c[i..]);
        }
        full
    }
}

/// What a list says of one node.
#[derive(Clone, Debug)]
struct Said {
    pooled: bool,
    slots: u32,
    weight: u32,
    active: u32,
    queue: u32,
    warm: bool,
    suspect: bool,
    speed: Option<(u16, u16)>,
}

fn said() -> impl Strategy<Value = Said> {
    let loads = (any::<bool>(), 1u32..5, 1u32..6, 0u32..4, 0u32..3);
    let speed = prop::option::of((0u16..500, 0u16..100));
    (loads, any::<bool>(), prop::bool::weighted(0.2), speed).prop_map(
        |((pooled, slots, weight, active, queue), warm, suspect, speed)| Said {
            pooled,
            slots,
            weight,
            active,
            queue,
            warm,
            suspect,
            speed,
        },
    )
}

impl Desk {
    fn list(&mut self, all: &[Said]) -> Arc<Owners> {
        let mut owners = Owners::default();
        for (i, s) in all.iter().enumerate() {
            let health = match s.suspect {
                true => Health::Suspect,
                false => Health::Healthy,
            };
            let kind = match s.pooled {
                false => Kind::Manual,
                true => Kind::Pool(Pooled {
                    health,
                    active: s.active,
                    queue: s.queue,
                    tls: false,
                }),
            };
            let mut c = self.candidate(&format!("n{i}"), s.slots, s.warm, kind);
            Arc::get_mut(&mut c.target).unwrap().weight = s.weight;
            let speed = |(ttft_ms, tps): (u16, u16)| {
                let mut speed = Speed::default();
                speed.learn(Sample {
                    ttft_ms: Some(f64::from(ttft_ms)),
                    tokens_per_second: Some(f64::from(tps)),
                });
                speed
            };
            c.speed = s.speed.filter(|_| s.pooled).map(speed);
            owners.push(c);
        }
        Arc::new(owners)
    }
}

proptest! {
    /// What is kept from one choice to the next is what would be reckoned anew.
    #[test]
    fn whatever_went_before_the_choice_is_the_one_of_a_plain_reckoning(
        first in prop::collection::vec(said(), 1..7),
        steps in prop::collection::vec((0u8..8, 0usize..7, said(), any::<u8>()), 1..40),
    ) {
        let mut d = Desk::new(Policy::Weighted);
        let mut plain = Plain::default();
        let mut all = first;
        let (mut list, mut other) = (d.list(&all), d.list(&all));
        let mut busy: Vec<NodeId> = vec![];
        for (step, i, new, bits) in steps {
            let ask = Desk::ask(None);
            let mut short = match step {
                // The view is another one, while the one before may still be held.
                0 => {
                    let i = i % all.len();
                    all[i] = new;
                    let old = std::mem::replace(&mut list, d.list(&all));
                    if bits & 1 == 0 {
                        other = old;
                    }
                    continue;
                },
                1 => {
                    let seat = d.board.seat(&format!("n{}", i % all.len()).as_str().into());
                    let sample = Sample {
                        ttft_ms: Some(f64::from(bits)),
                        tokens_per_second: Some(f64::from(bits / 3)),
                    };
                    d.selector.learn(ask.engine, ask.model, &seat, sample);
                    plain.speeds.entry(seat.index()).or_default().learn(sample);
                    continue;
                },
                2 if !busy.is_empty() => {
                    let node = busy.swap_remove(i % busy.len());
                    d.board.end(&node);
                    continue;
                },
                // In no list, of two lists, or a part of one.
                3 => Shortlist::from(list.as_slice().to_vec()),
                4 => {
                    let mut short = Shortlist::of(&list);
                    short.add(&other, None, |c| c.warm);
                    short
                },
                5 => {
                    let mut short = Shortlist::of(&list);
                    let mut at = 0;
                    short.retain(0, |_| {
                        at += 1;
                        bits >> at & 1 == 0
                    });
                    short
                },
                _ => Shortlist::of(&list),
            };
            let mut want = short.to_vec();
            let want_full = plain.whole(&d.board, &mut want);
            let Ordered { full, reserve } = d.selector.order(&d.board, ask, &mut short, 0);
            for next in 1..short.len() {
                let end = short.len();
                d.selector.next(&d.board, ask, &mut short, next..end);
            }
            let got = short.to_vec();
            prop_assert_eq!(ids(&got), ids(&want));
            prop_assert_eq!(full, want_full);
            prop_assert_eq!(reserve.as_ref(), want.first().map(|c| &c.target.node));
            if let Some(node) = reserve {
                d.board.begin(&node);
                busy.push(node);
            }
        }
    }
}
