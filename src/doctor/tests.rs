//! The whole examination, against engines and a folder of its own.

use std::ffi::OsString;
use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// An Ollama of this version, for as long as the runtime lives.
async fn ollama(version: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4096];
            let n = stream.read(&mut head).await.unwrap_or(0);
            let body = match String::from_utf8_lossy(&head[..n]).contains("/api/version") {
                true => format!(r#"{{"version":"{version}"}}"#),
                false => r#"{"models":[{"name":"a","model":"a"}]}"#.to_owned(),
            };
            let text = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            drop(stream.write_all(text.as_bytes()).await);
        }
    });
    port
}

async fn examined(dir: &Path, toml: &str, more: &[(&str, &str)]) -> Vec<Finding> {
    let config = dir.join("c.toml");
    std::fs::write(&config, toml).unwrap();
    let env = |name: &str| {
        let own = |name: &str| dir.join(name).into_os_string();
        match name {
            "XDG_STATE_HOME" => Some(own("state")),
            "NVPAIR_PROXY_DATA_DIR" => Some(own("data")),
            _ => more
                .iter()
                .find(|(k, _)| *k == name)
                .map(|(_, v)| OsString::from(v)),
        }
    };
    let options = Options {
        socket: Some(dir.join("control.sock")),
        config: Some(config),
        cluster_dir: None,
        version: "1".into(),
    };
    examine(options, &env).await
}

fn only<'a>(found: &'a [Finding], check: &str) -> Vec<&'a Finding> {
    found.iter().filter(|f| f.check == check).collect()
}

#[tokio::test]
async fn without_a_daemon_everything_is_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let port = ollama("0.9.1").await;
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = taken.local_addr().unwrap().port();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = silent.local_addr().unwrap().port();
    drop(silent);
    let toml = format!(
        "[engines.ollama]\nport = {taken}\n[engines.lmstudio]\nenabled = false\n\
         [engines.llamacpp]\nenabled = false\n\
         [[nodes]]\nengine = \"ollama\"\nurl = \"http://127.0.0.1:{port}\"\n\
         [[nodes]]\nengine = \"ollama\"\nurl = \"http://127.0.0.1:{gone}\"\n"
    );
    let host = format!("127.0.0.1:{port}");
    let found = examined(dir.path(), &toml, &[("OLLAMA_HOST", &host)]).await;
    for check in [
        "daemon",
        "configuration",
        "port",
        "engine",
        "node",
        "trust",
        "descriptors",
        "proxy",
        "state",
    ] {
        assert!(!only(&found, check).is_empty(), "{check} in {found:?}");
    }
    let daemon = only(&found, "daemon")[0];
    assert_eq!(
        (daemon.level, daemon.remedy.as_deref()),
        (Level::Note, Some("nvpair-proxy serve"))
    );
    let engine = only(&found, "engine")[0];
    assert!(
        engine
            .text
            .starts_with(&format!("Ollama 0.9.1 answers on {port}")),
        "{engine:?}"
    );
    let nodes = only(&found, "node");
    assert_eq!(
        (nodes[0].level, nodes[1].level),
        (Level::Ok, Level::Warning)
    );
    assert!(
        nodes[0].text.contains("0.9.1") && nodes[0].text.contains("1 model"),
        "{nodes:?}"
    );
    assert!(nodes[1].text.contains("connection refused"), "{nodes:?}");
}

#[tokio::test]
async fn a_bad_file_is_a_problem_and_the_rest_is_looked_at_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let found = examined(dir.path(), "polcy = 1\n", &[]).await;
    let file = only(&found, "configuration")[0];
    assert_eq!(file.level, Level::Problem);
    assert!(file.text.contains("policy"), "{file:?}");
    assert_eq!(only(&found, "engine").len(), 3);
    assert_eq!(only(&found, "port").len(), 3);
}

#[test]
fn a_cluster_folder_is_judged() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    assert_eq!(cluster::trust(None).level, Level::Ok);
    assert_eq!(cluster::trust(Some(&at("none"))).level, Level::Problem);
    let told = cluster::trust(Some(dir.path()));
    assert!(told.text.contains("node.crt"), "{told:?}");
    let node = crate::net::identity::tests::node("11111111-1111-4111-8111-111111111111");
    std::fs::write(at("node.crt"), &node.certificate).unwrap();
    std::fs::write(at("node.key"), &node.key).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |mode| {
            std::fs::set_permissions(at("node.key"), std::fs::Permissions::from_mode(mode)).unwrap()
        };
        mode(0o644);
        assert_eq!(cluster::trust(Some(dir.path())).level, Level::Warning);
        mode(0o600);
    }
    let told = cluster::trust(Some(dir.path()));
    assert!(told.text.contains("no member"), "{told:?}");
    std::fs::write(at("admission.json"), r#"{"clusterId":"c","epoch":1}"#).unwrap();
    let told = cluster::trust(Some(dir.path()));
    assert_eq!(
        (told.level, told.text.ends_with("knows 0 others")),
        (Level::Ok, true),
        "{told:?}"
    );
    std::fs::create_dir(at("trusted")).unwrap();
    std::fs::write(at("trusted/x.json"), "{}").unwrap();
    let told = cluster::trust(Some(dir.path()));
    assert!(
        told.level == Level::Warning && told.text.contains(": x"),
        "{told:?}"
    );
}
