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
use http::{HeaderMap, HeaderName, HeaderValue};

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
    /// Whether an OPTIONS with these headers is a preflight; others are forwarded like any request.
    pub fn is_one(headers: &HeaderMap) -> bool {
        let given = |name| first(headers, name).is_some();
        given(&ORIGIN) && given(&ACCESS_CONTROL_REQUEST_METHOD)
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
mod tests;
