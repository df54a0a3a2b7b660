//! Which of several nodes gets the next request: weights, and the rotation that shares requests out by
//! them (product section 7, seed 002 "Routing").
//!
//! Owns: tiers, the weight of a node, smooth weighted round robin. Leaves to others: who is a
//! candidate (`candidates`), where the figures come from (`reservations`, `pool`), keeping what was
//! reckoned (`sheets`), the pin (`policy`).
//!
//! A node that is free goes before one that is not, one in good health before one that is hot, and one
//! that has the model in memory before one that has to load it. Within a tier requests are shared out
//! by weight.

use std::cmp::Ordering;

use super::pool::ema::{Ema, Sample};

/// A weight without any reason to be smaller: base weight 1, idle, the fastest.
const UNIT: f64 = 100.0;
/// Speed makes a weight smaller by this at most.
const SLOWEST: f64 = 0.25;

/// Measured speed of one model on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Speed {
    /// Milliseconds to the first token.
    pub ttft_ms: Ema,
    /// Tokens a second; never measured for embeddings.
    pub tps: Ema,
}

impl Speed {
    /// Takes in a committed answer below 300.
    pub fn learn(&mut self, sample: Sample) {
        self.ttft_ms.add(sample.ttft_ms);
        self.tps.add(sample.tokens_per_second);
    }
}

/// How well a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Nothing speaks against it; also the one trial of a node that failed.
    #[default]
    Healthy,
    /// Hot or at its limit: only if there is no other.
    Suspect,
}

/// What is known of one candidate at this moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// Its seat on the board, by which rotations know it.
    pub seat: usize,
    /// Requests it runs at a time, at least 1.
    pub slots: u32,
    /// Relative weight, at least 1.
    pub base_weight: u32,
    /// Requests on it, by whatever count is the highest.
    pub active: u64,
    /// Requests that wait at it, as it or the scheduler told.
    pub queue: u64,
    /// Whether it has the model in memory.
    pub warm: bool,
    /// How well it is.
    pub health: Health,
    /// How fast it was.
    pub speed: Speed,
}

/// Candidates are picked from the first tier that has any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    Warm,
    Cold,
    SuspectWarm,
    SuspectCold,
    Full,
}

impl Facts {
    /// Whether it has no free slot.
    pub fn is_full(&self) -> bool {
        self.active >= u64::from(self.slots)
    }

    fn tier(&self) -> Tier {
        match (self.is_full(), self.health, self.warm) {
            (true, ..) => Tier::Full,
            (false, Health::Healthy, true) => Tier::Warm,
            (false, Health::Healthy, false) => Tier::Cold,
            (false, Health::Suspect, true) => Tier::SuspectWarm,
            (false, Health::Suspect, false) => Tier::SuspectCold,
        }
    }

    /// `max(1, round(100 × base × F_load × F_perf))`.
    fn weight(&self, best: Best) -> i64 {
        whole(self.pull() * self.performance(best))
    }

    /// Its weight if it were the fastest, not rounded.
    fn pull(&self) -> f64 {
        let slots = f64::from(self.slots.max(1));
        let free = (slots - self.active as f64).max(0.0) / slots;
        let load = free / (1.0 + self.queue as f64 / slots);
        UNIT * f64::from(self.base_weight) * load
    }

    /// How it compares with the best of its tier: 1 is the best, or never measured.
    fn performance(&self, best: Best) -> f64 {
        let ratio = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => a / b,
            _ => 1.0,
        };
        let first = ratio(best.ttft_ms, self.speed.ttft_ms.value());
        let rate = ratio(self.speed.tps.value(), best.tps);
        if first == 1.0 && rate == 1.0 {
            return 1.0;
        }
        (first * rate).sqrt().clamp(SLOWEST, 1.0)
    }
}

/// Rounded, a half up, and at least 1.
fn whole(weight: f64) -> i64 {
    // By hand: without SSE 4.1, `f64::round` is a call.
    let below = weight as i64;
    let half = weight - below as f64 >= 0.5;
    (below + i64::from(half)).max(1)
}

