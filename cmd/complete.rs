//! `complete` (hidden): what the completion scripts ask at each TAB.
//!
//! Owns: which place on a command line takes a node or a model, and the names that go there.
//! Leaves to others: the scripts (`completions`), everything that does not change (the shells).
//!
//! Whatever happens it says nothing but names, and is quick: nobody asked for it by name.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, Command, CommandFactory};
use nvpair_proxy::control::client::{ClientError, ControlApiClient, ControlClient};
use nvpair_proxy::rules::engine::EngineId;

use crate::cli::{Cli, CompleteArgs, Globals};
use crate::connect;
use crate::errors::CliError;
use crate::names;
use crate::output;
use crate::runtime;

/// What goes to a place on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live {
    /// A node, by name or id.
    Node,
    /// A model.
    Model,
    /// A node that registered itself, by id.
    PoolNode,
}

/// What an argument takes from the daemon, if anything. By name, so that a new subcommand's `node`,
/// `pool_node` or `model` is completed without a change here or in a script.
pub fn live(arg: &Arg) -> Option<Live> {
    match arg.get_id().as_str() {
        "node" => Some(Live::Node),
        "model" => Some(Live::Model),
        "pool_node" => Some(Live::PoolNode),
        _ => None,
    }
}

/// Runs it. 0: such a place, also if there are no names; 1: another place, for the shell to know.
pub fn run(args: &CompleteArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let mut root = Cli::command();
    root.build();
    // A name that is no text is no name of ours; what stands beside it still counts.
    let words: Vec<_> = args
        .words
        .iter()
        .map(|w| w.to_string_lossy().into_owned())
        .collect();
    let Some(wanted) = wanted(&root, &words) else {
        return Ok(ExitCode::FAILURE);
    };
    let globals = Globals {
        socket: wanted.socket.clone().or(globals.socket.clone()),
        ..globals.clone()
    };
    let names = ask(&wanted, args.within, &globals).unwrap_or_default();
    let lines: String = names.iter().map(|name| format!("{name}\n")).collect();
    output::print(&lines)?;
    Ok(ExitCode::SUCCESS)
}

/// What is wanted at the cursor, and what the line says before it.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    live: Live,
    engine: Option<EngineId>,
    socket: Option<PathBuf>,
}

/// Reads the words behind the program's name; the last one is under the cursor.
fn wanted(root: &Command, words: &[String]) -> Option<Wanted> {
    let (cursor, before) = words.split_last()?;
    let mut line = Line::new(root);
    for word in before {
        line.take(word);
    }
    Some(Wanted {
        live: live(line.arg_at(cursor)?)?,
        engine: line.engine,
        socket: line.socket,
    })
}

/// A command line as far as it is read. Wrong words are passed over: the shell completes lines that
/// are not finished.
struct Line<'a> {
    root: &'a Command,
    command: &'a Command,
    /// An option whose value comes next.
    pending: Option<&'a Arg>,
    /// Behind `--`.
    no_options: bool,
    positionals: usize,
    engine: Option<EngineId>,
    socket: Option<PathBuf>,
}

impl<'a> Line<'a> {
    fn new(root: &'a Command) -> Self {
        Self {
            root,
            command: root,
            pending: None,
            no_options: false,
            positionals: 0,
            engine: None,
            socket: None,
        }
    }

    fn take(&mut self, word: &str) {
        if let Some(arg) = self.pending.take() {
            self.note(arg, word);
        } else if word == "--" && !self.no_options {
            self.no_options = true;
        } else if let Some(option) = word.strip_prefix("--").filter(|_| !self.no_options) {
            match option.split_once('=') {
                Some((name, value)) => self
                    .long(name)
                    .into_iter()
                    .for_each(|a| self.note(a, value)),
                None => self.pending = self.long(option).filter(|a| takes_value(a)),
            }
        } else if word.starts_with('-') && word.len() > 1 && !self.no_options {
            // Our short options take no value.
        } else if let Some(sub) = self.command.find_subcommand(word) {
            self.command = sub;
            self.positionals = 0;
        } else {
            if let Some(arg) = self.positional() {
                self.note(arg, word);
            }
            self.positionals += 1;
        }
    }

    /// The argument that a word here is, or belongs to.
    fn arg_at(&self, word: &str) -> Option<&'a Arg> {
        if let Some(arg) = self.pending {
            return Some(arg);
        }
        match word.strip_prefix("--").filter(|_| !self.no_options) {
            Some(option) => self
                .long(option.split_once('=')?.0)
                .filter(|a| takes_value(a)),
            None if word.starts_with('-') && !self.no_options => None,
            None => self.positional(),
        }
    }

    fn long(&self, name: &str) -> Option<&'a Arg> {
        let all = self
            .command
            .get_arguments()
            .chain(self.root.get_arguments());
        all.into_iter().find(|a| a.get_long() == Some(name))
    }

    fn positional(&self) -> Option<&'a Arg> {
        self.command.get_positionals().nth(self.positionals)
    }

    fn note(&mut self, arg: &Arg, value: &str) {
        match arg.get_id().as_str() {
            "engine" => self.engine = EngineId::parse_facade(value),
            "socket" => self.socket = Some(value.into()),
            _ => {},
        }
    }
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

