//! Man pages: what clap knows, and what it does not.
//!
//! Owns: title lines, and the sections on exit status, environment and files.
//! Leaves to others: the commands and their help (`cli`), which files are written (`generate`).

use anyhow::{Context, Result};
use clap::Command;
use clap_mangen::Man;

/// The heading under which clap's generator puts all that follows the options.
const EXTRA: &str = "\n.SH EXTRA\n";

/// Where the version begins; nothing of ours follows it.
const VERSION: &str = "\n.SH VERSION\n";

/// Headings inside that text, as the generator escapes them.
const HEADINGS: [(&str, &str); 2] = [
    ("Examples:\n", ".SH EXAMPLES\n"),
    ("Exit codes:\n", ".SH EXIT STATUS\n"),
];

/// Whose pages an entry is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    /// All.
    All,
    /// The daemon's.
    Serve,
    /// Those that talk to a daemon, and the daemon's.
    Socket,
    /// One subcommand's.
    Only(&'static str),
}

/// An entry of a section: whose page, its name and what it is.
type Entry = (On, &'static str, &'static str);

const EXIT_STATUS: [Entry; 5] = [
    (
        On::All,
        "0",
        "Done. A reader of stdout that went away is no failure.",
    ),
    (On::All, "1", "Failed."),
    (On::All, "2", "Wrong usage or invalid configuration."),
    (On::Socket, "3", "No daemon reachable."),
    (
        On::Socket,
        "4",
        "The daemon refused: unknown node, port taken, engine not enabled.",
    ),
];

const ENVIRONMENT: [Entry; 15] = [
    (
        On::Socket,
        "NVPAIR_PROXY_SOCKET",
        "Control socket, as --socket.",
    ),
    (
        On::Serve,
        "NVPAIR_PROXY_DATA_DIR",
        "Folder of the files with the ports that set-port chose.",
    ),
    (
        On::Serve,
        "NVPAIR_PROXY_RESPONSE_HEADER_TIMEOUT",
        "As --response-header-timeout; the flag goes first.",
    ),
    (
        On::Serve,
        "NVPAIR_PROXY_ALLOWED_HOSTS",
        "Names between commas that Host may have besides loopback and this machine's.",
    ),
    (
        On::Serve,
        "NVPAIR_PROXY_ALLOWED_ORIGINS",
        "Browser origins between commas that are admitted; without it the engines decide.",
    ),
    (
        On::Serve,
        "NVPAIR_LOG_LEVEL",
        "As --log-level; the flag goes first.",
    ),
    (
        On::Serve,
        "OLLAMA_HOST",
        "Where Ollama is looked for first, if that is a loopback address. Beside a running \
         Ollama that is elsewhere it becomes an alias of the facade.",
    ),
    (
        On::All,
        "NO_COLOR",
        "Not empty: no colour, unless --color asks for it.",
    ),
    (
        On::Socket,
        "XDG_RUNTIME_DIR, XDG_STATE_HOME",
        "Replace the folder of the socket and ~/.local/state below.",
    ),
    (On::Serve, "XDG_CONFIG_HOME", "Replaces ~/.config below."),
    (
        On::Socket,
        "RUNTIME_DIRECTORY, STATE_DIRECTORY",
        "Set by systemd; they go before the XDG variables.",
    ),
    (
        On::Serve,
        "CONFIGURATION_DIRECTORY",
        "Set by systemd; the configuration is config.toml in it.",
    ),
    (
        On::Serve,
        "NOTIFY_SOCKET, SYSTEMD_EXEC_PID",
        "Set by systemd; it is told when the listeners are open, what goes on, when a reload begins \
         and ends, and when the end begins. With --broker or --ipc only if it started this very process.",
    ),
    (
        On::Serve,
        "WATCHDOG_USEC, WATCHDOG_PID",
        "Set by systemd; it gets signs of life twice in that time, or every 5 seconds.",
    ),
    (
        On::Serve,
        "JOURNAL_STREAM",
        "Set by systemd; if stderr is that stream, lines of the text log have a priority and no \
         time.",
    ),
];

