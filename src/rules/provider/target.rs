//! A provider as something that is dialled.
//!
//! Owns: the target that stands for one. Leaves to others: its settings (`config::gateway`), its
//! standing (`state::providers`), dialling (`net`).

use std::sync::Arc;

use http::HeaderValue;

use crate::rules::addresses;
use crate::rules::candidates::{Exclusion, Kind, ProviderLink, Target, bearer};
use crate::rules::engine::EngineId;
use crate::rules::ids::NodeId;
use crate::rules::pool::record::PoolEngine;
use crate::rules::reservations::Seat;
use crate::rules::secret::Secret;

/// Where a provider is.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its host: a name or an address, IPv6 without brackets.
    pub host: &'a str,
    /// Its port.
    pub port: u16,
    /// What it is called in a `Host` header.
    pub host_header: &'a str,
    /// Path of its OpenAI base, without trailing slash: `/openai/v1`, or empty.
    pub base: &'a str,
    /// Its key.
    pub key: Option<&'a Secret>,
    /// How it is reached.
    pub link: ProviderLink,
}

/// The target that stands for a provider.
///
/// # Errors
/// Its host or its key cannot be sent in a header.
pub fn target(place: &Place, seat: Arc<Seat>) -> Result<Target, Exclusion> {
    Ok(Target {
        node: NodeId::from(place.name),
        facade: EngineId::GATEWAY,
        runs: PoolEngine::OpenAi,
        seat,
        kind: Kind::Provider(place.link),
        name: place.host.to_owned(),
        host: place.host.to_owned(),
        port: place.port,
        authority: addresses::authority(place.host, place.port).into(),
        host_header: HeaderValue::from_str(place.host_header).map_err(|_| Exclusion::NoAddress)?,
        prefix: place.base.to_owned(),
        bearer: place.key.map(bearer).transpose()?,
        slots: 1,
        weight: 1,
        unconfirmed: false,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn its_paths_begin_at_its_base_and_its_key_is_sent_and_never_shown() {
        let secret = Secret::new("canary");
        let place = Place {
            name: "groq",
            host: "api.groq.com",
            port: 443,
            host_header: "api.groq.com",
            base: "/openai/v1",
            key: Some(&secret),
            link: ProviderLink {
                tls: true,
                connect: Duration::from_secs(5),
            },
        };
        let made = target(&place, Arc::default()).unwrap();
        assert_eq!(&*made.authority, "api.groq.com:443");
        assert_eq!(made.host_header, "api.groq.com");
        assert_eq!(made.bearer.as_ref().unwrap(), "Bearer canary");
        assert!(made.is_tls() && made.provider().is_some());
        assert!(!format!("{made:?}").contains("canary"));
        for (path, want) in [
            ("/v1/chat/completions", "/openai/v1/chat/completions"),
            ("/v1/models?x=/v1", "/openai/v1/models?x=/v1"),
            ("/v1", "/openai/v1"),
            ("/v1?x", "/openai/v1?x"),
            ("/v1beta/x", "/openai/v1/v1beta/x"),
            ("/health", "/openai/v1/health"),
        ] {
            assert_eq!(made.path_for(path), want);
        }
        let place = Place {
            base: "",
            key: None,
            ..place
        };
        let made = target(&place, Arc::default()).unwrap();
        assert_eq!(made.path_for("/v1/chat/completions"), "/chat/completions");
        assert_eq!((&*made.path_for("/v1"), made.bearer), ("/", None));
        let secret = Secret::new("a\nb");
        let key = Some(&secret);
        assert!(target(&Place { key, ..place }, Arc::default()).is_err());
    }
}
