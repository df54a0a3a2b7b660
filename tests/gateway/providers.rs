//! What the gateway falls back to: providers over real TLS, their limits, their failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::*;
use crate::support::client::{Client, Response, http, post};
use crate::support::engine::{Gate, Step};
use crate::support::provider::{Authority, Provider, mute};
use crate::support::{ask_until, client, wait_for};

/// A provider in the configuration.
fn entry(name: &str, url: &str, tier: u32) -> String {
    format!(
        "[[providers]]\nname = \"{name}\"\nbase_url = \"{url}\"\napi_key = \"key-of-{name}\"\n\
         tier = {tier}\nmodels = {{ big = \"{name}-big\" }}\nupstream_timeout_secs = 2\n"
    )
}

fn plain(name: &str, engine: &Engine, tier: u32) -> String {
    entry(
        name,
        &format!("http://localhost:{}/openai/v1", engine.port()),
        tier,
    )
}

/// A gateway with these providers and nothing else.
#[track_caller]
fn gateway(world: &World, providers: &[String]) -> Standalone {
    serve(world, &providers.concat(), &[])
}

/// A service that says this to every chat.
fn service(reply: Reply) -> Engine {
    Engine::always(reply)
}

fn says(text: &str) -> Reply {
    Reply::json(200, &json!({ "text": text }))
}

const THEIRS: &str = "/openai/v1/chat/completions";

fn standing(world: &World, name: &str) -> Value {
    let told = world.json(&["providers"]);
    let all = told["providers"].as_array().unwrap();
    all.iter().find(|p| p["name"] == name).unwrap().clone()
}

#[test]
fn a_provider_gets_the_request_its_own_name_of_the_model_and_its_own_key_only() {
    let authority = Authority::new();
    let groq = Provider::secured(service(says("g")), authority.server(&["localhost"]));
    let world = World::new();
    let roots = world.file("roots.pem", &authority.pem());
    let url = format!("https://localhost:{}/openai/v1", groq.port());
    let path = world.file("nvpair.toml", &entry("groq", &url, 0));
    let daemon = Standalone::gateway_with(&world, &["--config", path.to_str().unwrap()], &|c| {
        c.env("SSL_CERT_FILE", &roots);
    });
    let headers = [
        ("Authorization", "Bearer canary-client"),
        ("X-Api-Key", "canary-client"),
        ("Cookie", "canary-client"),
        ("OpenAI-Organization", "canary-client"),
        ("Origin", "https://canary-client"),
        ("Content-Type", "application/json"),
        ("X-Forwarded-For", "10.1.2.3"),
    ];
    let body = br#"{ "stream":false, "model":"big", "messages":[] }"#;
    let answer = http(daemon.port, "POST", CHAT, &headers, body);
    assert_eq!((answer.status, text(&answer)), (200, json!("g")));
    let got = groq.engine.only();
    assert_eq!(got.target, THEIRS);
    assert_eq!(got.header("authorization"), Some("Bearer key-of-groq"));
    let head = String::from_utf8_lossy(&got.head).to_lowercase();
    for never in ["canary-client", "10.1.2.3", "127.0.0.1"] {
        assert!(!head.contains(never), "{head}");
    }
    let want = br#"{ "stream":false, "model":"groq-big", "messages":[] }"#;
    assert_eq!(got.body, want);
    assert_eq!(
        got.header("host"),
        Some(&*format!("localhost:{}", groq.port()))
    );
    let list = client::get(daemon.port, "/v1/models").json();
    assert_eq!(
        (&list["data"][0]["id"], &list["data"][0]["owned_by"]),
        (&json!("big"), &json!("groq"))
    );
    let shown = world.run(&["config", "show", "--config", path.to_str().unwrap()]);
    assert!(!shown.out.contains("key-of-groq"), "{}", shown.out);
}

#[test]
fn nodes_go_before_providers_and_providers_by_tier() {
    let (first, second) = (service(says("1")), service(says("2")));
    let node = engine("lmstudio", &["big"], |_| Reply::status(503));
    let world = World::new();
    let config = [plain("b", &second, 1), plain("a", &first, 0)].concat();
    let daemon = serve(&world, &config, &[("lmstudio", "n", &node)]);
    let answer = post(daemon.port, CHAT, &chat("big"));
    assert_eq!(text(&answer), "1");
    assert_eq!((node.requests_for(CHAT).len(), second.hits()), (1, 0));
    let explained = world.json(&["route", "--engine", "gateway", "--model", "big"]);
    let tried = explained["candidates"].as_array().unwrap();
    let nodes: Vec<_> = tried.iter().map(|c| c["node"].as_str().unwrap()).collect();
    assert_eq!(nodes, ["n", "a", "b"]);
    assert_eq!(tried[1]["model"], "a-big");
}

