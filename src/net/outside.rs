//! Connections to services beyond this network: providers (product section 8).
//!
//! Owns: the proxy on the way, addresses tried side by side, TLS that the system's roots vouch for,
//! and saying what went wrong. Leaves to others: limits of time and idle connections (`upstream`).
//!
//! A proxy is taken from `HTTPS_PROXY` (or `ALL_PROXY`) and `NO_PROXY`, in either case of letters, and
//! for providers over TLS only: what goes through it is a tunnel, so that it sees neither key nor
//! content. Engines, nodes and peers are dialled directly whatever the environment says, and so is a
//! provider on this machine. A provider in plain HTTP is dialled directly too.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::uri::Scheme;
use http::{HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::CertificateError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::listen::tune;
use super::public_tls::PublicTls;
use super::stream::{Network, Stream};
use crate::rules::addresses::{authority, is_loopback_host, parse_ip};

/// A connection attempt that takes longer is joined by one to the next address.
const STAGGER: Duration = Duration::from_millis(250);

/// Any connection.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Which proxy is on the way to whom.
pub struct Proxies {
    matcher: Matcher,
    /// Whether one is named that is no proxy: then nobody is reached, since going around it would
    /// send requests where the user does not want them to go.
    unreadable: bool,
}

/// Stands for a proxy that is none, so that exceptions hold for it too.
const UNREADABLE: &str = "http://unreadable.invalid";

impl Proxies {
    /// As the environment says now.
    pub fn of_environment() -> Self {
        let first = |names: &[&str]| {
            let set = names.iter().filter_map(|name| std::env::var(name).ok());
            let mut set = set.map(|value| value.trim().to_owned());
            set.find(|value| !value.is_empty()).unwrap_or_default()
        };
        let https = first(&["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]);
        Self::of(&https, &first(&["NO_PROXY", "no_proxy"]))
    }

    /// This one for everybody but those; both as in the environment, empty = none.
    pub fn of(https: &str, except: &str) -> Self {
        let of = |https| Matcher::builder().https(https).no(except).build();
        let anybody = Uri::from_static("https://anybody.invalid");
        let known = Matcher::builder().https(https).build();
        let unreadable = !https.is_empty() && known.intercept(&anybody).is_none();
        Self {
            matcher: of(if unreadable { UNREADABLE } else { https }),
            unreadable,
        }
    }

    fn towards(&self, host: &str, port: u16) -> Option<Intercept> {
        if is_loopback_host(host) {
            return None;
        }
        let uri = Uri::builder()
            .scheme(Scheme::HTTPS)
            .authority(authority(host, port))
            .path_and_query("/")
            .build();
        self.matcher.intercept(&uri.ok()?)
    }
}

/// The way beyond this network.
pub struct Outside {
    tls: PublicTls,
    proxies: Proxies,
}

impl Default for Outside {
    /// As the system and the environment say.
    fn default() -> Self {
        Self::new(PublicTls::default(), Proxies::of_environment())
    }
}

impl Outside {
    /// Trusting these roots, through these proxies.
    pub fn new(tls: PublicTls, proxies: Proxies) -> Self {
        Self { tls, proxies }
    }

    /// How certificates of servers beyond are checked.
    pub fn tls(&self) -> &PublicTls {
        &self.tls
    }

    /// A connection to a service in plain HTTP.
    ///
    /// # Errors
    /// None can be had.
    pub async fn plain(&self, network: &Network, host: &str, port: u16) -> io::Result<Stream> {
        direct(network, host, port).await
    }

    /// A connection over TLS to the service of this name, which it has proved to be.
    ///
    /// # Errors
    /// None can be had.
    pub async fn secured(
        &self,
        network: &Network,
        host: &str,
        port: u16,
    ) -> io::Result<Box<dyn Io>> {
        let Some(proxy) = self.proxies.towards(host, port) else {
            let stream = direct(network, host, port).await?;
            return Ok(Box::new(self.tls.connect(host, stream).await?));
        };
        let stream = self.to_proxy(network, &proxy).await?;
        let tunnel = tunnel(stream, &authority(host, port), proxy.basic_auth()).await?;
        let tunnel = TokioIo::new(tunnel);
        Ok(Box::new(self.tls.connect(host, tunnel).await?))
    }

    async fn to_proxy(&self, network: &Network, proxy: &Intercept) -> io::Result<Box<dyn Io>> {
        if self.proxies.unreadable {
            return Err(trouble("the proxy variable holds no URL of an HTTP proxy"));
        }
        let uri = proxy.uri();
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => {
                return Err(trouble(
                    "the proxy variable names a SOCKS proxy; use an HTTP proxy",
                ));
            },
        };
        let default = if tls { 443 } else { 80 };
        let port = uri.port_u16().unwrap_or(default);
        let reached = async {
            let stream = direct(network, host, port).await?;
            Ok::<Box<dyn Io>, io::Error>(match tls {
                true => Box::new(self.tls.connect(host, stream).await?),
                false => Box::new(stream),
            })
        };
        reached
            .await
            .map_err(|e| trouble(format!("the proxy cannot be reached: {}", why(&e))))
    }
}

/// Asks a proxy to connect to an authority.
async fn tunnel(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    to: &str,
    credentials: Option<&HeaderValue>,
) -> io::Result<Upgraded> {
    let broken = |_| trouble("the proxy broke the connection off");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    let task = tokio::spawn(connection.with_upgrades());
    // Whoever gives up waiting takes the connection with it; one that became a tunnel is over.
    let _ends = Ends(task.abort_handle());
    let mut request = Request::connect(to)
        .header(header::HOST, to)
        .body(Empty::<Bytes>::new())
        .map_err(io::Error::other)?;
    if let Some(credentials) = credentials {
        let headers = request.headers_mut();
        headers.insert(header::PROXY_AUTHORIZATION, credentials.clone());
    }
    let answer = sender.send_request(request).await.map_err(broken)?;
    match answer.status() {
        status if status.is_success() => hyper::upgrade::on(answer).await.map_err(broken),
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => Err(trouble(
            "the proxy wants other credentials (407); put them into its URL",
        )),
        status => Err(trouble(format!(
            "the proxy refused the connection ({})",
            status.as_u16()
        ))),
    }
}

struct Ends(AbortHandle);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn direct(network: &Network, host: &str, port: u16) -> io::Result<Stream> {
    if let Network::Pipes(_) = network {
        return network.connect(host, port).await;
    }
    let stream = match parse_ip(host) {
        Some(ip) => TcpStream::connect((ip, port)).await?,
        None => {
            let found = lookup_host((host, port)).await;
            first(found.map_err(|_| trouble("its host name cannot be resolved"))?).await?
        },
    };
    tune(&stream)?;
    Ok(stream.into())
}

/// A connection to whichever address answers first. They begin one after the other, so that a family
/// of addresses that leads nowhere costs a moment and not the whole limit.
async fn first(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut left = addresses.peekable();
    let mut trying = FuturesUnordered::new();
    let mut failed = trouble("its host name has no address");
    loop {
        trying.extend(left.next().map(TcpStream::connect));
        tokio::select! {
            tried = trying.next() => match tried {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(e)) => failed = e,
                None => return Err(failed),
            },
            () = sleep(STAGGER), if left.peek().is_some() => {},
        }
    }
}

/// Something that is told in words of our own.
#[derive(Debug)]
struct Trouble(String);

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Trouble {}

fn trouble(text: impl Into<String>) -> io::Error {
    io::Error::other(Trouble(text.into()))
}

/// What it is that a provider was not connected to in its time.
pub fn late() -> io::Error {
    let text = "no connection within its upstream_timeout_secs";
    io::Error::new(io::ErrorKind::TimedOut, Trouble(text.to_owned()))
}

/// Why no connection came about, in words, without addresses, names or credentials.
pub fn why(e: &io::Error) -> String {
    let Some(inner) = e.get_ref() else {
        return e.kind().to_string();
    };
    if let Some(Trouble(text)) = inner.downcast_ref() {
        return text.clone();
    }
    match inner.downcast_ref() {
        Some(rustls::Error::InvalidCertificate(e)) => certificate(e).to_owned(),
        Some(_) => "the TLS handshake failed".to_owned(),
        None => e.kind().to_string(),
    }
}

fn certificate(e: &CertificateError) -> &'static str {
    match e {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired"
        },
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet; is this machine's clock right?"
        },
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name"
        },
        CertificateError::UnknownIssuer => "its certificate is signed by nobody this system trusts",
        _ => "its certificate is not valid",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(proxies: &Proxies, host: &str) -> Option<String> {
        let found = proxies.towards(host, 443)?;
        Some(found.uri().authority()?.to_string())
    }

    #[test]
    fn exceptions_and_this_machine_are_dialled_directly() {
        let except = "internal.example, .corp, 10.0.0.0/8, 2001:db8::1";
        let proxies = Proxies::of("http://me:canary@proxy:3128", except);
        for host in [
            "internal.example",
            "api.internal.example",
            "API.Corp",
            "10.1.2.3",
            "2001:db8::1",
            "localhost",
            "127.0.0.1",
            "::1",
        ] {
            assert_eq!(proxy(&proxies, host), None, "{host}");
        }
        for host in [
            "api.groq.com",
            "notinternal.example",
            "11.0.0.1",
            "2001:db8::2",
        ] {
            let through = proxy(&proxies, host);
            assert_eq!(through.as_deref(), Some("proxy:3128"), "{host}");
        }
        assert_eq!(
            proxy(&Proxies::of("http://proxy", "*"), "api.groq.com"),
            None
        );
        assert_eq!(proxy(&Proxies::of("", ""), "api.groq.com"), None);
        // One that is none keeps its exceptions.
        let none = Proxies::of("ftp://proxy", except);
        assert_eq!(proxy(&none, "api.corp"), None);
        assert!(none.unreadable && proxy(&none, "api.groq.com").is_some());
        let shown = format!("{:?}", proxies.towards("a.example", 1));
        assert!(!shown.contains("canary"), "{shown}");
    }

    #[tokio::test]
    async fn addresses_are_tried_until_one_answers() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = listener.local_addr().unwrap();
        let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let nowhere = gone.local_addr().unwrap();
        drop(gone);
        let found = first([nowhere, there].into_iter()).await.unwrap();
        assert_eq!(found.peer_addr().unwrap(), there);
        let none = first([nowhere].into_iter()).await.unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::ConnectionRefused);
        let none = first(std::iter::empty()).await.unwrap_err();
        assert_eq!(why(&none), "its host name has no address");
    }

    #[test]
    fn whatever_went_wrong_is_said_in_words() {
        use rustls::Error;
        let of = |e: Error| why(&io::Error::new(io::ErrorKind::InvalidData, e));
        assert_eq!(
            of(Error::InvalidCertificate(CertificateError::UnknownIssuer)),
            "its certificate is signed by nobody this system trusts"
        );
        assert_eq!(of(Error::DecryptError), "the TLS handshake failed");
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(why(&refused), "connection refused");
        let other = io::Error::other("canary");
        assert!(!why(&other).contains("canary"));
    }
}
