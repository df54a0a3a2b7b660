use http::{HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;

/// Sun, 06 Nov 1994 08:49:37 GMT.
const NOW: u64 = 784_111_777_000;

fn asked(headers: &[(&str, &str)], now: u64) -> Duration {
    let headers = headers.iter().map(|(name, value)| {
        let name = HeaderName::try_from(*name).unwrap();
        (name, HeaderValue::from_str(value).unwrap())
    });
    cool_down(&headers.collect(), now)
}

fn ms(headers: &[(&str, &str)]) -> u128 {
    asked(headers, NOW).as_millis()
}

#[test]
fn retry_after_is_seconds_or_a_date_in_each_of_its_forms() {
    for (text, want) in [
        ("7", 7_000),
        (" 12 ", 12_000),
        ("7.66", 7_660),
        ("20s", 20_000),
        ("1m30s", 90_000),
        ("Sun, 06 Nov 1994 08:50:37 GMT", 60_000),
        ("Sunday, 06-Nov-94 08:50:37 GMT", 60_000),
        ("Sun Nov  6 08:50:37 1994", 60_000),
    ] {
        assert_eq!(ms(&[("retry-after", text)]), want, "{text}");
    }
}

#[test]
fn openai_says_it_in_milliseconds_first() {
    let both = [("retry-after", "9"), ("retry-after-ms", "2500")];
    assert_eq!(ms(&both), 2_500);
    let broken = [("retry-after", "9"), ("retry-after-ms", "soon")];
    assert_eq!(ms(&broken), 9_000);
}

#[test]
fn openai_and_groq_count_requests_and_tokens_and_the_one_used_up_counts() {
    let openai = |requests: &str, tokens: &str| {
        ms(&[
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-requests", requests),
            ("x-ratelimit-remaining-tokens", tokens),
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ])
    };
    assert_eq!(openai("0", "149984"), 1_000);
    assert_eq!(openai("59", "0"), 360_000);
    assert_eq!(openai("0", "0"), 360_000, "the last of both");
    assert_eq!(openai("59", "149984"), 360_000, "the last, if none says so");
    let groq = [
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-remaining-tokens", "17997"),
        ("x-ratelimit-reset-requests", "2m59.56s"),
        ("x-ratelimit-reset-tokens", "7.66s"),
    ];
    assert_eq!(ms(&groq), 179_560);
    assert_eq!(
        ms(&[("x-ratelimit-reset-tokens", "20ms")]),
        1_000,
        "at least a second"
    );
    let retry = [("retry-after", "2"), ("x-ratelimit-reset-requests", "6m0s")];
    assert_eq!(ms(&retry), 2_000, "Retry-After is asked first");
}

#[test]
fn mistral_and_cerebras_say_seconds() {
    assert_eq!(ms(&[("ratelimitbysize-reset", "42")]), 42_000);
    assert_eq!(ms(&[("x-ratelimitbysize-reset-minute", "42")]), 42_000);
    let cerebras = [
        ("x-ratelimit-remaining-requests-day", "14000"),
        ("x-ratelimit-remaining-tokens-minute", "0"),
        ("x-ratelimit-reset-requests-day", "1011.38"),
        ("x-ratelimit-reset-tokens-minute", "11.382867"),
    ];
    assert_eq!(ms(&cerebras), 11_382);
    assert_eq!(
        ms(&[("ratelimit-reset", "50"), ("ratelimit-remaining", "0")]),
        50_000
    );
}

#[test]
fn openrouter_says_a_moment_in_milliseconds() {
    let now = 1_741_305_600_000;
    for (text, want) in [
        ("1741305645000", 45),
        ("1741305645", 45),
        ("1741305645.5", 45),
        ("1741309200000", 3600),
    ] {
        let headers = [("X-RateLimit-Reset", text), ("X-RateLimit-Remaining", "0")];
        assert_eq!(asked(&headers, now).as_secs(), want, "{text}");
    }
}

#[test]
fn gemini_says_it_in_the_body_alone_so_that_the_default_holds() {
    let headers = [
        ("content-type", "application/json"),
        ("server-timing", "gfet4t7; dur=1"),
    ];
    assert_eq!(asked(&headers, NOW), DEFAULT);
    assert_eq!(asked(&[], NOW), DEFAULT);
}

#[test]
fn lies_are_bounded_or_say_nothing() {
    for text in [
        "-5",
        "-0.1",
        "soon",
        "",
        "inf",
        "NaN",
        "1e3",
        "0x10",
        "--1",
        "1-1",
        ".",
        "-",
        "5 minutes",
        "-1m",
        "Sun, 06 Nov 1994 08:48:37 GMT",
        "Sun, 06 Nov 1994 08:48:37",
        "Tue, 99 Foo 1994 08:48:37 GMT",
    ] {
        for name in ["retry-after", "x-ratelimit-reset-tokens"] {
            assert_eq!(asked(&[(name, text)], NOW), DEFAULT, "{name}: {text}");
        }
        // The next one is asked.
        let both = [("retry-after", text), ("x-ratelimit-reset", "5")];
        assert_eq!(ms(&both), 5_000, "{text}");
    }
    // A moment of 1994 is past in 2025.
    let past = [("x-ratelimit-reset", "1600000000")];
    assert_eq!(asked(&past, 1_741_305_600_000), DEFAULT);
    for text in [
        "3601",
        "86400",
        "999999999",
        "1741305600000",
        "99999999999999999999999999999999",
        "24h",
        "2000000h",
        "Sat, 06 Nov 2094 08:49:37 GMT",
    ] {
        assert_eq!(asked(&[("retry-after", text)], NOW), LONGEST, "{text}");
    }
    for text in ["0", "0.2", "0s", "Sun, 06 Nov 1994 08:49:37 GMT"] {
        assert_eq!(asked(&[("retry-after", text)], NOW), SHORTEST, "{text}");
    }
    let bytes = HeaderValue::from_bytes(b"\xff\xfe").unwrap();
    let headers = [(http::header::RETRY_AFTER, bytes)].into_iter().collect();
    assert_eq!(cool_down(&headers, NOW), DEFAULT);
}

proptest! {
    /// Whatever is said at whatever time, it is bounded.
    #[test]
    fn a_cool_down_is_always_in_its_bounds(text in "[ -~]{0,40}", now in any::<u64>(), which in 0usize..4) {
        let name = ["retry-after", "retry-after-ms", "x-ratelimit-reset", "ratelimitbysize-reset"][which];
        let asked = asked(&[(name, text.as_str())], now);
        prop_assert!((SHORTEST..=LONGEST).contains(&asked));
    }
}
