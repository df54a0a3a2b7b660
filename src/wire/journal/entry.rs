//! A finished workload as it is handed on at its end: borrowed, and written as a line without a copy.
//!
//! Owns: writing a line. Leaves to others: what is in one (`super`, whose [`Record`] a line is read
//! back into).
//!
//! A line is made for each request, on its own task: written by hand, since names of fields need no
//! look at each of their letters. A test holds it to what serde writes of the same record.

use serde::Serialize;

use super::{Attempt, Framing, Record, VERSION};
use crate::rules::engine::EngineId;
use crate::rules::ids::{JobId, NodeId, RunId};
use crate::rules::usage::Stats;
use crate::rules::workload::State;

/// A finished workload; its fields are those of [`Record`].
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The daemon's run.
    pub run_id: &'a RunId,
    /// Facade.
    pub engine: EngineId,
    /// Number on that facade.
    pub id: JobId,
    /// Model as requested.
    pub model: &'a str,
    /// Path of its route.
    pub path: &'a str,
    /// Length of the request body.
    pub body_bytes: u64,
    /// Unix ms of arrival.
    pub created_at: u64,
    /// Unix ms of commit.
    pub started_at: Option<u64>,
    /// Unix ms of the end.
    pub ended_at: u64,
    /// State at the end.
    pub state: State,
    /// HTTP status the client got.
    pub status: Option<u16>,
    /// Why it failed or was cancelled; normalised, never content.
    pub error: Option<&'a str>,
    /// Framing of the answer, once committed.
    pub framing: Option<Framing>,
    /// Every attempt, in order.
    pub attempts: Vec<Attempt<&'a NodeId>>,
    /// What was measured of the answer.
    pub stats: Option<&'a Stats>,
    /// Name of the client key that it came with. For usage events: a line does not have it.
    pub client: Option<&'a str>,
}

impl Entry<'_> {
    /// Writes its line, without the end of it.
    ///
    /// # Errors
    /// None is known: numbers and text go into memory.
    pub fn write(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        number(out, "{\"v\":", VERSION);
        word(out, ",\"run_id\":", self.run_id.as_str());
        word(out, ",\"engine\":", self.engine.as_str());
        number(out, ",\"id\":", self.id.0);
        text(out, ",\"model\":", self.model)?;
        text(out, ",\"path\":", self.path)?;
        number(out, ",\"body_bytes\":", self.body_bytes);
        number(out, ",\"created_at\":", self.created_at);
        maybe(out, ",\"started_at\":", self.started_at);
        number(out, ",\"ended_at\":", self.ended_at);
        word(out, ",\"state\":", self.state.as_str());
        maybe(out, ",\"status\":", self.status);
        match self.error {
            Some(error) => text(out, ",\"error\":", error)?,
            None => out.extend_from_slice(b",\"error\":null"),
        }
        field(out, ",\"framing\":", &self.framing)?;
        out.extend_from_slice(b",\"attempts\":[");
        let mut before = "{\"node\":";
        for attempt in &self.attempts {
            text(out, before, attempt.node.as_str())?;
            before = ",{\"node\":";
            number(out, ",\"at_ms\":", attempt.at_ms);
            let [pending, pressure, reserved] = attempt.load;
            number(out, ",\"load\":[", pending);
            number(out, ",", pressure);
            number(out, ",", reserved);
            field(out, "],\"outcome\":", &attempt.outcome)?;
            maybe(out, ",\"status\":", attempt.status);
            out.push(b'}');
        }
        match self.stats {
            Some(stats) => {
                out.extend_from_slice(b"],\"stats\":{");
                measures(out, stats)?;
                out.extend_from_slice(b"}}");
            },
            None => out.extend_from_slice(b"],\"stats\":null}"),
        }
        Ok(())
    }

    /// The same with strings of its own.
    pub fn to_record(&self) -> Record {
        let attempts = self.attempts.iter();
        Record {
            v: VERSION,
            run_id: self.run_id.clone(),
            engine: self.engine,
            id: self.id,
            model: self.model.to_owned(),
            path: self.path.to_owned(),
            body_bytes: self.body_bytes,
            created_at: self.created_at,
            started_at: self.started_at,
            ended_at: self.ended_at,
            state: self.state,
            status: self.status,
            error: self.error.map(str::to_owned),
            framing: self.framing,
            attempts: attempts.map(|a| a.on(a.node.clone())).collect(),
            stats: self.stats.cloned(),
        }
    }
}

impl<'a> From<&'a Record> for Entry<'a> {
    fn from(r: &'a Record) -> Self {
        Self {
            run_id: &r.run_id,
            engine: r.engine,
            id: r.id,
            model: &r.model,
            path: &r.path,
            body_bytes: r.body_bytes,
            created_at: r.created_at,
            started_at: r.started_at,
            ended_at: r.ended_at,
            state: r.state,
            status: r.status,
            error: r.error.as_deref(),
            framing: r.framing,
            attempts: r.attempts.iter().map(|a| a.on(&a.node)).collect(),
            stats: r.stats.as_ref(),
            client: None,
        }
    }
}

