//! `agent`: speaks for an engine on this machine to the registry of a gateway.
//!
//! Owns: turning flags into the agent's options, where the node key comes from, exit codes.
//! Leaves to others: everything that happens then (`nvpair_proxy::agent`).

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use http::uri::Authority;
use nvpair_proxy::agent::{self, Failure, Options, RegistryAddress};
use nvpair_proxy::config::paths::{Env, process_env};
use nvpair_proxy::config::pool::{self, REGISTRY_PORT};
use nvpair_proxy::net::client_tls::ClientTls;
use nvpair_proxy::rules::addresses::{is_loopback_host, without_brackets};
use nvpair_proxy::rules::log_level::LogLevel;
use nvpair_proxy::rules::pool::endpoint::{Endpoint, Scheme};
use nvpair_proxy::rules::pool::key;
use nvpair_proxy::rules::secret::Secret;
use nvpair_proxy::telemetry::logging;

use crate::cli::{AgentArgs, Globals};
use crate::connect::OWN_VERSION;
use crate::errors::{CliError, Kind};
use crate::runtime::{self, LOG_FLUSH};

/// Bytes of a file that may hold a node key.
const KEY_BYTES: u64 = 4096;

/// Where the node key is looked for.
const NODE_KEY: &str = "NODE_KEY";

/// How often gateways look who drains, as they are told it too.
const SWEEP: &str = "NODE_SWEEP_INTERVAL";

/// Runs it until it is told to stop.
pub fn run(args: &AgentArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let options = options(args, &process_env)?;
    logging::start(
        globals.threshold().unwrap_or(LogLevel::Info),
        args.log_format,
    );
    logging::log_panics();
    let runtime = runtime::single()?;
    let ended = runtime.block_on(agent::run(options));
    runtime::end(runtime);
    logging::flush(LOG_FLUSH);
    ended.map(|()| ExitCode::SUCCESS).map_err(failed)
}

fn options(args: &AgentArgs, env: Env<'_>) -> Result<Options, CliError> {
    let engine_url = match &args.engine_url {
        Some(url) => url.clone(),
        None => Endpoint::parse(&format!("http://127.0.0.1:{}", args.engine.usual_port()))
            .map_err(|why| usage("--engine-url", why))?,
    };
    if engine_url.scheme == Scheme::Https {
        let why = "the agent reaches its engine in the clear; give an http:// URL of this machine";
        return Err(usage("--engine-url", why));
    }
    nvpair_proxy::rules::pool::sizes::node_id(&args.node_id)
        .map_err(|e| usage("--node-id", e.why))?;
    Ok(Options {
        key: node_key(args.node_key_file.as_deref(), env)?,
        registry: registry(args)?,
        node: args.node_id.clone(),
        engine: args.engine,
        engine_url,
        endpoint: args.endpoint.clone(),
        max_concurrency: args.max_concurrency,
        base_weight: args.base_weight,
        listen: args.listen,
        sweep: sweep(args, env)?,
        drain: args.drain_timeout,
        version: OWN_VERSION.to_owned(),
    })
}

fn registry(args: &AgentArgs) -> Result<RegistryAddress, CliError> {
    let (host, port) = address(&args.proxy_addr).map_err(|why| usage("--proxy-addr", why))?;
    let tls = match (&args.proxy_fingerprint, &args.proxy_ca) {
        (Some(pin), _) => Some(ClientTls::pinned(pin)),
        (None, Some(file)) => Some(ClientTls::trusting(file)),
        (None, None) => None,
    };
    let tls = tls.transpose().map_err(|e| {
        let option = match args.proxy_ca.is_some() {
            true => "--proxy-ca",
            false => "--proxy-fingerprint",
        };
        usage(option, e.to_string())
    })?;
    if tls.is_none() && !is_loopback_host(&host) {
        let why =
            "the registry is on another machine, and the node key would go there in the clear";
        return Err(usage("--proxy-addr", why)
            .try_this("--proxy-fingerprint sha256:…   (`nodes keys create` prints it)")
            .try_this("--proxy-ca FILE                (a certificate of its authority)"));
    }
    Ok(RegistryAddress { host, port, tls })
}

