//! Tests of `cors`.

use proptest::prelude::*;

use super::*;

const APP: &str = "http://app.test";

fn headers(list: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in list {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        map.append(name, HeaderValue::from_str(value).unwrap());
    }
    map
}

fn grant(list: &[(&str, &str)]) -> Grant {
    Grant::read(&headers(list))
}

fn preflight(origin: &str, method: &str, asked: &str) -> Ask {
    let headers = headers(&[
        ("origin", origin),
        ("access-control-request-method", method),
        ("access-control-request-headers", asked),
    ]);
    Ask::Preflight(Preflight::parse(&headers).unwrap())
}

fn read(origin: &'static str) -> Ask {
    Ask::Read(HeaderValue::from_static(origin))
}

/// The first engine of scenarios S301 to S313.
const FIRST: [(&str, &str); 5] = [
    ("access-control-allow-origin", APP),
    ("access-control-allow-methods", "GET, PUT"),
    (
        "access-control-allow-headers",
        "content-type, authorization",
    ),
    ("access-control-allow-credentials", "true"),
    ("vary", "Accept-Encoding"),
];

/// The first engine with one header sent as these values instead.
fn but(name: &str, values: &[&str]) -> Grant {
    let mut list: Vec<_> = FIRST.into_iter().filter(|(n, _)| *n != name).collect();
    list.extend(values.iter().map(|value| (name, *value)));
    grant(&list)
}

/// PUT with two headers, as in S301 to S313, asked of the first engine and a second.
fn with_second(second: Grant) -> Result<Combined, Denied> {
    let ask = preflight(APP, "PUT", "Content-Type, Authorization");
    let both = combine(&ask, &[grant(&FIRST), second.clone()]);
    assert_eq!(
        both,
        combine(&ask, &[second, grant(&FIRST)]),
        "the order matters"
    );
    both
}

fn get<'a>(map: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = map.get_all(name).iter();
    let value = values.next().map(|value| value.to_str().unwrap());
    assert!(values.next().is_none(), "{name} twice");
    value
}

fn assert_granted(combined: Result<Combined, Denied>, credentials: bool) {
    let combined = combined.unwrap();
    let out = combined.headers();
    assert_eq!(get(&out, "access-control-allow-origin"), Some(APP));
    assert_eq!(get(&out, "access-control-allow-methods"), Some("PUT"));
    let allowed = get(&out, "access-control-allow-headers");
    assert_eq!(allowed, Some("Content-Type, Authorization"));
    assert_eq!(get(&out, "access-control-max-age"), Some("60"));
    let vary = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers, \
                    Accept-Encoding";
    assert_eq!(get(&out, "vary"), Some(vary));
    let given = get(&out, "access-control-allow-credentials");
    assert_eq!(given, credentials.then_some("true"));
    assert_eq!(combined.credentials(), credentials);
    assert_eq!(out.len(), if credentials { 6 } else { 5 }, "{out:?}");
}

#[test]
fn s301_two_equal_grants_are_that_grant() {
    assert_granted(with_second(grant(&FIRST)), true);
}

#[test]
fn s302_to_s305_every_engine_must_name_the_origin_once() {
    let name = "access-control-allow-origin";
    for values in [
        &[][..],
        &[""],
        &["http://wrong.test"],
        &["HTTP://APP.TEST"],
        &["http://app.test/"],
        &["http://app.test, http://b.test"],
        &["null"],
        &[APP, APP],
        &[APP, "http://wrong.test"],
        &["*", "*"],
        &["", APP],
    ] {
        assert_eq!(
            with_second(but(name, values)),
            Err(Denied::Origin),
            "{values:?}"
        );
    }
    assert_granted(with_second(but(name, &["*"])), false);
}

#[test]
fn s306_credentials_are_granted_only_by_all() {
    let name = "access-control-allow-credentials";
    for values in [
        &[][..],
        &["false"],
        &["TRUE"],
        &[""],
        &["true", "true"],
        &["true, true"],
    ] {
        assert_granted(with_second(but(name, values)), false);
    }
}

#[test]
fn s307_and_s308_the_method_must_be_listed_in_its_case() {
    let name = "access-control-allow-methods";
    for values in [&[][..], &[""], &["put"], &["GET, POST, DELETE"], &["PUTS"]] {
        assert_eq!(
            with_second(but(name, values)),
            Err(Denied::Method),
            "{values:?}"
        );
    }
    for values in [&["PUT"][..], &["GET", "PUT"], &[" ,PUT,, "], &["*,PUT"]] {
        assert_granted(with_second(but(name, values)), true);
    }
}

#[test]
fn s309_a_method_wildcard_counts_but_not_with_credentials() {
    assert_granted(
        with_second(but("access-control-allow-methods", &["*"])),
        false,
    );
}

