//! Certificates of a cluster: whose one is, and this node's own (control plane 11).
//!
//! Owns: the principal of a certificate, loading a key pair. Leaves to others: which certificates
//! are trusted (`members`), the handshake (`tls`).

use std::fmt;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// In front of a node's id in its certificate.
const NODE: &str = "urn:nvpair:node:";

/// This node's certificate and key.
pub struct Identity {
    /// Whom the certificate names.
    pub principal: String,
    /// The certificate.
    pub leaf: CertificateDer<'static>,
    /// Both, as the handshake wants them.
    pub pair: Arc<CertifiedKey>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing of the key.
        f.debug_tuple("Identity").field(&self.principal).finish()
    }
}

impl Identity {
    /// A pair out of its two PEM files; `None` if one is malformed, or if they do not belong
    /// together.
    pub fn load(certificate: &[u8], key: &[u8]) -> Option<Self> {
        let leaf = leaf(certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).ok()?;
        let provider = ring::default_provider();
        let pair = CertifiedKey::from_der(vec![leaf.clone()], key, &provider).ok()?;
        Some(Self {
            principal: principal(&leaf)?,
            leaf,
            pair: Arc::new(pair),
        })
    }
}

/// The first certificate of a PEM text.
pub fn leaf(pem: &[u8]) -> Option<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem).ok()
}

/// Whom a certificate names: the node in its URI names, else its common name.
pub fn principal(leaf: &CertificateDer) -> Option<String> {
    let (rest, certificate) = X509Certificate::from_der(leaf).ok()?;
    if !rest.is_empty() {
        return None;
    }
    let names = certificate.subject_alternative_name().ok()?;
    let names = names.iter().flat_map(|n| &n.value.general_names);
    let nodes = names.filter_map(|name| match name {
        GeneralName::URI(uri) => uri.strip_prefix(NODE),
        _ => None,
    });
    let common = certificate.subject().iter_common_name();
    let common = common.filter_map(|name| name.as_str().ok());
    let mut all = nodes.chain(common).filter(|p| !p.is_empty());
    all.next().map(str::to_owned)
}

#[cfg(test)]
pub(crate) mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

    use super::*;

    /// A node's files, as its cluster's manager writes them.
    pub struct Node {
        pub uuid: String,
        pub certificate: String,
        pub key: String,
        pub der: CertificateDer<'static>,
    }

    /// Another key and certificate of this node.
    pub fn node(uuid: &str) -> Node {
        made(uuid, Some(uuid), &rcgen::PKCS_ED25519)
    }

    /// With this common name and this node in a URI name.
    pub fn made(common: &str, uri: Option<&str>, kind: &'static rcgen::SignatureAlgorithm) -> Node {
        let key = KeyPair::generate_for(kind).unwrap();
        let mut params = CertificateParams::new(vec!["host.lan".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common);
        let uri = uri.map(|u| SanType::URI(format!("{NODE}{u}").try_into().unwrap()));
        params.subject_alt_names.extend(uri);
        let certificate = params.self_signed(&key).unwrap();
        Node {
            uuid: common.to_owned(),
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            der: certificate.der().clone(),
        }
    }

    #[test]
    fn the_uri_name_wins_over_the_common_name() {
        let kind = &rcgen::PKCS_ED25519;
        for (common, uri, want) in [
            ("a", Some("a"), Some("a")),
            ("a", Some("b"), Some("b")),
            ("a", None, Some("a")),
            ("a", Some(""), Some("a")),
            ("", None, None),
        ] {
            let got = principal(&made(common, uri, kind).der);
            assert_eq!(got.as_deref(), want, "{common} {uri:?}");
        }
        assert_eq!(principal(&CertificateDer::from_slice(b"no")), None);
    }

    #[test]
    fn a_pair_loads_only_whole() {
        for kind in [&rcgen::PKCS_ED25519, &rcgen::PKCS_ECDSA_P256_SHA256] {
            let (a, b) = (made("a", None, kind), made("a", None, kind));
            let load = |c: &str, k: &str| Identity::load(c.as_bytes(), k.as_bytes());
            let loaded = load(&a.certificate, &a.key).unwrap();
            assert_eq!((&*loaded.principal, &loaded.leaf), ("a", &a.der));
            assert!(load(&a.certificate, &b.key).is_none(), "another's key");
            assert!(load(&a.certificate, "").is_none());
            assert!(load("", &a.key).is_none());
            assert!(!format!("{loaded:?}").contains("key"), "nothing of the key");
        }
    }
}
