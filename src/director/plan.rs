//! What the director decides: names of nodes, ports of facades, words of the start-up table.
//!
//! Owns: those rules. Pure.
//! Leaves to others: looking (`local`, `probe`), asking the daemon (`mod`).

use std::collections::BTreeMap;

use super::local;
use crate::config::settings::PortAsk;
use crate::rules::addresses::{authority, is_loopback_host, same_loopback};
use crate::rules::engine::EngineId;
use crate::rules::ids::NodeId;
use crate::state::command::{Enabled, PortRule};

/// Whether a URL's host is this machine, as far as its spelling tells.
pub fn is_this_machine(host: &str, host_name: &str) -> bool {
    is_loopback_host(host) || host.eq_ignore_ascii_case(host_name)
}

/// Whether a URL's host is the address where engines of this machine are looked for: the same port
/// of another loopback address is another listener. This machine's name may mean any of its
/// addresses, and an engine that answers to it is not taken for a second one.
pub fn is_place(host: &str, host_name: &str) -> bool {
    same_loopback(host, local::HOST) || host.eq_ignore_ascii_case(host_name)
}

/// Gives nodes their ids. A node is a machine: two engines on one host share the id, and with it
/// load and reservations; two servers of one engine on one host cannot.
#[derive(Debug)]
pub struct Names {
    host_name: String,
    taken: Vec<(EngineId, NodeId)>,
}

impl Names {
    /// Names of a machine that is called `host_name`.
    pub fn new(host_name: &str) -> Self {
        Self {
            host_name: host_name.to_owned(),
            taken: Vec::new(),
        }
    }

    /// This machine's name.
    pub fn host_name(&self) -> &str {
        &self.host_name
    }

    /// The id of a node: its given name, else its host, else `host:port`, else with its prefix.
    pub fn take(
        &mut self,
        engine: EngineId,
        name: Option<&str>,
        host: &str,
        port: u16,
        prefix: &str,
    ) -> NodeId {
        let here = is_this_machine(host, &self.host_name);
        let host = if here {
            self.host_name.clone()
        } else {
            host.to_owned()
        };
        let at = authority(&host, port);
        let full = format!("{at}{prefix}");
        let free = |n: &&str| {
            !self
                .taken
                .iter()
                .any(|(e, t)| *e == engine && t.as_str() == *n)
        };
        let choices = [name.unwrap_or(&host), &at, &full];
        // The last one names the URL, and no URL is there twice.
        let id = NodeId::from(choices.into_iter().find(free).unwrap_or(&full));
        self.taken.push((engine, id.clone()));
        id
    }

    /// Gives an id back: its node is gone.
    pub fn release(&mut self, engine: EngineId, id: &NodeId) {
        self.taken.retain(|(e, t)| !(*e == engine && t == id));
    }
}

/// One try to enable a facade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Port to ask for; 0 = the engine's standalone one.
    pub port: u16,
    /// Whether a saved port is passed over.
    pub ignore_saved: bool,
    /// The port that was wanted and cannot be had, if this is the way out.
    pub instead_of: Option<u16>,
}

/// Why there is no further try.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAttempt {
    /// Somebody listens on a port that has no alternative.
    #[error("port {0} is taken: something listens there already")]
    Taken(u16),
    /// Nothing is left to try.
    #[error("no other port is left to try")]
    Exhausted,
}

/// The port a facade gets where none was saved.
pub fn wanted(engine: EngineId, ask: PortAsk) -> u16 {
    match ask {
        PortAsk::Exact(port) | PortAsk::Requested(port) => port,
        PortAsk::Default => engine.spec().standalone_port,
    }
}

