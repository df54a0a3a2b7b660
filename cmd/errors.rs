//! How a failure is told: what, why, what to do, and an exit code.
//!
//! Owns: the kinds and their codes, the wording around the control client's errors.
//! Leaves to others: usage errors (clap tells those itself, with the same code).

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use nvpair_proxy::control::client::ClientError;

/// Where the system service of `generate systemd --system` and of the Debian package has its socket.
const SERVICE_SOCKET: &str = "/run/nvpair-proxy/control.sock";

/// Kind of a failure; its number is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Anything else.
    Failed = 1,
    /// Wrong usage or invalid configuration.
    Usage = 2,
    /// No daemon can be reached.
    NoDaemon = 3,
    /// The daemon said no.
    Refused = 4,
}

/// A failure as a person reads it.
#[derive(Debug)]
pub struct CliError {
    /// Kind.
    pub kind: Kind,
    /// What went wrong, in one line.
    pub what: String,
    /// Why, a line each.
    pub why: Vec<String>,
    /// What to do, a line each.
    pub tries: Vec<String>,
    /// Whether the daemon may be of another version than this command; whoever can still ask it adds
    /// which.
    pub other_version: bool,
}

impl CliError {
    /// An error of this kind.
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            why: Vec::new(),
            tries: Vec::new(),
            other_version: false,
        }
    }

    /// Adds a reason.
    pub fn why(mut self, line: impl Into<String>) -> Self {
        self.why.push(line.into());
        self
    }

    /// Adds a remedy.
    pub fn try_this(mut self, line: impl Into<String>) -> Self {
        self.tries.push(line.into());
        self
    }

    /// Adds a remedy where there is none yet.
    pub fn or_try(self, line: impl Into<String>) -> Self {
        match self.tries.is_empty() {
            true => self.try_this(line),
            false => self,
        }
    }

    /// The daemon may be of another version.
    fn maybe_other_version(mut self) -> Self {
        self.other_version = true;
        self.try_this("restart the daemon, so that both are of one version")
    }

    /// Tells it on stderr and gives the exit code.
    pub fn report(&self, color: bool) -> ExitCode {
        // Nobody is left to be told that stderr is closed.
        drop(
            std::io::stderr()
                .lock()
                .write_all(self.text(color).as_bytes()),
        );
        ExitCode::from(self.kind as u8)
    }

    fn text(&self, color: bool) -> String {
        let (red, bold, plain) = match color {
            true => ("\x1b[1;31m", "\x1b[1m", "\x1b[0m"),
            false => ("", "", ""),
        };
        let mut text = format!("{red}error:{plain} {}\n", self.what);
        for line in &self.why {
            text.push_str(&format!("       {line}\n"));
        }
        for line in &self.tries {
            text.push_str(&format!("   {bold}try:{plain} {line}\n"));
        }
        text
    }
}

impl From<anyhow::Error> for CliError {
    fn from(error: anyhow::Error) -> Self {
        let mut told = Self::new(Kind::Failed, error.to_string());
        told.why = error.chain().skip(1).map(ToString::to_string).collect();
        told
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        let what = error.to_string();
        match error {
            ClientError::NoDaemon { source, path } => {
                let told = Self::new(Kind::NoDaemon, what).why(match source.kind() {
                    std::io::ErrorKind::NotFound => "there is no such socket",
                    _ => "the socket is there, but the daemon that made it is gone",
                });
                no_daemon(told, &path, Path::new(SERVICE_SOCKET))
            },
            ClientError::Denied { source, .. } => Self::new(Kind::NoDaemon, what)
                .why(source.to_string())
                .try_this(
                    "again as the user who runs the daemon or as root, or with --socket PATH for another one",
                ),
            ClientError::Refused { code, .. } => refused(code, what),
            ClientError::TimedOut(_) => Self::new(Kind::Failed, what)
                .why("it may be busy or hung; a change may or may not have been made")
                .try_this("nvpair-proxy status"),
            ClientError::OtherSchema { .. } | ClientError::Unreadable(_) => {
                Self::new(Kind::Failed, what).maybe_other_version()
            },
            ClientError::Broken(_) => Self::new(Kind::Failed, what)
                .why("it may have ended just now, or it serves another user")
                .try_this("nvpair-proxy status"),
        }
    }
}

/// A system service may run where this user has no daemon.
fn no_daemon(told: CliError, asked: &Path, service: &Path) -> CliError {
    let told = match asked != service && service.exists() {
        true => told.try_this(format!(
            "sudo nvpair-proxy --socket {} status          (the system service)",
            service.display()
        )),
        false => told,
    };
    told.try_this("nvpair-proxy serve            (or --socket PATH if it runs elsewhere)")
}

/// The codes are those of the broker link (`wire::jsonrpc`).
fn refused(code: i32, message: String) -> CliError {
    let what = format!("the daemon refused: {message}");
    match code {
        -32601 => CliError::new(Kind::Failed, "the daemon does not know this call")
            .why(message)
            .maybe_other_version(),
        -32603 => CliError::new(Kind::Failed, message).try_this("look at the daemon's log"),
        -32002 => CliError::new(Kind::Refused, what)
            .try_this("nvpair-proxy status          (it lists the enabled facades)"),
        _ => CliError::new(Kind::Refused, what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_why_and_try_line_up() {
        let error = CliError::new(Kind::Refused, "no node")
            .why("known: a")
            .try_this("b");
        assert_eq!(
            error.text(false),
            "error: no node\n       known: a\n   try: b\n"
        );
        assert!(
            error
                .text(true)
                .starts_with("\x1b[1;31merror:\x1b[0m no node")
        );
    }

    #[test]
    fn an_internal_error_is_a_failure_and_a_refusal_is_not() {
        assert_eq!(refused(-32603, "x".into()).kind, Kind::Failed);
        assert_eq!(refused(-32601, "x".into()).kind, Kind::Failed);
        for code in [-32000, -32002, -32010, -32602] {
            assert_eq!(refused(code, "x".into()).kind, Kind::Refused);
        }
    }

    #[test]
    fn a_system_service_is_pointed_to_where_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let service = folder.path().join("control.sock");
        let tries = |asked: &Path| {
            let told = CliError::new(Kind::NoDaemon, "x");
            no_daemon(told, asked, &service).tries
        };
        assert_eq!(tries(Path::new("/mine")).len(), 1);
        std::fs::write(&service, "").unwrap();
        assert!(tries(Path::new("/mine"))[0].starts_with("sudo nvpair-proxy --socket "));
        assert_eq!(tries(&service).len(), 1, "it was asked already");
    }

    #[test]
    fn causes_become_reasons() {
        let error = anyhow::anyhow!("disk full").context("cannot write man/");
        let told = CliError::from(error);
        assert_eq!(
            (told.what.as_str(), told.why.as_slice()),
            ("cannot write man/", &["disk full".to_owned()][..])
        );
    }
}
