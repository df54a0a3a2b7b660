//! What several engines together permit a browser (spec §5.8).
//!
//! Owns: reading one response's grant, checking a preflight request, and the intersection of grants.
//! Leaves to others: whom to ask, which answers count as one, and the statuses (`facade`).
//!
//! There is no permission of our own: what is granted is what every answer grants. Credentials are
//! granted apart and more strictly, since a wildcard never covers them in a browser.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

/// How long a browser may keep the answer. Short, since the engines behind it change.
const MAX_AGE: &str = "60";
const WILDCARD: &str = "*";
/// Methods that a browser sends without asking (Fetch, "CORS-safelisted method").
const SAFE_METHODS: [&str; 3] = ["GET", "HEAD", "POST"];

/// What one response permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    origin: OriginGrant,
    credentials: bool,
    /// The allow lists are absent if they hold anything that is no token.
    methods: Option<Vec<String>>,
    headers: Option<Vec<String>>,
    vary: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum OriginGrant {
    Nobody,
    Anyone,
    Only(HeaderValue),
}

/// Whether `*` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wildcards {
    Count,
    Ignored,
}

impl Grant {
    /// Reads the CORS headers of a response.
    pub fn read(headers: &HeaderMap) -> Self {
        let origin = match single(headers, &ACCESS_CONTROL_ALLOW_ORIGIN) {
            None => OriginGrant::Nobody,
            // llama.cpp sends it empty to a request without an origin.
            Some(value) if value.is_empty() => OriginGrant::Nobody,
            Some(value) if value == WILDCARD => OriginGrant::Anyone,
            Some(value) => OriginGrant::Only(value.clone()),
        };
        let credentials = single(headers, &ACCESS_CONTROL_ALLOW_CREDENTIALS);
        Self {
            origin,
            credentials: credentials.is_some_and(|value| value == "true"),
            methods: tokens(headers, &ACCESS_CONTROL_ALLOW_METHODS),
            headers: tokens(headers, &ACCESS_CONTROL_ALLOW_HEADERS),
            vary: items(headers, &VARY)
                .filter(|item| is_token(item))
                .filter_map(|item| Some(std::str::from_utf8(item).ok()?.to_owned()))
                .collect(),
        }
    }

    /// Whether a page of this origin may read the response.
    pub fn allows_origin(&self, origin: &HeaderValue) -> bool {
        match &self.origin {
            OriginGrant::Nobody => false,
            OriginGrant::Anyone => true,
            OriginGrant::Only(only) => only == origin,
        }
    }

    /// Whether it may do so with credentials: only an echo of the origin says that.
    fn allows_credentials(&self, ask: &Ask) -> bool {
        let named = matches!(self.origin, OriginGrant::Only(_));
        named && self.credentials && self.refuses(ask, Wildcards::Ignored).is_none()
    }

    fn refuses(&self, ask: &Ask, wildcards: Wildcards) -> Option<Denied> {
        if !self.allows_origin(ask.origin()) {
            return Some(Denied::Origin);
        }
        let Ask::Preflight(preflight) = ask else {
            return None;
        };
        let (Some(methods), Some(headers)) = (&self.methods, &self.headers) else {
            return Some(Denied::MalformedGrant);
        };
        let any = |list: &[String]| {
            wildcards == Wildcards::Count && list.iter().any(|item| item == WILDCARD)
        };
        let method = preflight.method.as_str();
        let safe = SAFE_METHODS.contains(&method);
        if !(safe || any(methods) || methods.iter().any(|item| item == method)) {
            return Some(Denied::Method);
        }
        let any_header = any(headers);
        let listed = |name: &String| {
            let named = headers.iter().any(|item| item.eq_ignore_ascii_case(name));
            named || (any_header && !name.eq_ignore_ascii_case("authorization"))
        };
        (!preflight.headers.iter().all(listed)).then_some(Denied::Header)
    }
}

/// What a browser asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// To read the answer of a plain request, from this origin.
    Read(HeaderValue),
    /// To send a request that it describes first.
    Preflight(Preflight),
}

impl Ask {
    /// The origin of the page.
    pub fn origin(&self) -> &HeaderValue {
        match self {
            Self::Read(origin) => origin,
            Self::Preflight(preflight) => &preflight.origin,
        }
    }
}

/// A well-formed preflight request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preflight {
    origin: HeaderValue,
    method: String,
    /// As the browser wrote them.
    headers: Vec<String>,
}

impl Preflight {
    /// Whether a request is a preflight at all; other uses of OPTIONS are forwarded like any request.
    pub fn is_one(method: &Method, headers: &HeaderMap) -> bool {
        let given = |name| first(headers, name).is_some();
        method == Method::OPTIONS && given(&ORIGIN) && given(&ACCESS_CONTROL_REQUEST_METHOD)
    }

    /// Reads a preflight request's headers.
    pub fn parse(headers: &HeaderMap) -> Result<Self, Denied> {
        let origin = first(headers, &ORIGIN).ok_or(Denied::MalformedRequest)?;
        let method = first(headers, &ACCESS_CONTROL_REQUEST_METHOD)
            .filter(|method| is_token(method.as_bytes()))
            .and_then(|method| method.to_str().ok())
            .ok_or(Denied::MalformedRequest)?;
        let asked = tokens(headers, &ACCESS_CONTROL_REQUEST_HEADERS);
        Ok(Self {
            origin: origin.clone(),
            method: method.to_owned(),
            headers: asked.ok_or(Denied::MalformedRequest)?,
        })
    }
}

