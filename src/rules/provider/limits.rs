//! How long a provider that answered 429 is left alone.
//!
//! Owns: the forms in which providers say it, and what is believed of them. Leaves to others: what a
//! cool-down does (`circuit`). Only headers are read; a 429 that says it in its body alone, as
//! Gemini's does, is one that says nothing.
//!
//! Asked in this order: `retry-after-ms` (OpenAI), `Retry-After` (seconds or a date), then the resets
//! of rate limits: of those whose remaining count is 0 the last one, else of all. Known forms of a
//! reset: a duration like `6m0s`, `20ms` or `2m59.56s` (OpenAI, Groq), seconds (Mistral, Cerebras),
//! Unix seconds or milliseconds (OpenRouter), a date.
//!
//! Headers may lie. What is no time, negative or past says nothing, and the next one is asked; what is
//! left is bounded, so that a provider is never hammered and never lost for a day.

use std::time::{Duration, UNIX_EPOCH};

use http::HeaderMap;

use crate::rules::units::parse_duration;

/// Where nothing readable is said.
pub const DEFAULT: Duration = Duration::from_secs(30);

/// No cool-down is shorter: 0 would be no cool-down at all.
pub const SHORTEST: Duration = Duration::from_secs(1);

/// No cool-down is longer, whatever is said: a daily limit is looked at again every hour.
pub const LONGEST: Duration = Duration::from_secs(60 * 60);

/// A number from here on is no count of seconds (that would be 31 years) but a moment.
const MOMENT: f64 = 1e9;

/// A moment from here on is in milliseconds (in seconds it would be the year 5138).
const MOMENT_MS: f64 = 1e11;

/// Beginnings of the names under which providers say when a limit resets; the limit's own name may
/// follow, as in `x-ratelimit-reset-tokens`.
const RESETS: [&str; 4] = [
    "x-ratelimit-reset",
    "ratelimit-reset",
    "ratelimitbysize-reset",
    "x-ratelimitbysize-reset",
];

/// The cool-down that a 429 with these headers asks for, from now, which is `unix_ms` to dates.
/// [`SHORTEST`] to [`LONGEST`]; [`DEFAULT`] where nothing readable is said.
pub fn cool_down(headers: &HeaderMap, unix_ms: u64) -> Duration {
    let said = retry_after(headers, unix_ms).or_else(|| reset(headers, unix_ms));
    said.map_or(DEFAULT, |span| span.clamp(SHORTEST, LONGEST))
}

fn retry_after(headers: &HeaderMap, unix_ms: u64) -> Option<Duration> {
    let of = |name: &str| headers.get(name)?.to_str().ok();
    let ms = of("retry-after-ms").and_then(|text| number(text.trim()));
    ms.and_then(|ms| seconds(ms / 1000.0))
        .or_else(|| from_now(of("retry-after")?, unix_ms))
}

/// The last reset of a limit that is used up; of any, if none says that it is.
fn reset(headers: &HeaderMap, unix_ms: u64) -> Option<Duration> {
    let (mut used_up, mut any) = (None, None);
    for (name, value) in headers {
        let name = name.as_str();
        if !RESETS.iter().any(|reset| name.starts_with(reset)) {
            continue;
        }
        let Some(span) = value.to_str().ok().and_then(|t| from_now(t, unix_ms)) else {
            continue;
        };
        any = any.max(Some(span));
        let remaining = headers.get(name.replace("-reset", "-remaining"));
        let remaining = remaining.and_then(|v| number(v.to_str().ok()?.trim()));
        if remaining.is_some_and(|left| left <= 0.0) {
            used_up = used_up.max(Some(span));
        }
    }
    used_up.or(any)
}

/// The time from now that a text means, in any of the forms.
fn from_now(text: &str, unix_ms: u64) -> Option<Duration> {
    let text = text.trim();
    let now = unix_ms as f64;
    match number(text) {
        Some(n) if n >= MOMENT_MS => seconds((n - now) / 1000.0),
        Some(n) if n >= MOMENT => seconds(n - now / 1000.0),
        Some(n) => seconds(n),
        None => parse_duration(text).ok().or_else(|| date(text, unix_ms)),
    }
}

fn date(text: &str, unix_ms: u64) -> Option<Duration> {
    let at = httpdate::parse_http_date(text).ok()?;
    let at = at.duration_since(UNIX_EPOCH).ok()?;
    at.checked_sub(Duration::from_millis(unix_ms))
}

/// A plain decimal number; `inf`, `nan` and exponents are none.
fn number(text: &str) -> Option<f64> {
    let plain = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
    text.chars().all(plain).then(|| text.parse().ok())?
}

/// Seconds that are not negative; as many as there can be, if there are more.
fn seconds(n: f64) -> Option<Duration> {
    let n = (n >= 0.0).then_some(n)?;
    Some(Duration::try_from_secs_f64(n).unwrap_or(Duration::MAX))
}

#[cfg(test)]
mod tests;
