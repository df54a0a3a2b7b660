//! Which port a facade takes (spec §8), and which extra addresses it may be given (spec §7).
//!
//! Owns: the precedence and the checks. Leaves to others: reading the saved port, binding.

use std::net::SocketAddr;

use super::addresses::loopback;
use super::engine::EngineId;

/// Alias addresses a facade may have: both loopback families.
pub const MAX_ALIASES: usize = 2;

/// A port a facade was asked to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortRequest {
    /// 0 or left out: the engine's standalone port.
    Standalone,
    /// This one.
    Port(u16),
}

/// Which rule decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// As asked.
    Requested,
    /// None was asked for.
    Standalone,
    /// Saved by an earlier `set-port`.
    Saved,
}

/// Reads a requested port: 0 = standalone, else 1..=65535.
///
/// # Errors
/// Out of range: rejected rather than taken as ephemeral, since nobody would find the facade.
pub fn request(port: i64) -> Result<PortRequest, String> {
    match u16::try_from(port) {
        Ok(0) => Ok(PortRequest::Standalone),
        Ok(port) => Ok(PortRequest::Port(port)),
        Err(_) => Err(format!(
            "port {port} is not in 1..65535 (0 = the engine's standalone port)"
        )),
    }
}

/// The port to bind: a saved one, unless it is to be ignored or is where the engine itself lives;
/// then the requested one; then the standalone one.
pub fn decide(
    engine: EngineId,
    request: PortRequest,
    saved: Option<u16>,
    ignore_saved: bool,
) -> (u16, Decided) {
    let saved = saved.filter(|p| !ignore_saved && engine.spec().never_restored != Some(*p));
    match (saved, request) {
        (Some(port), _) => (port, Decided::Saved),
        (None, PortRequest::Port(port)) => (port, Decided::Requested),
        (None, PortRequest::Standalone) => (engine.spec().standalone_port, Decided::Standalone),
    }
}

/// Alias addresses of a facade on this primary port.
///
/// # Errors
/// The engine takes none; one is no loopback `host:port`, or is the primary's port; there are more
/// than two, or on different ports.
pub fn aliases(
    engine: EngineId,
    given: &[String],
    primary: u16,
) -> Result<Vec<SocketAddr>, String> {
    if !given.is_empty() && !engine.spec().aliases {
        return Err(format!(
            "the {} facade takes no alias addresses",
            engine.spec().display
        ));
    }
    let mut all: Vec<SocketAddr> = Vec::new();
    for text in given {
        let address = alias(text)?;
        if address.port() == primary {
            return Err(format!("alias {text} has the facade's own port"));
        }
        if all.first().is_some_and(|a| a.port() != address.port()) {
            return Err("alias addresses must share one port".to_owned());
        }
        if !all.contains(&address) {
            all.push(address);
        }
    }
    if all.len() > MAX_ALIASES {
        return Err("at most two alias addresses are possible".to_owned());
    }
    Ok(all)
}

/// One alias address, `HOST:PORT`; `localhost` is 127.0.0.1.
pub fn alias(text: &str) -> Result<SocketAddr, String> {
    let wrong = || format!("alias {text} is not a loopback HOST:PORT");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().ok().filter(|p| *p > 0).ok_or_else(wrong)?;
    if host.contains(':') && !host.starts_with('[') {
        // An IPv6 address without brackets: where its port begins is anybody's guess.
        return Err(wrong());
    }
    Ok(SocketAddr::new(loopback(host).ok_or_else(wrong)?, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(id: &str) -> EngineId {
        EngineId::parse(id).unwrap()
    }

    #[test]
    fn a_saved_port_wins_unless_ignored_or_the_engines_own() {
        use Decided::{Requested, Saved};
        use PortRequest::{Port, Standalone};
        for (id, request, saved, ignore, want) in [
            ("ollama", Port(11435), Some(11500), false, (11500, Saved)),
            ("ollama", Port(11435), None, false, (11435, Requested)),
            ("ollama", Port(11434), Some(11500), true, (11434, Requested)),
            (
                "ollama",
                Standalone,
                None,
                false,
                (11435, super::Decided::Standalone),
            ),
            ("lmstudio", Port(1234), Some(1300), false, (1300, Saved)),
            ("lmstudio", Port(1234), Some(1235), false, (1234, Requested)),
            (
                "llamacpp",
                Standalone,
                Some(8081),
                false,
                (8080, super::Decided::Standalone),
            ),
            ("ollama", Port(1), Some(11435), false, (11435, Saved)),
        ] {
            assert_eq!(
                decide(engine(id), request, saved, ignore),
                want,
                "{id} {request:?} {saved:?}"
            );
        }
    }

    #[test]
    fn ports_out_of_range_are_rejected() {
        assert_eq!(request(0), Ok(PortRequest::Standalone));
        assert_eq!(request(65535), Ok(PortRequest::Port(65535)));
        for bad in [-1, 65536, 70000, i64::MIN] {
            assert!(request(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn aliases_are_loopback_on_one_other_port() {
        let list = |a: &[&str]| a.iter().map(|s| s.to_string()).collect::<Vec<_>>();
        let of = |a: &[&str]| aliases(engine("ollama"), &list(a), 11434);
        let show = |a: &[&str]| {
            of(a)
                .unwrap()
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(show(&["127.0.0.1:11433"]), ["127.0.0.1:11433"]);
        assert_eq!(
            show(&["LocalHost.:11433", "127.0.0.1:11433"]),
            ["127.0.0.1:11433"]
        );
        assert_eq!(
            show(&["127.0.0.1:5", "[::1]:5"]),
            ["127.0.0.1:5", "[::1]:5"]
        );
        for bad in [
            vec!["192.168.1.20:11433"],
            vec!["localhost:11434"],
            vec!["localhost:0"],
            vec!["localhost"],
            vec!["0.0.0.0:5"],
            vec!["::1:5"],
            vec!["example.com:5"],
            vec!["127.0.0.1:5", "[::1]:6"],
            vec!["127.0.0.1:5", "127.0.0.2:5", "[::1]:5"],
        ] {
            assert!(of(&bad).is_err(), "{bad:?}");
        }
        assert!(aliases(engine("lmstudio"), &list(&["127.0.0.1:5"]), 1234).is_err());
        assert_eq!(aliases(engine("lmstudio"), &[], 1234), Ok(vec![]));
    }
}