/// Host and port of `HOST`, `HOST:PORT` or `[IPV6]:PORT`.
fn address(text: &str) -> Result<(String, u16), String> {
    let form = "write HOST:PORT, with IPv6 addresses in brackets";
    if text.contains(['/', '@']) {
        return Err(form.to_owned());
    }
    let parsed: Authority = text.parse().map_err(|_| form.to_owned())?;
    let host = without_brackets(parsed.host());
    let rest = &text[parsed.host().len()..];
    let port = match (rest, parsed.port_u16()) {
        ("", _) => REGISTRY_PORT,
        (_, Some(port)) if port != 0 => port,
        _ => return Err(form.to_owned()),
    };
    match host.is_empty() {
        true => Err(form.to_owned()),
        false => Ok((host.to_owned(), port)),
    }
}

/// What was set; `None` = whatever the gateway tells.
fn sweep(args: &AgentArgs, env: Env<'_>) -> Result<Option<Duration>, CliError> {
    if args.sweep_interval.is_some() {
        return Ok(args.sweep_interval);
    }
    let Some(text) = env(SWEEP) else {
        return Ok(None);
    };
    let text = text.to_string_lossy();
    // As the gateway reads it.
    pool::sweep(&text)
        .map(Some)
        .map_err(|_| usage(SWEEP, "it is no number of seconds and no duration like 5s"))
}

/// The key of the file, else of the variable. Nothing that is told repeats it.
fn node_key(file: Option<&Path>, env: Env<'_>) -> Result<Secret, CliError> {
    let variable = env(NODE_KEY).filter(|v| !v.is_empty());
    let (text, from) = match (file, variable) {
        (Some(_), Some(_)) => {
            let why = "NODE_KEY is set too; give the key in one of the two";
            return Err(usage("--node-key-file", why));
        },
        (Some(path), None) => (key_file(path)?, "--node-key-file"),
        (None, Some(value)) => (
            value
                .into_string()
                .map_err(|_| usage(NODE_KEY, "it is not text"))?,
            NODE_KEY,
        ),
        (None, None) => {
            return Err(CliError::new(Kind::Usage, "there is no node key")
                .why("the registry admits nodes by their keys")
                .try_this("NODE_KEY=ktms_node_… or --node-key-file FILE")
                .try_this("nvpair-proxy nodes keys create NAME --node-id ID   (on the gateway)"));
        },
    };
    let text = text.trim();
    match key::secret_part(text) {
        Some(_) => Ok(Secret::new(text)),
        None => Err(usage(
            from,
            "it holds no node key; one begins with ktms_node_",
        )),
    }
}

fn key_file(path: &Path) -> Result<String, CliError> {
    let bad = |why: String| usage(&format!("--node-key-file {}", path.display()), why);
    let file = std::fs::File::open(path).map_err(|e| bad(e.to_string()))?;
    let about = file.metadata().map_err(|e| bad(e.to_string()))?;
    if !about.is_file() {
        return Err(bad("it is no file".to_owned()));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let mode = about.mode() & 0o777;
        if mode & 0o077 != 0 {
            let why = format!("its mode is {mode:04o}: others of this machine may read the key");
            return Err(bad(why).try_this(format!("chmod 600 {}", path.display())));
        }
    }
    let mut text = String::new();
    file.take(KEY_BYTES)
        .read_to_string(&mut text)
        .map_err(|_| bad("it is no text".to_owned()))?;
    Ok(text)
}

fn usage(what: &str, why: impl Into<String>) -> CliError {
    CliError::new(Kind::Usage, format!("{what} cannot be used")).why(why)
}

