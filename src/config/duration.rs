//! Durations as Go writes them, and sizes in bytes or with a unit (product 13.19).
//!
//! Owns: parsing both, for files, flags and the environment.
//! Leaves to others: which values make sense where (`file`, `settings`).

use std::time::Duration;

/// Units of a duration with their length in nanoseconds. Longer names first where one is the
/// beginning of another.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// `1h30m`, `400ms`, `1.5h`, `0`. No sign: nothing here can last less than no time.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is not a duration; write it like 90s, 5m or 1h30m");
    let text_in = text.trim();
    if text_in == "0" {
        return Ok(Duration::ZERO);
    }
    if text_in.starts_with('-') {
        return Err(format!("the duration {text:?} is negative"));
    }
    let mut rest = text_in.strip_prefix('+').unwrap_or(text_in);
    if rest.is_empty() {
        return Err(bad());
    }
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let number = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(bad)?;
        let (digits, tail) = rest.split_at(number);
        let (scale, left) = unit(tail).ok_or_else(bad)?;
        nanos = nanos.saturating_add(scaled(digits, scale).ok_or_else(bad)?);
        rest = left;
    }
    // Go's own limit: 63 bits of nanoseconds, about 292 years.
    match u64::try_from(nanos) {
        Ok(n) if n <= i64::MAX as u64 => Ok(Duration::from_nanos(n)),
        _ => Err(format!("the duration {text:?} is too long")),
    }
}

/// The unit at the start of `tail`, and what is behind it. `m` must not swallow `ms`.
fn unit(tail: &str) -> Option<(u64, &str)> {
    let end = tail
        .find(|c: char| c.is_ascii_digit() || c == '.')
        .unwrap_or(tail.len());
    let (name, left) = tail.split_at(end);
    UNITS
        .iter()
        .find(|(n, _)| *n == name)
        .map(|(_, scale)| (*scale, left))
}

/// `digits` (with at most one point) times `scale`, rounded down.
fn scaled(digits: &str, scale: u64) -> Option<u128> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: u128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let mut sum = whole.checked_mul(u128::from(scale))?;
    let mut place = u128::from(scale);
    for digit in fraction.bytes() {
        place /= 10;
        sum += place * u128::from(digit - b'0');
    }
    Some(sum)
}

/// Units of a size.
const SIZES: [(&str, u64); 8] = [
    ("", 1),
    ("b", 1),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
];

/// `1048576`, `64MiB`, `64 MB`. Whole numbers only, at least 1.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let bad = || format!("{text:?} is not a size; write bytes, or like 64MiB");
    let trimmed = text.trim();
    let end = trimmed
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(trimmed.len());
    let (digits, name) = trimmed.split_at(end);
    let name = name.trim_start().to_ascii_lowercase();
    let (_, scale) = SIZES.iter().find(|(n, _)| *n == name).ok_or_else(bad)?;
    let size = digits
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(*scale))
        .ok_or_else(bad)?;
    if size == 0 {
        Err("a size must be at least 1 byte".to_owned())
    } else {
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, ms) in [
            ("0", 0),
            ("0s", 0),
            ("400ms", 400),
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            (".5s", 500),
            ("1.s", 1_000),
            ("+2m", 120_000),
            ("1500us", 1),
            ("1500\u{b5}s", 1),
        ] {
            let got = parse_duration(text).map(|d| d.as_millis());
            assert_eq!(got, Ok(ms), "{text}");
        }
    }

    #[test]
    fn anything_else_is_no_duration() {
        for text in [
            "", "5", "1d", "s", ".s", "1..5s", "5 m", "-1s", "1h-2m", "9999999h", "x", "5mm",
        ] {
            assert!(parse_duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn sizes_are_bytes_or_have_a_unit() {
        for (text, bytes) in [
            ("1", 1),
            ("134217728", 128 << 20),
            ("64MiB", 64 << 20),
            ("64 mib", 64 << 20),
            ("2GB", 2_000_000_000),
            ("1b", 1),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "0",
            "0MiB",
            "-1",
            "1.5MiB",
            "MiB",
            "1TiB",
            "99999999999999999999",
        ] {
            assert!(parse_size(text).is_err(), "{text:?}");
        }
    }
}
