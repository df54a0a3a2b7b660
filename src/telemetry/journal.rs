//! The systemd journal as the sink of the log.
//!
//! Owns: whether stderr goes there, and the priority in front of each line (sd-daemon(3)).
//! Leaves to others: the lines (`logging`).

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use tracing::Level;

/// Whether stderr is the stream that systemd connected to the journal. The variable alone does not
/// say: it is inherited by children with another stderr.
pub fn is_stderr() -> bool {
    std::env::var("JOURNAL_STREAM").is_ok_and(|told| Some(told) == stderr_identity().ok())
}

/// Device and inode, as the variable has them.
fn stderr_identity() -> io::Result<String> {
    let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let meta = stderr.metadata()?;
    Ok(format!("{}:{}", meta.dev(), meta.ino()))
}

/// The severity in syslog's numbers.
fn priority(level: &Level) -> u8 {
    match *level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// One event's text as the journal takes it: each line is an entry there, so each has its priority.
pub fn entries(level: &Level, text: &str) -> String {
    let priority = priority(level);
    text.trim_end_matches('\n')
        .split('\n')
        .map(|line| format!("<{priority}>{line}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_an_event_has_its_severity() {
        assert_eq!(entries(&Level::WARN, "a b"), "<4>a b\n");
        assert_eq!(
            entries(&Level::ERROR, "a stack=\n 0: x\n 1: y\n"),
            "<3>a stack=\n<3> 0: x\n<3> 1: y\n"
        );
        assert_eq!(entries(&Level::DEBUG, ""), "<7>\n");
    }
}
