//! Durations and sizes as people write and read them (product 13.19).
//!
//! Owns: Go's duration syntax, sizes with binary units, and the short forms that tables show.
//! Leaves to others: what a value means where it is used (`0` = off is said by the caller).
//! Go's syntax, because the original's flags and everybody's scripts for it are written in it.

use std::fmt;
use std::time::Duration;

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not of the form number, unit, number, unit.
    #[error("{0:?} is not a duration; write it like 1h30m, 90s, 400ms or 0")]
    Malformed(String),
    /// A number without a unit that is not 0.
    #[error("{0:?} has no unit; write it like 90s or 5m")]
    NoUnit(String),
    /// A unit that Go does not know.
    #[error("unknown unit {unit:?} in {text:?}; units are ns, us, ms, s, m and h")]
    UnknownUnit {
        /// The whole text.
        text: String,
        /// The unit in it.
        unit: String,
    },
    /// Below zero.
    #[error("{0:?} is negative")]
    Negative(String),
    /// More than Go's 64-bit nanoseconds can hold (about 292 years).
    #[error("{0:?} is too long")]
    TooLong(String),
}

/// Nanoseconds of Go's units, the least first. Both spellings of the micro sign are Go's own.
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

/// Reads a duration in the syntax of Go's `time.ParseDuration`. Negative ones are refused, since
/// nothing here runs backwards; `-0` is 0, as in Go.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let malformed = || DurationError::Malformed(text.to_owned());
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    // The only number that needs no unit.
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    let mut nanos: u128 = 0;
    loop {
        let (number, tail) = split_number(rest).ok_or_else(malformed)?;
        let end = tail
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        nanos += term(text, number, unit)?;
        if nanos > i64::MAX as u128 {
            return Err(DurationError::TooLong(text.to_owned()));
        }
        rest = tail;
        if rest.is_empty() {
            break;
        }
    }
    if negative && nanos > 0 {
        return Err(DurationError::Negative(text.to_owned()));
    }
    // Checked against i64 above.
    Ok(Duration::from_nanos(nanos as u64))
}

/// The digits (with at most one point and at least one digit) at the front, and what follows.
fn split_number(text: &str) -> Option<((&str, &str), &str)> {
    let whole_end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (whole, rest) = text.split_at(whole_end);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            rest.split_at(end)
        },
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    Some(((whole, fraction), rest))
}

/// Nanoseconds of one number and its unit.
fn term(text: &str, (whole, fraction): (&str, &str), unit: &str) -> Result<u128, DurationError> {
    if unit.is_empty() {
        return Err(DurationError::NoUnit(text.to_owned()));
    }
    let (_, scale) = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(|| DurationError::UnknownUnit {
            text: text.to_owned(),
            unit: unit.to_owned(),
        })?;
    let scale = u128::from(*scale);
    let whole: u128 = if whole.is_empty() {
        0
    } else {
        // Above u64 it is too long in any unit.
        let n: u64 = whole
            .parse()
            .map_err(|_| DurationError::TooLong(text.to_owned()))?;
        n.into()
    };
    // Digits past the 18th are below a nanosecond in every unit.
    let digits = &fraction[..fraction.len().min(18)];
    let part: u128 = digits.parse().unwrap_or(0);
    Ok(whole * scale + part * scale / 10u128.pow(digits.len() as u32))
}

/// Why a text is no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Not a whole number with a known unit.
    #[error("{0:?} is not a size; write bytes, or a whole number of KiB, MiB or GiB like 64MiB")]
    Malformed(String),
    /// Nothing at all.
    #[error("a size must be at least 1 byte")]
    Zero,
    /// More than 64 bits of bytes.
    #[error("{0:?} is too large")]
    TooLarge(String),
}

/// Reads a size: bytes, or a whole number with `B`, `KiB`, `MiB` or `GiB`; case does not matter.
/// At least one byte: no limit of ours makes sense at none, and none of them means "off" at 0.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let malformed = || SizeError::Malformed(text.to_owned());
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    if digits.is_empty() {
        return Err(malformed());
    }
    let scale: u64 = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return Err(malformed()),
    };
    let too_large = || SizeError::TooLarge(text.to_owned());
    let n: u64 = digits.parse().map_err(|_| too_large())?;
    match n.checked_mul(scale) {
        Some(0) => Err(SizeError::Zero),
        size => size.ok_or_else(too_large),
    }
}

/// A duration as a configuration file would have it, exactly: `1h30m`, `400ms`, `0`.
pub fn duration_text(span: Duration) -> String {
    let mut left = span.as_nanos();
    if left == 0 {
        return "0".to_owned();
    }
    let mut text = String::new();
    for (unit, nanos) in UNITS.iter().rev().filter(|(unit, _)| unit.is_ascii()) {
        let nanos = u128::from(*nanos);
        if left >= nanos {
            text.push_str(&format!("{}{unit}", left / nanos));
            left %= nanos;
        }
    }
    text
}

/// A size as a configuration file would have it, exactly: `64MiB`, `1000`.
pub fn size_text(bytes: u64) -> String {
    for (unit, scale) in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= scale && bytes.is_multiple_of(scale) {
            return format!("{}{unit}", bytes / scale);
        }
    }
    bytes.to_string()
}

/// So many of something: `1 model`, `2 models`.
pub fn count<N: Copy + PartialEq + From<u8> + fmt::Display>(n: N, what: &str) -> String {
    let s = if n == N::from(1) { "" } else { "s" };
    format!("{n} {what}{s}")
}

