//! Callers from other machines: networks, keys that stand, and where a key never goes.
//!
//! A caller beyond loopback is this machine itself, by its own address of the network. Where there is
//! no network there is no such caller, and those tests have nothing to look at.

use std::fs;
use std::net::{IpAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::pool::{Worker, routed, until};
use crate::support::client::{Client, Response, get, http, post};
use crate::support::daemon::{Standalone, World};
use crate::support::engine::{Engine, Gate, Reply};
use crate::support::{ask_until, free_port, own_address};
use crate::{chat, ollama, says, serve};

mod grants;
mod tls;

/// Makes a key and gives it.
#[track_caller]
fn key(world: &World, name: &str, more: &[&str]) -> String {
    let made = world.json(&[&["keys", "create", name], more].concat());
    made["key"].as_str().unwrap().to_owned()
}

fn open_to(address: IpAddr) -> String {
    format!("allowed_cidrs = [\"{address}\"]")
}

/// A connection by this machine's own address.
fn far(address: IpAddr, port: u16) -> Client {
    Client::of(TcpStream::connect((address, port)).unwrap(), port)
}

fn bearer(key: &str) -> String {
    format!("Bearer {key}")
}

/// A chat on this connection with this key, which has to have an answer.
#[track_caller]
fn chat_on(client: &mut Client, path: &str, model: &str, key: Option<&str>) -> Response {
    let bearer = key.map(bearer);
    let mut headers = vec![("Content-Type", "application/json")];
    headers.extend(bearer.as_deref().map(|b| ("Authorization", b)));
    let body = chat(model).to_string();
    client.send("POST", path, &headers, body.as_bytes());
    client.answer()
}

/// A chat from this machine with this key.
#[track_caller]
fn chat_with(port: u16, model: &str, key: &str) -> Response {
    chat_on(&mut Client::connect(port), "/api/chat", model, Some(key))
}

#[test]
fn another_machine_needs_a_listed_network_and_a_key_that_stands() {
    let Some(own) = own_address() else { return };
    let (world, a) = (World::new(), ollama(&["m"], says("a")));
    let daemon = serve(&world, &open_to(own), &[("a", &a)]);
    let port = daemon.port;
    daemon
        .process
        .log
        .expect("nobody is let in before there is a key");
    // Nobody listens there, while this machine is served.
    assert!(TcpStream::connect((own, port)).is_err());
    assert_eq!(post(port, "/api/chat", &chat("m")).text(), "a");

    let made = key(&world, "phone", &["--allow", "ollama"]);
    let mut client = far(own, port);
    for (path, shape) in [("/v1/chat/completions", "openai"), ("/api/chat", "flat")] {
        for wrong in [None, Some("ktms_0123456789abcdef"), Some("sk-1")] {
            let refused = chat_on(&mut client, path, "m", wrong);
            assert_eq!(refused.status, 401, "{refused:?}");
            let scheme = refused.header("www-authenticate").unwrap();
            assert!(scheme.starts_with("Bearer"), "{scheme}");
            let body = refused.json();
            match shape {
                "openai" => {
                    assert_eq!(body["error"]["type"], "authentication_error");
                    assert_eq!(body["error"]["code"], 401);
                },
                _ => assert!(body["error"].is_string(), "{body}"),
            }
        }
    }
    let before = a.requests().len();
    assert_eq!(
        chat_on(&mut client, "/api/chat", "m", Some(&made)).text(),
        "a"
    );
    let seen = a.requests().split_off(before);
    let seen = seen.iter().find(|r| r.target == "/api/chat").unwrap();
    assert_eq!(seen.header("authorization"), None);
    assert_eq!(seen.header("x-forwarded-for"), Some(&*own.to_string()));

    let status = world.json(&["status"]);
    assert_eq!(status["door"]["client_keys"], 1);
    assert!(
        world
            .run(&["status"])
            .out
            .contains(&format!("Open to: {own}"))
    );
    let list = world.json(&["keys", "list"]);
    assert_eq!(list["keys"][0]["name"], "phone");
    assert!(list["keys"][0]["last_used_at"].is_u64(), "{list}");
    assert!(!list.to_string().contains(&made[5..]));

    // From the very next request on, also on a connection that stands.
    assert_eq!(world.run(&["keys", "revoke", "phone"]).code, 0);
    assert_eq!(
        chat_on(&mut client, "/api/chat", "m", Some(&made)).status,
        401
    );
    ask_until("the listener is closed", || {
        TcpStream::connect((own, port)).err()
    });
    assert_eq!(world.run(&["keys", "revoke", "phone"]).code, 4);
    assert_eq!(post(port, "/api/chat", &chat("m")).text(), "a");
}

#[test]
fn networks_are_followed_while_requests_are_served() {
    let Some(own) = own_address() else { return };
    let gate = Gate::new();
    let slow = Reply::lines().chunk("1").gate(&gate).chunk("2").end();
    let (world, a) = (World::new(), ollama(&["m"], slow));
    let daemon = serve(&world, "", &[("a", &a)]);
    let (port, path) = (daemon.port, world.path().join("nvpair.toml"));
    let made = key(&world, "k", &["--allow", "all"]);
    let text = fs::read_to_string(&path).unwrap();
    let reload = |more: &str| {
        fs::write(&path, format!("{more}\n{text}")).unwrap();
        let told = world.json(&["config", "reload"]);
        assert_eq!(told["applied"], true, "{told}");
        told
    };
    // A key without networks opens nothing.
    assert!(TcpStream::connect((own, port)).is_err());
    let told = reload(&open_to(own));
    assert_eq!(told["changed"], json!(["allowed_cidrs"]), "{told}");
    let mut streaming = far(own, port);
    let bearer = bearer(&made);
    let body = chat("m").to_string();
    let headers = [("Authorization", bearer.as_str())];
    streaming.send("POST", "/api/chat", &headers, body.as_bytes());
    let mut head = streaming.head();
    assert!(streaming.read_until(&mut head, "1"));
    let mut idle = far(own, port);
    assert_eq!(
        chat_on(&mut idle, "/api/chat", "none", Some(&made)).status,
        502
    );

    reload("allowed_cidrs = [\"198.51.100.0/24\"]");
    let refused = chat_on(&mut idle, "/api/chat", "m", Some(&made));
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (403, &json!("address-not-allowed"))
    );
    reload("");
    let refused = chat_on(&mut idle, "/api/chat", "m", Some(&made));
    let text = "{\"code\":\"loopback-only\",\"error\":\"plaintext requests are accepted only from \
                loopback; cluster peers must use the mTLS ingress\"}";
    assert_eq!((refused.status, refused.text().as_str()), (403, text));
    assert!(TcpStream::connect((own, port)).is_err());
    // What was under way ends as it would have.
    gate.open();
    assert_eq!(streaming.finish(head).text(), "12");
}

