//! TLS among the nodes of a cluster (data plane 12.3, control plane 11).
//!
//! Owns: both sides of a handshake. Leaves to others: whom to trust (`members`), the pin of a peer
//! that comes in, which is checked per request (`facade::ingress`).
//!
//! A pin is the certificate itself, so nothing else of it is verified but that its owner holds the
//! key. No session is resumed: that would outlive a pin.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{CertificateError, ClientConfig, Error, ServerConfig, SupportedProtocolVersion};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use super::identity::Identity;
use super::leaf::Leaf;
use super::members::{Members, Trust};

const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];

/// This node's way into its cluster, and the cluster's way in here.
pub struct Cluster {
    members: Arc<Members>,
    provider: Arc<CryptoProvider>,
    acceptor: TlsAcceptor,
}

impl Cluster {
    /// Over a cluster folder, which may be empty or absent so far.
    ///
    /// # Errors
    /// The TLS library refuses its configuration.
    pub fn open(folder: PathBuf) -> Result<Self, Error> {
        let members = Members::open(folder);
        let provider = Arc::new(ring::default_provider());
        let acceptor = Arc::new(server(&provider, members.clone())?).into();
        Ok(Self {
            members,
            provider,
            acceptor,
        })
    }

    /// Who belongs to it.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Takes a peer's connection. Whose it is is known then, not yet whether it may come in.
    ///
    /// # Errors
    /// This node is no member, or the handshake failed.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<server::TlsStream<TcpStream>> {
        self.acceptor.accept(stream).await
    }

    /// Speaks to a peer, which has to have the pinned certificate.
    ///
    /// # Errors
    /// It has another, or the handshake failed.
    pub async fn connect(
        &self,
        pair: &Pair,
        stream: TcpStream,
    ) -> io::Result<client::TlsStream<TcpStream>> {
        let config = client(&self.provider, pair).map_err(io::Error::other)?;
        // No name is checked, and none is sent.
        let name = ServerName::IpAddress(stream.peer_addr()?.ip().into());
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, stream).await
    }
}

/// The two ends of a connection to a peer. It may be used while this is what the cluster says.
#[derive(Clone, Debug)]
pub struct Pair {
    me: Arc<Identity>,
    peer: CertificateDer<'static>,
}

impl Pair {
    /// This node and the peer with this principal, if it is pinned.
    pub fn of(trust: &Trust, principal: &str) -> Option<Self> {
        let peer = trust.certificate(principal)?.clone();
        let me = trust.me()?.clone();
        Some(Self { me, peer })
    }

    /// Whether they are still who they were.
    pub fn stands(&self, trust: &Trust, principal: &str) -> bool {
        trust.me().is_some_and(|me| me.leaf == self.me.leaf)
            && trust.certificate(principal) == Some(&self.peer)
    }
}

fn server(provider: &Arc<CryptoProvider>, members: Arc<Members>) -> Result<ServerConfig, Error> {
    // A stranger is told so in HTTP.
    let any = Leaf::judged(provider, |_| Ok(()));
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&VERSIONS)?
        .with_client_cert_verifier(Arc::new(any))
        .with_cert_resolver(Arc::new(OwnLeaf(members)));
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}

fn client(provider: &Arc<CryptoProvider>, pair: &Pair) -> Result<ClientConfig, Error> {
    let pinned = only(provider, pair.peer.clone());
    let own = SingleCertAndKey::from(pair.me.pair.clone());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&VERSIONS)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned))
        .with_client_cert_resolver(Arc::new(own));
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Ok(config)
}

/// Takes this certificate and no other.
fn only(
    provider: &CryptoProvider,
    wanted: CertificateDer<'static>,
) -> Leaf<impl Fn(&CertificateDer<'_>) -> Result<(), Error> + use<>> {
    Leaf::judged(provider, move |leaf| match *leaf == wanted {
        true => Ok(()),
        false => Err(CertificateError::ApplicationVerificationFailure.into()),
    })
}

/// Gives each handshake the leaf of that moment. Without one, that is while this node is no member,
/// the handshake is refused.
struct OwnLeaf(Arc<Members>);

impl std::fmt::Debug for OwnLeaf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OwnLeaf")
    }
}

