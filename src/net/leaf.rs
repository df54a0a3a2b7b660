//! The other side of a TLS handshake, judged by its certificate alone.
//!
//! Owns: asking the judge, and that whoever shows a certificate holds its key. Leaves to others: which
//! certificate is the right one (`tls`, `client_tls`). No chain, name or date is looked at.

use std::fmt;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// Takes the certificates that its judge takes, of servers and of clients.
pub struct Leaf<J> {
    judge: J,
    algorithms: WebPkiSupportedAlgorithms,
}

impl<J> Leaf<J>
where
    J: Fn(&CertificateDer<'_>) -> Result<(), Error>,
{
    /// Judged by this.
    pub fn judged(provider: &CryptoProvider, judge: J) -> Self {
        Self {
            judge,
            algorithms: provider.signature_verification_algorithms,
        }
    }
}

impl<J> fmt::Debug for Leaf<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Leaf")
    }
}

/// What the library asks in the same words of either side: that it holds the key.
macro_rules! holds_the_key {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            leaf: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls12_signature(message, leaf, signature, &self.algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            leaf: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, leaf, signature, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}

impl<J> ServerCertVerifier for Leaf<J>
where
    J: Fn(&CertificateDer<'_>) -> Result<(), Error> + Send + Sync,
{
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        (self.judge)(leaf).map(|()| ServerCertVerified::assertion())
    }

    holds_the_key!();
}

impl<J> ClientCertVerifier for Leaf<J>
where
    J: Fn(&CertificateDer<'_>) -> Result<(), Error> + Send + Sync,
{
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        (self.judge)(leaf).map(|()| ClientCertVerified::assertion())
    }

    holds_the_key!();
}
