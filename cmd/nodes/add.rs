//! `nodes add`: a node that is probed from now on.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use nvpair_proxy::control::client::ControlApiClient;
use nvpair_proxy::rules::units::count;
use nvpair_proxy::wire::control::{NodeAdded, NodeState};

use crate::cli::{Globals, NodesAddArgs};
use crate::connect::with_daemon;
use crate::errors::{CliError, Kind};
use crate::output;

/// A key is shorter; a file that is longer is another one.
const KEY_LIMIT: u64 = 16 << 10;

/// Runs it. A node that does not answer is a success all the same: it is kept, and the text says so.
pub fn run(args: &NodesAddArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let (engine, url) = &args.node;
    let api_key = args.api_key_file.as_deref().map(key).transpose()?;
    let models = (!args.models.is_empty()).then(|| args.models.clone());
    let added = with_daemon(globals, async |client| {
        client
            .ask(async |c| {
                c.nodes_add(
                    *engine,
                    url.to_string(),
                    args.name.clone(),
                    models,
                    api_key,
                    args.slots,
                    args.weight,
                )
                .await
            })
            .await
    })
    .map_err(|e| e.or_try("nvpair-proxy nodes list          (what there is already)"))?;
    if globals.json {
        output::print_json(&added)?;
    } else if !globals.quiet {
        output::say(&told(&added))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn told(added: &NodeAdded) -> String {
    let what = match added.replaced {
        true => "replaced",
        false => "added",
    };
    let how = match (added.state, &added.reason) {
        (NodeState::Healthy, _) => {
            format!("it answers, with {}", count(added.models.len(), "model"))
        },
        (NodeState::Unreachable, reason) => format!(
            "it does not answer ({}), and is asked again every few seconds",
            reason.as_deref().unwrap_or("no reason is known")
        ),
        (NodeState::Unknown | NodeState::Resting, _) => {
            format!(
                "it is not probed; {} named",
                count(added.models.len(), "model")
            )
        },
    };
    let kept = match added.saved {
        true => "",
        false => " Not saved: it is gone when the daemon ends.",
    };
    let display = added.engine.spec().display;
    format!(
        "{display}: {what} {} at {}; {how}.{kept}",
        added.id, added.url
    )
}

/// The key in a file; no error repeats what is in it.
fn key(path: &Path) -> Result<String, CliError> {
    let shown = path.display();
    let failed = |why: String| {
        CliError::new(Kind::Usage, format!("cannot read a key from {shown}"))
            .why(why)
            .try_this("--api-key-file FILE, with the key as the only thing in it")
    };
    let mut text = String::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().take(KEY_LIMIT).read_to_string(&mut text),
        false => std::fs::File::open(path)
            .and_then(|file| file.take(KEY_LIMIT).read_to_string(&mut text)),
    };
    read.map_err(|e| failed(e.to_string()))?;
    match text.trim() {
        "" => Err(failed("there is nothing in it".to_owned())),
        key if key.contains(char::is_whitespace) => {
            Err(failed("there is more than one word in it".to_owned()))
        },
        key => Ok(key.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvpair_proxy::rules::engine::EngineId;

    #[test]
    fn the_text_says_how_it_is_and_how_long_it_lasts() {
        let mut added = NodeAdded {
            schema_version: 1,
            engine: EngineId::parse("ollama").unwrap(),
            id: "tower".into(),
            url: "http://tower:1".into(),
            replaced: false,
            saved: true,
            state: NodeState::Healthy,
            reason: None,
            models: vec!["m".into()],
        };
        assert_eq!(
            told(&added),
            "Ollama: added tower at http://tower:1; it answers, with 1 model."
        );
        added.state = NodeState::Unreachable;
        added.reason = Some("connection refused".into());
        (added.replaced, added.saved) = (true, false);
        let text = told(&added);
        for want in ["replaced", "(connection refused)", "Not saved"] {
            assert!(text.contains(want), "{text}");
        }
    }

    #[test]
    fn a_key_is_one_word_and_never_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, " canary\n").unwrap();
        assert_eq!(key(&path).unwrap(), "canary");
        for bad in ["", "\n", "canary one\n"] {
            std::fs::write(&path, bad).unwrap();
            let told = key(&path).unwrap_err();
            assert!(!format!("{told:?}").contains("canary"), "{told:?}");
            assert_eq!(told.kind, Kind::Usage);
        }
        assert!(key(&dir.path().join("none")).is_err());
    }
}
