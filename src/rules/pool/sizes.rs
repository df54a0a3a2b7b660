//! How much a worker may say: bounds on every list, text and number of a registration and a
//! heartbeat.
//!
//! Owns: the bounds. Leaves to others: what the values mean, how many bytes a call may have
//! (`registry`).

use std::collections::HashSet;
use std::ops::RangeInclusive;

use super::record::{Beat, Hardware, ModelEntry, Registration};

/// Bytes of a node's id.
pub const MAX_NODE_ID: usize = 128;
/// Bytes of an endpoint.
pub const MAX_ENDPOINT: usize = 2_048;
/// Models of a node.
pub const MAX_MODELS: usize = 1_000;
/// Bytes of a model's name.
pub const MAX_MODEL_NAME: usize = 256;
/// Tokens of a context.
pub const MAX_CONTEXT: u64 = 1 << 32;
/// Requests that a node may run at once.
pub const MAX_CONCURRENCY: u32 = 65_536;
/// Weight of a node.
pub const MAX_WEIGHT: u32 = 1_000;
/// Bytes of a GPU's name and of a version.
pub const MAX_TEXT: usize = 128;
/// GPUs of a node.
pub const MAX_GPUS: u32 = 1_024;
/// Degrees Celsius of a GPU.
pub const TEMPERATURE: RangeInclusive<f64> = -100.0..=300.0;
/// Per cent of a GPU's time that it is busy.
pub const UTILIZATION: RangeInclusive<f64> = 0.0..=100.0;
/// Whole numbers beyond this are not exact in JSON, nor in Redis.
pub const MAX_EXACT: u64 = (1 << 53) - 1;

/// A field beyond its bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct Invalid {
    /// The field, as it stands on the wire: `models[3].id`.
    pub field: String,
    /// What is wrong, with the limit. Never the value of a text.
    pub why: String,
}

impl Invalid {
    /// What is wrong with a field.
    pub fn new(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            why: why.into(),
        }
    }
}

/// Checks a registration. Its endpoint is only measured here; see `endpoint`.
///
/// # Errors
/// The first field beyond its bound.
pub fn registration(r: &Registration) -> Result<(), Invalid> {
    node_id(r.node.as_str())?;
    text("endpoint", &r.endpoint, 1, MAX_ENDPOINT)?;
    models(&r.models)?;
    number(
        "max_concurrency",
        r.max_concurrency.into(),
        1,
        MAX_CONCURRENCY.into(),
    )?;
    number("base_weight", r.base_weight.into(), 1, MAX_WEIGHT.into())?;
    if let Some(h) = &r.hardware {
        hardware(h)?;
    }
    text("agent_version", &r.agent_version, 0, MAX_TEXT)
}

/// The weight of a node that names none: its concurrency, within the range of weights.
pub fn default_weight(max_concurrency: u32) -> u32 {
    max_concurrency.clamp(1, MAX_WEIGHT)
}

/// Checks a heartbeat.
///
/// # Errors
/// The first field beyond its bound.
pub fn beat(b: &Beat) -> Result<(), Invalid> {
    number("seq", b.seq, 1, MAX_EXACT)?;
    if let Some(bytes) = b.free_vram_bytes {
        number("free_vram_bytes", bytes, 0, MAX_EXACT)?;
    }
    figure("gpu_temperature_c", b.gpu_temperature_c, TEMPERATURE)?;
    let utilization = b.gpu_utilization_percent;
    figure("gpu_utilization_percent", utilization, UTILIZATION)?;
    models(&b.models)
}

/// Checks a node's id: letters, digits, `.`, `_` and `-`, beginning with a letter or digit, since
/// it stands in keys, log lines and on command lines.
///
/// # Errors
/// What is wrong with it.
pub fn node_id(id: &str) -> Result<(), Invalid> {
    text("node_id", id, 1, MAX_NODE_ID)?;
    if !is_plain(id) {
        let why = "has other signs than letters, digits, '.', '_' and '-', or begins with one of these three";
        return Err(Invalid::new("node_id", why));
    }
    Ok(())
}

