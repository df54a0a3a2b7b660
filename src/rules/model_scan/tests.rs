//! The scan: each rule once, all rules against serde_json, and hostile bodies.

use proptest::prelude::*;

use super::oracle::Oracle;
use super::*;

fn one(model: &str) -> Option<String> {
    Some(model.to_owned())
}

fn pieces(body: &[u8], size: usize) -> Option<String> {
    let mut scan = ModelScan::new();
    body.chunks(size).for_each(|piece| scan.push(piece));
    let (name, place) = scan.finish_in_place()?;
    // Its place holds the name and nothing else.
    let place = place.start as usize..place.end as usize;
    assert_eq!(serde_json::from_slice::<String>(&body[place]).ok()?, name);
    Some(name)
}

/// The answer, which must be the same however the body is cut.
fn all_ways(body: &[u8]) -> Option<String> {
    let whole = scan(body);
    for size in 1..=body.len().clamp(1, 20) {
        assert_eq!(pieces(body, size), whole, "in pieces of {size}");
    }
    whole
}

#[test]
fn the_top_level_model_is_found_wherever_it_stands() {
    for body in [
        r#"{"model":"a"}"#,
        r#" { "model" : "a" } "#,
        "\r\n\t{\"x\":[1,{}],\"model\"\n:\t\"a\"}\n",
        r#"{"messages":[{"model":"no"}],"options":{"model":3},"model":"a","z":null}"#,
        r#"{"x":-0.5e+10,"y":true,"z":false,"n":[],"o":{},"model":"a"}"#,
    ] {
        assert_eq!(all_ways(body.as_bytes()), one("a"), "{body}");
    }
}

#[test]
fn a_nested_model_is_not_the_model() {
    for body in [
        r#"{"x":{"model":"a"}}"#,
        r#"{"x":[{"model":"a"}]}"#,
        r#"{"x":"model","y":"a"}"#,
        r#"[{"model":"a"}]"#,
    ] {
        assert_eq!(all_ways(body.as_bytes()), None, "{body}");
    }
}