#[test]
fn s310_to_s312_a_header_wildcard_does_not_cover_authorization() {
    let name = "access-control-allow-headers";
    for values in [
        &["*"][..],
        &["*, content-type"],
        &[],
        &["content-type"],
        &["authorization"],
    ] {
        assert_eq!(
            with_second(but(name, values)),
            Err(Denied::Header),
            "{values:?}"
        );
    }
    assert_granted(with_second(but(name, &["*, Authorization"])), false);
    assert_granted(with_second(but(name, &["*", "authorization"])), false);
    assert_granted(
        with_second(but(name, &["CONTENT-TYPE,AUTHORIZATION,x-more"])),
        true,
    );
}

#[test]
fn s313_an_allow_list_that_is_no_list_of_tokens_grants_nothing() {
    for bad in [
        "Content-Type, bad header",
        "a;b",
        "content-type authorization",
        "\u{e9}",
        "(x)",
    ] {
        for name in [
            "access-control-allow-headers",
            "access-control-allow-methods",
        ] {
            let values = [bad, "PUT, content-type, authorization"];
            let denied = Err(Denied::MalformedGrant);
            assert_eq!(with_second(but(name, &values)), denied, "{name}: {bad}");
        }
    }
}

#[test]
fn s291_a_lists_answer_varies_by_what_the_engines_vary_by() {
    let engine = grant(&[
        ("access-control-allow-origin", APP),
        ("vary", "X-Test"),
        ("vary", "origin, Accept-Encoding"),
    ]);
    let other = grant(&[
        ("access-control-allow-origin", "*"),
        ("vary", "x-test, A, (bad)"),
    ]);
    for grants in [[engine.clone(), other.clone()], [other, engine]] {
        let out = combine(&read(APP), &grants).unwrap().headers();
        assert_eq!(
            get(&out, "vary"),
            Some("Origin, A, Accept-Encoding, X-Test")
        );
        assert_eq!(get(&out, "access-control-allow-origin"), Some(APP));
        assert_eq!(out.len(), 2, "{out:?}");
    }
}

#[test]
fn a_plain_read_asks_for_no_method_or_header() {
    let bare = grant(&[
        ("access-control-allow-origin", APP),
        ("access-control-allow-methods", "bad list"),
        ("access-control-allow-credentials", "true"),
        ("access-control-expose-headers", "x"),
    ]);
    let out = combine(&read(APP), &[bare]).unwrap().headers();
    assert_eq!(get(&out, "access-control-allow-credentials"), Some("true"));
    assert_eq!(out.len(), 3, "{out:?}");
}

#[test]
fn nobody_grants_nothing() {
    assert_eq!(combine(&read(APP), &[]), Err(Denied::NoAnswer));
}

#[test]
fn the_wildcard_is_never_sent() {
    let any = grant(&[("access-control-allow-origin", "*")]);
    let out = combine(&read(APP), std::slice::from_ref(&any))
        .unwrap()
        .headers();
    assert_eq!(get(&out, "access-control-allow-origin"), Some(APP));
    for origin in ["*", ""] {
        let denied = combine(&read(origin), std::slice::from_ref(&any));
        assert_eq!(denied, Err(Denied::MalformedRequest));
    }
}

#[test]
fn simple_methods_need_no_listing() {
    let bare = grant(&[("access-control-allow-origin", APP)]);
    for method in ["GET", "HEAD", "POST"] {
        let ask = preflight(APP, method, "");
        let out = combine(&ask, std::slice::from_ref(&bare))
            .unwrap()
            .headers();
        assert_eq!(get(&out, "access-control-allow-methods"), Some(method));
        assert_eq!(get(&out, "access-control-allow-headers"), None);
    }
    for method in ["get", "DELETE", "OPTIONS"] {
        let ask = preflight(APP, method, "");
        assert_eq!(
            combine(&ask, std::slice::from_ref(&bare)),
            Err(Denied::Method)
        );
    }
}

#[test]
fn a_preflight_has_an_origin_and_a_method() {
    let full = headers(&[("origin", APP), ("access-control-request-method", "PUT")]);
    assert!(Preflight::is_one(&full));
    for name in ["origin", "access-control-request-method"] {
        let mut less = full.clone();
        less.insert(HeaderName::from_static(name), HeaderValue::from_static(""));
        assert!(!Preflight::is_one(&less), "{name}");
        assert_eq!(Preflight::parse(&less), Err(Denied::MalformedRequest));
        less.remove(name);
        assert!(!Preflight::is_one(&less), "{name}");
        assert_eq!(Preflight::parse(&less), Err(Denied::MalformedRequest));
    }
}