impl ResolvesServerCert for OwnLeaf {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let trust = self.0.refresh();
        trust.me().map(|me| me.pair.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject;
    use tokio::net::TcpListener;

    use super::super::identity::tests::{Node, made, node};
    use super::*;

    fn cluster(folder: &Path, me: &Node, pins: &[(&str, &Node)]) -> Cluster {
        fs::create_dir_all(folder.join("trusted")).unwrap();
        fs::write(folder.join("node.key"), &me.key).unwrap();
        fs::write(folder.join("node.crt"), &me.certificate).unwrap();
        for (name, peer) in pins {
            let json = serde_json::json!({ "nodeUuid": name, "certPem": peer.certificate });
            let path = folder.join(format!("trusted/{name}.json"));
            fs::write(path, json.to_string()).unwrap();
        }
        Cluster::open(folder.to_owned()).unwrap()
    }

    /// What the server and the client make of a handshake.
    async fn meet(a: &Cluster, b: &Cluster, whom: &str) -> (Option<CertificateDer<'static>>, bool) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = async {
            let stream = b.accept(listener.accept().await.unwrap().0).await.ok()?;
            let leaf = stream.get_ref().1.peer_certificates()?.first()?.clone();
            Some(leaf.into_owned())
        };
        let dialled = async {
            let pair = Pair::of(&a.members().refresh(), whom).unwrap();
            let stream = TcpStream::connect(address).await.unwrap();
            a.connect(&pair, stream).await.is_ok()
        };
        tokio::join!(served, dialled)
    }

    #[tokio::test]
    async fn two_nodes_that_pin_each_other_meet_and_know_whom() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let p256 = &rcgen::PKCS_ECDSA_P256_SHA256;
        for (a, b) in [
            (node("a"), node("b")),
            (made("a", None, p256), made("b", None, p256)),
        ] {
            let one = cluster(&dir.join("a"), &a, &[("b", &b)]);
            let other = cluster(&dir.join("b"), &b, &[("a", &a)]);
            assert_eq!(meet(&one, &other, "b").await, (Some(a.der), true));
        }
    }

    #[tokio::test]
    async fn a_server_with_other_bytes_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b, twin) = (node("a"), node("b"), node("b"));
        let one = cluster(&dir.path().join("a"), &a, &[("b", &b)]);
        let other = cluster(&dir.path().join("b"), &twin, &[("a", &a)]);
        assert_eq!(meet(&one, &other, "b").await, (None, false));
    }

    #[tokio::test]
    async fn who_is_no_member_refuses_every_handshake() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (node("a"), node("b"));
        let one = cluster(&dir.path().join("a"), &a, &[("b", &b)]);
        let other = cluster(&dir.path().join("b"), &b, &[]);
        assert_eq!(meet(&one, &other, "b").await, (None, false));
    }

    #[tokio::test]
    async fn a_certificate_without_its_key_is_nobodys() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b, thief) = (node("a"), node("b"), node("a"));
        let other = cluster(&dir.path().join("b"), &b, &[("a", &a)]);
        let one = cluster(&dir.path().join("a"), &a, &[("b", &b)]);
        let mut pair = Pair::of(&one.members().refresh(), "b").unwrap();
        let key = PrivateKeyDer::from_pem_slice(thief.key.as_bytes()).unwrap();
        let key = one.provider.key_provider.load_private_key(key).unwrap();
        pair.me = Arc::new(Identity {
            principal: "a".to_owned(),
            leaf: a.der.clone(),
            pair: Arc::new(CertifiedKey::new(vec![a.der.clone()], key)),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = async { other.accept(listener.accept().await.unwrap().0).await };
        let dialled = async {
            let stream = TcpStream::connect(address).await.unwrap();
            one.connect(&pair, stream).await
        };
        let (served, _dialled) = tokio::join!(served, dialled);
        assert!(served.is_err());
    }

    #[tokio::test]
    async fn a_client_without_certificate_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (node("a"), node("b"));
        let other = cluster(dir.path(), &b, &[("a", &a)]);
        let wanted = only(&other.provider, b.der.clone());
        let config = ClientConfig::builder_with_provider(other.provider.clone())
            .with_protocol_versions(&VERSIONS)
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(wanted))
            .with_no_client_auth();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = async { other.accept(listener.accept().await.unwrap().0).await };
        let dialled = async {
            let stream = TcpStream::connect(address).await.unwrap();
            let name = ServerName::IpAddress(address.ip().into());
            TlsConnector::from(Arc::new(config))
                .connect(name, stream)
                .await
        };
        let (served, _dialled) = tokio::join!(served, dialled);
        assert!(served.is_err());
    }

    #[test]
    fn a_pair_stands_until_either_end_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (node("a"), node("b"));
        let one = cluster(dir.path(), &a, &[("b", &b)]);
        let pair = Pair::of(&one.members().refresh(), "b").unwrap();
        assert!(pair.stands(&one.members().refresh(), "b"));
        let again = cluster(dir.path(), &a, &[("b", &node("b"))]);
        assert!(!pair.stands(&again.members().refresh(), "b"));
        let again = cluster(dir.path(), &node("a"), &[("b", &b)]);
        assert!(!pair.stands(&again.members().refresh(), "b"));
        fs::remove_dir_all(dir.path().join("trusted")).unwrap();
        let trust = again.members().refresh();
        assert!(!pair.stands(&trust, "b") && Pair::of(&trust, "b").is_none());
    }
}
