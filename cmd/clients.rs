//! What each client is given: the addresses of the facades, as the clients' own settings want them.
//!
//! Owns: which client speaks which API, and what its setting is called. Leaves to others: which
//! facades there are (`serve`, `status`).

use nvpair_proxy::rules::engine::{Engine, EngineId};

use crate::output::{Fit, Look};

/// An API, by the route that shows whether an engine has it; who speaks it, what the address is
/// called there, and what stands behind the origin.
struct Api {
    route: &'static str,
    clients: &'static str,
    setting: &'static str,
    behind: &'static str,
}

const APIS: [Api; 3] = [
    Api {
        route: "/v1/chat/completions",
        clients: "Open WebUI, Continue, Cline, openai SDK",
        setting: "OpenAI base URL, any key",
        behind: "/v1",
    },
    Api {
        route: "/api/chat",
        clients: "Open WebUI, Continue, Cline, ollama SDK",
        setting: "Ollama URL, OLLAMA_HOST",
        behind: "",
    },
    Api {
        route: "/v1/messages",
        clients: "Claude Code, anthropic SDK",
        setting: "ANTHROPIC_BASE_URL, any key",
        behind: "",
    },
];

/// The table of them; empty where nothing listens.
pub fn table(facades: impl Iterator<Item = (EngineId, u16)>, look: &Look) -> String {
    let facades: Vec<_> = facades.collect();
    let rows: Vec<_> = APIS.iter().filter_map(|api| row(api, &facades)).collect();
    match rows.is_empty() {
        true => String::new(),
        false => look.table(["CLIENT", "SETTING", "ADDRESS, ONE OF"], &rows, Fit::Wrap),
    }
}

fn row(api: &Api, facades: &[(EngineId, u16)]) -> Option<[String; 3]> {
    let has = |spec: &Engine| spec.routes.iter().any(|route| route.path == api.route);
    let addresses: Vec<_> = facades
        .iter()
        .filter(|(engine, _)| has(engine.spec()))
        .map(|(_, port)| format!("http://localhost:{port}{}", api.behind))
        .collect();
    let row = || {
        [
            api.clients.to_owned(),
            api.setting.to_owned(),
            addresses.join(" "),
        ]
    };
    (!addresses.is_empty()).then(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIPE: Look = Look {
        color: false,
        width: None,
    };

    fn facades(of: &[(&str, u16)]) -> Vec<(EngineId, u16)> {
        let id = |(id, port): &(&str, u16)| (EngineId::parse(id).unwrap(), *port);
        of.iter().map(id).collect()
    }

    #[test]
    fn every_client_has_the_addresses_of_every_facade_that_it_can_speak_to() {
        let all = facades(&[("ollama", 11435), ("lmstudio", 1234), ("llamacpp", 8080)]);
        let text = table(all.into_iter(), &PIPE);
        let lines: Vec<_> = text
            .lines()
            .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            lines,
            [
                "CLIENT SETTING ADDRESS, ONE OF",
                "Open WebUI, Continue, Cline, openai SDK OpenAI base URL, any key \
                 http://localhost:11435/v1 http://localhost:1234/v1 http://localhost:8080/v1",
                "Open WebUI, Continue, Cline, ollama SDK Ollama URL, OLLAMA_HOST \
                 http://localhost:11435",
                "Claude Code, anthropic SDK ANTHROPIC_BASE_URL, any key \
                 http://localhost:11435 http://localhost:1234 http://localhost:8080",
            ]
        );
    }

    #[test]
    fn what_no_facade_speaks_is_not_there() {
        let one = facades(&[("llamacpp", 8081)]);
        let text = table(one.into_iter(), &PIPE);
        assert!(!text.contains("OLLAMA_HOST"), "{text}");
        assert!(text.contains("http://localhost:8081/v1"), "{text}");
        assert_eq!(table(std::iter::empty(), &PIPE), "");
    }

    #[test]
    fn addresses_stay_whole_on_a_terminal() {
        let all = facades(&[("ollama", 11435), ("lmstudio", 1234), ("llamacpp", 8080)]);
        let look = Look {
            color: false,
            width: Some(100),
        };
        let text = table(all.into_iter(), &look);
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
        for address in ["http://localhost:1234/v1", "http://localhost:8080/v1"] {
            assert!(text.contains(address), "{text}");
        }
    }
}