/// Whether a text is of letters, digits, `.`, `_` and `-`, and begins with a letter or digit: then it
/// needs no quotes, in a shell or anywhere.
pub fn is_plain(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    text.chars().all(plain) && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Whether a text can be a model's name, or a pattern of such.
pub fn is_model_name(text: &str) -> bool {
    (1..=MAX_MODEL_NAME).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// Checks a list of models: their number, their names, no name twice.
///
/// # Errors
/// The first entry beyond its bound.
pub fn models(models: &[ModelEntry]) -> Result<(), Invalid> {
    if models.len() > MAX_MODELS {
        let why = format!("has {} entries; the limit is {MAX_MODELS}", models.len());
        return Err(Invalid::new("models", why));
    }
    let mut seen = HashSet::with_capacity(models.len());
    for (i, model) in models.iter().enumerate() {
        text(&format!("models[{i}].id"), &model.id, 1, MAX_MODEL_NAME)?;
        if let Some(tokens) = model.context_length {
            number(
                &format!("models[{i}].context_length"),
                tokens,
                1,
                MAX_CONTEXT,
            )?;
        }
        if !seen.insert(&model.id) {
            return Err(Invalid::new(
                format!("models[{i}].id"),
                "is in the list twice",
            ));
        }
    }
    Ok(())
}

fn hardware(h: &Hardware) -> Result<(), Invalid> {
    text(
        "hardware.gpu_name",
        h.gpu_name.as_deref().unwrap_or_default(),
        0,
        MAX_TEXT,
    )?;
    let count = h.gpu_count.unwrap_or_default();
    number("hardware.gpu_count", count.into(), 0, MAX_GPUS.into())?;
    let vram = h.vram_total_bytes.unwrap_or_default();
    number("hardware.vram_total_bytes", vram, 0, MAX_EXACT)
}

/// Bounded, and nothing that could forge a line of a log or a table.
fn text(field: &str, value: &str, least: usize, most: usize) -> Result<(), Invalid> {
    let bytes = value.len();
    if bytes > most {
        return Err(Invalid::new(
            field,
            format!("has {bytes} bytes; the limit is {most}"),
        ));
    }
    if bytes < least {
        return Err(Invalid::new(field, "is empty"));
    }
    if value.chars().any(char::is_control) {
        return Err(Invalid::new(field, "has a control character"));
    }
    Ok(())
}

fn number(field: &str, value: u64, least: u64, most: u64) -> Result<(), Invalid> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Invalid::new(
        field,
        format!("{value} is not in {least}..{most}"),
    ))
}

