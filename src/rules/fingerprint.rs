//! The fingerprint of a certificate, as people copy it.
//!
//! Owns: its form. Leaves to others: computing it (`net::server_tls`), comparing it in a handshake
//! (`net::client_tls`).

use std::str::FromStr;

/// SHA-256 of a certificate's DER form: `sha256:` and 64 hex digits, colons between them allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint(String);

impl FromStr for Fingerprint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = "a fingerprint is `sha256:` and 64 hex digits, as `nodes keys create` prints it";
        let (kind, digits) = text.trim().split_once(':').ok_or(bad)?;
        let digits: String = digits.chars().filter(|c| *c != ':').collect();
        let is_hex = digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        match is_hex && kind.eq_ignore_ascii_case("sha256") {
            true => Ok(Self(format!("sha256:{}", digits.to_ascii_lowercase()))),
            false => Err(bad.to_owned()),
        }
    }
}

impl Fingerprint {
    /// `sha256:` and lower-case hex.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_read_in_both_spellings() {
        let plain = format!("sha256:{}", "ab".repeat(32));
        let colons = format!("SHA256:{}", vec!["AB"; 32].join(":"));
        assert_eq!(
            plain.parse::<Fingerprint>().unwrap(),
            colons.parse().unwrap()
        );
        for bad in ["", "sha256:", "sha256:12", "sha1:ab", &plain[7..]] {
            assert!(bad.parse::<Fingerprint>().is_err(), "{bad}");
        }
    }
}
