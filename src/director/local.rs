//! Engines on this machine that nobody named.
//!
//! Owns: where they are looked for and what is taken for one.
//! Leaves to others: when (`keeper`), what becomes of one that is found (`keeper`).

use std::time::Duration;

use http::StatusCode;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::config::settings::Settings;
use crate::net::fetch::{self, Limits};
pub use crate::net::probe::{IDENTITY_PROBE, YES};
use crate::rules::engine::EngineId;
use crate::rules::inventory;

/// How long a dial to our own machine may take.
const DIAL: Duration = Duration::from_millis(300);

/// Where engines of this machine are looked for: where all of them listen unless they are told.
pub const HOST: &str = "127.0.0.1";

/// A port of [`HOST`] where an engine may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The engine.
    pub engine: EngineId,
    /// The port.
    pub port: u16,
}

/// Where every engine would be looked for if it had a facade, in the order in which they count: the
/// port of the engine's own variable, its stock port, the port it is moved to.
pub fn places(settings: &Settings) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for engine in EngineId::all() {
        let variable = settings.host_variables.iter().filter(|(e, _)| *e == engine);
        let variable = variable.map(|(_, a)| a.port());
        let table = [engine.spec().facade_port, engine.spec().moved_port];
        for port in variable.chain(table) {
            let place = Place { engine, port };
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    places
}

/// The port of an `ADDR:PORT`.
pub fn port_of(address: &str) -> Option<u16> {
    address.rsplit_once(':')?.1.parse().ok()
}

/// Whether the engine of this kind listens there, and no facade of ours: told by the shape of its
/// list, since a port alone proves nothing.
pub async fn identify(place: Place, limits: Limits) -> bool {
    let inventory = &place.engine.spec().inventory;
    let probe = [(IDENTITY_PROBE, YES)];
    match fetch::get(HOST, place.port, inventory.path, &probe, limits).await {
        Ok(answer) => {
            answer.status == StatusCode::OK && inventory::identifies(place.engine, &answer.body)
        },
        Err(_) => false,
    }
}

/// Whether anybody listens on this port of either loopback. Dialling tells what binding does not:
/// on some systems a wildcard listener and ours can share a port.
pub async fn listens(port: u16) -> bool {
    for host in ["127.0.0.1", "::1"] {
        if matches!(
            timeout(DIAL, TcpStream::connect((host, port))).await,
            Ok(Ok(_))
        ) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file::Config;
    use crate::config::settings::{Flags, resolve};

    #[test]
    fn engines_are_looked_for_at_their_variable_then_stock_then_moved() {
        let env = |name: &str| (name == "OLLAMA_HOST").then(|| "127.0.0.1:11500".into());
        // One that is off may be turned on.
        let flags = Flags {
            engines: vec![(EngineId::parse("ollama").unwrap(), None)],
            ..Flags::default()
        };
        let settings = resolve(&flags, &Config::default(), &env).unwrap();
        let got: Vec<_> = places(&settings)
            .iter()
            .map(|p| (p.engine.as_str(), p.port))
            .collect();
        let want = [
            ("ollama", 11500),
            ("ollama", 11434),
            ("ollama", 11435),
            ("lmstudio", 1234),
            ("lmstudio", 1235),
            ("llamacpp", 8080),
            ("llamacpp", 8081),
        ];
        assert_eq!(got, want);
    }
}