fn figure(field: &str, value: Option<f64>, range: RangeInclusive<f64>) -> Result<(), Invalid> {
    // NaN is in no range.
    match value.filter(|v| !range.contains(v)) {
        Some(v) => {
            let (least, most) = range.into_inner();
            Err(Invalid::new(
                field,
                format!("{v} is not in {least}..{most}"),
            ))
        },
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::PoolEngine;
    use super::*;

    fn entry(id: impl Into<String>) -> ModelEntry {
        ModelEntry {
            id: id.into(),
            context_length: Some(8192),
            is_warm: false,
        }
    }

    fn good() -> Registration {
        Registration {
            node: "worker-01".into(),
            endpoint: "http://10.0.0.7:8080/v1".into(),
            address: ([10, 0, 0, 7], 8000).into(),
            engine: PoolEngine::Vllm,
            models: vec![entry("qwen2.5:14b"), entry("a b/ü")],
            max_concurrency: 1,
            base_weight: 1000,
            hardware: Some(Hardware::default()),
            agent_version: String::new(),
        }
    }

    #[test]
    fn what_is_within_its_bounds_is_taken() {
        registration(&good()).unwrap();
        let most: Vec<_> = (0..MAX_MODELS)
            .map(|i| entry(format!("{i:0256}")))
            .collect();
        registration(&Registration {
            models: most.clone(),
            ..good()
        })
        .unwrap();
        beat(&Beat {
            seq: MAX_EXACT,
            models: most,
            gpu_temperature_c: Some(-5.0),
            ..Beat::default()
        })
        .unwrap();
    }

    #[test]
    fn what_is_beyond_is_refused_with_field_and_limit() {
        type Set = fn(&mut Registration);
        let cases: [(Set, &str); 18] = [
            (|r| r.node = "".into(), "node_id: is empty"),
            (
                |r| r.node = "x".repeat(129).into(),
                "node_id: has 129 bytes; the limit is 128",
            ),
            (|r| r.node = "a b".into(), "node_id: has other signs"),
            (|r| r.node = "a:b".into(), "node_id: has other signs"),
            (|r| r.node = "a/../b".into(), "node_id: has other signs"),
            (|r| r.node = "-rf".into(), "node_id: has other signs"),
            (
                |r| r.node = "a\nb".into(),
                "node_id: has a control character",
            ),
            (
                |r| r.endpoint = "x".repeat(2049),
                "endpoint: has 2049 bytes; the limit is 2048",
            ),
            (
                |r| r.models = vec![entry(""); 1001],
                "models: has 1001 entries; the limit is 1000",
            ),
            (
                |r| r.models = vec![entry("a"), entry("x".repeat(257))],
                "models[1].id: has 257 bytes; the limit is 256",
            ),
            (
                |r| r.models = vec![entry("a"), entry("a")],
                "models[1].id: is in the list twice",
            ),
            (
                |r| r.models[0].context_length = Some(0),
                "models[0].context_length: 0 is not in 1..4294967296",
            ),
            (
                |r| r.models[0].id = "a\u{1b}[2J".into(),
                "models[0].id: has a control character",
            ),
            (
                |r| r.max_concurrency = 0,
                "max_concurrency: 0 is not in 1..65536",
            ),
            (
                |r| r.base_weight = 1001,
                "base_weight: 1001 is not in 1..1000",
            ),
            (
                |r| r.agent_version = "x".repeat(129),
                "agent_version: has 129 bytes; the limit is 128",
            ),
            (
                |r| {
                    r.hardware = Some(Hardware {
                        gpu_count: Some(2000),
                        ..Hardware::default()
                    })
                },
                "hardware.gpu_count: 2000 is not in 0..1024",
            ),
            (
                |r| {
                    r.hardware = Some(Hardware {
                        vram_total_bytes: Some(u64::MAX),
                        ..Hardware::default()
                    })
                },
                "hardware.vram_total_bytes: 18446744073709551615 is not in",
            ),
        ];
        for (set, want) in cases {
            let mut r = good();
            set(&mut r);
            let e = registration(&r).unwrap_err().to_string();
            assert!(e.starts_with(want), "{want}: {e}");
        }
    }

    #[test]
    fn a_heartbeat_has_bounds_too() {
        let with = |set: fn(&mut Beat)| {
            let mut b = Beat {
                seq: 1,
                ..Beat::default()
            };
            set(&mut b);
            beat(&b).map_err(|e| e.to_string())
        };
        assert_eq!(with(|_| {}), Ok(()));
        for (set, want) in [
            (
                (|b| b.seq = 0) as fn(&mut Beat),
                "seq: 0 is not in 1..9007199254740991",
            ),
            (|b| b.seq = 1 << 53, "seq: 9007199254740992 is not"),
            (
                |b| b.gpu_temperature_c = Some(f64::NAN),
                "gpu_temperature_c: NaN is not in -100..300",
            ),
            (
                |b| b.gpu_utilization_percent = Some(100.1),
                "gpu_utilization_percent: 100.1 is not in 0..100",
            ),
            (|b| b.free_vram_bytes = Some(u64::MAX), "free_vram_bytes: "),
            (
                |b| b.models = vec![entry("m"); 1001],
                "models: has 1001 entries",
            ),
        ] {
            let e = with(set).unwrap_err();
            assert!(e.starts_with(want), "{want}: {e}");
        }
    }

    #[test]
    fn a_ten_megabyte_list_is_refused_by_its_number_and_not_read_through() {
        let huge = vec![entry("x".repeat(200)); 50_000];
        assert_eq!(
            models(&huge).unwrap_err().to_string(),
            "models: has 50000 entries; the limit is 1000"
        );
    }

    #[test]
    fn the_default_weight_is_the_concurrency_within_the_range() {
        assert_eq!([0, 1, 8, 5000].map(default_weight), [1, 1, 8, 1000]);
    }
}
