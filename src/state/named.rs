//! Nodes that somebody names while the daemon runs: `nodes/add`, `nodes/remove`, and standalone
//! `node/add-manual` and `node/remove-manual`.
//!
//! Owns: what such a node may be, the way from the control socket to whoever keeps the nodes, and
//! which of them outlive the process. Leaves to others: keeping and probing them (`director`), the
//! file (`store::nodes`).

use std::path::Path;

use http::HeaderValue;
use tokio::sync::mpsc;

use super::command::Responder;
use crate::config::file::NodeSetting;
use crate::config::node_url::NodeUrl;
use crate::rules::engine::EngineId;
use crate::rules::ids::NodeId;
use crate::rules::secret::Secret;
use crate::store::nodes::{NodeFile, SavedNode};
use crate::wire::broker::NodeRecord;
use crate::wire::control::NodeAdded;
use crate::wire::jsonrpc::CommandError;

/// Requests that one engine may run side by side.
const SLOTS: std::ops::RangeInclusive<u32> = 1..=4096;

/// How much more a node may be preferred.
const WEIGHT: std::ops::RangeInclusive<u32> = 1..=1000;

/// Bytes of a name.
const NAME: usize = 100;

/// Requests waiting for the keeper of the nodes.
const QUEUE: usize = 64;

/// A node that somebody named.
#[derive(Clone, Debug)]
pub struct NewNode {
    /// Where and what it is.
    pub setting: NodeSetting,
    /// The record it was given as, by `node/add-manual`: it lasts as long as the process, and may
    /// have several addresses. `None` = `nodes/add`, which is saved.
    pub record: Option<NodeRecord>,
}

/// What `nodes/add` says besides engine and URL.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// Id instead of the host's name.
    pub name: Option<String>,
    /// Its models; `None` = ask it.
    pub models: Option<Vec<String>>,
    /// Sent to this node only.
    pub api_key: Option<Secret>,
    /// Parallel requests; `None` = ask it.
    pub slots: Option<u32>,
    /// Relative weight; `None` = 1.
    pub weight: Option<u32>,
}

impl NewNode {
    /// A node at this URL.
    ///
    /// # Errors
    /// A sentence without the URL and the key, which may be secret.
    pub fn at(engine: EngineId, url: &str, details: Details) -> Result<Self, String> {
        let url = NodeUrl::parse(url).map_err(|why| format!("url: {why}"))?;
        let Details {
            name,
            models,
            api_key,
            slots,
            weight,
        } = details;
        let odd = |c: char| c.is_whitespace() || c.is_control();
        if name
            .as_ref()
            .is_some_and(|n| n.is_empty() || n.len() > NAME || n.contains(odd))
        {
            return Err(format!("name must have 1 to {NAME} bytes and no blanks"));
        }
        if models
            .as_ref()
            .is_some_and(|m| m.iter().any(|m| m.trim().is_empty()))
        {
            return Err("a model's name must not be empty".to_owned());
        }
        let no_header =
            |k: &Secret| k.reveal().is_empty() || HeaderValue::from_str(k.reveal()).is_err();
        if api_key.as_ref().is_some_and(no_header) {
            return Err(
                "api_key is empty or has a character that no HTTP header may have".to_owned(),
            );
        }
        if slots.is_some_and(|n| !SLOTS.contains(&n)) {
            return Err(format!(
                "slots must be {} to {}",
                SLOTS.start(),
                SLOTS.end()
            ));
        }
        if weight.is_some_and(|n| !WEIGHT.contains(&n)) {
            return Err(format!(
                "weight must be {} to {}",
                WEIGHT.start(),
                WEIGHT.end()
            ));
        }
        let setting = NodeSetting {
            name,
            models: models.filter(|m| !m.is_empty()),
            api_key,
            slots,
            weight,
            ..NodeSetting::bare(engine, url)
        };
        Ok(Self {
            setting,
            record: None,
        })
    }

    /// A node given as a record, which must have an id, a port and an address.
    pub fn of_record(engine: EngineId, record: NodeRecord) -> Self {
        let host = record.addresses.iter().find(|a| !a.is_empty());
        let url = NodeUrl {
            host: host.cloned().unwrap_or_default(),
            port: record.port,
            prefix: String::new(),
        };
        let setting = NodeSetting {
            name: Some(record.id.clone()),
            models: (!record.models.is_empty()).then(|| record.models.clone()),
            ..NodeSetting::bare(engine, url)
        };
        Self {
            setting,
            record: Some(record),
        }
    }

