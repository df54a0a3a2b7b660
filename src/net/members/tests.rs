//! Every row of the refresh table.

use std::fs;

use super::super::identity::tests::{Node, node};
use super::*;

const LIVE: &str = r#"{"counter":1,"activated":1,"clusterId":"c1","epoch":1,"retired":false}"#;
const CLEARED: &str = r#"{"counter":2,"activated":1,"clusterId":"","epoch":0,"retired":false}"#;

/// A cluster's manager.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn open(&self) -> Arc<Members> {
        Members::open(self.0.path().to_owned())
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let aside = path.with_extension("aside");
        fs::write(&aside, text).unwrap();
        fs::rename(aside, path).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.0.path().join(name)).unwrap();
    }

    fn identity(&self, me: &Node) {
        self.write("node.key", &me.key);
        self.write("node.crt", &me.certificate);
    }

    fn pin(&self, peer: &Node) {
        self.pin_as(peer, &peer.uuid, &peer.uuid);
    }

    fn pin_as(&self, peer: &Node, name: &str, uuid: &str) {
        let json = serde_json::json!({
            "nodeUuid": uuid, "certPem": peer.certificate, "name": "den", "pinnedAt": 1,
        });
        self.write(&format!("trusted/{name}.json"), &json.to_string());
    }
}

fn is_member(members: &Members) -> bool {
    members.refresh().me().is_some()
}

fn pins(members: &Members) -> Vec<String> {
    members.refresh().pins.keys().cloned().collect()
}

