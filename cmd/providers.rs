//! `providers`: the services that the gateway falls back to, and how each of them stands.

use std::process::ExitCode;
use std::time::Duration;

use nvpair_proxy::control::client::ControlApiClient;
use nvpair_proxy::rules::units::human_age;
use nvpair_proxy::wire::control::{ProviderState, ProviderStatus};

use crate::cli::Globals;
use crate::connect::with_daemon;
use crate::errors::CliError;
use crate::output::{self, Fit, Look};

/// Runs it.
pub fn run(globals: &Globals) -> Result<ExitCode, CliError> {
    let list = with_daemon(globals, async |client| {
        client.ask(async |c| c.providers_list().await).await
    })?;
    match (globals.json, list.providers.as_slice()) {
        (true, _) => output::print_json(&list)?,
        (false, []) => output::print(
            "  none: name one with [[providers]] in the configuration file; README.md says how\n",
        )?,
        (false, all) => output::print(&table(all, &Look::stdout(globals)))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Providers in the order of the file, then the last failure of each that had one.
pub fn table(all: &[ProviderStatus], look: &Look) -> String {
    let row = |p: &ProviderStatus| {
        [
            p.name.clone(),
            p.tier.to_string(),
            state(p.state).to_owned(),
            output::dash(p.standing),
            span(p.penalty_ms),
            span(p.cool_down_ms),
            p.failures.to_string(),
            p.requests.to_string(),
            p.limited.to_string(),
            output::list(&p.models),
        ]
    };
    let head = [
        "PROVIDER",
        "TIER",
        "STATE",
        "STANDING",
        "PENALTY",
        "COOL-DOWN",
        "FAILED",
        "REQUESTS",
        "429",
        "MODELS",
    ];
    let rows: Vec<_> = all.iter().map(row).collect();
    let mut text = look.table(head, &rows, Fit::Fold);
    for provider in all {
        if let Some(line) = last_failure(provider) {
            text.push_str(&format!("  {}\n", output::clean(&line)));
        }
    }
    text
}

fn last_failure(p: &ProviderStatus) -> Option<String> {
    let last = p.last_failure.as_ref()?;
    let age = human_age(Duration::from_millis(last.age_ms));
    let row = match p.failures_in_a_row {
        0 | 1 => String::new(),
        n => format!(", {n} in a row"),
    };
    Some(format!("{}: {} ({age} ago{row})", p.name, last.text))
}

/// Whole seconds, rounded up: what is left is not nothing.
fn span(ms: u64) -> String {
    match ms {
        0 => "-".to_owned(),
        ms => human_age(Duration::from_secs(ms.div_ceil(1000))),
    }
}

fn state(state: ProviderState) -> &'static str {
    match state {
        ProviderState::Ready => "ready",
        ProviderState::CoolingDown => "cooling down",
        ProviderState::Open => "open",
        ProviderState::HalfOpen => "half-open",
    }
}

#[cfg(test)]
mod tests {
    use nvpair_proxy::wire::control::ProviderFailure;

    use super::*;

    fn provider(name: &str, state: ProviderState) -> ProviderStatus {
        ProviderStatus {
            name: name.to_owned(),
            base_url: "https://a.example/v1".to_owned(),
            tier: 1,
            state,
            standing: None,
            penalty_ms: 0,
            cool_down_ms: 0,
            failures_in_a_row: 0,
            failures: 0,
            last_failure: None,
            requests: 0,
            limited: 0,
            models: vec![],
        }
    }

    #[test]
    fn every_provider_has_a_row_and_its_last_failure_a_line() {
        let fine = ProviderStatus {
            standing: Some(1),
            requests: 12,
            models: vec!["a".into(), "b".into()],
            ..provider("fine", ProviderState::Ready)
        };
        let limited = ProviderStatus {
            cool_down_ms: 61_000,
            limited: 3,
            ..provider("limited", ProviderState::CoolingDown)
        };
        let broken = ProviderStatus {
            penalty_ms: 15_001,
            cool_down_ms: 1,
            failures_in_a_row: 5,
            failures: 7,
            last_failure: Some(ProviderFailure {
                text: "answered 503\x1b[2J".into(),
                age_ms: 4_999,
            }),
            ..provider("broken", ProviderState::Open)
        };
        let once = ProviderStatus {
            failures_in_a_row: 1,
            last_failure: broken.last_failure.clone(),
            ..provider("once", ProviderState::HalfOpen)
        };
        let look = Look {
            color: false,
            width: None,
        };
        let text = table(&[fine, limited, broken, once], &look);
        let squeezed: Vec<String> = text
            .lines()
            .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            squeezed,
            [
                "PROVIDER TIER STATE STANDING PENALTY COOL-DOWN FAILED REQUESTS 429 MODELS",
                "fine 1 ready 1 - - 0 12 0 a, b",
                "limited 1 cooling down - - 1m 0 0 3 -",
                "broken 1 open - 16s 1s 7 0 0 -",
                "once 1 half-open - - - 0 0 0 -",
                "broken: answered 503\u{fffd}[2J (4s ago, 5 in a row)",
                "once: answered 503\u{fffd}[2J (4s ago)",
            ]
        );
    }
}
