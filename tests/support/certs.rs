//! The cluster's manager, and peers: identities, a cluster folder, clients that come over TLS.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;

use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ED25519, SanType};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::client::Client;

/// A node's key and certificate.
pub struct Identity {
    pub uuid: String,
    pub certificate: String,
    pub key: String,
    pub der: CertificateDer<'static>,
}

impl Identity {
    pub fn new(uuid: &str) -> Self {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, uuid);
        let uri = format!("urn:nvpair:node:{uuid}").try_into().unwrap();
        params.subject_alt_names.push(SanType::URI(uri));
        let certificate = params.self_signed(&key).unwrap();
        Self {
            uuid: uuid.to_owned(),
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            der: certificate.der().clone(),
        }
    }
}

/// A cluster folder, written as its owner writes it: aside, then renamed.
pub struct ClusterFolder(tempfile::TempDir);

impl ClusterFolder {
    pub fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Of an admitted node with these peers.
    pub fn of(me: &Identity, peers: &[&Identity]) -> Self {
        let folder = Self::empty();
        folder.write("node.key", &me.key);
        folder.write("node.crt", &me.certificate);
        folder.admit("c1", 1);
        for peer in peers {
            folder.pin(peer);
        }
        folder
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let aside = path.with_extension("tmp");
        fs::write(&aside, text).unwrap();
        fs::rename(aside, path).unwrap();
    }

    pub fn admit(&self, cluster: &str, epoch: u64) {
        let record = json!({"counter": 1, "activated": 1, "clusterId": cluster, "epoch": epoch});
        self.write("admission.json", &record.to_string());
    }

    pub fn pin(&self, peer: &Identity) {
        let pin = json!({"nodeUuid": peer.uuid, "certPem": peer.certificate});
        self.write(&format!("trusted/{}.json", peer.uuid), &pin.to_string());
    }

    pub fn unpin(&self, peer: &Identity) {
        fs::remove_file(self.path().join(format!("trusted/{}.json", peer.uuid))).unwrap();
    }
}

/// A connection over TLS, with the certificate of who answered; `None` if there was no handshake.
pub fn over_tls(port: u16, who: &Identity) -> Option<(Client, CertificateDer<'static>)> {
    over_tls_at((Ipv4Addr::LOCALHOST, port).into(), who)
}

/// The same to any address of this machine.
pub fn over_tls_at(
    address: SocketAddr,
    who: &Identity,
) -> Option<(Client, CertificateDer<'static>)> {
    let config = config(who);
    let (told, wait) = mpsc::channel();
    // HTTP is spoken by the plain client, through this bridge.
    thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(async move {
            let Some(mut tls) = connect(address, config).await else {
                return;
            };
            let leaf = tls.get_ref().1.peer_certificates().unwrap()[0].clone();
            let bridge = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let entry = bridge.local_addr().unwrap().port();
            told.send((entry, leaf)).unwrap();
            let (mut plain, _) = bridge.accept().await.unwrap();
            // It ends with either side, however.
            drop(copy_bidirectional(&mut tls, &mut plain).await);
        });
    });
    let (entry, leaf) = wait.recv().ok()?;
    Some((Client::connect(entry), leaf))
}

fn config(who: &Identity) -> ClientConfig {
    let key = PrivateKeyDer::from_pem_slice(who.key.as_bytes()).unwrap();
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_client_auth_cert(vec![who.der.clone()], key)
        .unwrap()
}

async fn connect(address: SocketAddr, config: ClientConfig) -> Option<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await.ok()?;
    let name = ServerName::IpAddress(address.ip().into());
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.ok()
}

/// Takes any server: the test looks at its certificate itself.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let provider = ring::default_provider();
        provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
