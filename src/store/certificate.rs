//! The certificate that a listener serves where none is configured: made once, kept in the state
//! folder.
//!
//! Owns: making the pair, the two files. Leaves to others: serving it (`net::server_tls`).

use std::io;
use std::path::{Path, PathBuf};

use super::atomic;

/// Where the pair lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCertificate {
    /// The certificate, PEM. Public: workers may be given it as their trust anchor.
    pub certificate: PathBuf,
    /// Its key, PEM, readable for this user alone.
    pub key: PathBuf,
}

impl OwnCertificate {
    /// The pair of this folder, made for these names and addresses if there is none yet. One that
    /// is there stays, whatever its names, since workers pin it.
    ///
    /// # Errors
    /// Only one of the two files is there, or they cannot be written, with what to do.
    pub fn keep(folder: &Path, names: Vec<String>) -> Result<Self, String> {
        let pair = Self {
            certificate: folder.join("registry-cert.pem"),
            key: folder.join("registry-key.pem"),
        };
        match (pair.certificate.exists(), pair.key.exists()) {
            (true, true) => return Ok(pair),
            (false, false) => {},
            (has_certificate, _) => {
                let (there, lacking) = match has_certificate {
                    true => (&pair.certificate, &pair.key),
                    false => (&pair.key, &pair.certificate),
                };
                return Err(format!(
                    "{} is there and {} is not: restore it, or remove the other and let workers \
                     learn a new fingerprint",
                    there.display(),
                    lacking.display()
                ));
            },
        }
        let made = rcgen::generate_simple_self_signed(names)
            .map_err(|e| format!("cannot make a certificate: {e}"))?;
        let write = |path: &Path, text: String, mode| {
            atomic::write(path, text.as_bytes(), mode)
                .map_err(|e: io::Error| format!("cannot write {}: {e}", path.display()))
        };
        // The key first: a certificate without one would be taken for half a pair.
        write(&pair.key, made.signing_key.serialize_pem(), 0o600)?;
        write(&pair.certificate, made.cert.pem(), 0o600).inspect_err(|_| {
            // So that the next start makes both again.
            drop(std::fs::remove_file(&pair.key));
        })?;
        Ok(pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_pair_is_made_once_for_its_owner_alone_and_half_a_pair_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let names = || vec!["gw".to_owned(), "10.0.0.1".to_owned()];
        let made = OwnCertificate::keep(dir.path(), names()).unwrap();
        let text = fs::read(&made.certificate).unwrap();
        #[cfg(unix)]
        for file in [&made.key, &made.certificate] {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        }
        let again = OwnCertificate::keep(dir.path(), names()).unwrap();
        assert_eq!(again, made);
        assert_eq!(fs::read(&again.certificate).unwrap(), text);
        fs::remove_file(&made.key).unwrap();
        let told = OwnCertificate::keep(dir.path(), names()).unwrap_err();
        assert!(told.contains("registry-key.pem is not"), "{told}");
        assert_eq!(fs::read(&made.certificate).unwrap(), text);
    }
}