#[test]
fn a_preflight_names_tokens_only() {
    let parse = |method: &str, asked: &[&str]| {
        let mut list = vec![("origin", APP), ("access-control-request-method", method)];
        list.extend(asked.iter().map(|a| ("access-control-request-headers", *a)));
        Preflight::parse(&headers(&list))
    };
    let names = parse("PUT", &["a, ,B,", "c"]).unwrap().headers;
    assert_eq!(names, ["a", "B", "c"]);
    for (method, asked) in [
        ("P T", "a"),
        ("P\u{e9}", "a"),
        ("PUT,GET", "a"),
        ("PUT", "a b"),
        ("PUT", "a:"),
    ] {
        assert_eq!(
            parse(method, &[asked]),
            Err(Denied::MalformedRequest),
            "{method} {asked}"
        );
    }
}

/// One value mostly, and mostly the first.
fn values(of: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    let any = proptest::collection::vec(proptest::sample::select(of), 0..3);
    prop_oneof![2 => Just(vec![of[0]]), 1 => any]
}

/// Any engine's answer: good, bad and odd headers alike.
fn any_grant() -> impl Strategy<Value = Grant> {
    let origin = values(&[APP, "*", "", "http://b.test"]);
    let methods = values(&["GET, PUT", "PUT", "*", "put", "", "a b"]);
    let names = values(&[
        "content-type, authorization",
        "*",
        "Content-Type",
        "x",
        "b d",
    ]);
    let credentials = values(&["true", "false"]);
    let vary = values(&["x-test, Accept", "Origin", "X-Test", "*", ""]);
    (origin, methods, names, credentials, vary).prop_map(|lists| {
        let (o, m, h, c, v) = lists;
        let named = [
            ("access-control-allow-origin", o),
            ("access-control-allow-methods", m),
            ("access-control-allow-headers", h),
            ("access-control-allow-credentials", c),
            ("vary", v),
        ];
        let list: Vec<_> = named
            .iter()
            .flat_map(|(name, values)| values.iter().map(|value| (*name, *value)))
            .collect();
        grant(&list)
    })
}

fn any_ask() -> impl Strategy<Value = Ask> {
    let method = proptest::sample::select(vec!["PUT", "GET", "POST", "put"]);
    let asked =
        proptest::sample::select(vec!["", "Content-Type", "content-type,Authorization", "x"]);
    prop_oneof![
        1 => Just(read(APP)),
        3 => (method, asked).prop_map(|(method, asked)| preflight(APP, method, asked)),
    ]
}

fn permitted(combined: &Result<Combined, Denied>) -> (bool, bool) {
    let credentials = combined.as_ref().is_ok_and(Combined::credentials);
    (combined.is_ok(), credentials)
}

proptest! {
    #[test]
    fn the_order_of_answers_does_not_matter(
        ask in any_ask(),
        (grants, shuffled) in proptest::collection::vec(any_grant(), 0..4)
            .prop_flat_map(|grants| (Just(grants.clone()), Just(grants).prop_shuffle())),
    ) {
        prop_assert_eq!(combine(&ask, &grants), combine(&ask, &shuffled));
    }

    #[test]
    fn an_answer_heard_twice_changes_nothing(
        ask in any_ask(),
        grants in proptest::collection::vec(any_grant(), 1..4),
    ) {
        let twice = [&grants[..], &grants[..]].concat();
        prop_assert_eq!(combine(&ask, &grants), combine(&ask, &twice));
    }

    #[test]
    fn an_engine_that_permits_everything_changes_nothing(
        ask in any_ask(),
        grants in proptest::collection::vec(any_grant(), 1..4),
    ) {
        let everything = grant(&[
            ("access-control-allow-origin", APP),
            ("access-control-allow-methods", "GET, PUT, POST, put"),
            ("access-control-allow-headers", "content-type, authorization, x"),
            ("access-control-allow-credentials", "true"),
        ]);
        let more = [&grants[..], &[everything]].concat();
        prop_assert_eq!(combine(&ask, &grants), combine(&ask, &more));
    }

    #[test]
    fn all_permit_what_each_permits(
        ask in any_ask(),
        grants in proptest::collection::vec(any_grant(), 1..4),
    ) {
        let each: Vec<_> = grants
            .iter()
            .map(|grant| permitted(&combine(&ask, std::slice::from_ref(grant))))
            .collect();
        let want = (each.iter().all(|e| e.0), each.iter().all(|e| e.1));
        prop_assert_eq!(permitted(&combine(&ask, &grants)), want);
    }

    #[test]
    fn our_answer_read_as_a_grant_permits_the_same(
        ask in any_ask(),
        grants in proptest::collection::vec(any_grant(), 1..3),
    ) {
        let combined = combine(&ask, &grants);
        if let Ok(combined) = combined {
            let again = combine(&ask, &[Grant::read(&combined.headers())]);
            prop_assert_eq!(again, Ok(combined));
        }
    }
}