    /// It as a record, for a daemon where nobody probes.
    pub fn into_record(self) -> NodeRecord {
        let NodeSetting {
            url, name, models, ..
        } = self.setting;
        self.record.unwrap_or_else(|| NodeRecord {
            id: name.unwrap_or_else(|| url.host.clone()),
            host: url.host.clone(),
            port: url.port,
            addresses: vec![url.host],
            models: models.unwrap_or_default(),
            ..NodeRecord::default()
        })
    }
}

/// What is asked of the keeper of the nodes.
pub enum NodeAsk {
    /// Keep this one; answered when it was probed once.
    Add(Box<NewNode>, Responder<NodeAdded>),
    /// Forget this one; answers whether it was there.
    Remove(EngineId, NodeId, Responder<bool>),
}

impl NodeAsk {
    /// Answers that it is not done.
    pub fn refuse(self, why: impl Into<String>) {
        let error = CommandError::refused(why);
        match self {
            Self::Add(_, r) => r.answer(Err(error)),
            Self::Remove(_, _, r) => r.answer(Err(error)),
        }
    }
}

/// Where requests are left for the keeper of the nodes.
pub type Desk = mpsc::Sender<NodeAsk>;

/// The keeper's end, with the nodes of earlier runs.
pub struct Asks {
    /// Requests in their order.
    pub queue: mpsc::Receiver<NodeAsk>,
    /// What outlives the process.
    pub book: Book,
}

impl Asks {
    /// Both ends.
    pub fn open(book: Book) -> (Desk, Self) {
        let (desk, queue) = mpsc::channel(QUEUE);
        (desk, Self { queue, book })
    }
}

/// Where the book is.
#[derive(Clone, Debug)]
enum Place {
    /// In this file.
    File(NodeFile),
    /// Nowhere, on purpose or because no folder is known.
    Nowhere,
    /// In a file that must not be written over, and why.
    Unreadable(String),
}

/// The nodes that were added and outlive the process.
#[derive(Debug)]
pub struct Book {
    place: Place,
    nodes: Vec<NodeSetting>,
}

impl Book {
    /// A book that forgets everything at the end.
    pub fn unsaved() -> Self {
        Self {
            place: Place::Nowhere,
            nodes: Vec::new(),
        }
    }

    /// The book of this state folder, and what is wrong with it, if so. Then nothing can be added
    /// until somebody mends or removes the file.
    pub fn open(dir: Option<&Path>) -> (Self, Option<String>) {
        let Some(dir) = dir else {
            return (Self::unsaved(), None);
        };
        let file = NodeFile::in_folder(dir);
        let read = file.load().and_then(|saved| {
            let bad = |why| format!("{}: {why}", file.path().display());
            saved
                .into_iter()
                .map(setting)
                .collect::<Result<Vec<_>, _>>()
                .map_err(bad)
        });
        match read {
            Ok(nodes) => {
                let place = Place::File(file);
                (Self { place, nodes }, None)
            },
            Err(why) => {
                let told = format!("the added nodes are not used: {why}; mend or remove the file");
                let place = Place::Unreadable(why);
                (
                    Self {
                        place,
                        nodes: Vec::new(),
                    },
                    Some(told),
                )
            },
        }
    }

    /// The nodes in it.
    pub fn nodes(&self) -> &[NodeSetting] {
        &self.nodes
    }

    /// Whether it outlives the process.
    pub fn is_saved(&self) -> bool {
        matches!(self.place, Place::File(_))
    }

    /// Takes the nodes out that `old` picks, puts `new` in, and writes that down before it holds.
    ///
    /// # Errors
    /// A sentence; then nothing was changed.
    pub async fn change(
        &mut self,
        old: impl Fn(&NodeSetting) -> bool,
        new: Option<NodeSetting>,
    ) -> Result<(), String> {
        let mut nodes: Vec<_> = self.nodes.iter().filter(|n| !old(n)).cloned().collect();
        nodes.extend(new);
        if nodes == self.nodes {
            return Ok(());
        }
        match &self.place {
            Place::File(file) => {
                let (file, saved) = (file.clone(), nodes.iter().map(saved).collect::<Vec<_>>());
                let path = file.path().to_owned();
                let write = tokio::task::spawn_blocking(move || file.save(&saved)).await;
                let written = write.unwrap_or_else(|e| Err(std::io::Error::other(e)));
                written.map_err(|e| {
                    format!(
                        "cannot write {}, so nothing was changed: {e}",
                        path.display()
                    )
                })?;
            },
            Place::Nowhere => {},
            Place::Unreadable(why) => {
                return Err(format!(
                    "nothing was changed, since a file must not be lost: {why}; mend or remove it and restart"
                ));
            },
        }
        self.nodes = nodes;
        Ok(())
    }
}

