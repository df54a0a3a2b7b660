//! One probe of one engine.
//!
//! Owns: which paths are asked per engine and what counts as an answer.
//! Leaves to others: when (`director`, `agent`), reading bodies (`rules::inventory`), counting misses.

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, StatusCode};

use super::fetch::{self, Fetched, Limits};
use crate::rules::engine::{EngineId, Warm};
use crate::rules::ingress::{self, Refusal};
use crate::rules::inventory::{self, Listing, Loaded, Miss, Reading};
use crate::rules::secret::Secret;

/// Tells our own kind that an engine is looked for: a facade answers it with 409.
pub const IDENTITY_PROBE: HeaderName = HeaderName::from_static(ingress::IDENTITY_PROBE);
/// Value of [`IDENTITY_PROBE`].
pub const YES: HeaderValue = HeaderValue::from_static("1");

/// Whom to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// What runs there.
    pub engine: EngineId,
    /// Host to dial.
    pub host: String,
    /// Port to dial.
    pub port: u16,
    /// In front of every path.
    pub prefix: String,
    /// Sent as bearer token.
    pub api_key: Option<Secret>,
    /// Whether its models are configured: then only its being alive is asked.
    pub models_known: bool,
}

/// Asks a node for everything its engine tells.
pub async fn ask(target: &Target, limits: Limits) -> Result<Reading, Miss> {
    let inventory = &target.engine.spec().inventory;
    let deadline = tokio::time::Instant::now() + limits.whole;
    let answer = get(target, inventory.path, limits).await?;
    let listing = match accepted(target, &answer)? {
        Some(listing) => listing,
        None => return Ok(Reading::default()),
    };
    // One bound for the probe as a whole: the optional part gets what is left.
    let left = deadline.saturating_duration_since(tokio::time::Instant::now());
    let rest = Limits {
        whole: left,
        connect: limits.connect.min(left),
        ..limits
    };
    Ok(with_state(target, listing, rest).await)
}

/// A server that speaks OpenAI's API and is none of the engines that are known better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenServer {
    /// Host to dial.
    pub host: String,
    /// Port to dial.
    pub port: u16,
    /// In front of every path.
    pub prefix: String,
}

impl OpenServer {
    /// Asks for its models. What is in memory it does not tell.
    ///
    /// # Errors
    /// It does not answer, or not with a list of models.
    pub async fn ask(&self, limits: Limits) -> Result<Reading, Miss> {
        let answer = self.get("/v1/models", limits).await?;
        if is_facades(&answer) {
            return Err(Miss::Facade);
        }
        let status = answer.status.as_u16();
        let listing = match status {
            200 => inventory::open_listing(&answer.body),
            _ => None,
        };
        let listing = listing.ok_or_else(|| {
            Miss::Silent(match status {
                200 => "answers, but not with a list of models".to_owned(),
                503 => "HTTP 503: loading or busy".to_owned(),
                _ => format!("HTTP {status} to a probe of /v1/models"),
            })
        })?;
        Ok(Reading {
            models: Some(listing.models),
            context: listing.context,
            ..Reading::default()
        })
    }

    /// Asks for a path, without a key.
    ///
    /// # Errors
    /// There is no complete answer.
    pub async fn get(&self, path: &str, limits: Limits) -> Result<Fetched, Miss> {
        let path = format!("{}{path}", self.prefix);
        let answer = fetch::get(
            &self.host,
            self.port,
            &path,
            &[(IDENTITY_PROBE, YES)],
            limits,
        )
        .await;
        answer.map_err(|e| Miss::Silent(e.to_string()))
    }
}

async fn get(target: &Target, path: &str, limits: Limits) -> Result<Fetched, Miss> {
    let mut headers = vec![(IDENTITY_PROBE, YES)];
    if let Some(key) = &target.api_key
        && let Ok(mut value) = HeaderValue::try_from(format!("Bearer {}", key.reveal()))
    {
        value.set_sensitive(true);
        headers.push((AUTHORIZATION, value));
    }
    let path = format!("{}{path}", target.prefix);
    let answer = fetch::get(&target.host, target.port, &path, &headers, limits).await;
    answer.map_err(|e| Miss::Silent(e.to_string()))
}

/// Whether one of our own kind answers.
fn is_facades(answer: &Fetched) -> bool {
    let code = inventory::refusal_code(&answer.body);
    answer.status.is_client_error() && code.is_some_and(|c| Refusal::meets_a_probe(&c))
}

/// The list in an answer; `None` where a node with configured models is alive without one.
fn accepted(target: &Target, answer: &Fetched) -> Result<Option<Listing>, Miss> {
    if is_facades(answer) {
        return Err(Miss::Facade);
    }
    let listing = if answer.status == StatusCode::OK {
        inventory::listing(target.engine, &answer.body)
    } else {
        None
    };
    match (listing, answer.status) {
        (Some(listing), _) => Ok(Some(listing)),
        (None, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => Err(Miss::Silent(format!(
            "HTTP {}: check api_key",
            answer.status.as_u16()
        ))),
        (None, status) if target.models_known && !status.is_server_error() => Ok(None),
        (None, StatusCode::OK) => {
            let display = target.engine.spec().display;
            Err(Miss::Silent(format!(
                "answers, but not with a model list of {display}"
            )))
        },
        (None, StatusCode::SERVICE_UNAVAILABLE) => {
            Err(Miss::Silent("HTTP 503: loading or busy".to_owned()))
        },
        (None, status) => Err(Miss::Silent(format!("HTTP {} to a probe", status.as_u16()))),
    }
}

/// Adds what the engine tells elsewhere. None of it is needed: its absence is no ill health.
async fn with_state(target: &Target, listing: Listing, limits: Limits) -> Reading {
    let mut reading = Reading {
        context: listing.context,
        ..Reading::default()
    };
    match target.engine.spec().inventory.warm {
        Warm::RunningList { path } => {
            let body = optional(target, path, limits).await;
            loaded(
                &mut reading,
                body.and_then(|b| inventory::running(target.engine, &b)),
            );
        },
        Warm::StateList { path } => {
            let body = optional(target, path, limits).await;
            loaded(
                &mut reading,
                body.and_then(|b| inventory::states(target.engine, &b)),
            );
        },
        Warm::Untold => {},
        Warm::Props { path } => {
            // Without load states it is a server of one model, which is in memory.
            let warm = if listing.router {
                &listing.warm
            } else {
                &listing.models
            };
            reading.warm = Some(warm.clone());
            // A router knows properties per model; asking for one that is not loaded would load it.
            let path = match (listing.router, listing.warm.first()) {
                (false, _) => Some(path.to_owned()),
                (true, Some(model)) => {
                    Some(format!("{path}?model={}&autoload=false", encoded(model)))
                },
                (true, None) => None,
            };
            if let Some(path) = path {
                reading.slots = optional(target, &path, limits)
                    .await
                    .and_then(|b| inventory::slots(&b));
            }
        },
    }
    reading.models = Some(listing.models);
    reading
}

fn loaded(reading: &mut Reading, told: Option<Loaded>) {
    if let Some(told) = told {
        reading.warm = Some(told.warm);
        reading.context = told.context;
    }
}

async fn optional(target: &Target, path: &str, limits: Limits) -> Option<bytes::Bytes> {
    let answer = get(target, path, limits).await.ok()?;
    (answer.status == StatusCode::OK).then_some(answer.body)
}

/// A model's name as the value of a query.
fn encoded(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
