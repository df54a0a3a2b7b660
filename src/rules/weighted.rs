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
    /// The same as nothing, itself included.
    const NEVER: Self = Self {
        ttft_ms: f64::NAN,
        tps: f64::NAN,
    };

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

/// What others told of a candidate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// Of a pool node: requests on it that are not ours, and requests that wait there.
    pub(super) load: Option<(u32, u32)>,
    /// They measure its speed, too.
    pub(super) speed: bool,
}

/// A candidate with what was reckoned of it, which is reckoned again only when what it follows from
/// has changed: of a thousand, one request changes one.
#[derive(Clone, Debug)]
pub(super) struct Row {
    facts: Facts,
    told: Told,
    tier: Tier,
    pull: f64,
    weight: i64,
    /// What the weight was compared with; nothing is the same as no number.
    compared: Sought,
}

impl Row {
    /// Of which nothing is reckoned but what needs no other. The load in `facts` is what was told.
    pub(super) fn new(facts: Facts, told: Told) -> Self {
        Self {
            tier: facts.tier(),
            pull: facts.pull(),
            weight: 0,
            compared: Sought::NEVER,
            facts,
            told,
        }
    }

    /// What is known of it.
    pub(super) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What others told of it.
    pub(super) fn told(&self) -> Told {
        self.told
    }

    /// So many requests are on it and wait at it now, beside those that others told of.
    pub(super) fn loaded(&mut self, own: u64, waiting: u64) {
        let (active, queue) = self.told.load.unwrap_or_default();
        let (active, queue) = (own + u64::from(active), waiting + u64::from(queue));
        if (active, queue) != (self.facts.active, self.facts.queue) {
            self.reload(active, queue);
        }
    }

    // Kept out of the loops, which come here for few of their rows.
    #[inline(never)]
    fn reload(&mut self, active: u64, queue: u64) {
        let facts = Facts {
            active,
            queue,
            ..self.facts
        };
        *self = Self::new(facts, self.told);
    }

    /// It is so fast now.
    pub(super) fn measured(&mut self, speed: Speed) {
        if speed != self.facts.speed {
            (self.facts.speed, self.compared) = (speed, Sought::NEVER);
        }
    }

    fn weight(&mut self, best: Sought) -> i64 {
        if self.compared != best {
            self.weigh(best);
        }
        self.weight
    }

    #[inline(never)]
    fn weigh(&mut self, best: Sought) {
        self.weight = whole(self.pull * self.facts.performance(best.found()));
        self.compared = best;
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
mod tests;
