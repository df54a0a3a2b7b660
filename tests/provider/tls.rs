//! Whom a provider's key goes to.

use crate::support::engine::{Engine, Reply, Step};
use crate::support::provider::{Authority, Provider, mute};
use crate::{SOON, ask, provider, refused, setting, way};

fn url(provider: &Provider, path: &str) -> String {
    format!("https://127.0.0.1:{}{path}", provider.port())
}

#[tokio::test]
async fn a_provider_is_asked_at_its_base_with_its_key_on_one_connection() {
    let authority = Authority::new();
    let there = Provider::secured(Engine::serving("hello"), authority.server(&["127.0.0.1"]));
    let upstreams = way(authority.roots(), "", "");
    let (provider, _) = provider(setting(&url(&there, "/openai/v1/")));
    for _ in 0..3 {
        let answer = ask(&upstreams, &provider.target()).await.unwrap();
        assert_eq!(
            (answer.status, answer.body.as_deref()),
            (200, Some("hello"))
        );
    }
    assert_eq!(there.handshakes(), 1, "kept");
    let requests = there.engine.requests();
    assert_eq!(requests.len(), 3);
    for request in requests {
        assert_eq!(request.target, "/openai/v1/chat/completions");
        assert_eq!(request.header("authorization"), Some("Bearer canary"));
        let host = format!("127.0.0.1:{}", there.port());
        assert_eq!(request.header("host"), Some(&*host));
    }
    upstreams.clear();
    ask(&upstreams, &provider.target()).await.unwrap();
    assert_eq!(there.handshakes(), 2);
}

#[tokio::test]
async fn nothing_is_sent_to_a_server_that_cannot_prove_its_name() {
    let (authority, other) = (Authority::new(), Authority::new());
    let upstreams = way(authority.roots(), "", "");
    for (config, why) in [
        (
            authority.expired(&["127.0.0.1"]),
            "its certificate has expired",
        ),
        (
            authority.server(&["other.example", "127.0.0.2"]),
            "its certificate is for another name",
        ),
        (
            other.server(&["127.0.0.1"]),
            "its certificate is signed by nobody this system trusts",
        ),
    ] {
        let there = Provider::secured(Engine::serving("x"), config);
        let said = refused(&upstreams, setting(&url(&there, "/v1"))).await;
        assert_eq!(said, why);
        assert_eq!(there.engine.hits(), 0, "{why}");
    }
    // Nor to one that speaks no TLS at all.
    let plain = Provider::plain(Engine::serving("x"));
    refused(&upstreams, setting(&url(&plain, "/v1"))).await;
    let told = format!("{:?}", plain.engine.requests());
    assert!(!told.contains("canary"), "{told}");
}

#[tokio::test]
async fn a_server_that_never_ends_its_handshake_is_given_up() {
    let upstreams = way(Authority::new().roots(), "", "");
    let mut slow = setting(&format!("https://127.0.0.1:{}", mute()));
    slow.upstream_timeout = SOON;
    assert_eq!(
        refused(&upstreams, slow).await,
        "no connection within its upstream_timeout_secs"
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let authority = Authority::new();
    let elsewhere = Provider::secured(Engine::serving("x"), authority.server(&["127.0.0.1"]));
    let location = url(&elsewhere, "/v1/chat/completions");
    let moved = Reply::with(308, &[("Location", &location)], "");
    let there = Provider::secured(Engine::always(moved), authority.server(&["127.0.0.1"]));
    let upstreams = way(authority.roots(), "", "");
    let (provider, _) = provider(setting(&url(&there, "/v1")));
    let answer = ask(&upstreams, &provider.target()).await.unwrap();
    assert_eq!(answer.status, 308);
    assert_eq!((elsewhere.handshakes(), elsewhere.engine.hits()), (0, 0));
}

#[tokio::test]
async fn an_answer_that_is_cut_is_no_whole_one() {
    let authority = Authority::new();
    let cut = Reply::stream("text/event-stream")
        .chunk("data: {}\n\n")
        .then(Step::Close);
    let there = Provider::secured(Engine::always(cut), authority.server(&["127.0.0.1"]));
    let upstreams = way(authority.roots(), "", "");
    let (provider, _) = provider(setting(&url(&there, "/v1")));
    let answer = ask(&upstreams, &provider.target()).await.unwrap();
    assert_eq!((answer.status, answer.body), (200, None));
}

#[tokio::test]
async fn a_provider_in_plain_http_is_asked_without_tls() {
    let there = Provider::plain(Engine::serving("hello"));
    let upstreams = way(Authority::new().roots(), "", "");
    let (provider, _) = provider(setting(&format!("http://127.0.0.1:{}/v1", there.port())));
    let answer = ask(&upstreams, &provider.target()).await.unwrap();
    assert_eq!(answer.body.as_deref(), Some("hello"));
    let request = there.engine.only();
    assert_eq!(request.target, "/v1/chat/completions");
}
