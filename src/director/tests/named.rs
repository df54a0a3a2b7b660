//! Nodes that are added and removed while the director runs.

use tokio::sync::oneshot;

use super::*;
use crate::state::command::Responder;
use crate::state::named::{Details, NewNode, NodeAsk};
use crate::wire::control::{NodeAdded, NodeState};

pub(super) fn at(port: u16, details: Details) -> NewNode {
    NewNode::at(id("ollama"), &format!("http://127.0.0.1:{port}"), details).unwrap()
}

pub(super) fn named(name: &str) -> Details {
    Details {
        name: Some(name.into()),
        ..Details::default()
    }
}

pub(super) fn record(id_: &str, port: u16, addresses: &[&str]) -> NewNode {
    let record = NodeRecord {
        id: id_.into(),
        host: id_.into(),
        port,
        addresses: addresses.iter().map(|a| (*a).to_owned()).collect(),
        ..NodeRecord::default()
    };
    NewNode::of_record(id("ollama"), record)
}

impl Bench {
    async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(Responder<T>) -> NodeAsk,
    ) -> Result<T, CommandError> {
        let (tx, rx) = oneshot::channel();
        let desk = self.desk.lock().unwrap().clone().unwrap();
        let sent = desk
            .send(ask(Responder::new(move |r| drop(tx.send(r)))))
            .await;
        assert!(sent.is_ok(), "the director runs");
        rx.await.unwrap()
    }

    pub(super) async fn add(&self, node: NewNode) -> Result<NodeAdded, CommandError> {
        self.ask(|r| NodeAsk::Add(Box::new(node), r)).await
    }

    pub(super) async fn remove(&self, node: &str) -> Result<bool, CommandError> {
        let node = NodeId::from(node);
        self.ask(|r| NodeAsk::Remove(id("ollama"), node, r)).await
    }
}

#[tokio::test(start_paused = true)]
async fn an_added_node_is_probed_told_and_there_again_after_a_restart() {
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::new();
    bench.state = Some(dir.path().to_owned());
    let started = bench.start(&settings(&["ollama"], "")).await.unwrap();
    bench.so_far();
    let added = bench.add(at(engine.port, named("rig"))).await.unwrap();
    assert_eq!(
        (added.id.as_str(), added.state),
        ("rig", NodeState::Healthy)
    );
    assert_eq!((added.replaced, added.saved), (false, true));
    assert_eq!(added.models, ["a", "b"]);
    let port = engine.port;
    let told =
        format!("node ollama rig 127.0.0.1:{port} [a,b] warm [] slots 0 ctx  local named up");
    assert_eq!(bench.so_far().last(), Some(&told));
    // It is probed from now on.
    let asked = engine.asked("/api/tags");
    sleep(Duration::from_secs(11)).await;
    assert!(engine.asked("/api/tags") >= asked + 2);
    started.task.abort();

    let mut again = Bench::new();
    again.state = Some(dir.path().to_owned());
    let started = again.start(&settings(&["ollama"], "")).await.unwrap();
    assert_eq!(started.rows[0].nodes, [NodeId::from("rig")]);
    assert!(again.so_far().contains(&told));
    assert_eq!(again.remove("rig").await, Ok(true));
    let gone = again.so_far();
    assert!(gone.contains(&"remove ollama rig".to_owned()), "{gone:?}");
    assert!(gone.contains(&"local ollama :0 ill".to_owned()), "{gone:?}");
    assert_eq!(again.remove("rig").await, Ok(false));
    started.task.abort();

    let third = Bench {
        state: Some(dir.path().to_owned()),
        ..Bench::new()
    };
    let started = third.start(&settings(&["ollama"], "")).await.unwrap();
    assert!(started.rows[0].nodes.is_empty(), "removed for good");
}

#[tokio::test(start_paused = true)]
async fn one_that_does_not_answer_is_kept_and_says_why() {
    let mut bench = Bench::new();
    let _started = bench.start(&settings(&["ollama"], "")).await.unwrap();
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    let port = engine.stop().await;
    let added = bench.add(at(port, named("rig"))).await.unwrap();
    assert_eq!(added.state, NodeState::Unreachable);
    assert_eq!(added.reason.as_deref(), Some("connection refused"));
    assert!(!added.saved, "there is no state folder");
    bench.so_far();
    let _back = Engine::start_at(port, &[("/api/tags", TAGS)]).await;
    assert!(
        bench.next().await.ends_with(" healthy"),
        "it is asked again"
    );
    assert!(bench.next().await.ends_with(" up"));
}

