//! `completions`: prints the completion script of a shell.
//!
//! Owns: the scripts, and joining to them what only a daemon knows (bash, zsh and fish).
//! Leaves to others: which names those are (`complete`).

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use nvpair_proxy::wire::control::SCHEMA_VERSION;
use serde_json::json;

use crate::cli::{Cli, CompletionsArgs, Globals};
use crate::complete::live;
use crate::errors::CliError;
use crate::output;

const BASH_LIVE: &str = include_str!("shell/live.bash");
const ZSH_LIVE: &str = include_str!("shell/live.zsh");
const FISH_LIVE: &str = include_str!("shell/live.fish");

/// Where zsh's function begins, and with it the words that are completed.
const ZSH_START: &str = "_nvpair-proxy() {\n";

/// Where zsh would offer files.
const ZSH_ANYTHING: &str = ":_default' \\";

/// Runs it.
pub fn run(args: &CompletionsArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let script = script(args.shell)?;
    match globals.json {
        true => output::print_json(&json!({
            "schema_version": SCHEMA_VERSION,
            "shell": args.shell.to_string(),
            "script": script,
        }))?,
        false => output::print(&script)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The script of a shell.
pub fn script(shell: Shell) -> Result<String> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut offered(), "nvpair-proxy", &mut script);
    let script = String::from_utf8(script).context("a completion script is not UTF-8")?;
    let mut whole = offered();
    whole.build();
    Ok(match shell {
        Shell::Bash => bash(&script)? + BASH_LIVE,
        Shell::Fish => script + FISH_LIVE + &fish_places(&whole) + &fish_values(&whole, &[]),
        Shell::Zsh => zsh(&script, &whole)?,
        _ => script,
    })
}

/// The command with what is offered to people. The generators offer hidden subcommands too, and
/// clap cannot take one out.
fn offered() -> Command {
    let whole = Cli::command();
    Command::new("nvpair-proxy")
        .version(env!("CARGO_PKG_VERSION"))
        .args(whole.get_arguments().cloned())
        .subcommands(
            whole
                .get_subcommands()
                .filter(|s| !s.is_hide_set())
                .cloned(),
        )
}

/// Every argument that takes a name from the daemon, with the subcommands that lead to it.
fn places<'a>(command: &'a Command, path: &[&'a str]) -> Vec<(Vec<&'a str>, &'a Arg)> {
    let own = command.get_arguments().filter(|a| live(a).is_some());
    let mut found: Vec<_> = own.map(|arg| (path.to_vec(), arg)).collect();
    // Below `help` the whole tree comes again, without arguments.
    for sub in command.get_subcommands().filter(|s| s.get_name() != "help") {
        found.extend(places(sub, &[path, &[sub.get_name()]].concat()));
    }
    found
}

/// The generator writes the hyphen of our name in two ways: in one where it tells which subcommand a
/// line has, in the other where it lists what that one takes. So none would ever be found.
fn bash(script: &str) -> Result<String> {
    let script = script.replace("nvpair__subcmd__proxy", "nvpair__proxy");
    let told = script.lines().filter_map(|line| {
        let name = line.trim().strip_prefix("cmd=\"")?;
        name.strip_suffix('"').filter(|name| !name.is_empty())
    });
    for name in told {
        ensure!(
            script.contains(&format!("\n        {name})\n")),
            "the generator of bash's script tells of {name} and lists nothing for it"
        );
    }
    let (own, ours) = (
        "complete -F _nvpair__proxy ",
        "complete -F _nvpair_proxy_complete ",
    );
    ensure!(
        script.contains(own),
        "the generator of bash's script joins its function otherwise"
    );
    Ok(script.replace(own, ours))
}

/// A condition: the line is at this subcommand.
fn fish_at(path: &[&str]) -> String {
    let (first, below) = path.split_first().unwrap_or((&"", &[]));
    let mut when = format!("__fish_nvpair_proxy_using_subcommand {first}");
    for sub in below {
        when.push_str(&format!("; and __fish_seen_subcommand_from {sub}"));
    }
    when
}

/// Words that an argument without a flag may be: fish's generator leaves them out.
fn fish_values(command: &Command, path: &[&str]) -> String {
    let mut text = String::new();
    for arg in command.get_positionals().filter(|_| !path.is_empty()) {
        let values = arg.get_possible_values();
        let names: Vec<_> = values.iter().map(|value| value.get_name()).collect();
        if !names.is_empty() {
            let (at, names) = (fish_at(path), names.join(" "));
            text.push_str(&format!(
                "complete -c nvpair-proxy -n \"{at}; and not __fish_seen_subcommand_from {names}\" \
                 -f -a \"{names}\"\n"
            ));
        }
    }
    for sub in command.get_subcommands().filter(|s| s.get_name() != "help") {
        text.push_str(&fish_values(sub, &[path, &[sub.get_name()]].concat()));
    }
    text
}

fn fish_places(whole: &Command) -> String {
    let line = |(path, arg): (Vec<&str>, &Arg)| {
        let when = fish_at(&path);
        let what = match arg.get_long() {
            Some(long) => format!("-l {long} -x"),
            None => "-f".to_owned(),
        };
        format!("complete -c nvpair-proxy -n \"{when}\" {what} -a \"(__fish_nvpair_proxy_live)\"\n")
    };
    places(whole, &[]).into_iter().map(line).collect()
}

/// zsh has one place for each argument, and each says what goes there.
fn zsh(script: &str, whole: &Command) -> Result<String> {
    let places = places(whole, &[]);
    let starts: Vec<_> = places.iter().map(|(_, arg)| zsh_start(arg)).collect();
    let mut joined = 0;
    let mut text = String::with_capacity(script.len() + ZSH_LIVE.len());
    for line in script.lines() {
        let ours = starts.iter().any(|start| line.starts_with(start));
        match line.strip_suffix(ZSH_ANYTHING).filter(|_| ours) {
            Some(spec) => {
                joined += 1;
                text.push_str(&format!("{spec}:_nvpair-proxy_live' \\\n"));
            },
            None => text.push_str(&format!("{line}\n")),
        }
    }
    ensure!(
        joined == places.len() && text.contains(ZSH_START),
        "the generator of zsh's script writes otherwise than before"
    );
    let words = "    local -a nvpair_proxy_words=(\"${(@)words[1,CURRENT]}\")\n";
    Ok(text.replace(ZSH_START, &format!("{ZSH_LIVE}{ZSH_START}{words}")))
}

fn zsh_start(arg: &Arg) -> String {
    match arg.get_long() {
        Some(long) => format!("'--{long}=["),
        None if arg.is_required_set() => format!("':{} -- ", arg.get_id()),
        None => format!("'::{} -- ", arg.get_id()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_for_a_node_or_a_model_is_joined_in_each_script() {
        let mut whole = offered();
        whole.build();
        let count = places(&whole, &[]).len();
        assert!(count >= 4, "select, workloads twice, route");
        let zsh = script(Shell::Zsh).unwrap();
        assert_eq!(zsh.matches(":_nvpair-proxy_live' \\").count(), count);
        let fish = script(Shell::Fish).unwrap();
        let asked = fish.matches("\"(__fish_nvpair_proxy_live)\"").count();
        assert_eq!(asked, count);
        assert!(script(Shell::Bash).unwrap().ends_with(BASH_LIVE));
        // Nothing is listed for a subcommand that is told.
        assert!(bash("cmd=\"nvpair__proxy__x\"\n").is_err());
    }
}
