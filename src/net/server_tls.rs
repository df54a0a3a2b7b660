//! TLS of a listener that other machines reach and that is no cluster peer's: the node registry, and a
//! facade with a certificate of its own.
//!
//! Owns: loading a certificate and its key, loading them again when their files change, the
//! handshake, the fingerprint. Leaves to others: making a certificate (`store::certificate`),
//! the cluster's mutual TLS (`tls`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::public_tls::HTTP;
use super::watched::Stamp;

/// Why a certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}; check that it is there and readable for this user", .path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It holds something else.
    #[error("{} holds no {what} in PEM form", .path.display())]
    NotPem {
        /// Which.
        path: PathBuf,
        /// What should be in it.
        what: &'static str,
    },
    /// Certificate and key do not belong together, or are of a kind that cannot be used.
    #[error("the certificate {} cannot be used with its key: {why}", .path.display())]
    Unusable {
        /// The certificate's file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// It cannot vouch for anybody.
    #[error("{} cannot be trusted: {why}", .path.display())]
    Untrustable {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The TLS library refuses its configuration.
    #[error("TLS cannot be prepared: {0}")]
    Library(String),
}

/// What a listener shows and proves in a handshake.
pub struct ServerTls {
    acceptor: TlsAcceptor,
    shown: Arc<Shown>,
}

impl ServerTls {
    /// Serves the chain and key of these two PEM files, also after they change. A change that
    /// cannot be used is told once and leaves the old pair in force.
    ///
    /// # Errors
    /// They cannot be used now.
    pub fn open(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let stamp = stamps(certificate, key);
        let pair = load(certificate, key, &provider)?;
        let shown = Arc::new(Shown {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            provider: provider.clone(),
            now: Mutex::new((stamp, pair)),
        });
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| CertificateError::Library(e.to_string()))?
            .with_no_client_auth()
            .with_cert_resolver(shown.clone());
        config.alpn_protocols = vec![HTTP.to_vec()];
        Ok(Self {
            acceptor: Arc::new(config).into(),
            shown,
        })
    }

    /// The handshake.
    ///
    /// # Errors
    /// It failed.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.acceptor.accept(stream).await
    }

    /// `sha256:` and the digest, in lower-case hex, of the certificate in force.
    pub fn fingerprint(&self) -> String {
        let pair = self.shown.refresh();
        fingerprint(pair.cert.first().map_or(&[], |leaf| leaf.as_ref()))
    }
}

/// `sha256:` and the digest of a certificate's DER form in lower-case hex.
pub fn fingerprint(der: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, der);
    let hex = digest.as_ref().iter().map(|b| format!("{b:02x}"));
    format!("sha256:{}", hex.collect::<String>())
}

fn load(
    certificate: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, CertificateError> {
    let read = |path: &Path| {
        fs::read(path).map_err(|source| CertificateError::Unreadable {
            path: path.to_owned(),
            source,
        })
    };
    let not = |path: &Path, what| CertificateError::NotPem {
        path: path.to_owned(),
        what,
    };
    let chain = CertificateDer::pem_slice_iter(&read(certificate)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| not(certificate, "certificate"))?;
    if chain.is_empty() {
        return Err(not(certificate, "certificate"));
    }
    let secret = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_| not(key, "private key"))?;
    let pair = CertifiedKey::from_der(chain, secret, provider);
    pair.map(Arc::new).map_err(|e| CertificateError::Unusable {
        path: certificate.to_owned(),
        why: e.to_string(),
    })
}

/// What tells one version of the two files from another.
type Stamps = [Option<Stamp>; 2];

fn stamps(certificate: &Path, key: &Path) -> Stamps {
    [certificate, key].map(|path| fs::metadata(path).ok().map(|meta| Stamp::of(&meta)))
}

struct Shown {
    certificate: PathBuf,
    key: PathBuf,
    provider: Arc<CryptoProvider>,
    now: Mutex<(Stamps, Arc<CertifiedKey>)>,
}

impl Shown {
    /// The pair in force, after a look at the files.
    fn refresh(&self) -> Arc<CertifiedKey> {
        let stamp = stamps(&self.certificate, &self.key);
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if now.0 != stamp {
            match load(&self.certificate, &self.key, &self.provider) {
                Ok(pair) => *now = (stamp, pair),
                Err(e) => {
                    tracing::warn!(reason = %e, "the changed certificate is not used; the one before stays");
                    // Told once; the next change is looked at again.
                    now.0 = stamp;
                },
            }
        }
        now.1.clone()
    }
}

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Shown").field(&self.certificate).finish()
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.refresh())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, name: &str) {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        fs::write(dir.join("c.pem"), made.cert.pem()).unwrap();
        fs::write(dir.join("k.pem"), made.signing_key.serialize_pem()).unwrap();
    }

    #[test]
    fn a_changed_pair_is_taken_and_a_broken_one_leaves_the_old() {
        let dir = tempfile::tempdir().unwrap();
        let (c, k) = (dir.path().join("c.pem"), dir.path().join("k.pem"));
        write(dir.path(), "a");
        let tls = ServerTls::open(&c, &k).unwrap();
        let first = tls.fingerprint();
        assert_eq!(first.len(), "sha256:".len() + 64);
        // Another length, so that the change is seen within the clock's grain too.
        write(dir.path(), "another.name.that.is.longer");
        let second = tls.fingerprint();
        assert_ne!(first, second);
        fs::write(&c, "x").unwrap();
        assert_eq!(tls.fingerprint(), second);
    }

    #[test]
    fn what_cannot_be_served_is_refused_with_the_file_to_blame() {
        let dir = tempfile::tempdir().unwrap();
        let (c, k) = (dir.path().join("c.pem"), dir.path().join("k.pem"));
        let told = |c: &Path, k: &Path| match ServerTls::open(c, k) {
            Ok(_) => panic!("served"),
            Err(e) => e.to_string(),
        };
        assert!(told(&c, &k).contains("cannot read"));
        write(dir.path(), "a");
        assert!(told(&k, &k).contains("k.pem holds no certificate"));
        assert!(told(&c, &c).contains("c.pem holds no private key"));
        let other = rcgen::generate_simple_self_signed(vec!["b".to_owned()]).unwrap();
        fs::write(&k, other.signing_key.serialize_pem()).unwrap();
        assert!(told(&c, &k).contains("cannot be used with its key"));
    }
}
