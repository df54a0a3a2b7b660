//! What the gateway answers itself (product section 8): its models, its health, what it does not have.
//!
//! Owns: `/v1/models` and each of them, `/health`, `/status`. Leaves to others: inference, which goes
//! the way of every facade's (`exchange`, along a `chain`), and what a browser may read (`inventory`).

use std::collections::BTreeMap;
use std::net::IpAddr;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::net::answers;
use crate::net::body::discard;
use crate::rules::candidates::Candidate;
use crate::rules::ingress::Refusal;
use crate::state::clients::Client;
use crate::state::lifetime::Phase;
use crate::state::query::Queries;

use super::Facade;
use super::answer::Content;
use super::exchange::{own, own_error};
use super::inventory;
use super::report::Report;

const MODELS: &str = "/v1/models";
const MODEL: &str = "/v1/models/";

/// One entry of the list, as OpenAI's clients read it.
#[derive(Serialize)]
struct Model<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'a str,
}

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Model<'a>>,
}

/// Answers `GET /v1/models`: virtual models, then those of nodes, then those of providers; each name
/// once, by its first owner.
pub async fn models(mut report: Report, request: Request<Incoming>) -> Response<Content> {
    let body = listed(&report);
    let origin = request.headers().get(header::ORIGIN);
    if let Some(origin) = origin.filter(|o| !o.is_empty()).cloned() {
        return inventory::list_to_origin(&mut report, &request, origin, body).await;
    }
    answer(&mut report, StatusCode::OK, body)
}

/// Answers every request that is no inference, no list and no preflight.
pub async fn other(
    mut report: Report,
    request: Request<Incoming>,
    client: IpAddr,
) -> Response<Content> {
    let path = request.uri().path().to_owned();
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    discard(request.into_body());
    let own_path = matches!(&*path, "/health" | "/status" | MODELS) || path.starts_with(MODEL);
    if own_path && !is_read {
        let text = format!("{path} takes GET only");
        let status = StatusCode::METHOD_NOT_ALLOWED;
        let mut response = own_error(&mut report, status, &text, "method not allowed".to_owned());
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(header::ALLOW, allowed);
        return response;
    }
    match &*path {
        "/health" | "/status" if !client.to_canonical().is_loopback() => {
            let text = format!("{path} is answered to this machine only");
            let code = Refusal::LoopbackOnly.code();
            report.answered(StatusCode::FORBIDDEN.as_u16(), Some(code.to_owned()));
            own(answers::refusal(StatusCode::FORBIDDEN, code, &text))
        },
        "/health" => health(&mut report),
        "/status" => {
            let body = json(&report.facade().context.shared.status());
            answer(&mut report, StatusCode::OK, body)
        },
        // By `HEAD`.
        MODELS => {
            let body = listed(&report);
            answer(&mut report, StatusCode::OK, body)
        },
        _ => match path.strip_prefix(MODEL) {
            Some(id) => model(&mut report, &decoded(id)),
            None => unknown(&mut report, &path),
        },
    }
}

fn listed(report: &Report) -> Bytes {
    let created = report.facade().context.shared.info.started_at / 1000;
    let known = known(report);
    let data = known.iter().map(|k| k.entry(created)).collect();
    json(&List {
        object: "list",
        data,
    })
}

fn health(report: &mut Report) -> Response<Content> {
    let running = report.facade().context.lifetime.phase() == Phase::Running;
    let (status, word) = match running {
        true => (StatusCode::OK, "ok"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
    };
    let body = json(&serde_json::json!({ "status": word }));
    answer(report, status, body)
}

fn model(report: &mut Report, id: &str) -> Response<Content> {
    let created = report.facade().context.shared.info.started_at / 1000;
    let known = known(report);
    match known.iter().find(|k| k.id == id) {
        Some(found) => answer(report, StatusCode::OK, json(&found.entry(created))),
        None => {
            let text = format!("there is no model {id:?} here; GET /v1/models lists what there is");
            own_error(
                report,
                StatusCode::NOT_FOUND,
                &text,
                "no such model".to_owned(),
            )
        },
    }
}

fn unknown(report: &mut Report, path: &str) -> Response<Content> {
    let text = format!(
        "the gateway has no route {path:?}; it serves /v1/models, /v1/chat/completions, \
         /v1/completions, /v1/embeddings, /v1/messages, /v1/responses and /v1/audio/*"
    );
    own_error(
        report,
        StatusCode::NOT_FOUND,
        &text,
        "no such route".to_owned(),
    )
}

/// A model that can be asked for, and whose it is.
struct Known {
    id: String,
    owner: String,
}

impl Known {
    fn entry(&self, created: u64) -> Model<'_> {
        Model {
            id: &self.id,
            object: "model",
            created,
            owned_by: &self.owner,
        }
    }
}

/// Everything that can be asked for by this client.
fn known(report: &Report) -> Vec<Known> {
    let facade = report.facade();
    let mut all: Vec<Known> = Vec::new();
    let mut seen = FxHashSet::default();
    let mut add = |id: &str, owner: &str| {
        if seen.insert(id.to_owned()) {
            let (id, owner) = (id.to_owned(), owner.to_owned());
            all.push(Known { id, owner });
        }
    };
    let client = report.client().map(|c| &**c);
    let granted = |name: &&str| client.is_none_or(|c| c.grants().allows_virtual(name));
    for name in report.settings().virtual_models.names().filter(granted) {
        add(name, "virtual");
    }
    for (model, owner) in of_nodes(facade, client) {
        add(&model, owner);
    }
    for provider in facade.context.shared.providers.all().iter() {
        let target = provider.target();
        let may =
            |model: &&str| client.is_none_or(|c| c.grants().allows(target.as_granted(), model));
        for model in provider.models().filter(may) {
            add(model, provider.name());
        }
    }
    all
}

/// Models of the nodes of all engines that a caller may use, by name, with what runs them.
fn of_nodes(facade: &Facade, client: Option<&Client>) -> BTreeMap<String, &'static str> {
    let mut models = BTreeMap::new();
    for source in facade.context.shared.sources() {
        let routing = facade.routing_of(&source);
        for (model, owners) in routing.view.models() {
            let may = |c: &&Candidate| {
                client.is_none_or(|client| client.grants().allows(c.target.as_granted(), model))
            };
            if let Some(first) = owners.iter().find(may) {
                let engine = first.target.runs.as_str();
                models.entry(model.to_owned()).or_insert(engine);
            }
        }
    }
    models
}

/// A name as it stands in a path: clients write a slash in it either way.
fn decoded(id: &str) -> String {
    let mut bytes = Vec::with_capacity(id.len());
    let mut rest = id.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let hex = (first == b'%').then(|| behind.get(..2)).flatten();
        let hex = hex.and_then(|h| std::str::from_utf8(h).ok());
        match hex.and_then(|h| u8::from_str_radix(h, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            },
            None => {
                bytes.push(first);
                rest = behind;
            },
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn json(value: &impl Serialize) -> Bytes {
    // Strings and numbers only: it cannot fail.
    serde_json::to_vec(value).unwrap_or_default().into()
}

fn answer(report: &mut Report, status: StatusCode, body: Bytes) -> Response<Content> {
    report.answered(status.as_u16(), None);
    own(answers::json_response(status, body))
}