const FILES: [Entry; 14] = [
    (
        On::Serve,
        "~/.config/nvpair-proxy/config.toml",
        "Configuration; it need not be there, and is never written.",
    ),
    (
        On::Serve,
        "~/.config/Nvidia Corporation/Personal AI Router/*-port.json",
        "Ports chosen with set-port, one file an engine.",
    ),
    (
        On::Socket,
        "$XDG_RUNTIME_DIR/nvpair-proxy/control.sock",
        "Control socket, for its owner and root only; without that variable it is \
         ~/.local/state/nvpair-proxy/control.sock.",
    ),
    (
        On::Socket,
        "/run/nvpair-proxy/control.sock",
        "Control socket of the system service.",
    ),
    (
        On::Serve,
        "~/.local/state/nvpair-proxy/journal-NNNNNN.jsonl",
        "Finished requests, a line of JSON each, without any content: 8 files of 4 MiB at \
         most. Written by serve, but not by serve --demo.",
    ),
    (
        On::Serve,
        "~/.local/state/nvpair-proxy/nodes.json",
        "Nodes that nodes add added, with their keys, for its owner only. A file that cannot be \
         read is never written over.",
    ),
    (
        On::Serve,
        "~/.local/state/nvpair-proxy/node-keys.json",
        "Hashes of the node pool's keys, for its owner only, where the pool is kept in memory.",
    ),
    (
        On::Serve,
        "~/.local/state/nvpair-proxy/client-keys.json, client-usage.json",
        "Hashes of the client keys, and what each used today, for their owner only.",
    ),
    (
        On::Serve,
        "~/.local/state/nvpair-proxy/registry-cert.pem, registry-key.pem",
        "The certificate that the pool's registry makes for itself where none is configured.",
    ),
    (
        On::Only("completions"),
        "~/.local/share/bash-completion/completions/nvpair-proxy",
        "Where bash looks for its script.",
    ),
    (
        On::Only("completions"),
        "~/.config/fish/completions/nvpair-proxy.fish",
        "Where fish does.",
    ),
    (
        On::Only("completions"),
        "_nvpair-proxy",
        "What the file for zsh has to be called, in a folder of fpath.",
    ),
    (
        On::Only("generate"),
        "completions/, man/",
        "What it writes; nothing else may be in these folders.",
    ),
    (
        On::Only("generate"),
        "/etc/systemd/system, ~/.config/systemd/user, ~/Library/LaunchAgents",
        "Where what its subcommands print belongs.",
    ),
];

/// Subcommands that talk to no daemon and are none.
const ALONE: [&str; 2] = ["completions", "generate"];

/// The name of a command's page and its text.
pub fn page(command: &Command) -> Result<(String, Vec<u8>)> {
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render(&mut page).context("cannot render a man page")?;
    let page = String::from_utf8(page).context("a man page is not UTF-8")?;
    let name = command.get_display_name().unwrap_or(command.get_name());
    let whole = tidy(&with_title(&page, name));
    let (page, version) = match whole.split_once(VERSION) {
        Some((page, version)) => (format!("{page}\n"), format!("{}{version}", &VERSION[1..])),
        None => (whole, String::new()),
    };
    let mut page = page.replace(EXTRA, "\n");
    for (plain, heading) in HEADINGS {
        page = page.replace(&format!("\n{plain}"), &format!("\n{heading}"));
    }
    // The part behind the program's name: `serve`, or `generate` of `generate systemd`.
    let path = name.strip_prefix("nvpair-proxy").unwrap_or(name);
    let sub = path.trim_start_matches('-');
    for (heading, entries) in [
        ("EXIT STATUS", &EXIT_STATUS[..]),
        ("ENVIRONMENT", &ENVIRONMENT),
        ("FILES", &FILES),
    ] {
        if !page.contains(&format!(".SH {heading}\n")) {
            page.push_str(&section(heading, entries, sub));
        }
    }
    match sub {
        "" => page.push_str(&version),
        _ => page.push_str(".SH SEE ALSO\n.BR nvpair\\-proxy (1)\n"),
    }
    Ok((man.get_filename(), page.into_bytes()))
}

/// clap's generator leaves the date out without a trace, so that the version would stand in its
/// place, and gives a subcommand a version that it does not have.
fn with_title(page: &str, name: &str) -> String {
    let title = format!(
        ".TH {} 1 \"\" \"nvpair-proxy {}\" \"User Commands\"",
        name.to_uppercase(),
        env!("CARGO_PKG_VERSION")
    );
    let line = |line: &str| match line.starts_with(".TH ") {
        true => title.clone(),
        false => line.to_owned(),
    };
    page.lines().map(|l| line(l) + "\n").collect()
}

/// Without what formatters complain of: blanks at the end of a line, and breaks around an empty
/// line, which is a break itself.
fn tidy(page: &str) -> String {
    let lines: String = page
        .lines()
        .map(|l| format!("{}\n", l.trim_end()))
        .collect();
    as_written(&lines.replace("\n.br\n\n.br\n", "\n.sp\n"))
}

