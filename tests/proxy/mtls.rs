//! Nodes of one cluster: requests between them, and who is kept out (spec §7).

use serde_json::json;

use crate::support::broker::Broker;
use crate::support::certs::{ClusterFolder, Identity, over_tls};
use crate::support::client::{Client, Response, get, http, post};
use crate::support::engine::{Engine, Gate, Reply, Step, chunk};

/// A daemon with an Ollama facade and a cluster folder.
struct Node {
    broker: Broker,
    port: u16,
    folder: ClusterFolder,
}

impl Node {
    fn with(folder: ClusterFolder) -> Self {
        let broker = Broker::with(&["--cluster-dir", folder.path().to_str().unwrap()]);
        let port = broker.enable("ollama");
        Self {
            broker,
            port,
            folder,
        }
    }

    fn of(me: &Identity, peers: &[&Identity]) -> Self {
        Self::with(ClusterFolder::of(me, peers))
    }

    fn backend(&self, port: u16, healthy: bool) {
        let params = json!({"engine": "ollama", "port": port, "healthy": healthy});
        self.broker
            .request("ollama:node/set-local-backend", &params);
    }

    /// The parent relays that this peer, with model `m`, has its facade on this port.
    fn relay(&self, peer: &Identity, port: u16) {
        let node = json!({
            "hostUuid": peer.uuid, "name": "den", "ip": "127.0.0.1", "clusterUuid": peer.uuid,
            "services": {"ol": {"port": port}}, "models": ["m"],
        });
        self.broker
            .notify("ollama:discovery:nodes", &json!({"nodes": [node]}));
        // What is asked later is answered later.
        drop(self.broker.call("test/barrier", &json!({})));
    }

    fn chat(&self) -> Response {
        post(self.port, "/api/chat", &chat())
    }

    #[track_caller]
    fn visit(&self, who: &Identity) -> Client {
        over_tls(self.port, who).expect("a handshake").0
    }
}

fn chat() -> serde_json::Value {
    json!({"model": "m", "messages": []})
}

/// Two daemons that know each other: A with B in its discovery, B with an engine.
fn pair(engine: &Engine) -> (Node, Node, [Identity; 2]) {
    let ids = [Identity::new("node-a"), Identity::new("node-b")];
    let a = Node::of(&ids[0], &[&ids[1]]);
    let b = Node::of(&ids[1], &[&ids[0]]);
    b.backend(engine.port(), true);
    a.relay(&ids[1], b.port);
    (a, b, ids)
}

#[track_caller]
fn is_refused(answer: &Response, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.json()["code"], code);
}

#[test]
fn a_request_that_enters_one_node_is_served_by_the_others_engine() {
    let engine = Engine::serving("from b");
    let (a, b, _) = pair(&engine);
    for _ in 0..3 {
        assert_eq!(a.chat().text(), "from b");
    }
    let seen = &engine.requests()[2];
    assert_eq!(seen.target, "/api/chat");
    assert_eq!(seen.body, chat().to_string().as_bytes());
    assert_eq!(
        seen.header("host"),
        Some(&*format!("127.0.0.1:{}", engine.port()))
    );
    // Both hops.
    assert_eq!(seen.header("x-forwarded-for"), Some("127.0.0.1, 127.0.0.1"));
    // The origin reports the job, the peer does not.
    let story = a.broker.story("1");
    assert_eq!(story.last().unwrap(), "completed completed node-b");
    assert!(b.broker.workloads().is_empty());
    let heard = b.broker.raw_frames();
    assert!(!heard.contains("proxy/request"), "{heard}");
}

