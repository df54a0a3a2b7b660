//! A request's candidates: lists that its views made, and the order in which they are tried.
//!
//! Owns: a view's list of a model, the order of a request's own, who is left out of it. Leaves to
//! others: who is on a list (`candidates`), who goes first (`policy`).
//!
//! As many candidates as the fleet has owners of a model, and a request tries a few of them. So a
//! request refers to the lists and copies only whom it tries; its own is the order alone.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::candidates::{Candidate, Target};
use super::dispatch::Answer;
use super::pool::record::PoolEngine;
use super::sheets::row;
use super::weighted::Row;

/// Candidates of one model as a view has them, by id. Never changed while anybody looks.
#[derive(Debug, Default)]
pub struct Owners {
    all: Vec<Candidate>,
    /// What a choice knows of each before any load of ours, side by side.
    rows: Vec<Row>,
    pooled: usize,
    unconfirmed: bool,
    shared_addresses: bool,
    least_context: Option<u64>,
    /// What runs on them, if the same runs on all.
    runs: Option<PoolEngine>,
}

impl Owners {
    pub(super) fn push(&mut self, candidate: Candidate) {
        let target = &candidate.target;
        self.runs = match self.all.is_empty() || self.runs == Some(target.runs) {
            true => Some(target.runs),
            false => None,
        };
        self.pooled += usize::from(target.pooled().is_some());
        self.unconfirmed |= target.unconfirmed;
        self.least_context = match (self.least_context, candidate.context) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.rows.push(row(&candidate));
        self.all.push(candidate);
    }

    /// It is whole: reckons what can be, so that no request has to. `shared_addresses`: two nodes of the
    /// view share an address; they may be of this list.
    pub(super) fn finish(&mut self, shared_addresses: bool) {
        self.shared_addresses = shared_addresses;
        Row::reckon(&mut self.rows);
    }

    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// All of them.
    pub fn as_slice(&self) -> &[Candidate] {
        &self.all
    }

    /// Whether what runs there satisfies a condition on all of them; told without a look at each
    /// where the same runs everywhere.
    pub fn all_run(&self, condition: impl Fn(PoolEngine) -> bool) -> bool {
        match self.runs {
            Some(runs) => condition(runs),
            None => self.all.iter().all(|c| condition(c.target.runs)),
        }
    }
}

/// One of a list.
#[derive(Clone, Copy, Debug)]
struct Pick {
    /// 0 for those in no list, else one more than the list's place.
    list: u32,
    at: u32,
}

/// A list, and the model's name there where it is not the one that was asked for.
#[derive(Clone, Debug)]
struct Part {
    owners: Arc<Owners>,
    send_as: Option<Arc<str>>,
}

/// Candidates of one request in their order.
#[derive(Clone, Debug, Default)]
pub struct Shortlist {
    /// Most requests have one list, and need no room for more.
    first: Option<Part>,
    more: Vec<Part>,
    /// Those that are on no list.
    loose: Vec<Candidate>,
    picks: Vec<Pick>,
}

impl From<Vec<Candidate>> for Shortlist {
    /// Candidates that are on no list.
    fn from(loose: Vec<Candidate>) -> Self {
        let picks = (0..loose.len() as u32).map(|at| Pick { list: 0, at });
        Self {
            picks: picks.collect(),
            loose,
            ..Self::default()
        }
    }
}

impl Shortlist {
    /// All of a list.
    pub fn of(owners: &Arc<Owners>) -> Self {
        let mut new = Self::default();
        new.add(owners, None, |_| true);
        new
    }

    /// Adds those of a list that are wanted, in its order. `send_as`: the model's name there, where
    /// it is not the one that was asked for.
    pub fn add(
        &mut self,
        owners: &Arc<Owners>,
        send_as: Option<Arc<str>>,
        wanted: impl Fn(&Candidate) -> bool,
    ) {
        let part = Part {
            owners: owners.clone(),
            send_as,
        };
        let list = self.parts().count() as u32 + 1;
        let before = self.picks.len();
        let all = (0..).zip(owners.as_slice());
        let wanted = all.filter(|(_, c)| wanted(c));
        self.picks.extend(wanted.map(|(at, _)| Pick { list, at }));
        if self.picks.len() == before {
            return;
        }
        match self.first {
            None => self.first = Some(part),
            Some(_) => self.more.push(part),
        }
    }