fn failed(failure: Failure) -> CliError {
    let told = |kind| CliError::new(kind, failure.to_string());
    match &failure {
        Failure::Refused { .. } => told(Kind::Refused)
            .try_this("nvpair-proxy nodes keys list   (on the gateway: which keys there are)"),
        Failure::Distrust { .. } => told(Kind::Failed).try_this(
            "the fingerprint that `nvpair-proxy nodes keys create` prints on that gateway now",
        ),
        Failure::Bind { .. } => told(Kind::Failed).try_this("--listen with another port"),
        Failure::BadKey => told(Kind::Usage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    const KEY: &str = "ktms_node_0123456789abcdef0123";

    fn env(pairs: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
        move |name| {
            let found = pairs.iter().find(|(k, _)| *k == name);
            found.map(|(_, v)| OsString::from(v))
        }
    }

    #[test]
    fn registries_are_named_in_every_form_of_an_address() {
        for (text, host, port) in [
            ("gw.lan:9191", "gw.lan", 9191),
            ("gw.lan", "gw.lan", 9090),
            ("10.0.0.1:1", "10.0.0.1", 1),
            ("[fd00::1]:9090", "fd00::1", 9090),
            ("[::1]", "::1", 9090),
        ] {
            assert_eq!(address(text), Ok((host.to_owned(), port)), "{text}");
        }
        for bad in [
            "",
            ":1",
            "gw:",
            "gw:0",
            "gw:x",
            "http://gw:1",
            "a@b:1",
            "gw:1/x",
            "fd00::1",
        ] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_key_comes_from_one_place_and_is_never_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, format!("{KEY}\n")).unwrap();
        set_mode(&path, 0o644);
        let open = node_key(Some(&path), &env(&[])).unwrap_err();
        assert!(open.why[0].contains("0644"), "{open:?}");
        set_mode(&path, 0o600);
        assert_eq!(node_key(Some(&path), &env(&[])).unwrap().reveal(), KEY);
        assert_eq!(
            node_key(None, &env(&[("NODE_KEY", KEY)])).unwrap().reveal(),
            KEY
        );
        let both = node_key(Some(&path), &env(&[("NODE_KEY", KEY)])).unwrap_err();
        assert_eq!(both.kind, Kind::Usage);
        for bad in [
            env(&[("NODE_KEY", "canary")]),
            env(&[("NODE_KEY", "")]),
            env(&[]),
        ] {
            let told = format!("{:?}", node_key(None, &bad).unwrap_err());
            assert!(!told.contains("canary"), "{told}");
        }
        for bad in [dir.path().to_owned(), dir.path().join("absent")] {
            assert_eq!(
                node_key(Some(&bad), &env(&[])).unwrap_err().kind,
                Kind::Usage
            );
        }
    }

    fn set_mode(path: &Path, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_sweep_is_read_as_the_gateway_reads_it() {
        use clap::Parser;
        let line = [
            "nvpair-proxy",
            "agent",
            "--proxy-addr",
            "localhost",
            "--node-id",
            "a",
        ];
        let rest = ["--engine", "ollama", "--endpoint", "http://10.0.0.1:1"];
        let cli = crate::cli::Cli::try_parse_from(line.iter().chain(&rest)).unwrap();
        let crate::cli::Verb::Agent(args) = cli.verb else {
            panic!("another verb")
        };
        let read = |pairs| {
            sweep(&args, &env(pairs))
                .map(|d| d.map(|d| d.as_millis()))
                .ok()
        };
        assert_eq!(read(&[]), Some(None));
        assert_eq!(read(&[("NODE_SWEEP_INTERVAL", "7")]), Some(Some(7_000)));
        assert_eq!(
            read(&[("NODE_SWEEP_INTERVAL", "2500ms")]),
            Some(Some(2_500))
        );
        assert_eq!(read(&[("NODE_SWEEP_INTERVAL", "soon")]), None);
    }
}