#[tokio::test(start_paused = true)]
async fn the_same_url_again_replaces_and_another_name_moves_it() {
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::new();
    bench.state = Some(dir.path().to_owned());
    let _started = bench.start(&settings(&["ollama"], "")).await.unwrap();
    bench.add(at(engine.port, named("rig"))).await.unwrap();
    let more = Details {
        slots: Some(4),
        models: Some(vec!["x".into()]),
        ..Details::default()
    };
    let again = bench.add(at(engine.port, more)).await.unwrap();
    assert_eq!((again.id.as_str(), again.replaced), ("rig", true));
    assert_eq!(again.models, ["x"]);
    bench.so_far();
    let moved = bench.add(at(engine.port, named("den"))).await.unwrap();
    assert_eq!((moved.id.as_str(), moved.replaced), ("den", true));
    let told = bench.so_far();
    assert!(told.contains(&"remove ollama rig".to_owned()), "{told:?}");
    assert_eq!(Added::open(Some(dir.path())).0.nodes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_named_stays_and_so_does_a_taken_name() {
    let (a, b) = (
        Engine::start(&[("/api/tags", TAGS)]).await,
        Engine::start(&[("/api/tags", TAGS)]).await,
    );
    let toml = node("ollama", a.port, "name = \"rig\"");
    let bench = Bench::new();
    let _started = bench.start(&settings(&["ollama"], &toml)).await.unwrap();
    for (node, want) in [
        (
            at(a.port, named("den")),
            "named rig by a flag or the configuration",
        ),
        (at(b.port, named("rig")), "is called rig already"),
        // The fake daemon's Ollama facade.
        (
            at(id("ollama").spec().standalone_port, named("x")),
            "facade of this daemon",
        ),
    ] {
        let told = bench.add(node).await.unwrap_err().message;
        assert!(told.contains(want), "{told}");
    }
    let told = bench.remove("rig").await.unwrap_err().message;
    assert!(told.contains("take it out there"), "{told}");
    assert_eq!(bench.remove("nobody").await, Ok(false));
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_was_found_can_be_named_and_is_found_again_without() {
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    let mut bench = Bench::new();
    bench.look("ollama", engine.port);
    let _started = bench.start(&settings(&["ollama"], "")).await.unwrap();
    let told = bench.remove("this-pc").await.unwrap_err().message;
    assert!(told.contains("found by looking"), "{told}");
    let added = bench.add(at(engine.port, named("rig"))).await.unwrap();
    assert_eq!((added.id.as_str(), added.replaced), ("rig", true));
    sleep(Duration::from_secs(11)).await;
    // However the place is written: it is one engine.
    let elsewhere = NewNode::at(
        id("ollama"),
        &format!("http://localhost:{}", engine.port),
        named("den"),
    );
    assert_eq!(bench.remove("rig").await, Ok(true));
    bench.so_far();
    while !bench.next().await.contains("node ollama this-pc") {}
    let added = bench.add(elsewhere.unwrap()).await.unwrap();
    assert_eq!((added.id.as_str(), added.replaced), ("den", true));
    assert_eq!(bench.remove("den").await, Ok(true));
    bench.so_far();
    while !bench.next().await.contains("node ollama this-pc") {}
    bench.add(at(engine.port, named("rig"))).await.unwrap();
    sleep(Duration::from_secs(11)).await;
    let told = bench.so_far();
    let last = told.iter().rposition(|l| l.contains("this-pc"));
    assert_eq!(told[last.unwrap()], "remove ollama this-pc", "{told:?}");
    assert_eq!(bench.remove("rig").await, Ok(true));
    bench.so_far();
    while !bench.next().await.contains("node ollama this-pc") {}
}

#[tokio::test(start_paused = true)]
async fn a_record_is_probed_at_each_of_its_addresses_and_lasts_as_long_as_the_process() {
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::new();
    bench.state = Some(dir.path().to_owned());
    let _started = bench.start(&settings(&["ollama"], "")).await.unwrap();
    bench.so_far();
    // Nobody listens at the first one.
    let node = record("uuid", engine.port, &["127.0.0.9", "127.0.0.1"]);
    let added = bench.add(node).await.unwrap();
    assert_eq!((added.state, added.saved), (NodeState::Unreachable, false));
    let told = loop {
        let line = bench.next().await;
        if line.ends_with(" up") {
            break line;
        }
    };
    assert!(told.contains("uuid 127.0.0.9,127.0.0.1:"), "{told}");
    assert!(Added::open(Some(dir.path())).0.nodes().is_empty());
    assert_eq!(bench.remove("uuid").await, Ok(true));
}

#[tokio::test(start_paused = true)]
async fn places_of_nodes_that_left_are_used_again_and_late_answers_count_for_nothing() {
    let slow = Engine::start(&[("/api/tags", TAGS)]).await;
    let bench = Bench::new();
    let _started = bench.start(&settings(&["ollama"], "")).await.unwrap();
    bench.add(at(slow.port, named("a"))).await.unwrap();
    slow.hang();
    sleep(Duration::from_secs(6)).await;
    assert_eq!(bench.remove("a").await, Ok(true));
    let quick = Engine::start(&[("/api/tags", TAGS)]).await;
    for round in 0..5 {
        let name = format!("n{round}");
        let added = bench.add(at(quick.port, named(&name))).await.unwrap();
        assert_eq!(added.state, NodeState::Healthy);
        assert_eq!(bench.remove(&name).await, Ok(true));
    }
}