    /// Adds one that is on no list.
    pub fn push(&mut self, candidate: Candidate) {
        let at = self.loose.len() as u32;
        self.picks.push(Pick { list: 0, at });
        self.loose.push(candidate);
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.picks.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.picks.is_empty()
    }

    /// The node to try at this place. Panics if there is no such place.
    pub fn target(&self, place: usize) -> &Arc<Target> {
        &self.entry(self.picks[place]).target
    }

    /// The model's name there, where it is not the one that was asked for.
    pub fn send_as(&self, place: usize) -> Option<&Arc<str>> {
        self.name_of(self.picks[place])
    }

    /// The candidate at this place, with all that its attempt needs.
    pub fn candidate(&self, place: usize) -> Candidate {
        self.whole(self.picks[place])
    }

    /// The nodes in their order.
    pub fn targets(&self) -> impl Iterator<Item = &Arc<Target>> {
        self.picks.iter().map(|p| &self.entry(*p).target)
    }

    /// The candidates in their order.
    pub fn to_vec(&self) -> Vec<Candidate> {
        self.picks.iter().map(|p| self.whole(*p)).collect()
    }

    /// Whether any of them may be one whose address nobody confirmed.
    pub fn may_be_unconfirmed(&self) -> bool {
        let of = |p: &Part| p.owners.unconfirmed;
        self.parts().any(of) || self.loose.iter().any(|c| c.target.unconfirmed)
    }

    /// Keeps so many.
    pub fn truncate(&mut self, len: usize) {
        self.picks.truncate(len);
    }

    /// Keeps those from a place on that satisfy a condition; all before it stay.
    pub fn retain(&mut self, from: usize, mut keep: impl FnMut(&Candidate) -> bool) {
        self.retain_picks(from, |_, c| keep(c));
    }

    /// The same, told also where it is, as [`Shortlist::picks`] tells it.
    pub(super) fn retain_picks(
        &mut self,
        from: usize,
        mut keep: impl FnMut((usize, usize), &Candidate) -> bool,
    ) {
        let mut picks = std::mem::take(&mut self.picks);
        let mut place = 0;
        picks.retain(|p| {
            place += 1;
            place <= from || keep((p.list as usize, p.at as usize), self.entry(*p))
        });
        self.picks = picks;
    }

    /// Puts those from a place on in an order; equal ones stay in theirs.
    pub fn sort_by_key<K: Ord>(&mut self, from: usize, key: impl Fn(&Candidate) -> K) {
        let mut picks = std::mem::take(&mut self.picks);
        picks[from..].sort_by_key(|p| key(self.entry(*p)));
        self.picks = picks;
    }

    /// As a single list would have them: by id.
    pub fn sort_by_id(&mut self, from: usize) {
        let lists = self.picks[from..].iter().map(|p| p.list);
        if lists.clone().min() == lists.max() {
            return;
        }
        let mut picks = std::mem::take(&mut self.picks);
        let id = |p: &Pick| &self.entry(*p).target.node;
        picks[from..].sort_by(|a, b| id(a).cmp(id(b)));
        self.picks = picks;
    }

    /// Leaves out those that take less than a request needs, from a place on. With nobody left who
    /// takes any: the most that any of them would have taken.
    pub fn fit(&mut self, from: usize, needs: impl FnOnce() -> u64) -> Option<Answer> {
        let told = self.parts().filter_map(|p| p.owners.least_context);
        let least = told
            .chain(self.loose.iter().filter_map(|c| c.context))
            .min()?;
        let needs = needs();
        if needs <= least {
            return None;
        }
        let contexts = self.picks[from..].iter();
        let most = contexts.filter_map(|p| self.entry(*p).context).max()?;
        self.retain(from, |c| c.context.is_none_or(|context| needs <= context));
        (self.len() == from).then_some(Answer::TooLong { needs, fits: most })
    }

