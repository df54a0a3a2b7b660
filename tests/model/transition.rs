//! What can happen to the rules, what can be seen of them, and both as text.

use std::fmt;
use std::time::Duration;

/// Nodes that come and go, by number; their ids order as their numbers do.
pub const NODES: u8 = 5;

/// Models that they advertise.
pub const MODELS: u8 = 2;

/// Facades with nodes of their own, over one board of loads.
pub const FACADES: u8 = 2;

/// What a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Inference with a model: filtered, retried, counted, a workload.
    Model(u8),
    /// Inference whose body names no model: retried.
    Unnamed,
    /// Anything else: one pass.
    Other,
}

/// One thing that happens. `pick` chooses among those it can happen to, whatever their number, so
/// that a sequence stays meaningful when parts are taken out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// A request whose body took so many seconds to arrive.
    Arrive { facade: u8, kind: Kind, upload: u64 },
    /// So many milliseconds pass.
    Advance { ms: u64 },
    /// Headers arrive for an attempt.
    Headers { pick: u8, status: u16 },
    /// Content arrives for an attempt that has its headers.
    Content { pick: u8 },
    /// An answer comes to its proper end, with or without content.
    Finish { pick: u8 },
    /// An attempt is lost: `stalled` until its cap, or broken; a stream is cut.
    Lose { pick: u8, stalled: bool },
    /// A client leaves, noticed by reading or by `writing`.
    Leave { pick: u8, writing: bool },
    /// The directory now lists these nodes (a bit each), with these models (`MODELS` bits each).
    Discover {
        facade: u8,
        present: u8,
        models: u16,
    },
    /// A manual node is added or replaced, with these models, or taken away.
    Manual {
        facade: u8,
        node: u8,
        models: Option<u8>,
    },
    /// The nodes whose certificates are pinned here.
    Trust { nodes: u8 },
    /// A node is selected, or none.
    Pin { facade: u8, node: Option<u8> },
    /// A scheduler snapshot, this far from the generation in force; the list best first, and three
    /// bits of load a node.
    Snapshot { step: i8, list: Vec<u8>, loads: u16 },
    /// Everything is cut.
    Shutdown,
}

impl Transition {
    fn words(&self) -> (&'static str, Vec<i64>) {
        let optional = |n: &Option<u8>| n.map_or(-1, i64::from);
        match self {
            Self::Arrive {
                facade,
                kind,
                upload,
            } => {
                let kind = match kind {
                    Kind::Model(m) => i64::from(*m),
                    Kind::Unnamed => -1,
                    Kind::Other => -2,
                };
                ("arrive", vec![(*facade).into(), kind, *upload as i64])
            },
            Self::Advance { ms } => ("advance", vec![*ms as i64]),
            Self::Headers { pick, status } => ("headers", vec![(*pick).into(), (*status).into()]),
            Self::Content { pick } => ("content", vec![(*pick).into()]),
            Self::Finish { pick } => ("finish", vec![(*pick).into()]),
            Self::Lose { pick, stalled } => ("lose", vec![(*pick).into(), (*stalled).into()]),
            Self::Leave { pick, writing } => ("leave", vec![(*pick).into(), (*writing).into()]),
            Self::Discover {
                facade,
                present,
                models,
            } => (
                "discover",
                vec![(*facade).into(), (*present).into(), (*models).into()],
            ),
            Self::Manual {
                facade,
                node,
                models,
            } => (
                "manual",
                vec![(*facade).into(), (*node).into(), optional(models)],
            ),
            Self::Trust { nodes } => ("trust", vec![(*nodes).into()]),
            Self::Pin { facade, node } => ("pin", vec![(*facade).into(), optional(node)]),
            Self::Snapshot { step, list, loads } => {
                let mut words = vec![(*step).into(), (*loads).into()];
                words.extend(list.iter().map(|n| i64::from(*n)));
                ("snapshot", words)
            },
            Self::Shutdown => ("shutdown", vec![]),
        }
    }

    /// The transition that was written so.
    pub fn parse(line: &str) -> Option<Self> {
        let mut parts = line.split_whitespace();
        let name = parts.next()?;
        let n: Vec<i64> = parts.map(str::parse).collect::<Result<_, _>>().ok()?;
        let small = |i: usize| n.get(i).and_then(|v| u8::try_from(*v).ok());
        let bits = |i: usize| n.get(i).and_then(|v| u16::try_from(*v).ok());
        let long = |i: usize| n.get(i).and_then(|v| u64::try_from(*v).ok());
        let optional = |i: usize| Some(u8::try_from(*n.get(i)?).ok());
        Some(match name {
            "arrive" => Self::Arrive {
                facade: small(0)?,
                kind: match n.get(1)? {
                    -1 => Kind::Unnamed,
                    -2 => Kind::Other,
                    m => Kind::Model(u8::try_from(*m).ok()?),
                },
                upload: long(2)?,
            },
            "advance" => Self::Advance { ms: long(0)? },
            "headers" => Self::Headers {
                pick: small(0)?,
                status: bits(1)?,
            },
            "content" => Self::Content { pick: small(0)? },
            "finish" => Self::Finish { pick: small(0)? },
            "lose" => Self::Lose {
                pick: small(0)?,
                stalled: small(1)? == 1,
            },
            "leave" => Self::Leave {
                pick: small(0)?,
                writing: small(1)? == 1,
            },
            "discover" => Self::Discover {
                facade: small(0)?,
                present: small(1)?,
                models: bits(2)?,
            },
            "manual" => Self::Manual {
                facade: small(0)?,
                node: small(1)?,
                models: optional(2)?,
            },
            "trust" => Self::Trust { nodes: small(0)? },
            "pin" => Self::Pin {
                facade: small(0)?,
                node: optional(1)?,
            },
            "snapshot" => Self::Snapshot {
                step: i8::try_from(*n.first()?).ok()?,
                loads: bits(1)?,
                list: n[2..].iter().map(|v| *v as u8).collect(),
            },
            "shutdown" => Self::Shutdown,
            _ => return None,
        })
    }
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, words) = self.words();
        f.write_str(name)?;
        words.iter().try_for_each(|w| write!(f, " {w}"))
    }
}