#[test]
fn a_rate_limit_is_passed_on_and_rested_out() {
    let limited = Reply::with(429, &[("Retry-After", "900")], "{}");
    let (a, b) = (service(limited), service(says("b")));
    let world = World::new();
    let daemon = gateway(&world, &[plain("a", &a, 0), plain("b", &b, 1)]);
    for _ in 0..3 {
        assert_eq!(text(&post(daemon.port, CHAT, &chat("big"))), "b");
    }
    assert_eq!((a.hits(), b.hits()), (1, 3), "it is left alone");
    let told = standing(&world, "a");
    assert_eq!(told["state"], "cooling_down", "{told}");
    let left = told["cool_down_ms"].as_u64().unwrap();
    assert!((800_000..=900_000).contains(&left), "{left}");
}

#[test]
fn when_all_rest_for_longer_than_a_request_lives_it_is_told_when_to_come_back() {
    let a = service(Reply::with(429, &[("Retry-After", "1800")], "{}"));
    let world = World::new();
    let daemon = gateway(&world, &[plain("a", &a, 0)]);
    let first = post(daemon.port, CHAT, &chat("big"));
    assert_eq!(first.status, 503, "{}", first.text());
    let after: u64 = first.header("retry-after").unwrap().parse().unwrap();
    assert!((1700..=1800).contains(&after), "{after}");
    assert_eq!(a.hits(), 1);
}

/// 200 requests at once; how many each text answered.
fn storm(port: u16) -> Vec<std::thread::JoinHandle<Response>> {
    let one = move || post(port, CHAT, &chat("big"));
    (0..200).map(|_| std::thread::spawn(one)).collect()
}

#[test]
fn after_each_cool_down_exactly_one_request_tries_the_provider() {
    let (gate, hits) = (Gate::new(), Arc::<AtomicUsize>::default());
    let limited = || Reply::with(429, &[("Retry-After", "1")], "{}");
    let (waits, counted) = (gate.clone(), hits.clone());
    let a = Engine::start(move |_| match counted.fetch_add(1, Ordering::SeqCst) {
        0 => limited(),
        1 => Reply::steps([
            Step::Gate(waits.clone()),
            Step::Send(b"HTTP/1.1 429 X\r\nRetry-After: 1\r\nContent-Length: 2\r\n\r\n{}".to_vec()),
        ]),
        _ => says("a"),
    });
    let b = service(says("b"));
    let world = World::new();
    let daemon = gateway(&world, &[plain("a", &a, 0), plain("b", &b, 1)]);
    assert_eq!(text(&post(daemon.port, CHAT, &chat("big"))), "b");
    let rested = || (standing(&world, "a")["state"] == "half_open").then_some(());
    ask_until("the end of the cool-down", rested);
    let under_way = storm(daemon.port);
    wait_for("199 answers", || b.hits() == 200);
    assert_eq!(
        hits.load(Ordering::SeqCst),
        2,
        "one probe, whatever comes meanwhile"
    );
    gate.open();
    let answers: Vec<_> = under_way.into_iter().map(|t| t.join().unwrap()).collect();
    assert!(
        answers.iter().all(|a| a.status == 200),
        "the probe's request went on to the next one"
    );
    ask_until("the end of the cool-down", rested);
    assert_eq!(
        text(&post(daemon.port, CHAT, &chat("big"))),
        "a",
        "one probe closes it"
    );
    assert_eq!(standing(&world, "a")["state"], "ready");
}

#[test]
fn a_stream_is_forwarded_as_it_comes_and_one_that_breaks_off_is_not_swapped() {
    let gate = Gate::new();
    let stream = Reply::stream("text/event-stream")
        .chunk("data: {\"choices\":[{\"delta\":{\"content\":\"1\"}}]}\n\n")
        .gate(&gate)
        .chunk("data: [DONE]\n\n")
        .end();
    let a = service(stream);
    let world = World::new();
    let daemon = gateway(&world, &[plain("a", &a, 0)]);
    let mut client = Client::connect(daemon.port);
    client.post(
        CHAT,
        &json!({"model": "big", "messages": [], "stream": true}),
    );
    let mut head = client.head();
    assert!(client.read_until(&mut head, "\"1\""));
    gate.open();
    assert!(client.finish(head).text().ends_with("data: [DONE]\n\n"));

    let cut = Reply::stream("text/event-stream")
        .chunk("data: {\"choices\":[]}\n\n")
        .then(Step::Reset);
    let (a, b) = (service(cut), service(says("b")));
    let world = World::new();
    let daemon = gateway(&world, &[plain("a", &a, 0), plain("b", &b, 1)]);
    let mut client = Client::connect(daemon.port);
    client.post(
        CHAT,
        &json!({"model": "big", "messages": [], "stream": true}),
    );
    let mut head = client.head();
    assert!(client.read_until(&mut head, "choices"));
    assert!(
        client
            .rest()
            .map_or(true, |rest| !rest.ends_with(b"0\r\n\r\n")),
        "no clean end"
    );
    assert_eq!(b.hits(), 0);
    ask_until("the failure", || {
        (standing(&world, "a")["failures_in_a_row"] == 1).then_some(())
    });
}

