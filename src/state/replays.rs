//! What a driver may ask of recorded workloads: replaying them, and handing them out.
//!
//! Owns: the list of questions, and how long an answer may take. Leaves to others: the answers
//! (`replay`), carrying them to whoever asked (`control`).
//!
//! Answers come ready made, because some are megabytes long: making them is no work for the threads
//! that serve requests.

use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::wire::control::WorkloadFilter;
use crate::wire::jsonrpc::CommandError;
use crate::wire::replay::{Arrival, Wanted};

/// Parts of an answer, the last one when it ends. Dropping it ends the work behind it.
pub type Parts = mpsc::Receiver<Box<RawValue>>;

/// Replays and recordings of this daemon.
pub trait Replays: Send + Sync {
    /// Prepares a replay; its number.
    ///
    /// # Errors
    /// Too many are prepared or under way, or another one is being sent.
    fn start(&self, wanted: Wanted) -> Result<u64, CommandError>;
    /// Gives workloads to a replay that wants them; how many it has now.
    ///
    /// # Errors
    /// There is no such replay, it takes none, or it has too many.
    fn add(&self, replay: u64, arrivals: Vec<Arrival>) -> Result<usize, CommandError>;
    /// Runs a prepared replay, and follows it. Dropping the parts cancels it.
    ///
    /// # Errors
    /// There is no such replay, or it is followed already.
    fn follow(&self, replay: u64) -> Result<Parts, CommandError>;
    /// Stops a replay; what came of it until then is told to its follower. `false` if there is none
    /// of this number.
    fn cancel(&self, replay: u64) -> bool;
    /// The recorded workloads that pass a filter, by arrival; its limit takes the newest.
    fn export(&self, filter: WorkloadFilter) -> Parts;
}
