//! Addressed method names of the broker link (spec §4).
//!
//! Owns: taking `ollama:node/select` apart. Leaves to others: what a method means (`broker`).

use super::engine::EngineId;

/// Splits a wire method at its first colon, and only if the text before it is exactly one engine
/// id. Plenty of unaddressed methods contain a colon (`errors:report`), so nothing else counts as
/// an address: not a component name, not an unknown engine, not another case.
pub fn split(method: &str) -> (Option<EngineId>, &str) {
    match method.split_once(':') {
        Some((address, bare)) => match EngineId::parse(address) {
            Some(engine) => (Some(engine), bare),
            None => (None, method),
        },
        None => (None, method),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_known_engine_id_is_an_address() {
        let ollama = EngineId::parse("ollama");
        let lmstudio = EngineId::parse("lmstudio");
        for (method, want) in [
            ("ollama:nodes/list", (ollama, "nodes/list")),
            ("lmstudio:errors:report", (lmstudio, "errors:report")),
            ("errors:report", (None, "errors:report")),
            ("ollama-proxy:ready", (None, "ollama-proxy:ready")),
            ("vllm:nodes/list", (None, "vllm:nodes/list")),
            ("Ollama:nodes/list", (None, "Ollama:nodes/list")),
            ("ollama:", (ollama, "")),
            ("ollama", (None, "ollama")),
            (":nodes/list", (None, ":nodes/list")),
            ("", (None, "")),
        ] {
            assert_eq!(split(method), want, "{method:?}");
        }
    }
}
