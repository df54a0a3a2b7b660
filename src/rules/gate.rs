//! The commit gate: which bytes of an answer show that the engine has begun (product rules 9).
//!
//! Owns: telling transport framing of an event stream from everything else, in any pieces. Leaves to
//! others: holding the bytes and putting them in front again, the time limit, what an end means.
//!
//! Engines write heartbeats while a request still waits in their queue; a commit on one would end
//! the retries. Only the framing listed in the rule is held and all else commits, so that an engine
//! we do not know behaves as with the plain first-byte rule. No other content is looked at.

use super::media_type::{EVENT_STREAM, essence};

/// At most this much framing is held; the byte after it commits.
pub const HELD_LIMIT: usize = 64 * 1024;

/// Events that only say that the request was taken in.
const HELD_EVENTS: [&str; 5] = [
    "ping",
    "message_start",
    "response.created",
    "response.queued",
    "response.in_progress",
];

/// Longer than any field or held event's name, so that a cut name never equals one.
const NAME_CAP: usize = 24;

/// Which bytes commit (`commit_gate` of the configuration).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GateMode {
    /// The framing of an event stream is held; any other byte commits.
    #[default]
    Framing,
    /// Any byte commits.
    FirstByte,
}

/// What the bytes so far mean.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Framing only, or nothing: the attempt may still be given up.
    Hold,
    /// The engine has begun. It stays so.
    Commit,
}

/// Watches the beginning of one answer.
#[derive(Clone, Debug)]
pub struct Gate {
    state: State,
    held: usize,
    /// The event being read is one of [`HELD_EVENTS`].
    held_event: bool,
    /// That event has had a line of data.
    has_data: bool,
    /// The name being read: of a field, or of an event.
    name: Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A byte committed.
    Open,
    /// Any byte commits.
    Any,
    /// At the start of a line; behind a carriage return, whose line feed belongs to it.
    Start { behind_cr: bool },
    /// In a field's name.
    Field,
    /// In the value of `event`; a blank may come first.
    Event { first: bool },
    /// In a comment or a value that does not matter.
    Rest,
}

/// The fields of an event that the gate knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Event,
    Data,
    Other,
}

const FIELDS: [(&[u8], Field); 4] = [
    (b"event", Field::Event),
    (b"id", Field::Other),
    (b"retry", Field::Other),
    (b"data", Field::Data),
];

impl Gate {
    /// The gate for an answer with this `Content-Type`.
    pub fn for_response(content_type: Option<&[u8]>, mode: GateMode) -> Self {
        let framed = mode == GateMode::Framing && content_type.is_some_and(is_event_stream);
        let state = if framed {
            State::Start { behind_cr: false }
        } else {
            State::Any
        };
        Self {
            state,
            held: 0,
            held_event: false,
            has_data: false,
            name: Name::default(),
        }
    }

    /// Looks at the next bytes of the body. Where they are cut makes no difference.
    pub fn push(&mut self, bytes: &[u8]) -> Verdict {
        for &byte in bytes {
            if self.state == State::Open {
                break;
            }
            self.state = match self.held {
                HELD_LIMIT => State::Open,
                _ => self.byte(byte),
            };
            self.held += 1;
        }
        match self.state {
            State::Open => Verdict::Commit,
            _ => Verdict::Hold,
        }
    }

    fn byte(&mut self, byte: u8) -> State {
        let line_end = matches!(byte, b'\r' | b'\n');
        match self.state {
            State::Open | State::Any => State::Open,
            State::Start { behind_cr: true } if byte == b'\n' => State::Start { behind_cr: false },
            State::Start { .. } if line_end => self.end_event(byte),
            State::Start { .. } if byte == b':' => State::Rest,
            State::Start { .. } => {
                self.name = Name::default();
                self.field(byte)
            },
            State::Field if line_end || byte == b':' => self.end_field(byte),
            State::Field => self.field(byte),
            State::Event { .. } if line_end => self.end_name(byte),
            State::Event { first: true } if byte == b' ' => State::Event { first: false },
            State::Event { .. } => {
                self.name.push(byte);
                State::Event { first: false }
            },
            State::Rest if line_end => start(byte),
            State::Rest => State::Rest,
        }
    }

