//! A daemon with a parent takes its configuration again, as far as the parent does not decide.

use rustix::process::Signal;

use crate::support::broker::Broker;
use crate::support::client::post;
use crate::support::engine::Engine;

#[test]
fn sighup_changes_what_requests_are_held_to_and_not_what_the_parent_decides() {
    let a = Engine::serving("a");
    let (broker, port) = Broker::over(&[&a]);
    let body = serde_json::json!({"model": "m", "messages": []});
    let node = || {
        post(port, "/api/chat", &body)
            .header("x-nvpair-node")
            .map(str::to_owned)
    };
    assert_eq!(node(), None);
    let folder = broker.world.path().join("config/nvpair-proxy");
    std::fs::create_dir_all(&folder).unwrap();
    let text = "policy = \"ordered\"\nresponse_headers = true\n[engines.ollama]\nenabled = false\n";
    std::fs::write(folder.join("config.toml"), text).unwrap();
    broker.process.signal(Signal::HUP);
    broker.process.log.expect("the configuration was reloaded");
    assert_eq!(node().as_deref(), Some("n0"));
    let status = broker.world.json(&["status"]);
    assert_eq!(status["scheduler"]["policy"], "listed");
    assert_eq!(status["facades"][0]["engine"], "ollama");

    std::fs::write(folder.join("config.toml"), "polcy = 1").unwrap();
    broker.process.signal(Signal::HUP);
    broker
        .process
        .log
        .expect("config.toml:1:1  unknown key `polcy`");
    assert_eq!(node().as_deref(), Some("n0"));
}
