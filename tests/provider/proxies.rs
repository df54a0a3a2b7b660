//! `HTTPS_PROXY` and `NO_PROXY` on the way to a provider.

use std::io::ErrorKind;
use std::sync::Arc;

use futures_util::FutureExt;
use nvpair_proxy::net::outside::{Outside, Proxies};
use nvpair_proxy::net::public_tls::PublicTls;
use nvpair_proxy::net::stream::Network;
use nvpair_proxy::net::upstream::Upstreams;

use crate::support::engine::Engine;
use crate::support::provider::{Authority, Provider, Proxy, Tunnel};
use crate::{SOON, ask, provider, refused, setting, way};

/// A name that only the proxy can resolve.
const URL: &str = "https://provider.test/v1";

fn there(authority: &Authority) -> Provider {
    Provider::secured(
        Engine::serving("hello"),
        authority.server(&["provider.test"]),
    )
}

#[tokio::test]
async fn a_proxy_leads_to_the_provider_and_sees_neither_key_nor_content() {
    let authority = Authority::new();
    let there = there(&authority);
    let proxy = Proxy::plain(Tunnel::To(there.port()));
    let variable = format!("http://127.0.0.1:{}", proxy.port());
    let upstreams = way(authority.roots(), &variable, "elsewhere.test");
    let (provider, _) = provider(setting(URL));
    for _ in 0..2 {
        let answer = ask(&upstreams, &provider.target()).await.unwrap();
        assert_eq!(answer.body.as_deref(), Some("hello"));
    }
    let heads = proxy.heads();
    assert_eq!(heads.len(), 1, "the tunnel is kept: {heads:?}");
    let head = heads[0].to_ascii_lowercase();
    assert!(
        head.starts_with("connect provider.test:443 http/1.1\r\n"),
        "{head}"
    );
    assert!(head.contains("\r\nhost: provider.test:443\r\n"), "{head}");
    assert!(
        !head.contains("canary") && !head.contains("authorization"),
        "{head}"
    );
    let request = &there.engine.requests()[0];
    assert_eq!(request.header("host"), Some("provider.test"));
    assert_eq!(request.header("authorization"), Some("Bearer canary"));
    assert_eq!(request.header("proxy-authorization"), None);
}

#[tokio::test]
async fn credentials_in_its_url_go_to_the_proxy_alone() {
    let authority = Authority::new();
    let there = there(&authority);
    let proxy = Proxy::plain(Tunnel::To(there.port()));
    let variable = format!("http://me:p%40ss@127.0.0.1:{}", proxy.port());
    let upstreams = way(authority.roots(), &variable, "");
    let (provider, _) = provider(setting(URL));
    ask(&upstreams, &provider.target()).await.unwrap();
    let head = proxy.heads()[0].clone();
    // me:p@ss
    assert!(head.contains("Basic bWU6cEBzcw=="), "{head}");
    assert_eq!(there.engine.only().header("proxy-authorization"), None);
}

#[tokio::test]
async fn a_proxy_may_itself_be_reached_over_tls() {
    let authority = Authority::new();
    let there = there(&authority);
    let server = authority.server(&["localhost"]);
    let proxy = Proxy::secured(Tunnel::To(there.port()), server);
    let variable = format!("https://localhost:{}", proxy.port());
    let upstreams = way(authority.roots(), &variable, "");
    let (provider, _) = provider(setting(URL));
    let answer = ask(&upstreams, &provider.target()).await.unwrap();
    assert_eq!(answer.body.as_deref(), Some("hello"));
    assert_eq!(proxy.heads().len(), 1);
}

/// Whom a provider of this URL is dialled at, where `proxy:3128` is the proxy but for exceptions.
async fn dialled(except: &str, url: &str) -> String {
    let (told, dialled) = std::sync::mpsc::channel();
    let network = Network::Pipes(Box::new(move |host, port| {
        told.send(format!("{host}:{port}")).unwrap();
        async { Err(ErrorKind::ConnectionRefused.into()) }.boxed()
    }));
    let tls = PublicTls::trusting(Authority::new().roots()).unwrap();
    let outside = Outside::new(tls, Proxies::of("http://proxy:3128", except));
    let upstreams = Upstreams::through(outside, None, Arc::new(network));
    refused(&upstreams, setting(url)).await;
    dialled.try_iter().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn exceptions_this_machine_and_plain_http_go_around_it() {
    assert_eq!(dialled("elsewhere.test", URL).await, "proxy:3128");
    for except in ["provider.test", "x.test, .test", "*"] {
        assert_eq!(dialled(except, URL).await, "provider.test:443", "{except}");
    }
    for (url, direct) in [
        ("https://127.0.0.1:1/v1", "127.0.0.1:1"),
        ("https://[::1]:1/v1", "::1:1"),
        ("https://localhost/v1", "localhost:443"),
        ("http://provider.test/v1", "provider.test:80"),
    ] {
        assert_eq!(dialled("", url).await, direct);
    }
}

#[tokio::test]
async fn a_proxy_that_does_not_lead_there_is_said_to_be_at_fault() {
    let authority = Authority::new();
    for (tunnel, why) in [
        (
            Tunnel::Refuse(407),
            "the proxy wants other credentials (407); put them into its URL",
        ),
        (
            Tunnel::Refuse(403),
            "the proxy refused the connection (403)",
        ),
        (
            Tunnel::Refuse(502),
            "the proxy refused the connection (502)",
        ),
        (Tunnel::Close, "the proxy broke the connection off"),
        (
            Tunnel::Silence,
            "no connection within its upstream_timeout_secs",
        ),
    ] {
        let bounded = matches!(tunnel, Tunnel::Silence);
        let proxy = Proxy::plain(tunnel);
        let variable = format!("http://me:canary@127.0.0.1:{}", proxy.port());
        let upstreams = way(authority.roots(), &variable, "");
        let mut setting = setting(URL);
        if bounded {
            // Proxy and TLS have one limit together.
            setting.upstream_timeout = SOON;
        }
        assert_eq!(refused(&upstreams, setting).await, why);
    }
    for (variable, why) in [
        (
            "socks5://127.0.0.1:1",
            "the proxy variable names a SOCKS proxy; use an HTTP proxy",
        ),
        (
            "ftp://127.0.0.1:1",
            "the proxy variable holds no URL of an HTTP proxy",
        ),
        (
            "http://a b",
            "the proxy variable holds no URL of an HTTP proxy",
        ),
        (
            "http://127.0.0.1:1",
            "the proxy cannot be reached: connection refused",
        ),
    ] {
        let upstreams = way(authority.roots(), variable, "");
        assert_eq!(refused(&upstreams, setting(URL)).await, why);
    }
}

#[tokio::test]
async fn a_proxy_cannot_stand_for_the_provider() {
    let authority = Authority::new();
    // It leads to somebody with a good certificate of another name.
    let other = Provider::secured(Engine::serving("x"), authority.server(&["other.test"]));
    let proxy = Proxy::plain(Tunnel::To(other.port()));
    let variable = format!("http://127.0.0.1:{}", proxy.port());
    let upstreams = way(authority.roots(), &variable, "");
    let said = refused(&upstreams, setting(URL)).await;
    assert_eq!(said, "its certificate is for another name");
    assert_eq!(other.engine.hits(), 0);
}