/// What can be seen of a request from outside, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Sent to a node; `last` if no attempt can follow.
    Sent { node: u8, last: bool },
    /// An attempt was lost before commit, to a status or otherwise.
    Lost { status: Option<u16> },
    /// Nothing runs until a moment in this span; the rules themselves name one moment.
    Rests { from: Duration, to: Duration },
    /// The answer of a node goes to the client.
    Commits { node: u8, status: u16 },
    /// We answer ourselves.
    Answers { status: u16, why: &'static str },
    /// An event of the workload.
    Told {
        seq: u64,
        event: &'static str,
        state: &'static str,
        node: Option<u8>,
    },
    /// The request is over.
    Ends,
}

impl Seen {
    /// Whether what was seen is what had to be.
    pub fn fits(&self, wanted: &Self) -> bool {
        match (self, wanted) {
            (Self::Rests { from, .. }, Self::Rests { from: a, to: b }) => a <= from && from <= b,
            _ => self == wanted,
        }
    }
}

/// Something seen, and of which request.
pub type Sight = (usize, Seen);

/// Load of one node: pending, pressure, reserved, in flight.
pub type Loads = [u64; 4];

/// Numbers without pattern, the same for the same seed (splitmix64).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// In `percent` of all cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What a generator has to know so that most of what it makes has an effect.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live {
    pub sent: usize,
    pub headed: usize,
    pub streaming: usize,
    pub resting: usize,
}

/// Makes a world's transitions: each world has engines of a temper.
pub struct Generator {
    dice: Dice,
    statuses: &'static [u16],
    steady: bool,
    slow: bool,
}

impl Generator {
    pub fn new(mut dice: Dice) -> Self {
        let tempers: [&[u16]; 5] = [
            &[
                200, 200, 200, 503, 404, 400, 204, 301, 408, 429, 500, 501, 302, 422,
            ],
            &[501, 501, 501, 501, 501, 501, 501, 503],
            &[503, 500, 429, 408, 404],
            &[200, 503, 501, 404, 418, 599],
            &[501, 404, 200, 503],
        ];
        let statuses = tempers[dice.below(5) as usize];
        let steady = dice.chance(50);
        let slow = dice.chance(15);
        Self {
            dice,
            statuses,
            steady,
            slow,
        }
    }

    pub fn next(&mut self, live: Live) -> Transition {
        let churn = if self.steady { 1 } else { 4 };
        let have = |n: usize, weight: u64| if n > 0 { weight } else { 0 };
        let count = live.sent + live.headed + live.streaming + live.resting;
        let weights = [
            if count < 8 { 12 } else { 0 },
            20,
            if self.slow { 3 } else { 0 },
            have(live.sent, 30),
            have(live.headed, 10),
            have(live.headed + live.streaming, 9),
            have(live.sent + live.headed + live.streaming, 12),
            have(count, 2),
            2 * churn,
            churn,
            1,
            2,
            5,
        ];
        let mut at = self.dice.below(weights.iter().sum());
        let mut which = 0;
        while at >= weights[which] {
            at -= weights[which];
            which += 1;
        }
        self.make(which)
    }

    fn make(&mut self, which: usize) -> Transition {
        let d = &mut self.dice;
        let facade = d.below(FACADES.into()) as u8;
        let node = d.below(NODES.into()) as u8;
        let pick = d.below(8) as u8;
        match which {
            0 => Transition::Arrive {
                facade,
                kind: match d.below(10) {
                    0 => Kind::Other,
                    1 => Kind::Unnamed,
                    n => Kind::Model(u8::from(n == 2)),
                },
                upload: if d.chance(2) { 590 + d.below(20) } else { 0 },
            },
            1 => Transition::Advance {
                ms: 1 + d.below(3000),
            },
            2 => Transition::Advance {
                ms: [60_000, 240_000, 598_000, 1_800_000][d.below(4) as usize] + d.below(2000),
            },
            3 => Transition::Headers {
                pick,
                status: self.statuses[d.below(self.statuses.len() as u64) as usize],
            },
            4 => Transition::Content { pick },
            5 => Transition::Finish { pick },
            6 => Transition::Lose {
                pick,
                stalled: d.chance(50),
            },
            7 => Transition::Leave {
                pick,
                writing: d.chance(30),
            },
            8 => Transition::Discover {
                facade,
                present: (d.next() | d.next()) as u8,
                models: (d.next() | d.next()) as u16 & !(u16::from(d.chance(10)) * 0x5555),
            },
            9 => Transition::Manual {
                facade,
                node,
                models: d.chance(60).then(|| d.below(1 << MODELS) as u8),
            },
            10 => Transition::Trust {
                nodes: (d.next() | d.next()) as u8,
            },
            11 => Transition::Pin {
                facade,
                node: d.chance(60).then_some(node),
            },
            _ if d.chance(2) => Transition::Shutdown,
            _ => Transition::Snapshot {
                step: [-1, 0, 1, 1, 1][d.below(5) as usize],
                list: (0..d.below(7))
                    .map(|_| d.below(u64::from(NODES) + 1) as u8)
                    .collect(),
                loads: d.next() as u16 & d.next() as u16,
            },
        }
    }
}