    /// Keeps the first of several with one address: the same machine can be present under a manual and
    /// a relayed id.
    pub fn drop_shared(&mut self) {
        let picks = std::mem::take(&mut self.picks);
        let mut seen = FxHashSet::default();
        let is_new = |p: &Pick| seen.insert(&*self.entry(*p).target.authority);
        self.picks = picks.into_iter().filter(is_new).collect();
    }

    /// Keeps the first of several that are one target under one model's name, and moves the ends of
    /// links with them. Two accounts of one service are two targets.
    pub fn drop_again(&mut self, ends: &mut [usize]) {
        // A list has nobody twice, unless addresses are shared.
        let shares = |p: &Part| p.owners.shared_addresses;
        let across = !self.more.is_empty() || self.parts().any(shares);
        if !across && self.loose.len() < 2 {
            return;
        }
        let picks = std::mem::take(&mut self.picks);
        let mut seen = FxHashSet::default();
        let (mut kept, mut link) = (Vec::with_capacity(picks.len()), 0);
        for (i, p) in picks.iter().enumerate() {
            while ends.get(link).is_some_and(|end| *end <= i) {
                ends[link] = kept.len();
                link += 1;
            }
            let mut is_new = || {
                let target = &self.entry(*p).target;
                let whose = match target.provider() {
                    Some(_) => (true, target.node.as_str()),
                    None => (false, &*target.authority),
                };
                seen.insert((whose, self.name_of(*p)))
            };
            if (p.list > 0 && !across) || is_new() {
                kept.push(*p);
            }
        }
        ends[link..].fill(kept.len());
        self.picks = kept;
    }

    /// Puts one from a place on in front of those from there on, which keep their order.
    pub(super) fn put_first(&mut self, from: usize, place: usize) {
        self.picks[from..=place].rotate_right(1);
    }

    /// The candidate at this place, with its model's name there as its list has it.
    pub(super) fn listed(&self, place: usize) -> &Candidate {
        self.entry(self.picks[place])
    }

    /// Its lists; the first is number 1 to [`Shortlist::picks`].
    pub(super) fn lists(&self) -> impl Iterator<Item = &Arc<Owners>> {
        self.parts().map(|p| &p.owners)
    }

    /// Those that are on no list: number 0.
    pub(super) fn loose(&self) -> &[Candidate] {
        &self.loose
    }

    /// Whether any of its lists has a node of the pool.
    pub(super) fn may_be_pooled(&self) -> bool {
        let of = |p: &Part| p.owners.pooled > 0;
        self.parts().any(of) || self.loose.iter().any(|c| c.target.pooled().is_some())
    }

    /// The number of each one's list, and its place there.
    pub(super) fn picks(
        &self,
        places: Range<usize>,
    ) -> impl Iterator<Item = (usize, usize)> + Clone + '_ {
        let picks = self.picks[places].iter();
        picks.map(|p| (p.list as usize, p.at as usize))
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.first.iter().chain(&self.more)
    }

    fn part(&self, pick: Pick) -> Option<&Part> {
        match pick.list {
            0 => None,
            1 => self.first.as_ref(),
            n => self.more.get(n as usize - 2),
        }
    }

    fn entry(&self, pick: Pick) -> &Candidate {
        match self.part(pick) {
            Some(part) => &part.owners.all[pick.at as usize],
            None => &self.loose[pick.at as usize],
        }
    }

    fn name_of(&self, pick: Pick) -> Option<&Arc<str>> {
        match self.part(pick) {
            Some(part) => part.send_as.as_ref(),
            None => self.loose[pick.at as usize].send_as.as_ref(),
        }
    }

    fn whole(&self, pick: Pick) -> Candidate {
        Candidate {
            send_as: self.name_of(pick).cloned(),
            ..self.entry(pick).clone()
        }
    }
}

#[cfg(test)]
mod tests;