/// The first try. `taken` are ports where somebody listens: binding may succeed beside him.
pub fn first(engine: EngineId, ask: PortAsk, taken: &[u16]) -> Result<Attempt, NoAttempt> {
    let port = wanted(engine, ask);
    let free = !taken.contains(&port);
    match ask {
        PortAsk::Exact(_) if !free => Err(NoAttempt::Taken(port)),
        PortAsk::Exact(_) => Ok(Attempt {
            port,
            ignore_saved: true,
            instead_of: None,
        }),
        PortAsk::Requested(_) if free => Ok(Attempt {
            port,
            ignore_saved: false,
            instead_of: None,
        }),
        PortAsk::Default if free => Ok(Attempt {
            port: 0,
            ignore_saved: false,
            instead_of: None,
        }),
        // A saved port still goes first: it may be free.
        PortAsk::Requested(_) | PortAsk::Default => fallback(engine, port, false, taken),
    }
}

/// The try after `failed` could not be bound: once, on the engine's fallback port.
pub fn after(
    engine: EngineId,
    ask: PortAsk,
    failed: Attempt,
    taken: &[u16],
) -> Result<Attempt, NoAttempt> {
    if failed.ignore_saved {
        return Err(NoAttempt::Exhausted);
    }
    fallback(engine, wanted(engine, ask), true, taken)
}

fn fallback(
    engine: EngineId,
    wanted: u16,
    ignore_saved: bool,
    taken: &[u16],
) -> Result<Attempt, NoAttempt> {
    let port = engine.spec().fallback_port;
    if port == wanted || taken.contains(&port) {
        return Err(NoAttempt::Taken(port));
    }
    Ok(Attempt {
        port,
        ignore_saved,
        instead_of: Some(wanted),
    })
}

/// Which rule gave a facade its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortReason {
    /// A flag named it.
    Asked,
    /// The file named it.
    Configured,
    /// An earlier `set-port` saved it; the file wanted this one, if any.
    Saved(Option<u16>),
    /// The engine's standalone port.
    Standalone,
    /// The wanted one is taken; by the engine itself, if so.
    Fallback {
        /// The wanted one.
        wanted: u16,
        /// Whether the engine itself has it.
        engines_own: bool,
    },
}

/// The rule behind a port that was bound. `engines_own` = ports on which the engine itself was
/// found on this machine.
pub fn reason(ask: PortAsk, attempt: Attempt, bound: &Enabled, engines_own: &[u16]) -> PortReason {
    match (bound.rule, attempt.instead_of, ask) {
        (PortRule::Saved, _, PortAsk::Requested(port)) if port != bound.port => {
            PortReason::Saved(Some(port))
        },
        (PortRule::Saved, ..) => PortReason::Saved(None),
        (_, Some(wanted), _) => PortReason::Fallback {
            wanted,
            engines_own: engines_own.contains(&wanted),
        },
        (_, None, PortAsk::Exact(_)) => PortReason::Asked,
        (_, None, PortAsk::Requested(_)) => PortReason::Configured,
        (_, None, PortAsk::Default) => PortReason::Standalone,
    }
}

/// One row of the start-up table, as texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The facade's engine.
    pub engine: EngineId,
    /// Its port.
    pub port: u16,
    /// `localhost:1235`.
    pub listening: String,
    /// Alias addresses that are bound too, as `host:port`.
    pub aliases: Vec<String>,
    /// Which rule gave the port, where that is news.
    pub note: Option<String>,
    /// What goes into a client's settings.
    pub paste: String,
    /// Ids of its nodes.
    pub nodes: Vec<NodeId>,
    /// A model that can be asked for, best one that all of them have.
    pub model: Option<String>,
    /// What to do, where there are none.
    pub hint: Option<String>,
}

/// The row of a facade, without aliases.
pub fn row(
    engine: EngineId,
    port: u16,
    reason: PortReason,
    nodes: Vec<NodeId>,
    model: Option<String>,
) -> Row {
    let spec = engine.spec();
    let start = spec.port_beside(port);
    let hint = match engine.is_gateway() {
        true => "start an engine, or add a node or a provider".to_owned(),
        false => format!(
            "start {} on {start}, or add --node {engine}=URL",
            spec.display
        ),
    };
    Row {
        engine,
        port,
        listening: format!("localhost:{port}"),
        aliases: Vec::new(),
        note: note(spec.display, reason),
        paste: format!("http://localhost:{port}{}", spec.client_base),
        hint: nodes.is_empty().then(|| format!("none yet: {hint}")),
        nodes,
        model,
    }
}

