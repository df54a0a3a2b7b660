//! What a request is held to: limits and door rules.
//!
//! Owns: the values, and swapping them as one. Leaves to others: where they come from (`config`),
//! applying them (`facade`). A request takes them once, when it arrives, and ends under them
//! whatever is swapped meanwhile.

use std::sync::Arc;

use ipnet::IpNet;
use tokio::sync::watch;

use crate::config::gateway::{TargetName, VirtualModel, VirtualTarget};
use crate::config::settings::Settings;
use crate::rules::budget::{Cap, MAX_REQUEST_BYTES, RESPONSE_TIMEOUT};
use crate::rules::gateway::{Link, Place, VirtualModels};

/// Limits and door rules.
#[derive(Clone, Debug)]
pub struct RequestSettings {
    /// Bytes of a request body kept for replay.
    pub max_request_bytes: u64,
    /// Wait for response headers, and again for first content.
    pub response_cap: Cap,
    /// Silence allowed after commit.
    pub stream_idle_cap: Cap,
    /// Commit at the first byte, whatever it is, instead of holding event-stream framing.
    pub commit_on_first_byte: bool,
    /// Names that may stand in `Host`, beside the built-in ones; lower case.
    pub allowed_hosts: Vec<String>,
    /// Browser origins let in; `None` = the engines' own policy decides.
    pub allowed_origins: Option<Vec<String>>,
    /// Networks whose callers are let in, with a key; empty = loopback only.
    pub allowed_cidrs: Vec<IpNet>,
    /// Add `X-Nvpair-*` headers to relayed answers.
    pub response_headers: bool,
    /// Names of the gateway that stand for others.
    pub virtual_models: Arc<VirtualModels>,
}

impl From<&Settings> for RequestSettings {
    fn from(s: &Settings) -> Self {
        Self {
            max_request_bytes: s.max_request_bytes,
            response_cap: s.response_header_timeout,
            stream_idle_cap: s.stream_idle_timeout,
            commit_on_first_byte: s.commit_gate_first_byte,
            allowed_hosts: s.allowed_hosts.clone(),
            allowed_origins: s.allowed_origins.clone(),
            allowed_cidrs: s.allowed_cidrs.clone(),
            response_headers: s.response_headers,
            virtual_models: Arc::new(virtual_models(s)),
        }
    }
}

/// A provider that is turned off stays in its chain: it is passed over, as one that rests is.
fn virtual_models(s: &Settings) -> VirtualModels {
    let place = |target: &TargetName| match target {
        TargetName::Engine(engine) => Place::Engine(*engine),
        TargetName::Pool => Place::Pool,
        TargetName::Provider(name) => Place::Provider(name.clone()),
        TargetName::Node(id) => Place::Node(id.as_str().into()),
    };
    let link = |t: &VirtualTarget| Link {
        place: place(&t.target),
        model: t.model.as_str().into(),
    };
    let model = |m: &VirtualModel| (m.name.clone(), m.targets.iter().map(link).collect());
    VirtualModels::new(s.virtual_models.iter().map(model))
}

/// The values in force.
#[derive(Debug)]
pub struct Live(watch::Sender<Arc<RequestSettings>>);

impl Live {
    /// These, until they are swapped.
    pub fn new(settings: RequestSettings) -> Self {
        Self(watch::Sender::new(Arc::new(settings)))
    }

    /// Those of this moment.
    pub fn now(&self) -> Arc<RequestSettings> {
        self.0.borrow().clone()
    }

    /// From now on these.
    pub fn swap(&self, settings: RequestSettings) {
        self.0.send_replace(Arc::new(settings));
    }
}

impl Default for RequestSettings {
    fn default() -> Self {
        Self {
            max_request_bytes: MAX_REQUEST_BYTES,
            response_cap: Cap::After(RESPONSE_TIMEOUT),
            stream_idle_cap: Cap::Off,
            commit_on_first_byte: false,
            allowed_hosts: Vec::new(),
            allowed_origins: None,
            allowed_cidrs: Vec::new(),
            response_headers: false,
            virtual_models: Arc::default(),
        }
    }
}
