//! Nodes of the file that come, go and change while the daemon runs.
//!
//! Owns: what a difference of two configurations means for the kept nodes, and who gives way to whom.
//! Leaves to others: the difference (`config::change`), taking nodes in and out (`members`).
//!
//! It ends as a start with the new file would: the file comes first, then the book of added nodes.

use super::Keeper;
use crate::config::change::Nodes;
use crate::config::file::NodeSetting;
use crate::director::kept::{Kept, Origin};

impl Keeper {
    /// Takes nodes out, in, and over.
    pub async fn change(&mut self, nodes: &Nodes<'_>) {
        for node in &nodes.removed {
            if let Some(i) = self.configured(node) {
                self.take_out(i).await;
            }
        }
        for node in &nodes.changed {
            if let Some(i) = self.configured(node) {
                self.describe(i, node, Origin::Configured);
            }
        }
        for node in &nodes.added {
            self.give_way(node).await;
            let there = self.find(|n| self.is_meant(n, node.engine, &node.url));
            match there {
                Some(i) => self.replace(i, node, Origin::Configured).await,
                None => self.name(node, Origin::Configured),
            };
        }
        // What was added at a place of the file's, or under a name of the file's.
        self.reopen();
    }

    /// Takes the nodes of the book up, as far as nobody else named them.
    pub(super) fn reopen(&mut self) {
        for node in self.asks.book.nodes().to_vec() {
            if self.find(|n| n.is_at(node.engine, &node.url)).is_none() {
                self.name(&node, Origin::Added);
            }
        }
    }

    /// The kept node that this one of the file is.
    fn configured(&self, node: &NodeSetting) -> Option<usize> {
        self.find(|n| n.origin == Origin::Configured && n.is_at(node.engine, &node.url))
    }

    /// An added node of the file's name, elsewhere, gets another one. One that was told as a record
    /// is known to its owner by its id, and keeps it.
    async fn give_way(&mut self, node: &NodeSetting) {
        let namesake = self.find(|n| {
            n.origin == Origin::Added
                && n.target.engine == node.engine
                && node.name.as_deref() == Some(n.id.as_str())
                && !n.is_at(node.engine, &node.url)
        });
        if let Some(i) = namesake {
            self.take_out(i).await;
        }
    }

    /// The first node here of which this holds.
    pub(super) fn find(&self, which: impl Fn(&Kept) -> bool) -> Option<usize> {
        self.nodes.iter().position(|n| !n.gone && which(n))
    }
}
