//! The command line before clap sees it: the drop-in form.
//!
//! Owns: the original's five flags with one or two dashes, and what no subcommand means.
//! Leaves to others: everything after the subcommand (`cli`).
//! Done on the arguments and not in clap, because clap has no single-dash long flags, and because a
//! flag that a supervisor passes must never turn into another subcommand's flag.

use std::ffi::OsString;

use clap::ColorChoice;

/// The original's flags that take a value.
const VALUED: [&str; 4] = ["ipc", "cluster-dir", "log-level", "response-header-timeout"];

/// Global flags that take a value.
const GLOBAL_VALUED: [&str; 2] = ["socket", "color"];

/// What to do with the command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Invocation {
    /// Parse this.
    Parse(Vec<OsString>),
    /// A person typed the bare name: show what there is.
    Help,
}

/// One argument in front of the subcommand.
enum Lead {
    /// `--name` or `-name` of the original; with its value in the same argument or none at all.
    Original { name: String, complete: bool },
    /// One of ours.
    Global { complete: bool },
    /// The original's and everybody's.
    Version,
    /// A subcommand, or something clap should judge.
    Other,
}

/// Turns the arguments, program name first, into clap's.
pub fn normalise(args: impl IntoIterator<Item = OsString>, stdin_is_terminal: bool) -> Invocation {
    let mut args = args.into_iter();
    let program = args.next().unwrap_or_else(|| "nvpair-proxy".into());
    let mut lead = Vec::new();
    let mut original = false;
    let mut rest = Vec::new();
    while let Some(arg) = args.next() {
        let complete = match classify(&arg) {
            Lead::Version => return Invocation::Parse(vec![program, "--version".into()]),
            Lead::Original { name, complete } => {
                original = true;
                lead.push(name.into());
                complete
            },
            Lead::Global { complete } => {
                lead.push(arg);
                complete
            },
            Lead::Other => {
                rest.push(arg);
                rest.extend(args);
                break;
            },
        };
        if !complete && let Some(value) = args.next() {
            lead.push(value);
        }
    }
    let mut line = vec![program];
    match rest.first() {
        None if stdin_is_terminal => return Invocation::Help,
        None => line.extend(["serve".into(), "--broker".into()]),
        // `nvpair-proxy -log-level debug serve`: the flags are the subcommand's.
        Some(first) if original && !first.as_encoded_bytes().starts_with(b"-") => {
            line.push(rest.remove(0));
        },
        Some(_) => {},
    }
    line.extend(lead);
    line.extend(rest);
    Invocation::Parse(line)
}

/// What `--color` says, wherever it stands; what it cannot say is left for clap to refuse.
pub fn color(args: &[OsString]) -> ColorChoice {
    let words: Vec<_> = args.iter().filter_map(|a| a.to_str()).collect();
    let mut values =
        words
            .iter()
            .enumerate()
            .filter_map(|(i, word)| match word.strip_prefix("--color")? {
                "" => words.get(i + 1).copied(),
                rest => rest.strip_prefix('='),
            });
    let last = values.next_back().and_then(|v| v.parse().ok());
    last.unwrap_or(ColorChoice::Auto)
}

fn classify(arg: &OsString) -> Lead {
    let Some(text) = arg.to_str() else {
        // A path that is no UTF-8 can still follow a known name and `=`.
        return Lead::Other;
    };
    let Some(body) = text.strip_prefix("--").or_else(|| text.strip_prefix('-')) else {
        return Lead::Other;
    };
    let (name, complete) = match body.split_once('=') {
        Some((name, _)) => (name, true),
        None => (body, false),
    };
    if VALUED.contains(&name) {
        return Lead::Original {
            name: format!("--{body}"),
            complete,
        };
    }
    if body == "version" || text == "-V" {
        return Lead::Version;
    }
    let long = text.starts_with("--");
    if long && GLOBAL_VALUED.contains(&name) {
        return Lead::Global { complete };
    }
    let switch = match long {
        true => matches!(body, "json" | "verbose" | "quiet"),
        false => !body.is_empty() && body.chars().all(|c| matches!(c, 'v' | 'q')),
    };
    match switch {
        true => Lead::Global { complete: true },
        false => Lead::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str, terminal: bool) -> String {
        let args = std::iter::once("p").chain(line.split_whitespace());
        match normalise(args.map(OsString::from), terminal) {
            Invocation::Help => "help".to_owned(),
            Invocation::Parse(args) => {
                let words: Vec<_> = args[1..].iter().map(|a| a.to_str().unwrap()).collect();
                words.join(" ")
            },
        }
    }

    #[test]
    fn under_a_supervisor_the_original_s_flags_mean_serve_broker() {
        for (line, want) in [
            ("", "serve --broker"),
            ("--log-level warn", "serve --broker --log-level warn"),
            ("-log-level warn", "serve --broker --log-level warn"),
            ("-log-level=warn", "serve --broker --log-level=warn"),
            (
                "-cluster-dir /c -ipc=/s --response-header-timeout 5m",
                "serve --broker --cluster-dir /c --ipc=/s --response-header-timeout 5m",
            ),
            // The value of a flag is no subcommand.
            ("-cluster-dir status", "serve --broker --cluster-dir status"),
            ("--socket /s -v", "serve --broker --socket /s -v"),
            // clap reports the missing value.
            ("-ipc", "serve --broker --ipc"),
        ] {
            assert_eq!(run(line, false), want, "{line:?}");
        }
    }

    #[test]
    fn a_person_without_a_subcommand_gets_help() {
        assert_eq!(run("", true), "help");
        assert_eq!(run("-log-level debug", true), "help");
    }

    #[test]
    fn both_spellings_ask_for_the_version() {
        for line in ["--version", "-version", "-V", "-log-level debug -version"] {
            assert_eq!(run(line, false), "--version", "{line:?}");
            assert_eq!(run(line, true), "--version", "{line:?}");
        }
    }

    #[test]
    fn single_dashes_end_at_the_subcommand() {
        for (line, want) in [
            ("serve -log-level debug", "serve -log-level debug"),
            (
                "-log-level debug serve --demo",
                "serve --log-level debug --demo",
            ),
            ("--json status", "--json status"),
            ("--socket serve status", "--socket serve status"),
            ("status --json", "status --json"),
        ] {
            assert_eq!(run(line, false), want, "{line:?}");
        }
    }

    #[test]
    fn anything_else_is_left_for_clap_to_judge() {
        for line in [
            "--demo",
            "-x",
            "-demo",
            "--help",
            "-h",
            "-engine ollama",
            "--",
            "-",
        ] {
            assert_eq!(run(line, false), line);
        }
    }
}