/// A span as a table shows it: `4s`, `2m`, `2h 14m`, `3d 5h`.
pub fn human_age(span: Duration) -> String {
    let s = span.as_secs();
    match s {
        0..60 => format!("{s}s"),
        60..3_600 => format!("{}m", s / 60),
        3_600..86_400 => format!("{}h {}m", s / 3_600, s % 3_600 / 60),
        _ => format!("{}d {}h", s / 86_400, s % 86_400 / 3_600),
    }
}

/// A size as a line shows it: `412 B`, `1.5 KiB`, `64 MiB`.
pub fn human_size(bytes: u64) -> String {
    const NAMES: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut name = 0;
    // 1023.95 would be shown as 1024.0 of the smaller unit.
    while value >= 1023.95 && name + 1 < NAMES.len() {
        value /= 1024.0;
        name += 1;
    }
    let text = format!("{value:.1}");
    format!(
        "{} {}",
        text.strip_suffix(".0").unwrap_or(&text),
        NAMES[name]
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_is_one_and_anything_else_is_several() {
        for (n, want) in [(0_u64, "0 files"), (1, "1 file"), (2, "2 files")] {
            assert_eq!(count(n, "file"), want);
        }
        assert_eq!(count(1_usize, "model"), "1 model");
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, nanos) in [
            ("0", 0),
            ("-0", 0),
            ("+0", 0),
            ("0s", 0),
            ("5s", 5_000_000_000),
            ("+5s", 5_000_000_000),
            ("30m", 1_800_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("400ms", 400_000_000),
            ("10us", 10_000),
            ("10\u{b5}s", 10_000),
            ("10\u{3bc}s", 10_000),
            ("7ns", 7),
            ("0.9ns", 0),
            ("1h1m1s1ms1us1ns", 3_661_001_001_001),
            ("1s1h", 3_601_000_000_000),
            ("0.3333333333333333333h", 1_200_000_000_000 - 1),
            ("9223372036854775807ns", i64::MAX as u64),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_nanos(nanos)),
                "{text:?}"
            );
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for text in [
            "", "-", "+", ".", "s", ".s", "-.s", "3", "1.5", "1h30", "1d", "1 h", " 1s", "1s ",
            "--1s", "1S", "1e3s", "0 ", "5s0", "0s0", "\u{663}s",
        ] {
            assert!(parse_duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn each_refusal_says_why() {
        assert_eq!(
            parse_duration("-5s"),
            Err(DurationError::Negative("-5s".into()))
        );
        assert_eq!(
            parse_duration("90"),
            Err(DurationError::NoUnit("90".into()))
        );
        assert!(matches!(
            parse_duration("1d"),
            Err(DurationError::UnknownUnit { unit, .. }) if unit == "d"
        ));
        for long in ["9223372036854775808ns", "99999999999999999999h", "2562048h"] {
            assert_eq!(
                parse_duration(long),
                Err(DurationError::TooLong(long.into()))
            );
        }
    }

    #[test]
    fn sizes_are_bytes_or_binary_units() {
        for (text, want) in [
            ("1", 1),
            ("12B", 12),
            ("64MiB", 64 << 20),
            ("64mib", 64 << 20),
            ("2 GiB", 2 << 30),
            ("1KiB", 1024),
        ] {
            assert_eq!(parse_size(text), Ok(want), "{text:?}");
        }
        for text in ["", "MiB", "-1", "1.5MiB", "64MB", "64M", "1 2", "64MiBs"] {
            assert!(
                matches!(parse_size(text), Err(SizeError::Malformed(_))),
                "{text:?}"
            );
        }
        for text in ["0", "0MiB"] {
            assert_eq!(parse_size(text), Err(SizeError::Zero), "{text:?}");
        }
        for text in ["99999999999999999999", "99999999999GiB"] {
            assert!(
                matches!(parse_size(text), Err(SizeError::TooLarge(_))),
                "{text:?}"
            );
        }
    }

    #[test]
    fn written_out_values_are_the_shortest_exact_ones() {
        for (ms, want) in [
            (0, "0"),
            (400, "400ms"),
            (5_000, "5s"),
            (90_000, "1m30s"),
            (1_800_000, "30m"),
            (86_400_000, "24h"),
        ] {
            assert_eq!(duration_text(Duration::from_millis(ms)), want);
        }
        for (bytes, want) in [
            (1, "1"),
            (1000, "1000"),
            (1536, "1536"),
            (64 << 20, "64MiB"),
        ] {
            assert_eq!(size_text(bytes), want);
        }
    }

    #[test]
    fn ages_keep_two_units_at_most() {
        for (secs, want) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (3_599, "59m"),
            (3_600, "1h 0m"),
            (8_040, "2h 14m"),
            (86_399, "23h 59m"),
            (86_400, "1d 0h"),
            (277_200, "3d 5h"),
        ] {
            assert_eq!(human_age(Duration::from_secs(secs)), want);
        }
    }

    #[test]
    fn shown_sizes_round_to_the_next_unit() {
        for (bytes, want) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1 MiB"),
            (64 << 20, "64 MiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(human_size(bytes), want);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "\\PC{0,24}") {
            let _ = parse_duration(&text);
            let _ = parse_size(&text);
        }

        #[test]
        fn what_is_written_out_reads_as_itself(nanos in 0..i64::MAX as u64, bytes in 1..u64::MAX) {
            let span = Duration::from_nanos(nanos);
            prop_assert_eq!(parse_duration(&duration_text(span)), Ok(span));
            prop_assert_eq!(parse_size(&size_text(bytes)), Ok(bytes));
        }

        #[test]
        fn whole_milliseconds_come_back(ms in 0u64..10_000_000_000) {
            prop_assert_eq!(parse_duration(&format!("{ms}ms")), Ok(Duration::from_millis(ms)));
        }
    }
}