#[test]
fn a_key_pair_and_an_admission_or_a_pin_make_a_member() {
    let (me, peer) = (node("me"), node("peer"));
    for (key, admission, pin, member) in [
        (false, None, false, false),
        (true, None, false, false),
        (true, Some(LIVE), false, true),
        (true, Some(CLEARED), false, false),
        (true, Some(CLEARED), true, true),
        (true, None, true, true),
        (true, Some("{ no"), false, false),
        (true, Some(r#"{"clusterId":"c","epoch":0}"#), false, false),
        (false, Some(LIVE), true, false),
    ] {
        let folder = Folder::new();
        if key {
            folder.identity(&me);
        }
        if let Some(text) = admission {
            folder.write("admission.json", text);
        }
        if pin {
            folder.pin(&peer);
        }
        let members = folder.open();
        assert_eq!(is_member(&members), member, "{key} {admission:?} {pin}");
    }
}

#[test]
fn an_absent_folder_may_fill_later() {
    let folder = Folder::new();
    let members = Members::open(folder.0.path().join("cluster"));
    assert!(!is_member(&members));
    let me = node("me");
    folder.write("cluster/node.key", &me.key);
    folder.write("cluster/node.crt", &me.certificate);
    assert!(!is_member(&members));
    folder.write("cluster/admission.json", LIVE);
    assert!(is_member(&members));
}

#[test]
fn trust_is_nobody_or_ourselves_and_the_pins() {
    let (me, peer, twin) = (node("me"), node("peer"), node("peer"));
    let folder = Folder::new();
    folder.pin(&peer);
    let members = folder.open();
    let trust = members.refresh();
    assert!(!trust.accepts(&peer.der) && trust.certificate("peer").is_none());
    folder.identity(&me);
    let trust = members.refresh();
    assert_eq!(trust.certificate("me"), Some(&me.der));
    assert_eq!(trust.certificate("peer"), Some(&peer.der));
    assert_eq!(trust.certificate("third"), None);
    assert!(trust.accepts(&me.der) && trust.accepts(&peer.der));
    assert!(!trust.accepts(&twin.der), "the same name in other bytes");
    // A pin in our own name does not let another key be us.
    let imposter = node("me");
    folder.pin(&imposter);
    let trust = members.refresh();
    assert!(trust.accepts(&me.der) && !trust.accepts(&imposter.der));
    assert_eq!(trust.certificate("me"), Some(&me.der));
}

#[test]
fn a_new_certificate_is_a_new_identity_once_its_key_fits() {
    let (old, new) = (node("me"), node("me"));
    let folder = Folder::new();
    folder.identity(&old);
    folder.write("admission.json", LIVE);
    let members = folder.open();
    let leaf = |m: &Members| m.refresh().me().unwrap().leaf.clone();
    assert_eq!(leaf(&members), old.der);
    folder.write("node.crt", &new.certificate);
    assert_eq!(leaf(&members), old.der, "no key yet");
    folder.write("node.key", &new.key);
    assert_eq!(leaf(&members), new.der);
    folder.write("node.crt", "broken");
    assert_eq!(leaf(&members), new.der);
    folder.write("node.crt", &new.certificate);
    assert_eq!(leaf(&members), new.der);
    folder.write("node.key", &old.key);
    folder.write("node.crt", &old.certificate);
    assert_eq!(leaf(&members), old.der);
}

#[test]
fn a_key_pair_that_goes_is_no_demotion() {
    let me = node("me");
    let folder = Folder::new();
    folder.identity(&me);
    folder.write("admission.json", LIVE);
    let members = folder.open();
    folder.remove("node.key");
    assert!(is_member(&members));
    folder.remove("node.crt");
    assert!(is_member(&members));
    assert_eq!(members.generation(), 1, "nothing changed");
}

#[test]
fn a_cleared_admission_without_pins_ends_membership_and_keeps_the_identity() {
    let me = node("me");
    let folder = Folder::new();
    folder.identity(&me);
    folder.write("admission.json", LIVE);
    let members = folder.open();
    folder.write("admission.json", CLEARED);
    assert!(!is_member(&members));
    folder.remove("node.key");
    folder.write("admission.json", LIVE);
    assert!(is_member(&members), "joined again with the pair in memory");
    folder.remove("admission.json");
    assert!(!is_member(&members));
}

#[test]
fn pins_go_with_their_folder_and_stay_if_it_is_unreadable() {
    let folder = Folder::new();
    folder.pin(&node("a"));
    folder.pin(&node("b"));
    let members = folder.open();
    assert_eq!(pins(&members), ["a", "b"]);
    let trusted = folder.0.path().join("trusted");
    let aside = folder.0.path().join("aside");
    fs::rename(&trusted, &aside).unwrap();
    // Exists, and is no folder: unreadable for everybody, root included.
    fs::write(&trusted, "").unwrap();
    assert_eq!(pins(&members), ["a", "b"]);
    fs::remove_file(&trusted).unwrap();
    assert_eq!(pins(&members), [""; 0]);
    fs::rename(&aside, &trusted).unwrap();
    assert_eq!(pins(&members), ["a", "b"]);
    folder.remove("trusted/a.json");
    assert_eq!(pins(&members), ["b"]);
}

#[test]
fn a_pin_that_breaks_is_dropped_and_an_unreadable_one_kept() {
    let folder = Folder::new();
    let (a, b) = (node("a"), node("b"));
    folder.pin(&a);
    folder.pin(&b);
    let members = folder.open();
    folder.write("trusted/a.json", "{ no");
    assert_eq!(pins(&members), ["b"]);
    folder.pin(&a);
    assert_eq!(pins(&members), ["a", "b"]);
    // Exists, and is no file.
    folder.remove("trusted/a.json");
    fs::create_dir(folder.0.path().join("trusted/a.json")).unwrap();
    assert_eq!(pins(&members), ["a", "b"]);
}

#[test]
fn name_record_and_certificate_of_a_pin_agree() {
    let folder = Folder::new();
    let a = node("a");
    folder.pin_as(&a, "x", "x");
    folder.pin_as(&a, "y", "a");
    folder.pin_as(&a, "a", "x");
    folder.write("trusted/b.json.tmp", "{}");
    folder.write("trusted/c.json", r#"{"nodeUuid":"c"}"#);
    folder.write("trusted/d.json", r#"{"nodeUuid":"d","certPem":"no"}"#);
    let members = folder.open();
    assert_eq!(pins(&members), [""; 0]);
    folder.pin(&a);
    assert_eq!(pins(&members), ["a"]);
    // Changed later, in the same place.
    let other = node("b");
    folder.pin_as(&other, "a", "a");
    assert_eq!(pins(&members), [""; 0]);
}

#[test]
fn only_what_matters_counts_as_a_change() {
    let folder = Folder::new();
    folder.identity(&node("me"));
    folder.pin(&node("a"));
    let members = folder.open();
    let first = members.generation();
    members.refresh();
    folder.write("identity.json", "{}");
    folder.write("trusted/junk.json", "{}");
    folder.write("admission.json", CLEARED);
    members.refresh();
    assert_eq!(members.generation(), first);
    folder.write("admission.json", LIVE);
    members.refresh();
    assert_eq!(members.generation(), first + 1);
}