/// Why there is no common grant; of several reasons the first here is given. It carries no value of
/// the request or of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Denied {
    /// Nobody answered, and nobody grants nothing.
    #[error("no engine answered")]
    NoAnswer,
    /// The request's own CORS headers are wrong.
    #[error("the request's CORS headers are malformed")]
    MalformedRequest,
    /// An allow list is wrong.
    #[error("an engine's CORS headers are malformed")]
    MalformedGrant,
    /// An answer does not allow the origin.
    #[error("an engine does not allow the origin")]
    Origin,
    /// An answer does not allow the method.
    #[error("an engine does not allow the method")]
    Method,
    /// An answer does not allow one of the headers.
    #[error("an engine does not allow a request header")]
    Header,
}

/// What all answers permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combined {
    ask: Ask,
    credentials: bool,
    /// The answers' `Vary` values beyond our own, sorted and each once.
    vary: Vec<String>,
}

/// What every one of the grants permits of what is asked.
pub fn combine(ask: &Ask, grants: &[Grant]) -> Result<Combined, Denied> {
    if grants.is_empty() {
        return Err(Denied::NoAnswer);
    }
    // Echoed, it would be the wildcard that we must never send.
    if ask.origin().is_empty() || ask.origin() == WILDCARD {
        return Err(Denied::MalformedRequest);
    }
    let refused = |grant: &Grant| grant.refuses(ask, Wildcards::Count);
    if let Some(denied) = grants.iter().filter_map(refused).min() {
        return Err(denied);
    }
    let ours = own_vary(ask);
    let mut vary: Vec<String> = grants.iter().flat_map(|grant| grant.vary.clone()).collect();
    // Sorted, so that the order of answers does not show.
    vary.sort_unstable_by_key(|item| (item.to_ascii_lowercase(), item.clone()));
    vary.dedup_by(|a, b| a.eq_ignore_ascii_case(b));
    vary.retain(|item| !ours.iter().any(|own| own.eq_ignore_ascii_case(item)));
    Ok(Combined {
        ask: ask.clone(),
        credentials: grants.iter().all(|grant| grant.allows_credentials(ask)),
        vary,
    })
}

impl Combined {
    /// Whether credentials are granted.
    pub fn credentials(&self) -> bool {
        self.credentials
    }

    /// The headers of our answer; of the engines' own CORS headers nothing else is passed on.
    pub fn headers(&self) -> HeaderMap {
        let mut out = HeaderMap::new();
        out.insert(ACCESS_CONTROL_ALLOW_ORIGIN, self.ask.origin().clone());
        if self.credentials {
            out.insert(
                ACCESS_CONTROL_ALLOW_CREDENTIALS,
                HeaderValue::from_static("true"),
            );
        }
        let ours = own_vary(&self.ask).iter().copied();
        let vary: Vec<_> = ours.chain(self.vary.iter().map(String::as_str)).collect();
        insert(&mut out, VARY, &vary.join(", "));
        if let Ask::Preflight(preflight) = &self.ask {
            insert(&mut out, ACCESS_CONTROL_ALLOW_METHODS, &preflight.method);
            if !preflight.headers.is_empty() {
                let headers = preflight.headers.join(", ");
                insert(&mut out, ACCESS_CONTROL_ALLOW_HEADERS, &headers);
            }
            out.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
        }
        out
    }
}

/// What our answer depends on, whatever the engines say.
fn own_vary(ask: &Ask) -> &'static [&'static str] {
    match ask {
        Ask::Read(_) => &["Origin"],
        Ask::Preflight(_) => &[
            "Origin",
            "Access-Control-Request-Method",
            "Access-Control-Request-Headers",
        ],
    }
}

/// Tokens and their separators are always a header's value.
fn insert(out: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        out.insert(name, value);
    }
}

/// The value of a header that is not empty; the first of several.
fn first<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    headers.get(name).filter(|value| !value.is_empty())
}

/// The value of a header that was sent exactly once.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

/// The items of a header's comma lists; empty ones are left out.
fn items<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    headers
        .get_all(name)
        .iter()
        .flat_map(|value| value.as_bytes().split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|item| !item.is_empty())
}

/// The items if all are tokens.
fn tokens(headers: &HeaderMap, name: &HeaderName) -> Option<Vec<String>> {
    let token = |item: &[u8]| is_token(item).then(|| String::from_utf8_lossy(item).into_owned());
    items(headers, name).map(token).collect()
}

/// RFC 9110 section 5.6.2.
fn is_token(bytes: &[u8]) -> bool {
    let tchar = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    !bytes.is_empty() && bytes.iter().all(tchar)
}

#[cfg(test)]
mod tests {
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
        assert!(Preflight::is_one(&Method::OPTIONS, &full));
        assert!(!Preflight::is_one(&Method::GET, &full));
        for name in ["origin", "access-control-request-method"] {
            let mut less = full.clone();
            less.insert(HeaderName::from_static(name), HeaderValue::from_static(""));
            assert!(!Preflight::is_one(&Method::OPTIONS, &less), "{name}");
            assert_eq!(Preflight::parse(&less), Err(Denied::MalformedRequest));
            less.remove(name);
            assert!(!Preflight::is_one(&Method::OPTIONS, &less), "{name}");
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
}