    /// One more byte of a field's name: nothing is held that cannot become a held line.
    fn field(&mut self, byte: u8) -> State {
        self.name.push(byte);
        let possible = self
            .fields()
            .any(|(name, _)| name.starts_with(self.name.get()));
        if possible { State::Field } else { State::Open }
    }

    fn end_field(&mut self, end: u8) -> State {
        let field = self.fields().find(|(name, _)| *name == self.name.get());
        match field {
            None => State::Open,
            Some((_, Field::Event)) => {
                self.name = Name::default();
                if end == b':' {
                    State::Event { first: true }
                } else {
                    self.end_name(end)
                }
            },
            Some((_, field)) => {
                self.has_data |= field == Field::Data;
                if end == b':' { State::Rest } else { start(end) }
            },
        }
    }

    /// The lines that may be held now: data only once its event is known to be a held one.
    fn fields(&self) -> impl Iterator<Item = (&'static [u8], Field)> + use<> {
        let held_event = self.held_event;
        FIELDS
            .into_iter()
            .filter(move |(_, field)| held_event || *field != Field::Data)
    }

    fn end_name(&mut self, end: u8) -> State {
        self.held_event = HELD_EVENTS
            .iter()
            .any(|held| held.as_bytes() == self.name.get());
        // Its data was held for a name that it turns out not to have.
        if self.has_data && !self.held_event {
            return State::Open;
        }
        start(end)
    }

    fn end_event(&mut self, end: u8) -> State {
        self.held_event = false;
        self.has_data = false;
        start(end)
    }
}

/// The state behind the end of a line.
fn start(end: u8) -> State {
    State::Start {
        behind_cr: end == b'\r',
    }
}

fn is_event_stream(content_type: &[u8]) -> bool {
    essence(content_type).eq_ignore_ascii_case(EVENT_STREAM)
}

/// The beginning of a name.
#[derive(Clone, Copy, Debug, Default)]
struct Name {
    bytes: [u8; NAME_CAP],
    len: usize,
}