#[test]
fn what_refuses_us_or_points_elsewhere_is_passed_by_and_gets_no_second_try() {
    let elsewhere = service(says("elsewhere"));
    let moved = format!("http://localhost:{}/", elsewhere.port());
    let moved = service(Reply::with(307, &[("Location", &moved)], ""));
    let (no_key, b) = (
        service(Reply::json(401, &json!({"error": "no"}))),
        service(says("b")),
    );
    let world = World::new();
    let providers = [
        plain("moved", &moved, 0),
        plain("no-key", &no_key, 1),
        plain("b", &b, 2),
    ];
    let daemon = gateway(&world, &providers);
    assert_eq!(text(&post(daemon.port, CHAT, &chat("big"))), "b");
    assert_eq!(
        elsewhere.hits(),
        0,
        "no redirect is followed, with our key least of all"
    );
    assert_eq!((moved.hits(), no_key.hits()), (1, 1));

    let alone = World::new();
    let refused = gateway(&alone, &[plain("no-key", &no_key, 0)]);
    let answer = post(refused.port, CHAT, &chat("big"));
    assert_eq!(
        (answer.status, no_key.hits()),
        (401, 2),
        "at once, and as it was said"
    );
}

#[test]
fn providers_that_cannot_be_trusted_or_reached_are_passed_by() {
    let authority = Authority::new();
    let expired = Provider::secured(service(says("x")), authority.expired(&["localhost"]));
    let stranger = Provider::secured(service(says("x")), Authority::new().server(&["localhost"]));
    let good = Provider::secured(service(says("good")), authority.server(&["localhost"]));
    let world = World::new();
    let roots = world.file("roots.pem", &authority.pem());
    let https = |port| format!("https://localhost:{port}/openai/v1");
    let config = [
        entry("expired", &https(expired.port()), 0),
        entry("stranger", &https(stranger.port()), 1),
        entry("slow", &https(mute()), 2),
        entry("nobody", &https(crate::support::free_port()), 3),
        entry("good", &https(good.port()), 4),
    ];
    let path = world.file("nvpair.toml", &config.concat());
    let daemon = Standalone::gateway_with(&world, &["--config", path.to_str().unwrap()], &|c| {
        c.env("SSL_CERT_FILE", &roots);
    });
    let answer = post(daemon.port, CHAT, &chat("big"));
    assert_eq!((answer.status, text(&answer)), (200, json!("good")));
    assert_eq!(expired.engine.hits() + stranger.engine.hits(), 0);
    for name in ["expired", "stranger", "slow", "nobody"] {
        assert_eq!(standing(&world, name)["failures"], 1, "{name}");
    }
}

#[test]
fn five_failures_in_a_row_open_the_circuit_and_it_costs_no_dispatch_then() {
    let (a, b) = (service(Reply::status(500)), service(says("b")));
    let world = World::new();
    let config = format!(
        "[virtual_models]\nfirst = [\"a/big\", \"b/big\"]\n{}{}",
        plain("a", &a, 0),
        plain("b", &b, 0)
    );
    let daemon = serve(&world, &config, &[]);
    for _ in 0..8 {
        assert_eq!(text(&post(daemon.port, CHAT, &chat("first"))), "b");
    }
    assert_eq!(
        (a.hits(), standing(&world, "a")["state"].clone()),
        (5, json!("open"))
    );
    let list = world.json(&["workloads", "--limit", "1"]);
    let id = format!("gateway/{}", list["workloads"][0]["id"]);
    let told = world.json(&["workloads", &id]).to_string();
    assert!(!told.contains("\"node\":\"a\""), "{told}");
}

#[test]
fn messages_and_responses_are_not_sent_to_providers() {
    let a = service(says("a"));
    let world = World::new();
    let daemon = gateway(&world, &[plain("a", &a, 0)]);
    for path in ["/v1/messages", "/v1/responses"] {
        let answer = post(daemon.port, path, &chat("big"));
        assert_eq!(answer.status, 502, "{path}");
        let said = answer.error_text();
        let want = format!("the model \"big\" (a) has no target that is up and takes {path}");
        assert_eq!(said, want);
    }
    assert_eq!(a.hits(), 0);
}
