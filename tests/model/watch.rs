//! What must hold of every request whatever happens, read from what is seen of it alone.

use std::collections::BTreeMap;
use std::time::Duration;

use super::transition::{Kind, Seen, Sight, Transition};

/// No attempt starts at this age or later.
const DEADLINE: Duration = Duration::from_secs(600);

/// What a run of some length has to meet.
pub const KINDS: [&str; 15] = [
    "502 nobody",
    "502 attempt",
    "504 attempt",
    "503 deadline",
    "503 no owner",
    "five dispatches",
    "deadline within a round",
    "501 before the fifth dispatch",
    "committed 2xx",
    "committed 3xx",
    "committed 4xx",
    "committed 5xx",
    "cancelled",
    "placed again where it was",
    "rest without owner",
];

/// One request as seen so far.
#[derive(Default)]
struct Story {
    arrived: Duration,
    one_pass: bool,
    sent: u32,
    last: bool,
    resting: bool,
    tried: Vec<u8>,
    committed: bool,
    told: u64,
    terminals: u32,
    running: bool,
    cleared: Option<u8>,
    placed: Option<u8>,
    over: bool,
}

/// Watches all requests of a world.
#[derive(Default)]
pub struct Watch {
    stories: Vec<Story>,
    kinds: BTreeMap<&'static str, u64>,
}

impl Watch {
    /// This is about to happen.
    pub fn before(&mut self, t: &Transition, now: Duration) {
        if let Transition::Arrive { kind, upload, .. } = t {
            self.stories.push(Story {
                arrived: now.saturating_sub(Duration::from_secs(*upload)),
                one_pass: *kind == Kind::Other,
                ..Story::default()
            });
        }
    }

    /// This was seen of a request.
    pub fn see(&mut self, (request, seen): &Sight, now: Duration) -> Result<(), String> {
        let story = &mut self.stories[request - 1];
        let mut kinds = vec![];
        let checked = story.see(*seen, now, &mut kinds);
        for kind in kinds {
            *self.kinds.entry(kind).or_default() += 1;
        }
        checked.map_err(|e| format!("request {request}, {seen:?}: {e}"))
    }

    /// Nothing is under way any more.
    pub fn all_over(&self) -> Result<(), String> {
        match self.stories.iter().position(|s| !s.over) {
            Some(i) => Err(format!("request {} never ended", i + 1)),
            None => Ok(()),
        }
    }

    pub fn add_kinds(self, kinds: &mut BTreeMap<&'static str, u64>) {
        for (kind, n) in self.kinds {
            *kinds.entry(kind).or_default() += n;
        }
    }
}

fn hold(so: bool, what: &str) -> Result<(), String> {
    if so { Ok(()) } else { Err(what.to_owned()) }
}

impl Story {
    fn see(&mut self, seen: Seen, now: Duration, kinds: &mut Vec<&str>) -> Result<(), String> {
        hold(!self.over, "nothing follows the end")?;
        match seen {
            Seen::Sent { node, last } => self.sent(node, last, now, kinds),
            Seen::Lost { status } => {
                hold(!self.committed, "a commit is final")?;
                let passes = status.is_none() || !self.last;
                hold(passes, "a status of the last attempt is the answer")
            },
            Seen::Rests { from, .. } => self.rests(from, now, kinds),
            Seen::Commits { status, .. } => {
                hold(!self.committed, "one commit at most")?;
                hold(self.sent > 0 && !self.resting, "only an attempt commits")?;
                self.committed = true;
                if status == 501 && self.sent < 5 && !self.one_pass {
                    kinds.push("501 before the fifth dispatch");
                }
                kinds.push(match status {
                    200..300 => "committed 2xx",
                    300..400 => "committed 3xx",
                    400..500 => "committed 4xx",
                    _ => "committed 5xx",
                });
                Ok(())
            },
            Seen::Answers { status, why } => self.answers(status, why, kinds),
            Seen::Told {
                seq,
                event,
                state,
                node,
            } => self.told(seq, event, state, node, kinds),
            Seen::Ends => {
                self.over = true;
                let terminals = u32::from(self.told > 0);
                hold(self.terminals == terminals, "one terminal event a workload")
            },
        }
    }