fn setting(saved: SavedNode) -> Result<NodeSetting, String> {
    let details = Details {
        name: saved.name,
        models: saved.models,
        api_key: saved.api_key.map(Secret::new),
        slots: saved.slots,
        weight: saved.weight,
    };
    NewNode::at(saved.engine, &saved.url, details).map(|n| n.setting)
}

fn saved(node: &NodeSetting) -> SavedNode {
    SavedNode {
        engine: node.engine,
        url: node.url.to_string(),
        name: node.name.clone(),
        models: node.models.clone(),
        api_key: node.api_key.as_ref().map(|k| k.reveal().to_owned()),
        slots: node.slots,
        weight: node.weight,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ollama() -> EngineId {
        EngineId::parse("ollama").unwrap()
    }

    fn tower(details: Details) -> Result<NewNode, String> {
        NewNode::at(ollama(), "http://tower.lan:11434/v1", details)
    }

    #[test]
    fn bad_values_are_told_without_the_key() {
        let named = |name: &str| Details {
            name: Some(name.into()),
            ..Details::default()
        };
        let key = |key: &str| Details {
            api_key: Some(Secret::new(key)),
            ..Details::default()
        };
        let sized = |slots, weight| Details {
            slots,
            weight,
            ..Details::default()
        };
        let empty_model = Details {
            models: Some(vec![" ".into()]),
            ..Details::default()
        };
        for (details, want) in [
            (named(""), "name"),
            (named("a b"), "name"),
            (named(&"x".repeat(101)), "name"),
            (key("cana\nry"), "api_key"),
            (key(""), "api_key"),
            (sized(Some(0), None), "slots must be 1 to 4096"),
            (sized(None, Some(1001)), "weight must be 1 to 1000"),
            (empty_model, "model"),
        ] {
            let told = tower(details).unwrap_err();
            assert!(told.contains(want) && !told.contains("cana"), "{told}");
        }
        let told = NewNode::at(ollama(), "http://me:canary@x:1", Details::default()).unwrap_err();
        assert!(
            told.contains("user name") && !told.contains("canary"),
            "{told}"
        );
        assert_eq!(
            tower(Details::default()).unwrap().setting.url.to_string(),
            "http://tower.lan:11434"
        );
    }

    #[tokio::test]
    async fn a_book_is_read_again_and_a_broken_one_is_never_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let (mut book, bad) = Book::open(Some(dir.path()));
        assert_eq!((bad, book.is_saved()), (None, true));
        let details = Details {
            name: Some("tower".into()),
            api_key: Some(Secret::new("k")),
            slots: Some(3),
            ..Details::default()
        };
        let node = tower(details).unwrap().setting;
        book.change(|_| false, Some(node.clone())).await.unwrap();
        let again = Book::open(Some(dir.path())).0;
        assert_eq!(again.nodes(), std::slice::from_ref(&node));
        book.change(|n| n.url == node.url, None).await.unwrap();
        assert!(Book::open(Some(dir.path())).0.nodes().is_empty());

        let path = dir.path().join("nodes.json");
        std::fs::write(&path, "{").unwrap();
        let (mut book, bad) = Book::open(Some(dir.path()));
        assert!(bad.unwrap().contains("nodes.json"));
        let told = book.change(|_| false, Some(node)).await.unwrap_err();
        assert!(told.contains("mend or remove"), "{told}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{");
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_not_held() {
        let dir = tempfile::tempdir().unwrap();
        let (mut book, _) = Book::open(Some(&dir.path().join("state")));
        // A file where the folder would be.
        std::fs::write(dir.path().join("state"), "").unwrap();
        let node = tower(Details::default()).unwrap().setting;
        let told = book.change(|_| false, Some(node)).await.unwrap_err();
        assert!(told.contains("nothing was changed"), "{told}");
        assert!(book.nodes().is_empty());
    }
}