#[test]
fn a_client_s_key_stays_where_it_was_shown() {
    let list = json!({"models": [{"name": "m", "model": "m"}]});
    let engine = Engine::start(move |request| match request.target.as_str() {
        "/api/tags" => Reply::json(200, &list),
        _ => Reply::lines().chunk("from b").end(),
    });
    let (a, _b, _) = pair(&engine);
    let made = a
        .broker
        .world
        .json(&["keys", "create", "k", "--allow", "ollama"]);
    let key = made["key"].as_str().unwrap();
    let shown = format!("Bearer {key}");
    for place in [("Authorization", shown.as_str()), ("X-Api-Key", key)] {
        let body = chat().to_string();
        let answer = http(a.port, "POST", "/api/chat", &[place], body.as_bytes());
        assert_eq!(answer.text(), "from b");
        assert_eq!(http(a.port, "GET", "/api/tags", &[place], b"").status, 200);
    }
    let seen = engine.requests();
    assert_eq!(seen.len(), 4);
    for request in seen {
        let head = String::from_utf8_lossy(&request.head).into_owned();
        assert!(!head.contains(&key[5..]), "{head}");
    }
}

#[test]
fn lists_come_from_peers_too() {
    let tags = json!({"models": [{"name": "m", "model": "m"}]});
    let engine = Engine::always(Reply::json(200, &tags));
    let (a, _b, _) = pair(&engine);
    assert_eq!(get(a.port, "/api/tags").json()["models"][0]["name"], "m");
}

#[test]
fn a_peer_may_use_any_path_and_sees_the_answer_as_it_comes() {
    let gate = Gate::new();
    let first = Reply::lines().chunk("one\n");
    let engine = Engine::always(first.gate(&gate).chunk("two\n").end());
    let (_a, b, [id, _]) = pair(&engine);
    let mut peer = b.visit(&id);
    let headers = [
        ("Host", "elsewhere.example"),
        ("X-NVPAIR-Engine-Identity-Probe", "1"),
        ("Connection", "X-Hop"),
        ("X-Hop", "1"),
        ("Authorization", "Bearer x"),
        ("Transfer-Encoding", "chunked"),
    ];
    peer.start("PUT", "/any/path?x=1", &headers);
    peer.write([chunk("a"), chunk("b"), chunk("")].concat());
    let mut answer = peer.head();
    assert!(peer.read_until(&mut answer, "one\n"));
    gate.open();
    assert_eq!(peer.finish(answer).text(), "one\ntwo\n");
    let seen = engine.only();
    assert_eq!((&*seen.method, &*seen.target), ("PUT", "/any/path?x=1"));
    assert_eq!((&*seen.body, seen.chunked), (&b"ab"[..], true));
    assert_eq!(seen.header("x-hop"), None);
    assert_eq!(seen.header("authorization"), Some("Bearer x"));
    // The same connections serve again, on both sides.
    engine.now(|_| Reply::with(418, &[("X-Engine", "1")], "tea"));
    peer.send("HEAD", "/", &[], b"");
    let answer = peer.answer();
    assert_eq!((answer.status, answer.header("x-engine")), (418, Some("1")));
    assert_eq!(engine.requests()[1].connection, 0);
}

#[test]
fn an_upgrade_passes_both_nodes() {
    let raw = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    let engine = Engine::always(Reply::raw(raw).then(Step::Echo));
    let (a, _b, _) = pair(&engine);
    let mut client = Client::connect(a.port);
    let headers = [("Connection", "Upgrade"), ("Upgrade", "echo")];
    client.start("GET", "/socket", &headers);
    assert_eq!(client.head().status, 101);
    for text in ["hello", "again"] {
        client.write(text);
        assert_eq!(client.bytes(text.len()), text.as_bytes());
    }
}

#[test]
fn the_clients_leave_reaches_the_peers_engine() {
    let engine = Engine::always(Reply::lines().chunk("one\n").then(Step::Hang));
    let (a, _b, _) = pair(&engine);
    let mut client = Client::connect(a.port);
    client.post("/api/chat", &chat());
    let mut answer = client.head();
    assert!(client.read_until(&mut answer, "one\n"));
    drop(client);
    engine.was_left(1);
}