/// What was measured: only that stands there.
fn measures(out: &mut Vec<u8>, stats: &Stats) -> serde_json::Result<()> {
    // The first one begins the object.
    let mut comma = "";
    let mut put = |out: &mut Vec<u8>, name: &str| {
        out.extend_from_slice(std::mem::replace(&mut comma, ",").as_bytes());
        out.extend_from_slice(name.as_bytes());
    };
    if let Some(tokens) = stats.prompt_tokens {
        put(out, "\"promptTokens\":");
        number(out, "", tokens);
    }
    if let Some(tokens) = stats.completion_tokens {
        put(out, "\"completionTokens\":");
        number(out, "", tokens);
    }
    if let Some(speed) = stats.tokens_per_second {
        put(out, "\"tokensPerSecond\":");
        serde_json::to_writer(&mut *out, &speed)?;
    }
    if let Some(ms) = stats.ttft_ms {
        put(out, "\"ttftMs\":");
        number(out, "", ms);
    }
    if stats.estimated {
        put(out, "\"estimated\":true");
    }
    Ok(())
}

fn number(out: &mut Vec<u8>, before: &'static str, n: impl itoa::Integer) {
    out.extend_from_slice(before.as_bytes());
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
}

fn maybe(out: &mut Vec<u8>, before: &'static str, n: Option<impl itoa::Integer>) {
    match n {
        Some(n) => number(out, before, n),
        None => {
            out.extend_from_slice(before.as_bytes());
            out.extend_from_slice(b"null");
        },
    }
}

fn text(out: &mut Vec<u8>, before: &'static str, text: &str) -> serde_json::Result<()> {
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    // Without a branch for each byte.
    if !text.bytes().fold(true, |all, byte| all & is_plain(byte)) {
        return field(out, before, text);
    }
    word(out, before, text);
    Ok(())
}

/// A text of ours, in which nothing needs an escape.
fn word(out: &mut Vec<u8>, before: &'static str, word: &str) {
    out.extend_from_slice(before.as_bytes());
    out.push(b'"');
    out.extend_from_slice(word.as_bytes());
    out.push(b'"');
}

fn field(
    out: &mut Vec<u8>,
    before: &'static str,
    value: &(impl Serialize + ?Sized),
) -> serde_json::Result<()> {
    out.extend_from_slice(before.as_bytes());
    serde_json::to_writer(out, value)
}

#[cfg(test)]
mod tests {
    use proptest::option::of;
    use proptest::prelude::*;

    use super::super::AttemptOutcome;
    use super::*;

    fn attempt() -> impl Strategy<Value = Attempt> {
        use AttemptOutcome as O;
        let outcomes = [
            O::Committed,
            O::Refused,
            O::Unreachable,
            O::NoHeaders,
            O::NoContent,
            O::Broken,
            O::NodeGone,
            O::Abandoned,
        ];
        let outcome = prop::sample::select(outcomes.to_vec());
        let rest = (any::<u64>(), any::<[u64; 3]>(), of(any::<u16>()));
        (any::<String>(), outcome, rest).prop_map(|(node, outcome, (at_ms, load, status))| {
            Attempt {
                node: node.into(),
                at_ms,
                load,
                outcome,
                status,
            }
        })
    }

    fn stats() -> impl Strategy<Value = Stats> {
        let counts = (of(any::<u64>()), of(any::<u64>()), of(any::<u64>()));
        let speed = of(0u32..1_000_000);
        (counts, speed, any::<bool>()).prop_map(|((prompt, answer, ttft), speed, estimated)| {
            Stats {
                prompt_tokens: prompt,
                completion_tokens: answer,
                tokens_per_second: speed.map(|s| f64::from(s) / 10.0),
                ttft_ms: ttft,
                estimated,
            }
        })
    }

    fn record() -> impl Strategy<Value = Record> {
        let states = [State::Completed, State::Failed, State::Cancelled];
        let framings = [Framing::Sse, Framing::Ndjson, Framing::Json];
        let words = (any::<String>(), any::<String>(), of(any::<String>()));
        let numbers = (any::<[u8; 8]>(), any::<[u64; 4]>(), of(any::<u64>()));
        let kinds = (
            prop::sample::select(states.to_vec()),
            of(any::<u16>()),
            of(prop::sample::select(framings.to_vec())),
        );
        let parts = (prop::collection::vec(attempt(), 0..4), of(stats()));
        (words, numbers, kinds, parts).prop_map(
            |((model, path, error), (run, n, started_at), (state, status, framing), parts)| {
                Record {
                    v: VERSION,
                    run_id: RunId::from_bytes(run),
                    engine: EngineId::parse("llamacpp").unwrap(),
                    id: JobId(n[0]),
                    model,
                    path,
                    body_bytes: n[1],
                    created_at: n[2],
                    started_at,
                    ended_at: n[3],
                    state,
                    status,
                    error,
                    framing,
                    attempts: parts.0,
                    stats: parts.1,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn a_line_is_what_serde_writes_of_its_record_and_reads_back(record in record()) {
            let entry = Entry::from(&record);
            let mut line = b"before".to_vec();
            entry.write(&mut line).unwrap();
            let line = &line[b"before".len()..];
            prop_assert_eq!(
                String::from_utf8_lossy(line),
                serde_json::to_string(&record).unwrap()
            );
            prop_assert_eq!(&entry.to_record(), &record);
            prop_assert_eq!(&Record::parse(line).unwrap(), &record);
        }
    }
}
