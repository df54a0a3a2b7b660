//! What a client is told whose request nobody served.
//!
//! Owns: the words, their status and how long to wait. Leaves to others: why it ended (`rules::dispatch`),
//! the shape of an answer (`net::answers`), a key's refusals (`keyed`).

use bytes::Bytes;
use http::{Response, StatusCode, header};

use crate::rules::dispatch::{Answer, Exhausted};
use crate::rules::nearest::nearest;
use crate::rules::outcome::Failure;
use crate::state::chain;

use super::super::keyed;
use super::{Model, Round, own_error};

/// On the gateway there is more than nodes.
const NOBODY_FREE: &str = "every target of the requested model was full, draining, or resting after \
                           failures or a rate limit, for longer than the request may wait";

impl Round {
    /// The answer we make where no attempt's was one. `page`: a web page asks, which is told no
    /// names it did not say.
    pub fn answer(&mut self, answer: Answer, page: bool) -> Response<Bytes> {
        if let Some(model) = &self.model {
            self.report.asked_for(&model.name);
        }
        let mut retry = None;
        let (status, text, short) = match answer {
            Answer::NoCandidate => {
                let short = match self.model {
                    Some(_) => "no node advertises requested model",
                    None => "no active node",
                };
                (
                    StatusCode::BAD_GATEWAY,
                    self.no_candidate(page),
                    short.to_owned(),
                )
            },
            Answer::TooLong { needs, fits } => {
                let text = format!(
                    "the request may need about {needs} tokens, and the largest context of a node \
                     with this model has {fits}; shorten it, or ask for fewer tokens"
                );
                let short = "the request fits no node's context".to_owned();
                (StatusCode::BAD_REQUEST, text, short)
            },
            Answer::NotGranted => {
                let short = "the client key may not use the model".to_owned();
                let model = self.model.as_ref().map(|m| &*m.name);
                let text = keyed::not_granted(self.report.client(), model);
                (StatusCode::FORBIDDEN, text, short)
            },
            Answer::OverLimit(over) => {
                retry = Some(over.retry_seconds());
                let short = "over a limit of the client key".to_owned();
                let text = keyed::over_limit(self.report.client(), over);
                (StatusCode::TOO_MANY_REQUESTS, text, short)
            },
            Answer::Attempt(failure) => {
                let status = match failure {
                    Failure::NoContent => StatusCode::GATEWAY_TIMEOUT,
                    _ => StatusCode::BAD_GATEWAY,
                };
                let text = failure.text().to_owned();
                (status, self.tried(&text), text)
            },
            Answer::Exhausted(why) => {
                let is_gateway = self.report.facade().state.engine().is_gateway();
                let text = match why {
                    Exhausted::Busy if is_gateway => NOBODY_FREE,
                    _ => why.text(),
                };
                let text = text.to_owned();
                (StatusCode::SERVICE_UNAVAILABLE, self.tried(&text), text)
            },
        };
        if self.machine.dispatched() > 0 {
            let engine = self.report.facade().state.engine();
            let job = self.report.id();
            tracing::debug!(%engine, %job, status = status.as_u16(), "request failed");
        }
        let mut response = own_error(&mut self.report, status, &text, short);
        let rest = self
            .rest
            .filter(|_| status == StatusCode::SERVICE_UNAVAILABLE);
        let rest = rest.map(|rest| rest.as_millis().div_ceil(1000).max(1) as u64);
        if let Some(seconds) = retry.or(rest) {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }

    /// What was asked for, what was tried.
    fn tried(&self, text: &str) -> String {
        let n = self.machine.dispatched();
        let attempts = if n == 1 {
            "1 attempt".to_owned()
        } else {
            format!("{n} attempts")
        };
        match &self.model {
            Some(Model { name, .. }) => format!("{text} (model {name:?}, {attempts})"),
            None => format!("{text} ({attempts})"),
        }
    }

    /// Names the model and, unless a web page asks, the nearest ones there are.
    fn no_candidate(&self, page: bool) -> String {
        let facade = self.report.facade();
        let display = facade.state.engine().spec().display;
        let Some(Model { name: model, path }) = &self.model else {
            return format!(
                "no node is reachable through the {display} facade; start an engine or add a node"
            );
        };
        let none = format!("no node advertises the model {model:?}");
        if page {
            return none;
        }
        let virtuals = &self.report.settings().virtual_models;
        let client = self.report.client().map(|c| &**c);
        let known = chain::models(&facade.context.shared, &facade.state, virtuals, client);
        if let Some(owners) = known.get(&**model) {
            // Whoever has it is down, or a provider without the route.
            return format!(
                "the model {model:?} ({}) has no target that is up and takes {path}",
                owners.join(", ")
            );
        }
        let near = nearest(model, known.keys().map(String::as_str), 3);
        if near.is_empty() {
            return format!("{none}; pull it on a node, or ask for one that is listed");
        }
        let near: Vec<_> = near
            .iter()
            .map(|m| format!("{m} ({})", known[*m].join(", ")))
            .collect();
        format!("{none}; nearest: {}", near.join(", "))
    }
}