#[test]
fn a_stranger_gets_a_handshake_and_a_403() {
    let engine = Engine::serving("b");
    let (_a, b, [_, id_b]) = pair(&engine);
    // Another node, and another key in a known node's name.
    for stranger in [Identity::new("node-x"), Identity::new("node-a")] {
        let (mut client, leaf) = over_tls(b.port, &stranger).expect("a handshake");
        assert_eq!(leaf, id_b.der);
        client.post("/api/chat", &chat());
        is_refused(&client.answer(), 403, "cluster-auth");
        assert!(client.rest().unwrap().is_empty(), "and is closed");
    }
    assert_eq!(engine.hits(), 0);
}

#[test]
fn a_removed_peer_is_out_at_its_next_request_on_both_sides() {
    let engine = Engine::serving("b");
    let (a, b, [id_a, id_b]) = pair(&engine);
    let mut peer = b.visit(&id_a);
    peer.post("/api/chat", &chat());
    assert_eq!(peer.answer().text(), "b");
    b.folder.unpin(&id_a);
    peer.post("/api/chat", &chat());
    is_refused(&peer.answer(), 403, "cluster-auth");
    assert_eq!(a.chat().status, 403, "a peer's 403 is final");
    b.folder.pin(&id_a);
    assert_eq!(a.chat().text(), "b");
    a.folder.unpin(&id_b);
    assert_eq!(a.chat().status, 502, "no candidate any more");
    assert_eq!(engine.hits(), 2);
}

#[test]
fn without_a_usable_engine_a_peer_is_told_so() {
    let engine = Engine::serving("b");
    let (a, b) = (Identity::new("node-a"), Identity::new("node-b"));
    let node = Node::of(&b, &[&a]);
    let mut peer = node.visit(&a);
    let mut ask = || {
        peer.post("/api/chat", &chat());
        peer.answer()
    };
    is_refused(&ask(), 503, "no-local-backend");
    node.backend(engine.port(), false);
    is_refused(&ask(), 503, "no-local-backend");
    node.backend(node.port, true);
    is_refused(&ask(), 503, "no-local-backend");
    node.backend(engine.port(), true);
    assert_eq!(ask().text(), "b");
    engine.die();
    is_refused(&ask(), 502, "backend-error");
}

#[test]
fn a_refused_body_does_not_cost_the_connection() {
    let engine = Engine::serving("b");
    let (a, b) = (Identity::new("node-a"), Identity::new("node-b"));
    let node = Node::of(&b, &[&a]);
    let mut peer = node.visit(&a);
    peer.start("POST", "/api/chat", &[("Content-Length", "5")]);
    is_refused(&peer.answer(), 503, "no-local-backend");
    node.backend(engine.port(), true);
    peer.write("hello");
    peer.post("/api/chat", &chat());
    assert_eq!(peer.answer().text(), "b");
}

#[test]
fn a_peer_without_engine_is_passed_over() {
    let (engine, own) = (Engine::serving("b"), Engine::serving("a"));
    let (a, b, _) = pair(&engine);
    a.broker.node("ollama", "own", own.port(), &["m"]);
    a.broker.priority(&["node-b", "own"]);
    assert_eq!(a.chat().text(), "b");
    b.backend(engine.port(), false);
    assert_eq!(a.chat().text(), "a");
}

#[test]
fn joining_and_leaving_need_no_restart() {
    let (me, peer) = (Identity::new("node-a"), Identity::new("node-b"));
    let node = Node::with(ClusterFolder::empty());
    assert!(over_tls(node.port, &peer).is_none());
    node.folder.write("node.key", &me.key);
    node.folder.write("node.crt", &me.certificate);
    assert!(
        over_tls(node.port, &peer).is_none(),
        "a key pair is no membership"
    );
    node.folder.admit("c1", 1);
    let (_, leaf) = over_tls(node.port, &peer).expect("a handshake");
    assert_eq!(leaf, me.der);
    node.broker.process.log.expect("member of the cluster");
    node.folder.admit("", 0);
    assert!(over_tls(node.port, &peer).is_none());
    node.broker
        .process
        .log
        .expect("no member of the cluster any more");
}