/// The best figures there are, each by itself.
#[derive(Clone, Copy, Debug, Default)]
struct Best {
    ttft_ms: Option<f64>,
    tps: Option<f64>,
}

impl Best {
    fn of<'a>(facts: impl Iterator<Item = &'a Facts>) -> Self {
        let mut best = Sought::default();
        facts.for_each(|f| best.see(f.speed));
        best.found()
    }
}

/// The best of what was seen so far; infinite and zero where nothing was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sought {
    ttft_ms: f64,
    tps: f64,
}

impl Default for Sought {
    fn default() -> Self {
        Self {
            ttft_ms: f64::INFINITY,
            tps: 0.0,
        }
    }
}

impl Sought {
    fn see(&mut self, speed: Speed) {
        let ttft_ms = speed.ttft_ms.value().unwrap_or(f64::INFINITY);
        let tps = speed.tps.value().unwrap_or(0.0);
        // Neither is ever no number, of which `f64::min` thinks.
        if ttft_ms < self.ttft_ms {
            self.ttft_ms = ttft_ms;
        }
        if tps > self.tps {
            self.tps = tps;
        }
    }

    fn found(self) -> Best {
        // Samples are positive and finite.
        Best {
            ttft_ms: Some(self.ttft_ms).filter(|ms| ms.is_finite()),
            tps: Some(self.tps).filter(|tps| *tps > 0.0),
        }
    }
}

/// The weight of each candidate, all compared with each other, as it would be picked by now: what `route` and `status` show.
pub fn weights(facts: &[Facts]) -> Vec<i64> {
    let best = Best::of(facts.iter());
    facts.iter().map(|f| f.weight(best)).collect()
}

/// A candidate with what was reckoned of it, which is reckoned again only when what it follows from
/// has changed: of a thousand, one request changes one.
#[derive(Clone, Debug)]
pub(super) struct Row {
    facts: Facts,
    tier: Tier,
    pull: f64,
    weight: i64,
    /// What the weight was compared with, once it was.
    compared: Option<Sought>,
}

impl Row {
    /// Of which nothing is reckoned but what needs no other.
    pub(super) fn new(facts: Facts) -> Self {
        Self {
            tier: facts.tier(),
            pull: facts.pull(),
            weight: 0,
            compared: None,
            facts,
        }
    }

    /// What is known of it.
    pub(super) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// So many requests are on it and wait at it now.
    pub(super) fn loaded(&mut self, active: u64, queue: u64) {
        if (active, queue) != (self.facts.active, self.facts.queue) {
            self.reload(active, queue);
        }
    }

    // Kept out of the loops, which come here for few of their rows.
    #[inline(never)]
    fn reload(&mut self, active: u64, queue: u64) {
        *self = Self::new(Facts {
            active,
            queue,
            ..self.facts
        });
    }

    /// It is so fast now.
    pub(super) fn measured(&mut self, speed: Speed) {
        if speed != self.facts.speed {
            (self.facts.speed, self.compared) = (speed, None);
        }
    }

    fn weight(&mut self, best: Sought) -> i64 {
        if self.compared != Some(best) {
            self.weigh(best);
        }
        self.weight
    }

    #[inline(never)]
    fn weigh(&mut self, best: Sought) {
        self.weight = whole(self.pull * self.facts.performance(best.found()));
        self.compared = Some(best);
    }

    /// Reckons all that can be reckoned before anybody asks: as if none of them were full, and all of
    /// the first tier there.
    pub(super) fn reckon(rows: &mut [Self]) {
        let mut survey = Survey::default();
        rows.iter().for_each(|row| survey.see(row));
        rows.iter_mut().for_each(|row| row.weigh(survey.best));
    }
}

/// What a pick has to know of all candidates before it looks at each: the first tier that has any, and
/// the best of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Survey {
    first: Option<Tier>,
    best: Sought,
}

impl Survey {
    /// One more candidate.
    pub(super) fn see(&mut self, row: &Row) {
        if self.first.is_none_or(|first| row.tier < first) {
            (self.first, self.best) = (Some(row.tier), Sought::default());
        }
        if self.first == Some(row.tier) {
            self.best.see(row.facts.speed);
        }
    }
}