#[test]
fn the_keys_case_and_escapes_do_not_matter() {
    for key in [
        "model",
        "Model",
        "MODEL",
        r"mod\u0065l",
        r"\u004d\u006F\u0064\u0045\u006c",
    ] {
        let body = format!(r#"{{"{key}":"a"}}"#);
        assert_eq!(all_ways(body.as_bytes()), one("a"), "{body}");
    }
    for key in [
        "model ",
        "models",
        "mode",
        "",
        r"mod\\u0065l",
        r"mode\/",
        "m\u{f6}del",
        "name",
    ] {
        let body = format!(r#"{{"{key}":"a"}}"#);
        assert_eq!(all_ways(body.as_bytes()), None, "{body}");
    }
}

#[test]
fn escapes_in_the_name_are_decoded() {
    for (written, name) in [
        (r"a\u0062c", "abc"),
        (r#"\"\\\/\b\f\n\r\tx"#, "\"\\/\u{8}\u{c}\n\r\tx"),
        (r"\ud83d\ude00", "\u{1f600}"),
        ("\u{1f600}", "\u{1f600}"),
        (r"\uD83D\uDE00!", "\u{1f600}!"),
        ("org/model:7b@sha256", "org/model:7b@sha256"),
    ] {
        let body = format!(r#"{{"model":"{written}"}}"#);
        assert_eq!(all_ways(body.as_bytes()), one(name), "{body}");
    }
}

#[test]
fn the_last_of_several_names_wins() {
    for (body, name) in [
        (r#"{"model":"a","model":"b"}"#, one("b")),
        (r#"{"model":"a","MODEL":"b"}"#, one("b")),
        (r#"{"model":"a","model":""}"#, None),
        (r#"{"model":"","model":"b"}"#, one("b")),
        (r#"{"model":"\ud800","model":"b"}"#, one("b")),
        (r#"{"model":"b","model":"\ud800"}"#, None),
    ] {
        assert_eq!(all_ways(body.as_bytes()), name, "{body}");
    }
}

#[test]
fn null_is_like_no_model_and_leaves_an_earlier_one() {
    assert_eq!(all_ways(br#"{"model":null}"#), None);
    assert_eq!(all_ways(br#"{"model":"a","model":null}"#), one("a"));
    assert_eq!(all_ways(br#"{"model":null,"model":"a"}"#), one("a"));
    assert_eq!(all_ways(br#"{"model":nul}"#), None);
}

#[test]
fn a_model_of_another_kind_spoils_the_body_before_and_after_a_name() {
    for value in [
        "1",
        "-1",
        "true",
        "false",
        "{}",
        r#"{"model":"a"}"#,
        r#"["a"]"#,
        "[]",
    ] {
        for body in [
            format!(r#"{{"model":{value}}}"#),
            format!(r#"{{"model":"a","model":{value}}}"#),
            format!(r#"{{"Model":{value},"model":"a"}}"#),
        ] {
            assert_eq!(all_ways(body.as_bytes()), None, "{body}");
        }
    }
}

#[test]
fn a_blank_name_is_none_and_a_name_is_not_trimmed() {
    for blank in ["", " ", r"\t\n", "\u{a0}", "\u{3000} "] {
        let body = format!(r#"{{"model":"{blank}"}}"#);
        assert_eq!(all_ways(body.as_bytes()), None, "{body}");
    }
    assert_eq!(all_ways(br#"{"model":" a "}"#), one(" a "));
}

#[test]
fn anything_but_one_json_object_has_no_model() {
    for body in [
        "",
        " ",
        "null",
        "\"model\"",
        "3",
        "[]",
        "{}",
        "{}{}",
        r#"{"model":"a"}}"#,
        r#"{"model":"a"} x"#,
        r#"{"model":"a"},"#,
        r#"{"model":"a"},{}"#,
        r#"{"model":"a","x":1,2}"#,
        r#"{"model":"a","x":[{"y":1,2}]}"#,
        r#"{"model":"a"}{"model":"a"}"#,
        r#"{"model":"a""#,
        r#"{"model":"a"#,
        r#"{"model":"a",}"#,
        r#"{,"model":"a"}"#,
        r#"{"model" "a"}"#,
        r#"{"model"::"a"}"#,
        r#"{"model":"a" "b":1}"#,
        r#"{model:"a"}"#,
        r#"{'model':'a'}"#,
        r#"{"model":"a","x"}"#,
        r#"{"model":"a",3:4}"#,
        r#"{"model":"a","x":}"#,
        r#"{"model":"a","x":[}]}"#,
        r#"{"model":"a","x":[1,]}"#,
        r#"{"model":"a","x":[1 2]}"#,
        r#"{"model":"a","x":{]}"#,
        r#"{"model":"a","x":[1}"#,
        r#"{"model":"a","x":[}"#,
        r#"{"model":"a"]"#,
        r#"{"model":"a" /* c */}"#,
        "\u{1f}{\"model\":\"a\"}",
        "{\"model\":\"a\"}\0",
        "\u{a0}{\"model\":\"a\"}",
    ] {
        assert_eq!(all_ways(body.as_bytes()), None, "{body}");
    }
}

#[test]
fn values_are_checked_by_the_whole_grammar() {
    let body = |value: &str| format!(r#"{{"model":"a","x":{value},"y":[{value}]}}"#);
    for good in [
        "0",
        "-0",
        "10",
        "1.5",
        "-1.50",
        "1e5",
        "1E+5",
        "0e-05",
        "0.0e0",
        "12345678901234567890123",
        "true",
        "false",
        "null",
        r#""\u00e9""#,
        "[1,22,3.5,0,-4,5e1]",
        "[1 ,2]",
    ] {
        assert_eq!(all_ways(body(good).as_bytes()), one("a"), "{good}");
    }
    for bad in [
        "01",
        "-",
        "-a",
        "+1",
        ".5",
        "1.",
        "1.e5",
        "1e",
        "1e+",
        "--1",
        "1-",
        "0x1",
        "1_0",
        "NaN",
        "Infinity",
        "tru",
        "truee",
        "True",
        "nul",
        "nulll",
        "fals",
        "undefined",
        r#""\x""#,
        r#""\u12g4""#,
        r#""\u123""#,
        "\"\n\"",
        "\"\u{1}\"",
        "\"a\u{1f}bcdefghijklmnopqrstuvwxyz\"",
        "[1,02]",
        "[1,,2]",
        "[1,2,]",
    ] {
        assert_eq!(all_ways(body(bad).as_bytes()), None, "{bad}");
    }
}

#[test]
fn bad_encoding_matters_in_the_model_only() {
    let body = |key: &[u8], model: &[u8], other: &[u8]| {
        [
            b"{\"",
            key,
            b"\":1,\"model\":\"",
            model,
            b"\",\"x\":\"",
            other,
            b"\"}",
        ]
        .concat()
    };
    assert_eq!(all_ways(&body(b"k", b"a", b"b")), one("a"));
    for bad in [
        &b"\xff"[..],
        b"\xc3",
        b"\xed\xa0\x80",
        br"\ud800",
        br"\udc00\ud800",
        br"\ud800x",
    ] {
        assert_eq!(all_ways(&body(bad, b"a", bad)), one("a"), "{bad:?}");
        assert_eq!(all_ways(&body(b"k", bad, b"b")), None, "{bad:?}");
    }
    // DEL and C1 are no control bytes to JSON.
    assert_eq!(
        all_ways(&body(b"k", b"a\x7f", b"\x7f\xc2\x80")),
        one("a\u{7f}")
    );
}

#[test]
fn a_control_byte_is_seen_at_any_place_of_a_long_string() {
    for len in [
        1,
        7,
        8,
        9,
        15,
        16,
        17,
        40,
        63,
        64,
        65,
        200,
        WINDOW - 1,
        WINDOW + 1,
    ] {
        for at in [0, 1 % len, len / 2, len - 1] {
            let mut text = vec![b'x'; len];
            let good = [b"{\"model\":\"a\",\"x\":\"", &text[..], b"\"}"].concat();
            assert_eq!(scan(&good), one("a"), "{len}");
            text[at] = 0x1f;
            let bad = [b"{\"model\":\"a\",\"x\":\"", &text[..], b"\"}"].concat();
            assert_eq!(scan(&bad), None, "{at} of {len}");
            text[at] = b'\\';
            text.insert(at + 1, b'n');
            let escaped = [b"{\"model\":\"a\",\"x\":\"", &text[..], b"\"}"].concat();
            assert_eq!(scan(&escaped), one("a"), "{at} of {len}");
        }
    }
}

#[test]
fn a_byte_order_mark_may_come_first() {
    assert_eq!(all_ways(b"\xef\xbb\xbf{\"model\":\"a\"}"), one("a"));
    assert_eq!(all_ways(b"\xef\xbb\xbf \n{\"model\":\"a\"}"), one("a"));
    for bad in [
        &b"\xef\xbb{}"[..],
        b"\xef",
        b" \xef\xbb\xbf",
        b"\xef \xbb\xbf",
        b"\xef\xbb\xbf\xef\xbb\xbf",
    ] {
        let body = [bad, b"{\"model\":\"a\"}"].concat();
        assert_eq!(all_ways(&body), None, "{bad:?}");
    }
}

#[test]
fn a_name_of_the_limit_is_the_longest() {
    for (unit, len) in [("a", 1), (r"\u0061", 1), (r"\n", 1), ("\u{e9}", 2)] {
        let body = |n: usize| format!(r#"{{"model":"x{}"}}"#, unit.repeat(n));
        let most = (NAME_LIMIT - 1) / len;
        for size in [usize::MAX, 4000, 7, 1] {
            let found = pieces(body(most).as_bytes(), size).map(|name| name.len());
            assert_eq!(found, Some(1 + most * len), "{unit} in {size}");
            assert_eq!(
                pieces(body(most + 1).as_bytes(), size),
                None,
                "{unit} in {size}"
            );
        }
    }
    let late = format!(r#"{{"model":"{}","model":"a"}}"#, "x".repeat(100_000));
    assert_eq!(scan(late.as_bytes()), one("a"));
    assert_eq!(pieces(late.as_bytes(), 1000), one("a"));
}

#[test]
fn long_strings_and_keys_are_not_kept() {
    let mut scan = ModelScan::new();
    scan.push(b"{\"");
    for _ in 0..1000 {
        scan.push(&[b'k'; 100]);
    }
    scan.push(b"\":\"");
    for _ in 0..1000 {
        scan.push(&[b'v'; 100]);
    }
    assert!(
        scan.raw.capacity() <= 2 * ESCAPE * KEY.len(),
        "{}",
        scan.raw.capacity()
    );
    scan.push(b"\",\"model\":\"a\"}");
    assert_eq!(scan.finish(), one("a"));
}

#[test]
fn three_million_brackets_are_no_deeper_than_one() {
    let deep = 3_000_000;
    for (open, close) in [("[", "]"), (r#"{"k":"#, "}")] {
        let mut body = String::from(r#"{"x":"#);
        body.push_str(&open.repeat(deep));
        body.push('0');
        body.push_str(&close.repeat(deep));
        let unclosed = format!(r#"{},"model":"a"}}"#, &body[..body.len() - 1]);
        body.push_str(r#","model":"a"}"#);
        assert_eq!(scan(body.as_bytes()), one("a"));
        assert_eq!(scan(unclosed.as_bytes()), None);
    }
}

#[test]
fn every_depth_remembers_what_it_is_in() {
    for depth in 1..200 {
        let kinds: Vec<bool> = (0..depth).map(|i| i % 3 == 0 || i % 7 == 0).collect();
        let open: String = kinds
            .iter()
            .map(|&o| if o { "{\"k\":" } else { "[" })
            .collect();
        let mut close: Vec<u8> = kinds
            .iter()
            .rev()
            .map(|&o| if o { b'}' } else { b']' })
            .collect();
        let body = |close: &[u8]| {
            [
                b"{\"model\":\"a\",\"x\":",
                open.as_bytes(),
                b"1",
                close,
                b"}",
            ]
            .concat()
        };
        assert_eq!(scan(&body(&close)), one("a"), "{depth}");
        let at = depth / 2;
        close[at] = if close[at] == b'}' { b']' } else { b'}' };
        assert_eq!(scan(&body(&close)), None, "{depth}");
    }
}

#[test]
fn a_hundred_megabytes_of_base64_are_passed_over() {
    let block = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ejAx+/";
    let block = block.repeat((1 << 20) / block.len());
    let mut scan = ModelScan::new();
    scan.push(b"{\"images\":[\"");
    for _ in 0..100 {
        scan.push(block.as_bytes());
    }
    scan.push(b"\"],\"model\":\"llava\"}");
    assert_eq!(scan.finish(), one("llava"));
}

/// What the rules say, or nothing where serde_json is stricter than they are.
fn oracle(body: &[u8]) -> Option<Option<String>> {
    match serde_json::from_slice::<Oracle>(body) {
        Ok(Oracle(name)) => Some(name.filter(|name| !name.trim().is_empty())),
        Err(e) if e.to_string().contains("surrogate") => None,
        Err(e) if e.to_string().contains("unexpected end of hex escape") => None,
        Err(_) => Some(None),
    }
}

fn blank() -> impl Strategy<Value = String> {
    prop_oneof![4 => Just(String::new()), 1 => "[ \n\r\t]{0,12}"]
}

fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-zA-Z0-9 :/.é😀-]{0,24}",
        Just(r#"\""#.to_owned()),
        Just(r"\\".to_owned()),
        Just(r"\n".to_owned()),
        Just(r"\u0065".to_owned()),
        Just(r"\ud83d\ude00".to_owned()),
    ];
    proptest::collection::vec(part, 0..4).prop_map(|parts| format!("\"{}\"", parts.concat()))
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => proptest::sample::select(vec![
            "\"model\"", "\"MODEL\"", "\"Model\"", r#""mod\u0065l""#, "\"name\"", "\"mode\"",
        ]).prop_map(str::to_owned),
        1 => text(),
    ]
}

fn object(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let entry = (key(), blank(), blank(), value).prop_map(|(k, a, b, v)| format!("{k}{a}:{b}{v}"));
    let entries = proptest::collection::vec((entry, blank()), 0..5);
    (entries, blank()).prop_map(|(entries, space)| {
        let entries: Vec<_> = entries
            .into_iter()
            .map(|(e, b)| format!("{b}{e}{b}"))
            .collect();
        format!("{{{space}{}}}", entries.join(","))
    })
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => text(),
        1 => "-?(0|[1-9][0-9]{0,3})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?",
        1 => proptest::sample::select(vec!["true", "false", "null"]).prop_map(str::to_owned),
    ];
    let value = leaf.prop_recursive(4, 24, 4, |inner| {
        let list = proptest::collection::vec((blank(), inner.clone()), 0..4).prop_map(|items| {
            let items: Vec<_> = items
                .into_iter()
                .map(|(b, v)| format!("{b}{v}{b}"))
                .collect();
            format!("[{}]", items.join(","))
        });
        prop_oneof![list, object(inner)]
    });
    (blank(), object(value), blank()).prop_map(|(a, body, b)| format!("{a}{body}{b}"))
}

/// Removes, doubles or replaces a character, anywhere.
fn mutated() -> impl Strategy<Value = String> {
    let change = (
        any::<proptest::sample::Index>(),
        0..3u8,
        r#"["\\{}\[\]:,0-9eu+. \x01tnx-]"#,
    );
    (json(), proptest::collection::vec(change, 1..4)).prop_map(|(body, changes)| {
        let mut chars: Vec<char> = body.chars().collect();
        for (at, kind, with) in changes {
            let at = at.index(chars.len());
            match kind {
                0 if chars.len() > 1 => drop(chars.remove(at)),
                1 => chars.insert(at, with.chars().next().unwrap()),
                _ => chars[at] = with.chars().next().unwrap(),
            }
        }
        chars.into_iter().collect()
    })
}

proptest! {
    #[test]
    fn it_agrees_with_serde_json_on_json(body in json()) {
        let want = oracle(body.as_bytes());
        prop_assume!(want.is_some());
        prop_assert_eq!(Some(scan(body.as_bytes())), want, "{}", body);
    }

    #[test]
    fn it_agrees_with_serde_json_on_nearly_json(body in mutated()) {
        let want = oracle(body.as_bytes());
        prop_assume!(want.is_some());
        prop_assert_eq!(Some(scan(body.as_bytes())), want, "{}", body);
    }

    #[test]
    fn where_the_body_is_cut_makes_no_difference(
        body in prop_oneof![json(), mutated()],
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..6),
    ) {
        let body = body.as_bytes();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        cuts.sort_unstable();
        let mut scanner = ModelScan::new();
        let mut from = 0;
        for cut in cuts.into_iter().chain([body.len()]) {
            scanner.push(&body[from..cut]);
            from = cut;
        }
        prop_assert_eq!(scanner.finish(), scan(body));
        prop_assert_eq!(pieces(body, 1), scan(body));
    }

    #[test]
    fn any_bytes_are_taken(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let inside = [b"{\"model\":\"", &body[..], b"\"}"].concat();
        prop_assert_eq!(pieces(&inside, 3), scan(&inside));
        prop_assert_eq!(pieces(&body, 3), scan(&body));
    }
}