    fn sent(
        &mut self,
        node: u8,
        last: bool,
        now: Duration,
        kinds: &mut Vec<&str>,
    ) -> Result<(), String> {
        self.sent += 1;
        self.last = last;
        self.resting = false;
        hold(!self.committed, "a commit is never followed by a retry")?;
        if self.one_pass {
            hold(!self.tried.contains(&node), "one pass asks a node once")?;
            self.tried.push(node);
            return Ok(());
        }
        if self.sent == 5 {
            kinds.push("five dispatches");
        }
        hold(self.sent <= 5, "five dispatches at most")?;
        hold(last == (self.sent == 5), "the fifth is the last")?;
        let in_time = now - self.arrived < DEADLINE;
        hold(in_time, "no dispatch at or after the deadline")
    }

    fn rests(
        &mut self,
        until: Duration,
        now: Duration,
        kinds: &mut Vec<&str>,
    ) -> Result<(), String> {
        hold(!self.one_pass, "one pass never rests")?;
        hold(!self.committed, "a commit is final")?;
        hold(self.sent > 0, "nothing to wait for before a dispatch")?;
        hold(
            self.placed.is_none(),
            "a resting workload is placed nowhere",
        )?;
        if self.resting {
            kinds.push("rest without owner");
        }
        self.resting = true;
        let step = Duration::from_secs([1, 1, 2, 4, 8][self.sent.min(4) as usize]);
        let (pause, deadline) = (until - now, self.arrived + DEADLINE);
        hold(until <= deadline.max(now), "no rest past the deadline")?;
        hold(pause <= step * 5 / 4, "no rest above its step")?;
        let long = pause >= step * 3 / 4 || until == deadline;
        hold(long, "no rest below its step")
    }

    fn answers(
        &mut self,
        status: u16,
        why: &'static str,
        kinds: &mut Vec<&str>,
    ) -> Result<(), String> {
        hold(!self.committed, "a commit is the answer")?;
        match (status, why) {
            (502, "nobody") => {
                kinds.push("502 nobody");
                hold(self.sent == 0, "an owner was asked")
            },
            (502 | 504, "attempt") => {
                kinds.push(if status == 502 {
                    "502 attempt"
                } else {
                    "504 attempt"
                });
                hold(self.last, "only the last attempt answers for itself")
            },
            (503, "deadline" | "no owner") => {
                kinds.push(if why == "deadline" {
                    "503 deadline"
                } else {
                    "503 no owner"
                });
                if !self.resting {
                    kinds.push("deadline within a round");
                }
                hold(!self.last, "the last attempt answers for itself")
            },
            _ => Err("no such answer".to_owned()),
        }
    }

    fn told(
        &mut self,
        seq: u64,
        event: &str,
        state: &str,
        node: Option<u8>,
        kinds: &mut Vec<&str>,
    ) -> Result<(), String> {
        self.told += 1;
        hold(seq == self.told, "numbers without a gap")?;
        hold(self.terminals == 0, "nothing is told behind the end")?;
        match event {
            "submitted" => {
                hold(state == "queued", "submitted is queued")?;
                hold(!self.running, "never back from running to queued")?;
                hold(seq == 1 || node != self.placed, "a change of placement")?;
                if node.is_some() && node == self.cleared {
                    kinds.push("placed again where it was");
                }
                self.cleared = self.placed;
            },
            "started" => {
                hold(state == "running", "started is running")?;
                hold(self.committed && !self.running, "started at the commit")?;
                self.running = true;
            },
            _ => {
                let named = (event == "completed") == (state == "completed");
                hold(named, "completed for completed, errored for the rest")?;
                hold(
                    state != "completed" || self.running,
                    "completed needs a commit",
                )?;
                hold(node == self.placed, "the end keeps the placement")?;
                self.terminals += 1;
                if state == "cancelled" {
                    kinds.push("cancelled");
                }
            },
        }
        self.placed = node;
        Ok(())
    }
}