/// Whose turn it is, for one model: smooth weighted round robin.
#[derive(Clone, Debug, Default)]
pub struct Rotation {
    /// Standing by seat; over the candidates of a pick the sum does not change.
    current: Vec<i64>,
}

impl Rotation {
    /// Picks one of the candidates and turns on: the place in `which` of its row. Their order decides
    /// a tie. `None` only if there are none. The survey is of the same candidates, if not of more that
    /// are full.
    pub(super) fn turn(
        &mut self,
        survey: Survey,
        rows: &mut [Row],
        which: impl Iterator<Item = usize>,
    ) -> Option<usize> {
        let tier = survey.first?;
        if tier == Tier::Full {
            let at = |row: usize| &rows[row].facts;
            let least = |a: &(usize, usize), b: &(usize, usize)| by_share(at(a.1), at(b.1));
            return which.enumerate().min_by(least).map(|(place, _)| place);
        }
        // No standing is as low as the first.
        let (mut total, mut highest, mut picked) = (0, i64::MIN, None);
        for (place, row) in which.enumerate() {
            let row = &mut rows[row];
            if row.tier != tier {
                continue;
            }
            let weight = row.weight(survey.best);
            let seat = row.facts.seat;
            let standing = self.standing(seat);
            *standing += weight;
            total += weight;
            if *standing > highest {
                (highest, picked) = (*standing, Some((place, seat)));
            }
        }
        let (place, seat) = picked?;
        *self.standing(seat) -= total;
        Some(place)
    }

    fn standing(&mut self, seat: usize) -> &mut i64 {
        if seat >= self.current.len() {
            self.seat(seat);
        }
        &mut self.current[seat]
    }

    #[inline(never)]
    fn seat(&mut self, seat: usize) {
        self.current.resize(seat + 1, 0);
    }
}

