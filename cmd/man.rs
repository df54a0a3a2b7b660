//! Man pages: what clap knows, and what it does not.
//!
//! Owns: title lines, and the sections on exit status, environment and files.
//! Leaves to others: the commands and their help (`cli`), which files are written (`generate`).

use anyhow::{Context, Result};
use clap::Command;
use clap_mangen::Man;

/// The heading under which clap's generator puts all that follows the options.
const EXTRA: &str = "\n.SH EXTRA\nExamples:\n";

/// Exit codes in the help of the root, as the generator escapes them.
const EXIT_CODES: &str = "\n\nExit codes:\n";

/// Where the version begins; nothing of ours follows it.
const VERSION: &str = "\n.SH VERSION\n";

/// Sections of the root page, by heading: each entry and what it is.
const SECTIONS: [(&str, &[(&str, &str)]); 2] = [
    (
        "ENVIRONMENT",
        &[
            ("NVPAIR_PROXY_SOCKET", "Control socket, as --socket."),
            (
                "NVPAIR_PROXY_DATA_DIR",
                "Folder of the files with the ports that set-port chose.",
            ),
            (
                "NVPAIR_PROXY_RESPONSE_HEADER_TIMEOUT",
                "As --response-header-timeout; the flag goes first.",
            ),
            (
                "NVPAIR_PROXY_ALLOWED_HOSTS",
                "Names between commas that Host may have besides loopback and this machine's.",
            ),
            (
                "NVPAIR_PROXY_ALLOWED_ORIGINS",
                "Browser origins between commas that are admitted; without it the engines decide.",
            ),
            ("NVPAIR_LOG_LEVEL", "As --log-level; the flag goes first."),
            (
                "OLLAMA_HOST",
                "Where Ollama is looked for first, if that is a loopback address. Beside a running \
                 Ollama that is elsewhere it becomes an alias of the facade.",
            ),
            (
                "NO_COLOR",
                "Not empty: no colour, unless --color asks for it.",
            ),
            (
                "XDG_CONFIG_HOME, XDG_RUNTIME_DIR, XDG_STATE_HOME",
                "Replace ~/.config, the folder of the socket and ~/.local/state below.",
            ),
            (
                "RUNTIME_DIRECTORY, STATE_DIRECTORY",
                "Set by systemd; they go before the XDG variables.",
            ),
        ],
    ),
    (
        "FILES",
        &[
            (
                "~/.config/nvpair-proxy/config.toml",
                "Configuration of serve; it need not be there, and is never written.",
            ),
            (
                "~/.config/Nvidia Corporation/Personal AI Router/*-port.json",
                "Ports chosen with set-port, one file an engine.",
            ),
            (
                "$XDG_RUNTIME_DIR/nvpair-proxy/control.sock",
                "Control socket, for its owner and root only; without that variable it is \
                 ~/.local/state/nvpair-proxy/control.sock.",
            ),
            (
                "~/.local/state/nvpair-proxy/journal-NNNNNN.jsonl",
                "Finished requests, a line of JSON each, without any content: 8 files of 4 MiB at \
                 most. Written by serve, but not by serve --demo.",
            ),
            (
                "~/.local/state/nvpair-proxy/nodes.json",
                "Nodes that nodes add added, with their keys, for its owner only. A file that \
                 cannot be read is never written over.",
            ),
        ],
    ),
];

/// The name of a command's page and its text.
pub fn page(command: &Command) -> Result<(String, Vec<u8>)> {
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render(&mut page).context("cannot render a man page")?;
    let page = String::from_utf8(page).context("a man page is not UTF-8")?;
    let name = command.get_display_name().unwrap_or(command.get_name());
    let root = name == "nvpair-proxy";
    let page = page
        .replace(EXTRA, "\n.SH EXAMPLES\n")
        .replace(EXIT_CODES, "\n.SH EXIT STATUS\n");
    let page = with_title(&page, name);
    let page = match root {
        true => page.replace(VERSION, &format!("\n{}.SH VERSION\n", sections())),
        false => format!("{page}.SH SEE ALSO\n.BR nvpair\\-proxy (1)\n"),
    };
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

fn sections() -> String {
    let mut text = String::new();
    for (heading, entries) in SECTIONS {
        text.push_str(&format!(".SH {heading}\n"));
        for (name, what) in entries {
            text.push_str(&format!(
                ".TP\n\\fB{}\\fR\n{}\n",
                escape(name),
                escape(what)
            ));
        }
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
        assert!(page_of(Some("status")).contains(".SH SEE ALSO\n"));
    }
}