#[test]
fn opening_and_closing_costs_this_machine_s_clients_no_request() {
    let (world, a) = (World::new(), ollama(&["m"], says("a")));
    let daemon = serve(
        &world,
        "allowed_cidrs = [\"0.0.0.0/0\", \"::/0\"]",
        &[("a", &a)],
    );
    let port = daemon.port;
    let (stop, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(post(port, "/api/chat", &chat("m")).text(), "a");
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..10 {
            let before = asked.load(Ordering::Relaxed);
            key(&world, "k", &["--allow", "all"]);
            assert_eq!(world.run(&["keys", "revoke", "k"]).code, 0);
            ask_until("requests are served", || {
                (asked.load(Ordering::Relaxed) > before).then_some(())
            });
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(world.json(&["status"])["workloads"]["failed"], 0);
}

#[test]
fn a_page_elsewhere_does_not_get_in_by_a_name_of_its_own() {
    let Some(own) = own_address() else { return };
    let (world, a) = (World::new(), ollama(&["m"], says("a")));
    let config = format!("{}\nallowed_hosts = [\"models.example\"]", open_to(own));
    let daemon = serve(&world, &config, &[("a", &a)]);
    let made = key(&world, "k", &["--allow", "all"]);
    let machine = rustix::system::uname()
        .nodename()
        .to_str()
        .unwrap()
        .to_owned();
    let authority = match own {
        IpAddr::V4(ip) => format!("{ip}:{}", daemon.port),
        IpAddr::V6(ip) => format!("[{ip}]:{}", daemon.port),
    };
    let local = format!("{machine}.local");
    for (host, status) in [
        (authority.as_str(), 200),
        (&machine, 200),
        (&local, 200),
        ("models.example", 200),
        ("evil.example", 403),
        ("203.0.113.9", 403),
    ] {
        let bearer = bearer(&made);
        let headers = [("Host", host), ("Authorization", &bearer)];
        let mut client = far(own, daemon.port);
        client.send("GET", "/api/tags", &headers, b"");
        assert_eq!(client.answer().status, status, "{host}");
    }
}

#[test]
fn what_a_key_used_outlives_a_restart() {
    let usage = "{\"done\":true,\"prompt_eval_count\":30,\"eval_count\":12}\n";
    let (world, a) = (World::new(), ollama(&["m"], says(usage)));
    let mut daemon = serve(&world, "", &[("a", &a)]);
    let made = key(&world, "k", &["--allow", "all", "--tokens-per-day", "1000"]);
    assert_eq!(chat_with(daemon.port, "m", &made).status, 200);
    daemon.process.terminate();
    assert_eq!(daemon.process.exit_code(), 0);
    let daemon = serve(&world, "", &[("a", &a)]);
    let list = world.json(&["keys", "list"]);
    assert!(list["keys"][0]["last_used_at"].is_u64(), "{list}");
    assert_eq!(chat_with(daemon.port, "m", &made).status, 200);
    for (path, content) in world.files() {
        let text = String::from_utf8_lossy(&content);
        assert!(!text.contains(&made[5..]), "in {}", path.display());
    }
}

/// Whether this request carries the key anywhere.
fn carries(request: &crate::support::engine::Request, key: &str) -> bool {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(&key[5..]);
    text(&request.head) || text(&request.body)
}

#[test]
fn a_key_reaches_no_kind_of_target_and_no_log() {
    let world = World::new();
    let registry = free_port();
    let plain = ollama(&["plain", "both"], says("plain"));
    let keyed = ollama(&["keyed", "both"], says("keyed"));
    let pooled = ollama(&["m"], says("pooled"));
    let usage = world.path().join("usage.jsonl");
    let config = format!(
        "[[nodes]]\nengine = \"ollama\"\nname = \"plain\"\nurl = \"http://127.0.0.1:{}\"\n\
         [[nodes]]\nengine = \"ollama\"\nname = \"keyed\"\nurl = \"http://127.0.0.1:{}\"\napi_key = \"of-the-node\"\n\
         [pool]\nlisten = \"127.0.0.1:{registry}\"\nheartbeat_ttl = \"1h\"\nusage_file = {usage:?}\n",
        plain.port(),
        keyed.port()
    );
    let file = world.file("nvpair.toml", &config);
    let args = ["--config", file.to_str().unwrap(), "--log-level", "debug"];
    let daemon = Standalone::start(&world, &args);
    let port = daemon.port;
    let _worker = Worker::join(&world, registry, "w", &pooled, json!({}));
    until("the pool node", || routed(&world, "w"));
    let made = key(&world, "canary", &["--allow", "all"]);
    let shown = bearer(&made);
    let places = [
        ("Authorization", shown.as_str()),
        ("X-Api-Key", made.as_str()),
    ];

    for place in places {
        for (model, want) in [("plain", "plain"), ("keyed", "keyed"), ("m", "pooled")] {
            // Plain enough for the lane that carries bytes, and with a chunked body.
            let body = chat(model).to_string();
            let mut client = Client::connect(port);
            client.send("POST", "/api/chat", &[place], body.as_bytes());
            assert_eq!(client.answer().text(), want);
            client.start(
                "POST",
                "/api/chat",
                &[place, ("Transfer-Encoding", "chunked")],
            );
            client.write(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()));
            assert_eq!(client.answer().text(), want);
        }
        // All nodes at once, and a route that no table knows.
        assert_eq!(http(port, "GET", "/api/tags", &[place], b"").status, 200);
        let ask = [
            place,
            ("Origin", "http://app.test"),
            ("Access-Control-Request-Method", "POST"),
        ];
        http(port, "OPTIONS", "/api/chat", &ask, b"");
        http(port, "POST", "/api/pull", &[place], b"{}");
        // A switch of protocols.
        let upgrade = [place, ("Connection", "Upgrade"), ("Upgrade", "websocket")];
        http(port, "GET", "/ws", &upgrade, b"");
    }
    for (engine, least) in [(&plain, 6), (&keyed, 6), (&pooled, 5)] {
        let seen = engine.requests();
        let asked = seen
            .iter()
            .filter(|r| r.header("x-forwarded-for").is_some());
        assert!(asked.count() >= least);
        let with = seen.iter().find(|r| carries(r, &made));
        assert!(with.is_none(), "{with:?}");
    }
    let own = keyed.requests_for("/api/chat");
    assert!(
        own.iter()
            .all(|r| r.headers_of("authorization") == ["Bearer of-the-node"])
    );
    // A value that is nobody's key is the client's own business.
    let theirs = [("Authorization", "Bearer sk-theirs")];
    http(
        port,
        "POST",
        "/api/chat",
        &theirs,
        chat("plain").to_string().as_bytes(),
    );
    let last = plain.requests_for("/api/chat").pop().unwrap();
    assert_eq!(last.header("authorization"), Some("Bearer sk-theirs"));

    let mut daemon = daemon;
    daemon.process.terminate();
    assert_eq!(daemon.process.exit_code(), 0);
    let log = daemon.process.log.text();
    assert!(log.contains("dispatched"), "the log is really at debug");
    assert!(!log.contains(&made[5..]));
    for (path, content) in world.files() {
        let text = String::from_utf8_lossy(&content);
        assert!(!text.contains(&made[5..]), "in {}", path.display());
    }
    let events = fs::read_to_string(usage).unwrap();
    let first: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
    assert_eq!(first["key"], "canary", "usage is the client's");
}

#[cfg(unix)]
#[test]
fn a_file_of_keys_that_others_may_open_is_not_used_until_it_is_closed_to_them() {
    use std::os::unix::fs::PermissionsExt;
    let (world, a) = (World::new(), ollama(&["m"], says("a")));
    let mut daemon = serve(&world, "", &[("a", &a)]);
    let made = key(&world, "k", &["--allow", "a/none"]);
    assert_eq!(chat_with(daemon.port, "m", &made).status, 403);
    daemon.process.terminate();
    assert_eq!(daemon.process.exit_code(), 0);
    let files = world.files();
    let (path, _) = files
        .iter()
        .find(|(p, _)| p.ends_with("client-keys.json"))
        .unwrap();
    let mode = |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    assert_eq!(
        fs::metadata(path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    mode(0o640);
    let daemon = serve(&world, "", &[("a", &a)]);
    daemon.process.log.expect("chmod 600");
    let said = world.run(&["keys", "list"]);
    assert!(said.code == 4 && said.err.contains("chmod 600"), "{said:?}");
    assert_eq!(
        chat_with(daemon.port, "m", &made).status,
        200,
        "nobody's key here"
    );
    mode(0o600);
    assert_eq!(world.run(&["keys", "list"]).code, 0);
    assert_eq!(chat_with(daemon.port, "m", &made).status, 403);
}

#[test]
fn without_a_control_socket_nobody_is_let_in_and_it_is_said() {
    let (world, a) = (World::new(), ollama(&["m"], says("a")));
    let mut daemon = serve(&world, "", &[("a", &a)]);
    key(&world, "k", &["--allow", "all"]);
    daemon.process.terminate();
    assert_eq!(daemon.process.exit_code(), 0);
    let path = world.file("open.toml", "allowed_cidrs = [\"0.0.0.0/0\"]\n");
    let args = ["--config", path.to_str().unwrap(), "--no-control-socket"];
    let daemon = Standalone::start(&world, &args);
    daemon
        .process
        .log
        .expect("client keys need the control socket");
    assert!(own_address().is_none_or(|own| TcpStream::connect((own, daemon.port)).is_err()));
    assert_eq!(get(daemon.port, "/api/tags").status, 503);
}

#[test]
fn a_key_without_grants_or_with_odd_ones_is_not_made() {
    let (world, a) = (World::new(), ollama(&["m"], says("a")));
    let _daemon = serve(&world, "", &[("a", &a)]);
    for (args, code, text) in [
        (&["k"][..], 2, "--allow"),
        (&["k", "--allow", "*"], 4, "write `all`"),
        (&["k", "--allow", "ollama/"], 4, "names no model"),
        (&["a b", "--allow", "all"], 4, "is not a name"),
        (
            &["k", "--allow", "all", "--requests-per-minute", "0"],
            2,
            "0",
        ),
        (&["k", "--allow", "all", "--tokens-per-day", "-1"], 2, "-1"),
    ] {
        let said = world.run(&[&["keys", "create"], args].concat());
        assert!(
            said.code == code && said.err.contains(text),
            "{args:?} {said:?}"
        );
    }
    key(&world, "k", &["--allow", "all"]);
    let said = world.run(&["keys", "create", "k", "--allow", "all"]);
    assert!(said.code == 4 && said.err.contains("already"), "{said:?}");
    let said = world.run(&["keys", "create", "q", "--allow", "all", "--quiet"]);
    assert!(
        said.out.starts_with("ktms_") && said.out.trim().len() == 69,
        "{said:?}"
    );
    assert!(world.run(&["keys"]).out.contains("MAY USE"));
}

#[test]
fn a_browser_may_ask_for_permission_without_a_key_and_nothing_else() {
    let Some(own) = own_address() else { return };
    let a = Engine::start(
        |request| match (request.method.as_str(), request.target.as_str()) {
            ("OPTIONS", _) => Reply::with(204, &[("Access-Control-Allow-Origin", "*")], ""),
            ("GET", "/api/tags") => {
                Reply::json(200, &json!({"models": [{"name": "m", "model": "m"}]}))
            },
            ("GET", "/api/ps") => Reply::json(200, &json!({"models": []})),
            _ => says("a"),
        },
    );
    let world = World::new();
    let daemon = serve(&world, &open_to(own), &[("a", &a)]);
    key(&world, "k", &["--allow", "all"]);
    let mut client = far(own, daemon.port);
    let ask = [
        ("Origin", "http://app.test"),
        ("Access-Control-Request-Method", "POST"),
    ];
    client.send("OPTIONS", "/api/chat", &ask, b"");
    let answer = client.answer();
    assert_eq!(
        (answer.status, answer.header("access-control-allow-origin")),
        (204, Some("*"))
    );
    client.send("OPTIONS", "/api/chat", &ask[..1], b"");
    assert_eq!(client.answer().status, 401);
}