/// Among nodes that are full: fewest requests a slot and weight, warm before cold, then the first.
fn by_share(a: &Facts, b: &Facts) -> Ordering {
    let capacity = |f: &Facts| u128::from(f.slots.max(1)) * u128::from(f.base_weight.max(1));
    let share = |f: &Facts| u128::from(f.active + f.queue);
    // Cross-multiplied, so that no fraction is rounded.
    (share(a) * capacity(b))
        .cmp(&(share(b) * capacity(a)))
        .then_with(|| b.warm.cmp(&a.warm))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Rotation {
        /// Picks one of these, of which nothing is reckoned yet.
        fn pick(&mut self, facts: &[Facts]) -> Option<usize> {
            let mut rows: Vec<_> = facts.iter().copied().map(Row::new).collect();
            let mut survey = Survey::default();
            rows.iter().for_each(|row| survey.see(row));
            self.turn(survey, &mut rows, 0..facts.len())
        }
    }

    fn node(seat: usize, slots: u32) -> Facts {
        Facts {
            seat,
            slots,
            base_weight: slots,
            active: 0,
            queue: 0,
            warm: true,
            health: Health::Healthy,
            speed: Speed::default(),
        }
    }

    fn speed(ttft_ms: f64, tps: f64) -> Speed {
        Speed {
            ttft_ms: Ema::of(Some(ttft_ms)),
            tps: Ema::of(Some(tps)),
        }
    }

    #[test]
    fn a_weight_is_its_base_times_load_times_speed() {
        let fastest = speed(100.0, 50.0);
        let best = Best {
            ttft_ms: Some(100.0),
            tps: Some(50.0),
        };
        for (name, facts, want) in [
            ("idle, one slot", node(0, 1), 100),
            ("idle, eight slots", node(0, 8), 800),
            (
                "half free",
                Facts {
                    active: 4,
                    ..node(0, 8)
                },
                400,
            ),
            (
                "a queue as long as its slots",
                Facts {
                    queue: 8,
                    ..node(0, 8)
                },
                400,
            ),
            (
                "full",
                Facts {
                    active: 8,
                    ..node(0, 8)
                },
                1,
            ),
            (
                "over full",
                Facts {
                    active: 9,
                    ..node(0, 8)
                },
                1,
            ),
            (
                "the best",
                Facts {
                    speed: fastest,
                    ..node(0, 1)
                },
                100,
            ),
            (
                "four times slower to begin",
                Facts {
                    speed: speed(400.0, 50.0),
                    ..node(0, 1)
                },
                50,
            ),
            (
                "four times slower to go on",
                Facts {
                    speed: speed(100.0, 12.5),
                    ..node(0, 1)
                },
                50,
            ),
            (
                "never below a quarter",
                Facts {
                    speed: speed(9e9, 0.001),
                    ..node(0, 1)
                },
                25,
            ),
            (
                "embeddings: by the first alone",
                Facts {
                    speed: speed(400.0, 0.0),
                    ..node(0, 1)
                },
                50,
            ),
        ] {
            assert_eq!(facts.weight(best), want, "{name}");
        }
    }

    #[test]
    fn tiers_go_warm_cold_suspect_full() {
        let full = Facts {
            active: 1,
            ..node(0, 1)
        };
        let suspect_cold = Facts {
            health: Health::Suspect,
            warm: false,
            ..node(1, 1)
        };
        let suspect_warm = Facts {
            health: Health::Suspect,
            ..node(2, 1)
        };
        let cold = Facts {
            warm: false,
            ..node(3, 1)
        };
        let warm = node(4, 1);
        let mut all = vec![full, suspect_cold, suspect_warm, cold, warm];
        while !all.is_empty() {
            let last = all.len() - 1;
            assert_eq!(Rotation::default().pick(&all), Some(last));
            all.pop();
        }
    }

    #[test]
    fn of_full_nodes_the_one_with_the_least_a_slot_goes_first() {
        let mut a = Facts {
            active: 9,
            ..node(0, 8)
        };
        let b = Facts {
            active: 1,
            base_weight: 1,
            ..node(1, 1)
        };
        a.base_weight = 1;
        assert_eq!(
            Rotation::default().pick(&[b, a]),
            Some(0),
            "1 a slot before 9/8"
        );
        let more = Facts { active: 2, ..b };
        assert_eq!(Rotation::default().pick(&[more, a]), Some(1));
    }

    #[test]
    fn the_classic_rotation() {
        let mut r = Rotation::default();
        let nodes = [node(0, 5), node(1, 1), node(2, 1)];
        let turns: Vec<_> = (0..7).map(|_| r.pick(&nodes).unwrap()).collect();
        assert_eq!(turns, [0, 0, 1, 0, 2, 0, 0]);
    }

    proptest! {
        /// Issue 7: with constant weights, over any run of picks each node's count is within 2 of its
        /// weight's share.
        #[test]
        fn every_node_gets_its_share(
            weights in prop::collection::vec(1u32..40, 1..8),
            lead in 0usize..50,
            picks in 1usize..300,
        ) {
            let nodes: Vec<_> = weights.iter().enumerate().map(|(i, w)| node(i, *w)).collect();
            let total: u32 = weights.iter().sum();
            let mut r = Rotation::default();
            for _ in 0..lead {
                r.pick(&nodes);
            }
            let mut counts = vec![0f64; nodes.len()];
            for _ in 0..picks {
                counts[r.pick(&nodes).unwrap()] += 1.0;
            }
            for (count, weight) in counts.iter().zip(&weights) {
                let share = picks as f64 * f64::from(*weight) / f64::from(total);
                prop_assert!((count - share).abs() <= 2.0, "{count} of {share}");
            }
        }

        #[test]
        fn a_worse_tier_is_never_picked_while_there_is_a_better(
            nodes in prop::collection::vec((0u64..3, any::<bool>(), any::<bool>()), 1..8),
            picks in 1usize..20,
        ) {
            let nodes: Vec<_> = nodes.iter().enumerate().map(|(i, (active, warm, hot))| Facts {
                active: *active,
                warm: *warm,
                health: if *hot { Health::Suspect } else { Health::Healthy },
                ..node(i, 2)
            }).collect();
            let best = nodes.iter().map(Facts::tier).min().unwrap();
            let mut r = Rotation::default();
            for _ in 0..picks {
                let i = r.pick(&nodes).unwrap();
                prop_assert_eq!(nodes[i].tier(), best);
            }
        }
    }
}
