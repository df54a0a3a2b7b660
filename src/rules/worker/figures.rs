//! How busy an engine says it is.
//!
//! Owns: which engine tells it where, and reading the answers. Leaves to others: asking
//! (`agent::engine`). An engine that does not tell is not taken for idle: it has no figures.

use serde::Deserialize;

use crate::rules::pool::record::PoolEngine;

/// Requests in an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Being served.
    pub active: Option<u64>,
    /// Waiting.
    pub queued: Option<u64>,
}

/// Where an engine tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Path of its metrics.
    pub metrics: &'static str,
    /// Metric of the requests being served.
    pub running: &'static str,
    /// Metric of the requests waiting.
    pub waiting: &'static str,
    /// Path of a list of slots, where there is one; asked if the metrics are turned off.
    pub slots: Option<&'static str>,
}

/// Where this engine tells it; `None` if nowhere.
pub fn source(engine: PoolEngine) -> Option<Source> {
    let metrics = "/metrics";
    match engine {
        PoolEngine::LlamaCpp => Some(Source {
            metrics,
            running: "llamacpp:requests_processing",
            waiting: "llamacpp:requests_deferred",
            slots: Some("/slots"),
        }),
        PoolEngine::Vllm => Some(Source {
            metrics,
            running: "vllm:num_requests_running",
            waiting: "vllm:num_requests_waiting",
            slots: None,
        }),
        PoolEngine::Tgi => Some(Source {
            metrics,
            running: "tgi_batch_current_size",
            waiting: "tgi_queue_size",
            slots: None,
        }),
        PoolEngine::Ollama | PoolEngine::LmStudio | PoolEngine::OpenAi => None,
    }
}

/// Reads metrics in Prometheus' text form. A metric with several sets of labels is summed.
pub fn metrics(text: &str, source: &Source) -> Figures {
    Figures {
        active: sum(text, source.running),
        queued: sum(text, source.waiting),
    }
}

fn sum(text: &str, metric: &str) -> Option<u64> {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(metric)?;
        let value = match rest.strip_prefix('{') {
            // A label's value may have any sign but a bare quote; the value comes behind the last.
            Some(labels) => labels.rsplit_once('}')?.1,
            None => rest.starts_with([' ', '\t']).then_some(rest)?,
        };
        let value: f64 = value.split_whitespace().next()?.parse().ok()?;
        // Beyond this no count of requests is meant.
        (0.0..1e9).contains(&value).then_some(value as u64)
    });
    values.fold(None, |sum: Option<u64>, v| Some(sum.unwrap_or(0) + v))
}

/// llama.cpp's list of slots: how many are at work. Nothing else of it is read, since a slot may
/// tell of its prompt.
pub fn slots(body: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Slot {
        is_processing: Option<bool>,
        /// Before `is_processing` there was a number; 0 is idle.
        state: Option<i64>,
    }
    let slots: Vec<Slot> = serde_json::from_slice(body).ok()?;
    let mut busy = 0;
    for slot in slots {
        let works = slot.is_processing.or(slot.state.map(|s| s != 0))?;
        busy += u64::from(works);
    }
    Some(busy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(engine: PoolEngine, text: &str) -> (Option<u64>, Option<u64>) {
        let figures = metrics(text, &source(engine).unwrap());
        (figures.active, figures.queued)
    }

    #[test]
    fn each_engines_metrics_are_read() {
        let llama = "# HELP llamacpp:requests_processing Number of requests.\n\
            # TYPE llamacpp:requests_processing gauge\n\
            llamacpp:requests_processing 2\nllamacpp:requests_deferred 5\n";
        assert_eq!(read(PoolEngine::LlamaCpp, llama), (Some(2), Some(5)));
        let vllm = "vllm:num_requests_running{model_name=\"a}b\",engine=\"0\"} 3.0\n\
            vllm:num_requests_running{model_name=\"a}b\",engine=\"1\"} 1.0\n\
            vllm:num_requests_waiting{model_name=\"x\"} 0.0 1700000000000\n";
        assert_eq!(read(PoolEngine::Vllm, vllm), (Some(4), Some(0)));
        let tgi = "tgi_queue_size 1\ntgi_batch_current_size 7\ntgi_queue_size_other 9\n";
        assert_eq!(read(PoolEngine::Tgi, tgi), (Some(7), Some(1)));
    }

    #[test]
    fn what_is_not_told_is_not_zero() {
        assert_eq!(read(PoolEngine::Vllm, "other 1\n"), (None, None));
        assert_eq!(read(PoolEngine::Tgi, "tgi_queue_size NaN\n"), (None, None));
        assert_eq!(read(PoolEngine::Tgi, "tgi_queue_size -1\n"), (None, None));
        for engine in [PoolEngine::Ollama, PoolEngine::LmStudio, PoolEngine::OpenAi] {
            assert_eq!(source(engine), None);
        }
    }

    #[test]
    fn slots_at_work_are_counted_in_both_forms() {
        let new = br#"[{"id":0,"is_processing":true,"prompt":"x"},{"id":1,"is_processing":false}]"#;
        assert_eq!(slots(new), Some(1));
        assert_eq!(slots(br#"[{"state":0},{"state":1},{"state":1}]"#), Some(2));
        assert_eq!(slots(b"[]"), Some(0));
        for odd in [&br#"[{"id":0}]"#[..], br#"{"error":1}"#, b"", b"[7]"] {
            assert_eq!(slots(odd), None);
        }
    }
}