impl Name {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
    }

    fn get(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gate() -> Gate {
        Gate::for_response(Some(EVENT_STREAM), GateMode::Framing)
    }

    /// How many bytes are held before one commits; `None` if all are.
    fn held(stream: &[u8]) -> Option<usize> {
        let mut gate = gate();
        stream
            .iter()
            .position(|&byte| gate.push(&[byte]) == Verdict::Commit)
    }

    /// Checks that exactly `framing` is held, with each kind of line end.
    fn commits_behind(framing: &str, then: &str) {
        for end in ["\n", "\r\n", "\r"] {
            let framing = framing.replace('\n', end);
            let stream = format!("{framing}{}", then.replace('\n', end));
            assert_eq!(held(stream.as_bytes()), Some(framing.len()), "{stream:?}");
        }
    }

    fn holds(framing: &str) {
        for end in ["\n", "\r\n", "\r"] {
            let framing = framing.replace('\n', end);
            assert_eq!(held(framing.as_bytes()), None, "{framing:?}");
        }
    }

    #[test]
    fn comments_and_blank_lines_are_held() {
        holds("");
        holds(":\n\n");
        holds(": keep-alive\n\n:\n\n\n\n: OPENROUTER PROCESSING\n\n");
        holds(":data: x\n");
        holds(": not ended");
    }

    #[test]
    fn the_first_byte_of_data_commits() {
        commits_behind("", "data: {}\n\n");
        commits_behind(":\n\n", "data: {}\n\n");
        commits_behind("\n\n", "data\n");
        commits_behind(
            "id: 1\nretry: 3000\nevent: content_block_delta\n",
            "data: {}\n",
        );
    }

    #[test]
    fn the_head_of_an_event_is_held_whatever_its_name() {
        holds("event: content_block_delta\n");
        holds("event:x\nid: 7\nretry: 10\n\n");
        holds("event\nid\nretry\n\n");
        holds("event: x\n\nevent: y\n\n");
    }

    #[test]
    fn held_events_are_held_whole() {
        for name in HELD_EVENTS {
            holds(&format!("event: {name}\ndata: {{\"type\":\"{name}\"}}\n\n"));
            holds(&format!(
                "event:{name}\ndata\ndata:1\nid: 2\n: c\ndata: 3\nretry: 1\n\n"
            ));
            commits_behind(&format!("event: {name}\ndata: 1\n\n"), "data: 2\n\n");
            commits_behind(&format!("event: {name}\n\n"), "data: 2\n\n");
            commits_behind(&format!("event: {name}\n"), "x: 1\n");
        }
        holds("event: x\nevent: ping\ndata: {}\n\n");
        holds("event: ping\ndata: {}\n\nevent: x\n");
        holds("event: ping\ndata: 1\nevent: message_start\ndata: 2\n\n");
    }

    #[test]
    fn only_the_exact_name_is_held() {
        for name in [
            "",
            "pin",
            "pings",
            "Ping",
            " ping",
            "ping ",
            "ping\t",
            "message_delta",
            "response.output_text.delta",
            "response.in_progress_and_much_longer_than_any_name",
        ] {
            commits_behind(&format!("event: {name}\n"), "data: 1\n\n");
        }
        commits_behind("event: ping\nevent\n", "data: 1\n");
        commits_behind("event: ping\nevent: x\n", "data: 1\n");
    }

    #[test]
    fn data_before_the_name_of_its_event_commits() {
        commits_behind("", "data: {}\nevent: ping\n\n");
        commits_behind("id: 1\n", "data: {}\nevent: ping\n\n");
    }

    #[test]
    fn an_event_that_loses_its_held_name_after_data_commits() {
        for end in ["\n", "\r", "\r\n"] {
            let head = ["event: ping", "data: 1", "event: x"].join(end);
            // The line's end shows the name.
            assert_eq!(held(format!("{head}{end}").as_bytes()), Some(head.len()));
        }
    }

    #[test]
    fn unknown_lines_commit_as_soon_as_they_are_unknown() {
        for (held, then) in [
            ("", "{\"error\":1}"),
            ("", "\0"),
            ("", " data: x"),
            ("", "\u{feff}data: x"),
            ("", "Event: ping\n"),
            ("e", "rror: x"),
            ("event", "s: 1\n"),
            ("event", " : ping\n"),
            ("i", ": 1\n"),
            ("i", "\n"),
            ("id", "s: 1\n"),
            ("retr", "\n"),
            (":\n", "proxy error: Failed to read connection"),
        ] {
            commits_behind(held, then);
        }
    }

    #[test]
    fn a_line_feed_behind_a_carriage_return_is_no_line_of_its_own() {
        // Else the event would end there, and the data would not be a held event's.
        assert_eq!(held(b"event: ping\r\ndata: 1\r\n\r\n"), None);
        // Two carriage returns are two line ends.
        assert_eq!(held(b"event: ping\r\rdata: 1"), Some(13));
        assert_eq!(held(b"event: ping\n\rdata: 1"), Some(13));
        assert_eq!(held(b"event: ping\r\n\ndata: 1"), Some(14));
    }

    #[test]
    fn more_framing_than_the_limit_commits() {
        for line in [":\n", ": keep-alive\n\n", "event: ping\ndata: {}\n\n", ":"] {
            let stream = line.repeat(HELD_LIMIT + 1);
            assert_eq!(held(stream.as_bytes()), Some(HELD_LIMIT), "{line:?}");
            let mut whole = gate();
            assert_eq!(whole.push(&stream.as_bytes()[..HELD_LIMIT]), Verdict::Hold);
            assert_eq!(whole.push(b""), Verdict::Hold);
            assert_eq!(whole.push(b"\n"), Verdict::Commit);
        }
    }

    #[test]
    fn other_types_and_the_first_byte_mode_commit_at_the_first_byte() {
        let sse = "text/event-stream";
        for (kind, mode) in [
            (None, GateMode::Framing),
            (Some(""), GateMode::Framing),
            (Some("application/json"), GateMode::Framing),
            (Some("application/x-ndjson"), GateMode::Framing),
            (Some("text/event-streams"), GateMode::Framing),
            (Some("text/plain; x=text/event-stream"), GateMode::Framing),
            (Some(sse), GateMode::FirstByte),
            (None, GateMode::FirstByte),
        ] {
            let mut gate = Gate::for_response(kind.map(str::as_bytes), mode);
            assert_eq!(gate.push(b""), Verdict::Hold, "{kind:?} {mode:?}");
            assert_eq!(gate.push(b":"), Verdict::Commit, "{kind:?} {mode:?}");
        }
        for kind in [
            sse,
            "Text/Event-Stream",
            " text/event-stream ;charset=utf-8",
            "text/event-stream;",
        ] {
            let mut gate = Gate::for_response(Some(kind.as_bytes()), GateMode::Framing);
            assert_eq!(gate.push(b":\n\n"), Verdict::Hold, "{kind}");
        }
    }

    #[test]
    fn a_commit_is_for_good() {
        for kind in ["text/event-stream", "application/json"] {
            let mut gate = Gate::for_response(Some(kind.as_bytes()), GateMode::Framing);
            assert_eq!(gate.push(b"data: x\n\n"), Verdict::Commit);
            assert_eq!(gate.push(b""), Verdict::Commit);
            assert_eq!(gate.push(b":\n\n"), Verdict::Commit);
        }
    }

    /// Lines that are framing, nearly framing or content, in any order.
    fn stream() -> impl Strategy<Value = String> {
        let line = proptest::sample::select(vec![
            ":",
            ": c",
            "",
            "",
            "event: ping",
            "event:message_start",
            "event: x",
            "event",
            "id: 1",
            "retry: 2",
            "data: 1",
            "data",
            "dat",
            "x",
            "response.created",
            "event:  ping",
        ]);
        let end = proptest::sample::select(vec!["\n", "\r", "\r\n", ""]);
        proptest::collection::vec((line, end), 0..12).prop_map(|lines| {
            lines
                .into_iter()
                .map(|(line, end)| format!("{line}{end}"))
                .collect()
        })
    }

    /// Framing by whole lines: the rule as it is written down.
    fn is_framing(stream: &str) -> bool {
        let stream = stream.replace("\r\n", "\n").replace('\r', "\n");
        let mut ping = false;
        let mut data = false;
        let mut lines = stream.split('\n').peekable();
        while let Some(line) = lines.next() {
            let whole = lines.peek().is_some();
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            let named = whole || line.contains(':');
            match field {
                "" if !line.is_empty() => {},
                "" if whole => (ping, data) = (false, false),
                "" => {},
                "event" if whole => {
                    ping = HELD_EVENTS.contains(&value);
                    if data && !ping {
                        return false;
                    }
                },
                "event" | "id" | "retry" => {},
                "data" if ping => data = true,
                part if !named && ["event", "id", "retry"].iter().any(|f| f.starts_with(part)) => {
                },
                part if !named && ping && "data".starts_with(part) => {},
                _ => return false,
            }
        }
        true
    }

    proptest! {
        #[test]
        fn it_holds_exactly_what_the_rule_calls_framing(stream in stream()) {
            let want = is_framing(&stream);
            prop_assert_eq!(held(stream.as_bytes()).is_none(), want, "{:?}", stream);
        }

        #[test]
        fn where_the_stream_is_cut_makes_no_difference(
            stream in stream(),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..6),
        ) {
            let first = held(stream.as_bytes());
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.sort_unstable();
            let mut gate = gate();
            let mut from = 0;
            for cut in cuts.into_iter().chain([stream.len()]) {
                let verdict = gate.push(&stream.as_bytes()[from..cut]);
                let committed = first.is_some_and(|first| first < cut);
                prop_assert_eq!(verdict == Verdict::Commit, committed, "{}..{}", from, cut);
                from = cut;
            }
        }

        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut whole = gate();
            let verdict = whole.push(&bytes);
            prop_assert_eq!(verdict == Verdict::Commit, held(&bytes).is_some());
        }
    }
}
