//! TLS towards a server that is no cluster peer: the node registry, a usage collector.
//!
//! Owns: whom to trust (one certificate by its fingerprint, those of a CA file, those the system
//! trusts) and the handshake. Leaves to others: what is said then (`fetch`), the server's side
//! (`server_tls`), the cluster's mutual TLS (`tls`), reading the system's roots (`public_tls`).

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, Error, OtherError, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::leaf::Leaf;
use super::public_tls::{self, HTTP};
use super::server_tls::{CertificateError, fingerprint};
use crate::rules::fingerprint::Fingerprint;

/// Why there is no trusted connection.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The server shows another certificate than the pinned one.
    #[error("the server's certificate is {seen}, not the pinned one")]
    OtherCertificate {
        /// Its fingerprint.
        seen: String,
    },
    /// Its certificate is not trusted: unknown issuer, other name, expired.
    #[error("the server's certificate is not trusted: {0}")]
    Untrusted(String),
    /// The host cannot be a certificate's name.
    #[error("the host is neither a name nor an address")]
    BadName,
    /// Anything else; a server without TLS among it.
    #[error("the TLS handshake failed: {0}")]
    Handshake(String),
}

impl TlsError {
    /// Whether the server was met and is not the one that is meant: waiting does not help.
    pub fn is_distrust(&self) -> bool {
        matches!(self, Self::OtherCertificate { .. } | Self::Untrusted(_))
    }
}

/// Whom to trust. Sessions are not resumed across two of these.
#[derive(Clone)]
pub struct ClientTls(TlsConnector);

impl ClientTls {
    /// The server with exactly this certificate, whatever stands in it.
    ///
    /// # Errors
    /// The TLS library refuses its configuration.
    pub fn pinned(wanted: &Fingerprint) -> Result<Self, CertificateError> {
        let (provider, wanted) = (ring::default_provider(), wanted.as_str().to_owned());
        let pin = Leaf::judged(&provider, move |leaf| match fingerprint(leaf) {
            seen if seen == wanted => Ok(()),
            seen => Err(Error::Other(OtherError(Arc::new(Mismatch(seen))))),
        });
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| CertificateError::Library(e.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(pin))
            .with_no_client_auth();
        config.alpn_protocols = vec![HTTP.to_vec()];
        Ok(Self(Arc::new(config).into()))
    }

    /// Servers whose certificates the ones in this PEM file vouch for, under the name that is dialled.
    ///
    /// # Errors
    /// The file cannot be read or holds no certificate that can be trusted.
    pub fn trusting(file: &Path) -> Result<Self, CertificateError> {
        let pem = fs::read(file).map_err(|source| CertificateError::Unreadable {
            path: file.to_owned(),
            source,
        })?;
        let not_pem = || CertificateError::NotPem {
            path: file.to_owned(),
            what: "certificate",
        };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            roots
                .add(certificate.map_err(|_| not_pem())?)
                .map_err(|e| CertificateError::Untrustable {
                    path: file.to_owned(),
                    why: e.to_string(),
                })?;
        }
        match roots.is_empty() {
            true => Err(not_pem()),
            false => Self::rooted(roots),
        }
    }

    /// Servers that this system trusts.
    ///
    /// # Errors
    /// It trusts none.
    pub fn system() -> Result<Self, CertificateError> {
        let roots = public_tls::roots().map_err(CertificateError::Library)?;
        Self::rooted(roots)
    }

    fn rooted(roots: RootCertStore) -> Result<Self, CertificateError> {
        let config = public_tls::trusting(roots).map_err(CertificateError::Library)?;
        Ok(Self(config.into()))
    }

    /// The handshake. `host` is what was dialled, IPv6 without brackets.
    ///
    /// # Errors
    /// It failed, or the server is not to be trusted.
    pub async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, TlsError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| TlsError::BadName)?;
        self.0.connect(name, stream).await.map_err(told)
    }
}

impl std::fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientTls")
    }
}

fn told(e: io::Error) -> TlsError {
    let inner = e.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(Error::Other(other)) => match other.0.downcast_ref::<Mismatch>() {
            Some(Mismatch(seen)) => TlsError::OtherCertificate { seen: seen.clone() },
            None => TlsError::Handshake(other.to_string()),
        },
        Some(Error::InvalidCertificate(why)) => TlsError::Untrusted(why.to_string()),
        Some(Error::InvalidMessage(_)) => {
            TlsError::Handshake("it does not answer in TLS".to_owned())
        },
        Some(other) => TlsError::Handshake(other.to_string()),
        None => TlsError::Handshake(e.kind().to_string()),
    }
}

/// The fingerprint of a certificate that is not the pinned one.
#[derive(Debug, thiserror::Error)]
#[error("another certificate: {0}")]
struct Mismatch(String);

#[cfg(test)]
mod tests {
    use super::super::server_tls::ServerTls;
    use super::*;
    use tokio::net::TcpListener;

    /// A server named `gw.lan` in this folder; its certificate is `c.pem`.
    fn server(dir: &Path) -> ServerTls {
        let made = rcgen::generate_simple_self_signed(vec!["gw.lan".to_owned()]).unwrap();
        fs::write(dir.join("c.pem"), made.cert.pem()).unwrap();
        fs::write(dir.join("k.pem"), made.signing_key.serialize_pem()).unwrap();
        ServerTls::open(&dir.join("c.pem"), &dir.join("k.pem")).unwrap()
    }

    async fn meet(server: &ServerTls, client: &ClientTls, host: &str) -> Result<(), TlsError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = async { server.accept(listener.accept().await.unwrap().0).await };
        let dialled = async {
            let stream = TcpStream::connect(address).await.unwrap();
            client.connect(host, stream).await.map(drop)
        };
        tokio::join!(served, dialled).1
    }

    #[tokio::test]
    async fn a_pin_admits_its_certificate_alone_and_names_another() {
        let dir = tempfile::tempdir().unwrap();
        let server = server(dir.path());
        let right: Fingerprint = server.fingerprint().parse().unwrap();
        let pinned = ClientTls::pinned(&right).unwrap();
        // No name is checked: the pin is the identity.
        meet(&server, &pinned, "10.0.0.1").await.unwrap();
        let wrong = format!("sha256:{}", "0".repeat(64)).parse().unwrap();
        let refused = meet(&server, &ClientTls::pinned(&wrong).unwrap(), "gw.lan").await;
        let refused = refused.unwrap_err();
        assert!(refused.is_distrust());
        assert!(
            refused.to_string().contains(&server.fingerprint()),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn a_file_of_authorities_is_asked_for_the_name_too() {
        let dir = tempfile::tempdir().unwrap();
        let own = server(dir.path());
        let trusting = ClientTls::trusting(&dir.path().join("c.pem")).unwrap();
        meet(&own, &trusting, "gw.lan").await.unwrap();
        let refused = meet(&own, &trusting, "other.lan").await.unwrap_err();
        assert!(refused.is_distrust(), "{refused}");
        let elsewhere = tempfile::tempdir().unwrap();
        let other = server(elsewhere.path());
        let refused = meet(&other, &trusting, "gw.lan").await.unwrap_err();
        assert!(refused.is_distrust(), "{refused}");
    }

    #[test]
    fn a_file_that_vouches_for_nobody_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        let told = || ClientTls::trusting(&path).unwrap_err().to_string();
        assert!(told().contains("cannot read"));
        fs::write(&path, "nothing").unwrap();
        assert!(told().contains("no certificate"));
    }
}
