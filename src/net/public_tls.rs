//! TLS towards servers that the system's roots vouch for.
//!
//! Owns: the roots, read once, and the handshake. Leaves to others: peers of the cluster, which are
//! pinned (`tls`), dialling, pools (`upstream`).

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The protocol that is spoken over TLS everywhere here (ALPN).
pub(super) const HTTP: &[u8] = b"http/1.1";

/// How others' certificates are checked. Read at the first use: most daemons never need it.
#[derive(Debug, Default)]
pub struct PublicTls(OnceLock<Result<Arc<ClientConfig>, String>>);

impl PublicTls {
    /// Trusting these roots instead of the system's.
    ///
    /// # Errors
    /// The TLS library does not work here.
    pub fn trusting(roots: RootCertStore) -> Result<Self, String> {
        Ok(Self(OnceLock::from(Ok(trusting(roots)?))))
    }

    /// Speaks TLS on a connection to the server of this name.
    ///
    /// # Errors
    /// There are no roots, the name is none, or the server cannot prove that it has it.
    pub async fn connect<S>(&self, name: &str, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let config = match self.0.get_or_init(configure) {
            Ok(config) => config.clone(),
            Err(why) => return Err(io::Error::other(why.clone())),
        };
        let name = ServerName::try_from(name.to_owned())
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        TlsConnector::from(config).connect(name, stream).await
    }
}

/// What this system trusts, read now.
///
/// # Errors
/// It trusts nobody; what to do.
pub fn roots() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        return Err(
            "the system has no root certificates; install ca-certificates, or name a file of them \
             in SSL_CERT_FILE"
                .into(),
        );
    }
    Ok(roots)
}

fn configure() -> Result<Arc<ClientConfig>, String> {
    trusting(roots()?)
}

/// How servers are spoken to that these roots vouch for.
///
/// # Errors
/// The TLS library does not work here.
pub(super) fn trusting(roots: RootCertStore) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![HTTP.to_vec()];
    Ok(Arc::new(config))
}
