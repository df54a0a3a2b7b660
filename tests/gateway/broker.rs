//! The gateway under a broker, which does not know it.

use serde_json::json;

use super::*;
use crate::support::broker::Broker;
use crate::support::client::post;
use crate::support::{free_port, wait_for};

#[test]
fn under_a_broker_it_runs_if_configured_and_no_frame_is_addressed_by_it() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let path = dir.path().join("c.toml");
    std::fs::write(&path, format!("[gateway]\nport = {port}\n")).unwrap();
    let broker = Broker::with(&["--config", path.to_str().unwrap()]);
    let a = saying("ollama", &["m"], "a");
    broker.enable("ollama");
    broker.node("ollama", "a", a.port(), &["m"]);
    wait_for("the gateway", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    assert_eq!(text(&post(port, CHAT, &chat("m"))), "a");
    broker.expect("workload:completed", |p| {
        p["workloadInfo"]["engine"] == "gateway" && p["workloadInfo"]["model"] == "m"
    });
    let refused = broker.call("facade/enable", &json!({"engine": "gateway", "port": 0}));
    assert!(refused.unwrap_err().to_string().contains("unknown engine"));
    assert!(!broker.raw_frames().contains("\"gateway:"));
}

#[test]
fn under_a_broker_it_does_not_run_unasked() {
    let broker = Broker::with(&[]);
    broker.enable("ollama");
    assert!(!broker.raw_frames().contains("gateway"));
}
