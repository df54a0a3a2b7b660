//! Providers that do as they are told, over TLS or not, and a proxy on the way to them.
//!
//! A provider is a scripted [`Engine`], which records every request's head and body; over TLS another
//! listener stands before it. Certificates come from an authority of the test's own: a daemon trusts
//! it by `SSL_CERT_FILE`.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::engine::Engine;
use super::ring;

/// Who signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("authority {}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// Its own certificate: what goes into `SSL_CERT_FILE`.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Trust in it and in nobody else.
    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        roots
    }

    /// A server of these names and addresses.
    pub fn server(&self, names: &[&str]) -> Arc<ServerConfig> {
        self.sign(params(names))
    }

    /// A server whose certificate has expired.
    pub fn expired(&self, names: &[&str]) -> Arc<ServerConfig> {
        let mut params = params(names);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let crypto = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(crypto)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
    CertificateParams::new(names).unwrap()
}

/// A provider: what it says and what it was asked is its engine's.
pub struct Provider {
    pub engine: Engine,
    port: u16,
    handshakes: Arc<AtomicUsize>,
}

impl Provider {
    /// In plain HTTP.
    pub fn plain(engine: Engine) -> Self {
        let port = engine.port();
        Self {
            engine,
            port,
            handshakes: Arc::default(),
        }
    }

    /// Over TLS.
    pub fn secured(engine: Engine, config: Arc<ServerConfig>) -> Self {
        let (handshakes, behind) = (Arc::<AtomicUsize>::default(), engine.port());
        let count = handshakes.clone();
        let acceptor = TlsAcceptor::from(config);
        let port = listen(move |stream| {
            let (acceptor, count) = (acceptor.clone(), count.clone());
            async move {
                // A client that does not trust us is gone.
                if let Ok(tls) = acceptor.accept(stream).await {
                    count.fetch_add(1, Ordering::SeqCst);
                    ring();
                    bridge(tls, behind).await;
                }
            }
        });
        Self {
            engine,
            port,
            handshakes,
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Handshakes that came to their end.
    pub fn handshakes(&self) -> usize {
        self.handshakes.load(Ordering::SeqCst)
    }
}

/// A listener that takes connections and never says a word; its port.
pub fn mute() -> u16 {
    listen(|stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
}

/// What a proxy does with a request to connect.
pub enum Tunnel {
    /// Leads to this port on loopback, whatever was asked for.
    To(u16),
    /// Answers with this status.
    Refuse(u16),
    /// Closes the connection.
    Close,
    /// Never answers.
    Silence,
}

/// An HTTP proxy that does as it is told.
pub struct Proxy {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// One that is itself reached in plain HTTP.
    pub fn plain(tunnel: Tunnel) -> Self {
        Self::start(tunnel, None)
    }

    /// One that is itself reached over TLS.
    pub fn secured(tunnel: Tunnel, config: Arc<ServerConfig>) -> Self {
        Self::start(tunnel, Some(TlsAcceptor::from(config)))
    }

    fn start(tunnel: Tunnel, tls: Option<TlsAcceptor>) -> Self {
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let (told, tunnel) = (heads.clone(), Arc::new(tunnel));
        let port = listen(move |stream| {
            let (told, tunnel, tls) = (told.clone(), tunnel.clone(), tls.clone());
            async move {
                match tls {
                    None => connect(stream, &tunnel, &told).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            connect(stream, &tunnel, &told).await;
                        }
                    },
                }
            }
        });
        Self { port, heads }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The heads of requests so far, as they came.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

async fn connect<S>(mut stream: S, tunnel: &Tunnel, told: &Mutex<Vec<String>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    told.lock()
        .unwrap()
        .push(String::from_utf8_lossy(&head).into_owned());
    ring();
    let answer = match tunnel {
        Tunnel::To(_) => "HTTP/1.1 200 Connection established\r\n\r\n".to_owned(),
        Tunnel::Refuse(status) => {
            format!("HTTP/1.1 {status} No\r\nContent-Length: 2\r\n\r\nno")
        },
        Tunnel::Close => return,
        Tunnel::Silence => return std::future::pending().await,
    };
    if stream.write_all(answer.as_bytes()).await.is_ok()
        && stream.flush().await.is_ok()
        && let Tunnel::To(port) = tunnel
    {
        bridge(stream, *port).await;
    }
}

async fn bridge(mut near: impl AsyncRead + AsyncWrite + Unpin, port: u16) {
    if let Ok(mut far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
        // It ends with either side, however.
        drop(copy_bidirectional(&mut near, &mut far).await);
    }
}

/// Serves each connection in a thread of its own runtime; the port. Until the test's process ends.
fn listen<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> u16
where
    F: Future<Output = ()> + Send + 'static,
{
    let (told, port) = mpsc::channel();
    thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(async move {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            told.send(listener.local_addr().unwrap().port()).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
    });
    port.recv().unwrap()
}
