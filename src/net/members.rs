//! Who belongs to the cluster: its folder, read anew whenever it is asked (control plane 11).
//!
//! Owns: membership, pins, what a missing or broken file means. Leaves to others: watching for flips
//! (`daemon`), the handshake (`tls`).
//!
//! The folder belongs to the cluster's manager, which replaces files by rename while we read. A look
//! at it is a few system calls: small enough for the thread that serves requests, and only a request
//! of a process with a cluster folder makes one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::pki_types::CertificateDer;
use serde::Deserialize;

use super::identity::{Identity, leaf, principal};
use super::watched::{News, Watched};

/// Whom this node trusts: one consistent moment.
#[derive(Debug, Default)]
pub struct Trust {
    identity: Option<Arc<Identity>>,
    is_admitted: bool,
    pins: BTreeMap<String, CertificateDer<'static>>,
}

impl Trust {
    /// This node, if it is a member. A key pair alone does not make it one: it outlives a leave.
    pub fn me(&self) -> Option<&Arc<Identity>> {
        let admitted = self.is_admitted || !self.pins.is_empty();
        self.identity.as_ref().filter(|_| admitted)
    }

    /// The certificate by which this principal is known. Who is no member trusts nobody, not even
    /// itself.
    pub fn certificate(&self, principal: &str) -> Option<&CertificateDer<'static>> {
        let me = self.me()?;
        if me.principal == principal {
            return Some(&me.leaf);
        }
        self.pins.get(principal)
    }

    /// Whether a peer with this certificate may come in. Equal bytes are the whole test: no chain, no
    /// name, no date.
    pub fn accepts(&self, leaf: &CertificateDer) -> bool {
        let Some(me) = self.me() else { return false };
        let mut others = self.pins.iter().filter(|(p, _)| **p != me.principal);
        me.leaf == *leaf || others.any(|(_, pin)| pin == leaf)
    }
}

/// The cluster folder.
pub struct Members {
    folder: PathBuf,
    read: Mutex<Read>,
    generation: AtomicU64,
}

impl Members {
    /// Reads the folder, which may be empty or absent.
    pub fn open(folder: PathBuf) -> Arc<Self> {
        let members = Self {
            folder,
            read: Mutex::default(),
            generation: AtomicU64::new(0),
        };
        members.refresh();
        Arc::new(members)
    }

    /// Looks at the folder; whom this node trusts now.
    pub fn refresh(&self) -> Arc<Trust> {
        let mut read = self.lock();
        if read.look(&self.folder) {
            self.generation.fetch_add(1, Ordering::Relaxed);
            read.trust = Arc::new(Trust {
                identity: read.identity.clone(),
                is_admitted: read.is_admitted,
                pins: read.certificates(),
            });
        }
        read.trust.clone()
    }

    /// Whom the last look found trusted.
    pub fn trust(&self) -> Arc<Trust> {
        self.lock().trust.clone()
    }

    /// Where changes are made.
    pub fn folders(&self) -> Vec<PathBuf> {
        vec![self.folder.clone(), self.folder.join("trusted")]
    }

    /// Counts the changes that were found.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Read> {
        // Whatever a panic left half read is read again by the next look.
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One pin's file.
#[derive(Default)]
struct Pin {
    file: Watched,
    certificate: Option<CertificateDer<'static>>,
}

/// What was read so far.
#[derive(Default)]
struct Read {
    certificate: Watched,
    key: Watched,
    /// A certificate that no key fits yet: it is tried again when either file changes.
    waiting: Option<Vec<u8>>,
    /// The bytes the identity was made from.
    loaded: Option<Vec<u8>>,
    identity: Option<Arc<Identity>>,
    admission: Watched,
    is_admitted: bool,
    pins: BTreeMap<String, Pin>,
    trust: Arc<Trust>,
}

impl Read {
    /// Whether anything that matters changed.
    fn look(&mut self, folder: &Path) -> bool {
        let identity = self.look_identity(folder);
        let admission = self.look_admission(folder);
        let pins = self.look_pins(&folder.join("trusted"));
        identity || admission || pins
    }

