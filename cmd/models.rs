//! `models`: the merged catalogue.

use std::process::ExitCode;

use nvpair_proxy::control::client::ControlApiClient;
use nvpair_proxy::wire::control::ModelList;

use crate::cli::{Globals, ModelsArgs};
use crate::connect::with_daemon;
use crate::errors::CliError;
use crate::output::{self, Fit, Look};

/// Runs it.
pub fn run(args: &ModelsArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let list = with_daemon(globals, async |client| {
        client
            .call(async |c| c.models_list(args.engine, Some(args.loaded)).await)
            .await
    })?;
    match globals.json {
        true => output::print_json(&list)?,
        false => output::print(&table(&list, &Look::stdout(globals)))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn table(list: &ModelList, look: &Look) -> String {
    if list.models.is_empty() {
        return "  none\n".to_owned();
    }
    let rows: Vec<_> = list
        .models
        .iter()
        .map(|m| {
            [
                m.model.clone(),
                m.engine.spec().display.to_owned(),
                output::list(&m.owners),
                output::list(&m.loaded),
                output::dash(m.context_length),
            ]
        })
        .collect();
    let head = ["MODEL", "ENGINE", "NODES", "LOADED ON", "CONTEXT"];
    look.table(head, &rows, Fit::Cut)
}
