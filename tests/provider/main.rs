//! Providers over real sockets: TLS, proxies, limits, idle connections, and how each then stands.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of tests fails the test that calls it"
)]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each suite uses a part of the support")]
mod support;

mod idle;
mod limits;
mod proxies;
mod tls;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, Request, header};
use http_body_util::BodyExt;
use nvpair_proxy::config::gateway::{ProviderModel, ProviderSetting};
use nvpair_proxy::config::http_url::HttpUrl;
use nvpair_proxy::net::body::RequestBody;
use nvpair_proxy::net::outside::{Outside, Proxies};
use nvpair_proxy::net::public_tls::PublicTls;
use nvpair_proxy::net::stream::Network;
use nvpair_proxy::net::upstream::{SendError, Upstreams};
use nvpair_proxy::rules::budget::Cap;
use nvpair_proxy::rules::candidates::Target;
use nvpair_proxy::rules::policy::Policy;
use nvpair_proxy::rules::secret::Secret;
use nvpair_proxy::state::providers::{Provider, Providers};
use nvpair_proxy::state::scheduler::Scheduler;
use rustls::RootCertStore;

use support::LIMIT;

/// What a provider answered.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: HeaderMap,
    /// The body; `None` if it broke off.
    body: Option<String>,
}

/// A way out that trusts these roots and goes through this proxy.
fn way(roots: RootCertStore, proxy: &str, except: &str) -> Arc<Upstreams> {
    let tls = PublicTls::trusting(roots).unwrap();
    let outside = Outside::new(tls, Proxies::of(proxy, except));
    Upstreams::through(outside, None, Arc::new(Network::Sockets))
}

/// A setting with the key `canary`, the model `m` and no hurry.
fn setting(url: &str) -> ProviderSetting {
    ProviderSetting {
        name: "p".to_owned(),
        base_url: HttpUrl::parse(url).unwrap(),
        api_key: Some(Secret::new("canary")),
        tier: 0,
        models: vec![ProviderModel {
            name: "m".to_owned(),
            upstream: "theirs".to_owned(),
        }],
        upstream_timeout: LIMIT,
    }
}

/// The providers of these settings, and the time at which they begin.
fn providers(settings: &[ProviderSetting]) -> (Providers, Instant) {
    let begun = Instant::now();
    let scheduler = Arc::new(Scheduler::new(Policy::Weighted));
    let providers = Providers::new(scheduler, begun);
    assert_eq!(providers.set(settings), [""; 0]);
    (providers, begun)
}

/// The one provider of this setting.
fn provider(setting: ProviderSetting) -> (Arc<Provider>, Instant) {
    let (providers, begun) = providers(&[setting]);
    (providers.find("p").unwrap(), begun)
}

/// Asks a provider as the gateway does.
async fn ask(upstreams: &Upstreams, target: &Target) -> Result<Answer, SendError> {
    let mut request = Request::new(RequestBody::empty());
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = target.path_for("/v1/chat/completions").parse().unwrap();
    let headers = request.headers_mut();
    headers.insert(header::HOST, target.host_header.clone());
    if let Some(bearer) = &target.bearer {
        headers.insert(header::AUTHORIZATION, bearer.clone());
    }
    let to = target.into();
    let (response, connection) = upstreams.send(&to, &mut Some(request), Cap::Off).await?;
    let (head, body) = response.into_parts();
    let body = body.collect().await.ok();
    let answer = Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        body: body.map(|b| String::from_utf8(b.to_bytes().to_vec()).unwrap()),
    };
    if answer.body.is_some() {
        // As soon as it is ready again.
        tokio::task::yield_now().await;
        upstreams.give_back(&to, connection);
    }
    Ok(answer)
}

/// Why a provider could not be asked.
async fn refused(upstreams: &Upstreams, setting: ProviderSetting) -> String {
    let (provider, _) = provider(setting);
    let asked = ask(upstreams, &provider.target()).await;
    asked.expect_err("it was asked").text()
}

/// Well below any limit of a test, and above nothing: what is bounded by it never ends by itself.
const SOON: Duration = Duration::from_millis(50);