    fn certificates(&self) -> BTreeMap<String, CertificateDer<'static>> {
        let valid = |(name, pin): (&String, &Pin)| Some((name.clone(), pin.certificate.clone()?));
        self.pins.iter().filter_map(valid).collect()
    }

    /// A new certificate counts once its key is there too. Whatever goes missing or breaks later, the
    /// loaded pair stays: that is no leave.
    fn look_identity(&mut self, folder: &Path) -> bool {
        if let News::Bytes(bytes) = self.certificate.look(&folder.join("node.crt")) {
            let is_new = self.loaded.as_ref() != Some(&bytes);
            if self.waiting.as_ref() != Some(&bytes) {
                // The key has to be read for it, changed or not.
                self.key = Watched::default();
            }
            self.waiting = is_new.then_some(bytes);
        }
        let Some(certificate) = &self.waiting else {
            return false;
        };
        let News::Bytes(key) = self.key.look(&folder.join("node.key")) else {
            return false;
        };
        let Some(identity) = Identity::load(certificate, &key) else {
            return false;
        };
        self.identity = Some(Arc::new(identity));
        self.loaded = self.waiting.take();
        true
    }

    fn look_admission(&mut self, folder: &Path) -> bool {
        let admitted = match self.admission.look(&folder.join("admission.json")) {
            News::Same | News::Unreadable => return false,
            News::Gone => false,
            News::Bytes(bytes) => is_active(&bytes),
        };
        std::mem::replace(&mut self.is_admitted, admitted) != admitted
    }

    fn look_pins(&mut self, folder: &Path) -> bool {
        let names = match pin_names(folder) {
            Ok(names) => names,
            Err(e) if e.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            // A folder that cannot be read says nothing about who left.
            Err(_) => return false,
        };
        let mut changed = false;
        self.pins.retain(|name, pin| {
            let stays = names.contains(name);
            changed |= !stays && pin.certificate.is_some();
            stays
        });
        for name in names {
            let path = folder.join(format!("{name}.json"));
            let pin = self.pins.entry(name.clone()).or_default();
            let certificate = match pin.file.look(&path) {
                News::Same | News::Unreadable => continue,
                News::Gone => None,
                News::Bytes(bytes) => pinned(&name, &bytes, pin.certificate.as_ref()),
            };
            changed |= pin.certificate != certificate;
            pin.certificate = certificate;
        }
        changed
    }
}

/// Names of the pin files, without their ending. A file that is still being written ends otherwise.
fn pin_names(folder: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let name = name.to_str().and_then(|n| n.strip_suffix(".json"));
        names.extend(name.map(str::to_owned));
    }
    Ok(names)
}

/// The part of `admission.json` that matters.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Admission {
    #[serde(default)]
    cluster_id: String,
    #[serde(default)]
    epoch: u64,
}

/// Whether a record admits this node. A leave writes it anew, with both fields emptied.
fn is_active(json: &[u8]) -> bool {
    let read = serde_json::from_slice::<Admission>(json);
    read.is_ok_and(|a| !a.cluster_id.is_empty() && a.epoch > 0)
}

/// The part of a pin that matters.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PinFile {
    node_uuid: String,
    cert_pem: String,
}

/// The certificate of a pin, if file name, record and certificate name the same node. The one held
/// already was checked before.
fn pinned(
    name: &str,
    json: &[u8],
    held: Option<&CertificateDer<'static>>,
) -> Option<CertificateDer<'static>> {
    let file: PinFile = serde_json::from_slice(json).ok()?;
    let leaf = leaf(file.cert_pem.as_bytes())?;
    let names_it = || held == Some(&leaf) || principal(&leaf).as_deref() == Some(name);
    (file.node_uuid == name && names_it()).then_some(leaf)
}

#[cfg(test)]
mod tests;