/// The model that most nodes list; of several, the first by name.
pub fn common_model<'a>(lists: impl Iterator<Item = &'a [String]>) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for model in lists.flatten() {
        *counts.entry(model).or_default() += 1;
    }
    let best = counts.values().max().copied()?;
    let (model, _) = counts.into_iter().find(|(_, count)| *count == best)?;
    Some(model.to_owned())
}

fn note(display: &str, reason: PortReason) -> Option<String> {
    match reason {
        PortReason::Standalone => None,
        PortReason::Asked => Some("as asked".to_owned()),
        PortReason::Configured => Some("from the configuration".to_owned()),
        PortReason::Saved(None) => Some("saved by set-port".to_owned()),
        PortReason::Saved(Some(asked)) => Some(format!(
            "saved by set-port; the configuration asks for {asked}"
        )),
        PortReason::Fallback {
            wanted,
            engines_own: true,
        } => Some(format!("{wanted} is {display}'s own")),
        PortReason::Fallback {
            wanted,
            engines_own: false,
        } => Some(format!("{wanted} is taken")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(id: &str) -> EngineId {
        EngineId::parse(id).unwrap()
    }

    #[test]
    fn a_node_is_a_machine_and_a_second_server_of_one_engine_is_told_apart() {
        let (ollama, lm) = (engine("ollama"), engine("lmstudio"));
        let mut names = Names::new("this-pc");
        let mut take = |e, name, host: &str, port, prefix: &str| {
            names.take(e, name, host, port, prefix).as_str().to_owned()
        };
        assert_eq!(take(ollama, None, "tower.lan", 11434, ""), "tower.lan");
        assert_eq!(
            take(lm, None, "tower.lan", 1234, ""),
            "tower.lan",
            "two engines share it"
        );
        assert_eq!(
            take(ollama, None, "tower.lan", 11435, ""),
            "tower.lan:11435"
        );
        assert_eq!(
            take(ollama, None, "tower.lan", 11435, "/b"),
            "tower.lan:11435/b"
        );
        assert_eq!(take(ollama, Some("rig"), "tower.lan", 9, ""), "rig");
        assert_eq!(take(ollama, None, "127.0.0.1", 11434, ""), "this-pc");
        assert_eq!(take(ollama, None, "localhost", 11435, ""), "this-pc:11435");
        assert_eq!(take(lm, None, "THIS-PC", 1234, ""), "this-pc");
        assert_eq!(take(ollama, None, "fd00::7", 1, ""), "fd00::7");
        assert_eq!(take(ollama, None, "fd00::7", 2, ""), "[fd00::7]:2");
    }

    #[test]
    fn an_exact_port_has_no_alternative() {
        let e = engine("ollama");
        let ask = PortAsk::Exact(9000);
        let first_try = first(e, ask, &[]).unwrap();
        assert_eq!(
            first_try,
            Attempt {
                port: 9000,
                ignore_saved: true,
                instead_of: None
            }
        );
        assert_eq!(after(e, ask, first_try, &[]), Err(NoAttempt::Exhausted));
        assert_eq!(first(e, ask, &[9000]), Err(NoAttempt::Taken(9000)));
    }

    #[test]
    fn a_taken_port_gives_way_once_to_the_fallback() {
        for (id, port, other) in [
            ("ollama", 11435, 11436),
            ("lmstudio", 1234, 1235),
            ("llamacpp", 8080, 8081),
        ] {
            let e = engine(id);
            let ask = PortAsk::Default;
            let free = first(e, ask, &[]).unwrap();
            assert_eq!((free.port, free.ignore_saved), (0, false), "{id}");
            let retry = Attempt {
                port: other,
                ignore_saved: true,
                instead_of: Some(port),
            };
            assert_eq!(after(e, ask, free, &[]), Ok(retry), "{id}: the bind failed");
            assert_eq!(after(e, ask, retry, &[]), Err(NoAttempt::Exhausted), "{id}");
            let seen = first(e, ask, &[port]).unwrap();
            assert_eq!(
                seen,
                Attempt {
                    ignore_saved: false,
                    ..retry
                },
                "{id}: somebody listens"
            );
            assert_eq!(
                after(e, ask, seen, &[port]),
                Ok(retry),
                "{id}: the saved port failed"
            );
            assert_eq!(
                first(e, ask, &[port, other]),
                Err(NoAttempt::Taken(other)),
                "{id}"
            );
        }
    }

    #[test]
    fn a_requested_port_that_is_the_fallback_has_no_other() {
        let e = engine("llamacpp");
        let ask = PortAsk::Requested(8081);
        assert_eq!(first(e, ask, &[8081]), Err(NoAttempt::Taken(8081)));
        let other = first(e, PortAsk::Requested(9000), &[9000]).unwrap();
        assert_eq!((other.port, other.instead_of), (8081, Some(9000)));
    }

    #[test]
    fn the_table_says_which_rule_gave_the_port() {
        let e = engine("lmstudio");
        let plain = Attempt {
            port: 0,
            ignore_saved: false,
            instead_of: None,
        };
        let moved = Attempt {
            port: 1235,
            ignore_saved: true,
            instead_of: Some(1234),
        };
        let bound = |port, rule| Enabled {
            port,
            rule,
            already: false,
        };
        for (ask, attempt, bound, own, want) in [
            (
                PortAsk::Default,
                plain,
                bound(1234, PortRule::Standalone),
                vec![],
                None,
            ),
            (
                PortAsk::Default,
                moved,
                bound(1235, PortRule::Requested),
                vec![1234],
                Some("1234 is LM Studio's own"),
            ),
            (
                PortAsk::Default,
                moved,
                bound(1235, PortRule::Requested),
                vec![],
                Some("1234 is taken"),
            ),
            (
                PortAsk::Default,
                moved,
                bound(7, PortRule::Saved),
                vec![],
                Some("saved by set-port"),
            ),
            (
                PortAsk::Requested(5),
                plain,
                bound(7, PortRule::Saved),
                vec![],
                Some("saved by set-port; the configuration asks for 5"),
            ),
            (
                PortAsk::Requested(5),
                plain,
                bound(5, PortRule::Requested),
                vec![],
                Some("from the configuration"),
            ),
            (
                PortAsk::Exact(5),
                plain,
                bound(5, PortRule::Requested),
                vec![],
                Some("as asked"),
            ),
        ] {
            let row = row(
                e,
                bound.port,
                reason(ask, attempt, &bound, &own),
                Vec::new(),
                None,
            );
            assert_eq!(row.note.as_deref(), want);
        }
    }

    #[test]
    fn the_model_to_try_is_one_that_most_nodes_have() {
        let lists = [
            vec!["b".to_owned(), "c".to_owned()],
            vec!["a".into(), "b".into()],
        ];
        let common = |n| common_model(lists.iter().take(n).map(Vec::as_slice));
        assert_eq!(common(2).as_deref(), Some("b"));
        assert_eq!(common(1).as_deref(), Some("b"));
        assert_eq!(common(0), None);
    }

    #[test]
    fn a_row_says_what_to_paste_and_what_to_do() {
        let llama = row(
            engine("llamacpp"),
            8080,
            PortReason::Standalone,
            Vec::new(),
            None,
        );
        assert_eq!(llama.listening, "localhost:8080");
        assert_eq!(llama.paste, "http://localhost:8080/v1");
        let hint = "none yet: start llama.cpp on 8081, or add --node llamacpp=URL";
        assert_eq!(llama.hint.as_deref(), Some(hint));
        let ollama = row(
            engine("ollama"),
            11435,
            PortReason::Standalone,
            vec!["this-pc".into()],
            None,
        );
        assert_eq!(ollama.paste, "http://localhost:11435");
        assert_eq!((ollama.hint, ollama.nodes.len()), (None, 1));
    }
}
