//! What was reckoned of a model's candidates, kept from one choice to the next.
//!
//! Owns: a row for each candidate of the lists that requests bring, brought up to date before a
//! choice. Leaves to others: what is reckoned (`weighted`), the counts (`reservations`).
//!
//! A list never changes, and brings its rows with it as far as they can be reckoned when a view is
//! made. They hold what it says of its candidates as long as it is the same list. Loads change with
//! every request: each row is compared with the board, and reckoned again where it differs.

use std::ops::Range;
use std::sync::{Arc, Weak};

use super::candidates::Candidate;
use super::pool::ema::Sample;
use super::reservations::{Board, Seat};
use super::shortlist::{Owners, Shortlist};
use super::weighted::{Facts, Health, Rotation, Row, Speed, Survey, Told};

/// So many lists have rows at a time, unless one request brings more. Requests that still run keep
/// the lists of views that are gone.
const KEPT: usize = 4;

/// Rows by list.
#[derive(Clone, Debug, Default)]
pub(super) struct Sheets {
    rows: Vec<Row>,
    /// The lists, and where the rows of each begin. Held weakly: a list that is gone gives its seats
    /// up, and yet no other one can have its address.
    lists: Vec<(Weak<Owners>, usize)>,
    /// Where the last of them ends; behind it are rows of the request at hand only.
    end: usize,
    /// Where the rows begin of each list of the request at hand, by its number there.
    begins: Vec<usize>,
    /// Measured here, by seat.
    speeds: Vec<Speed>,
    /// Something was measured, or there are new rows, since the rows were last compared with `speeds`.
    learned: bool,
}

/// What was seen of candidates that were brought up to date.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) survey: Survey,
    /// How many of them are pool nodes without a free slot.
    pub(super) full: usize,
}

impl Sheets {
    /// Takes in an answer that was measured here.
    pub(super) fn learn(&mut self, seat: &Seat, sample: Sample) {
        let seat = seat.index();
        if seat >= self.speeds.len() {
            self.speeds.resize(seat + 1, Speed::default());
        }
        self.speeds[seat].learn(sample);
        self.learned = true;
    }

    /// Brings the rows of a request's candidates up to date, and looks all of them over.
    pub(super) fn refresh(
        &mut self,
        board: &Board,
        list: &Shortlist,
        places: Range<usize>,
    ) -> Seen {
        self.lay_out(list, places.clone());
        if std::mem::take(&mut self.learned) {
            self.measure();
        }
        let mut seen = Seen::default();
        for (list, at) in list.picks(places) {
            let row = &mut self.rows[self.begins[list] + at];
            let load = board.load_by(row.facts().seat);
            row.loaded(
                load.in_flight.max(load.reserved),
                load.pending + load.pressure,
            );
            seen.full += usize::from(row.told().load.is_some() && row.facts().is_full());
            seen.survey.see(row);
        }
        seen
    }

    fn measure(&mut self) {
        for row in self.rows.iter_mut().filter(|row| !row.told().speed) {
            let speed = self.speeds.get(row.facts().seat);
            row.measured(speed.copied().unwrap_or_default());
        }
    }

    /// What is known of a candidate that was brought up to date.
    pub(super) fn facts(&self, pick: (usize, usize)) -> &Facts {
        self.rows[self.begins[pick.0] + pick.1].facts()
    }

    /// Whose turn it is of those that were brought up to date: its place among them.
    pub(super) fn turn(
        &mut self,
        rotation: &mut Rotation,
        survey: Survey,
        picks: impl Iterator<Item = (usize, usize)>,
    ) -> Option<usize> {
        let begins = &self.begins;
        let which = picks.map(|(list, at)| begins[list] + at);
        rotation.turn(survey, &mut self.rows, which)
    }

    /// Finds or makes the rows of a request's candidates.
    fn lay_out(&mut self, list: &Shortlist, places: Range<usize>) {
        if !self.find(list) {
            let more = list.lists().count();
            let gone = |(list, _): &(Weak<Owners>, usize)| list.strong_count() == 0;
            if self.lists.len() + more > KEPT || self.lists.iter().any(gone) {
                (self.lists, self.end) = (Vec::new(), 0);
            }
            self.rows.truncate(self.end);
            for owners in list.lists() {
                if self.begin_of(owners).is_none() {
                    self.lists.push((Arc::downgrade(owners), self.rows.len()));
                    self.rows.extend_from_slice(owners.rows());
                }
            }
            self.end = self.rows.len();
            self.learned = true;
            self.find(list);
        }
        self.rows.truncate(self.end);
        if !list.loose().is_empty() && list.picks(places).any(|(list, _)| list == 0) {
            self.rows.extend(list.loose().iter().map(row));
            self.learned = true;
        }
    }

    /// Notes where the rows of a request's lists begin; `false` if some have none.
    fn find(&mut self, list: &Shortlist) -> bool {
        self.begins.clear();
        self.begins.push(self.end);
        for owners in list.lists() {
            match self.begin_of(owners) {
                Some(begin) => self.begins.push(begin),
                None => return false,
            }
        }
        true
    }

    fn begin_of(&self, owners: &Arc<Owners>) -> Option<usize> {
        let is_it = |(list, _): &&(Weak<Owners>, usize)| Weak::as_ptr(list) == Arc::as_ptr(owners);
        self.lists.iter().find(is_it).map(|(_, begin)| *begin)
    }
}

/// A candidate while nothing of ours is on it.
pub(super) fn row(c: &Candidate) -> Row {
    let pooled = c.target.pooled();
    let told = Told {
        load: pooled.map(|p| (p.active, p.queue)),
        speed: c.speed.is_some(),
    };
    let (active, queue) = told.load.unwrap_or_default();
    let facts = Facts {
        seat: c.target.seat.index(),
        slots: c.target.slots,
        base_weight: c.target.weight,
        active: active.into(),
        queue: queue.into(),
        warm: c.warm,
        health: pooled.map_or(Health::Healthy, |p| p.health),
        speed: c.speed.unwrap_or_default(),
    };
    Row::new(facts, told)
}