/// Indented lines are to be copied or are columns: not to be filled and justified.
fn as_written(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    let mut inside = false;
    for line in page.lines() {
        let indented = line.starts_with("  ");
        if indented != inside {
            text.push_str(if indented { ".nf\n" } else { ".fi\n" });
            inside = indented;
        }
        text.push_str(&format!("{line}\n"));
    }
    if inside {
        text.push_str(".fi\n");
    }
    text
}

fn section(heading: &str, entries: &[Entry], sub: &str) -> String {
    let alone = ALONE
        .iter()
        .any(|a| sub == *a || sub.starts_with(&format!("{a}-")));
    let shown = |on: On| match on {
        On::All => true,
        On::Socket => !alone,
        On::Serve => matches!(sub, "" | "serve"),
        On::Only(name) => sub == name || sub.starts_with(&format!("{name}-")),
    };
    let mut text = format!(".SH {heading}\n");
    for (_, name, what) in entries.iter().filter(|(on, ..)| shown(*on)) {
        text.push_str(&format!(
            ".TP\n\\fB{}\\fR\n{}\n",
            escape(name),
            escape(what)
        ));
    }
    text
}

/// A plain hyphen may become another character, and then cannot be copied into a shell.
fn escape(text: &str) -> String {
    text.replace('-', "\\-").replace('~', "\\(ti")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    fn page_of(name: Option<&str>) -> String {
        let mut root = Cli::command().disable_help_subcommand(true);
        root.build();
        let command = match name {
            Some(name) => root.find_subcommand(name).unwrap(),
            None => &root,
        };
        String::from_utf8(page(command).unwrap().1).unwrap()
    }

    #[test]
    fn a_page_has_its_name_and_the_version_of_the_whole_in_its_title() {
        let version = env!("CARGO_PKG_VERSION");
        for (name, title) in [
            (None, "NVPAIR-PROXY"),
            (Some("serve"), "NVPAIR-PROXY-SERVE"),
        ] {
            let want = format!(".TH {title} 1 \"\" \"nvpair-proxy {version}\" \"User Commands\"");
            let page = page_of(name);
            assert_eq!(page.lines().find(|l| l.starts_with(".TH")), Some(&*want));
        }
    }

    #[test]
    fn the_root_page_has_the_sections_that_are_looked_for() {
        let page = page_of(None);
        let heads: Vec<_> = page
            .lines()
            .filter_map(|l| l.strip_prefix(".SH "))
            .collect();
        let from = heads.iter().position(|h| *h == "EXAMPLES").unwrap();
        let want = ["EXAMPLES", "EXIT STATUS", "ENVIRONMENT", "FILES", "VERSION"];
        assert_eq!(heads[from..], want);
        assert!(page.contains("  3  no daemon reachable"), "{page}");
    }

    #[test]
    fn every_page_has_examples_exit_status_environment_and_files() {
        let mut root = Cli::command().disable_help_subcommand(true);
        root.build();
        let mut commands: Vec<_> = root
            .get_subcommands()
            .filter(|s| !s.is_hide_set())
            .collect();
        let mut at = 0;
        while let Some(command) = commands.get(at).copied() {
            let text = String::from_utf8(page(command).unwrap().1).unwrap();
            let name = command.get_name();
            for heading in ["EXAMPLES", "EXIT STATUS", "ENVIRONMENT", "FILES"] {
                let (_, section) = text
                    .split_once(&format!("\n.SH {heading}\n"))
                    .unwrap_or_else(|| panic!("{name} has no {heading}:\n{text}"));
                assert!(!section.starts_with(".SH"), "{name}: {heading} is empty");
            }
            assert!(text.ends_with(".BR nvpair\\-proxy (1)\n"), "{name}");
            assert!(!text.contains("EXTRA"), "{name}");
            commands.extend(command.get_subcommands());
            at += 1;
        }
        assert!(at > 9);
    }

    #[test]
    fn a_page_has_what_is_its_own_and_no_more() {
        let (serve, status) = (page_of(Some("serve")), page_of(Some("status")));
        for (name, on_serve, on_status) in [
            ("WATCHDOG_USEC", true, false),
            ("NVPAIR_PROXY_SOCKET", true, true),
            ("config.toml", true, false),
            ("bash\\-completion", false, false),
        ] {
            assert_eq!(serve.contains(name), on_serve, "{name}");
            assert_eq!(status.contains(name), on_status, "{name}");
        }
        let completions = page_of(Some("completions"));
        assert!(completions.contains("bash\\-completion/completions/nvpair\\-proxy\\fR"));
        assert!(
            !completions.contains(".TP\n\\fB3\\fR\n"),
            "it needs no daemon"
        );
    }
}