/// A daemon that takes longer than this is treated as none: a person waits at the prompt.
fn ask(wanted: &Wanted, within: Duration, globals: &Globals) -> Option<BTreeSet<String>> {
    let socket = connect::socket(globals).ok()?;
    let runtime = runtime::single().ok()?;
    let names = async {
        let client = ControlClient::connect(&socket, within).await?;
        match wanted.live {
            Live::Node => nodes(&client, wanted.engine).await,
            Live::Model => models(&client, wanted.engine).await,
            Live::PoolNode => pool_nodes(&client).await,
        }
    };
    let found = runtime.block_on(async { tokio::time::timeout(within, names).await });
    let mut names = found.ok()?.ok()?;
    // A name from elsewhere must not become two words, or steer the terminal.
    names.retain(|n| !n.is_empty() && !n.contains(|c: char| c.is_whitespace() || c.is_control()));
    Some(names)
}

async fn nodes(
    client: &ControlClient,
    engine: Option<EngineId>,
) -> Result<BTreeSet<String>, ClientError> {
    let status = client.call(async |c| c.status().await).await?;
    let nodes = status.nodes.iter();
    let nodes = nodes.filter(|n| engine.is_none_or(|e| e == n.engine));
    Ok(nodes.map(|n| names::label(&status, n).to_owned()).collect())
}

async fn pool_nodes(client: &ControlClient) -> Result<BTreeSet<String>, ClientError> {
    let status = client.call(async |c| c.status().await).await?;
    let nodes = status.pool.into_iter().flat_map(|pool| pool.nodes);
    Ok(nodes.map(|n| n.id).collect())
}

async fn models(
    client: &ControlClient,
    engine: Option<EngineId>,
) -> Result<BTreeSet<String>, ClientError> {
    let list = client
        .call(async |c| c.models_list(engine, None).await)
        .await?;
    Ok(list.models.into_iter().map(|m| m.model).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wanted at the end of this line; `_` is an empty word.
    fn at(line: &str) -> Option<(Live, Option<&'static str>)> {
        let mut root = Cli::command();
        root.build();
        let words: Vec<_> = line
            .split_whitespace()
            .map(|w| w.replace('_', ""))
            .collect();
        let wanted = wanted(&root, &words)?;
        Some((wanted.live, wanted.engine.map(EngineId::as_str)))
    }

    #[test]
    fn nodes_and_models_are_wanted_where_the_command_takes_them() {
        use Live::{Model, Node, PoolNode};
        for (line, want) in [
            ("select ollama _", Some((Node, Some("ollama")))),
            ("select ollama to", Some((Node, Some("ollama")))),
            (
                "--socket /s -v select lmstudio _",
                Some((Node, Some("lmstudio"))),
            ),
            ("select ollama -- -x", Some((Node, Some("ollama")))),
            ("workloads --node _", Some((Node, None))),
            ("workloads --node=to", Some((Node, None))),
            (
                "workloads --engine ollama --model q",
                Some((Model, Some("ollama"))),
            ),
            (
                "workloads --engine=ollama --model q",
                Some((Model, Some("ollama"))),
            ),
            ("route --model qwen3:8", Some((Model, None))),
            ("nodes drain _", Some((PoolNode, None))),
            ("nodes drain --wait rig", Some((PoolNode, None))),
            ("nodes resume _", Some((PoolNode, None))),
            ("nodes remove _", Some((Node, None))),
            ("route --model=qwen3:8", Some((Model, None))),
        ] {
            assert_eq!(at(line), want, "{line}");
        }
    }

    #[test]
    fn anywhere_else_nothing_is_asked() {
        for line in [
            "_",
            "sel",
            "select _",
            "select ollama --a",
            "select ollama -",
            "select ollama tower _",
            "serve --node _",
            "serve --node ollama=_",
            "workloads _",
            "workloads --limit _",
            "route --model m _",
            "route --engine _",
            "route --mod",
            "nonsense _",
            "--socket _",
        ] {
            assert_eq!(at(line), None, "{line}");
        }
        assert_eq!(wanted(&Cli::command(), &[]), None);
    }

    #[test]
    fn the_socket_on_the_line_is_the_one_that_is_asked() {
        let mut root = Cli::command();
        root.build();
        for line in ["--socket /a select ollama", "select --socket=/a ollama"] {
            let mut words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            words.push(String::new());
            let wanted = wanted(&root, &words).unwrap();
            assert_eq!(wanted.socket, Some(PathBuf::from("/a")));
        }
    }
}
