//! Which engines are found, when each is asked, and what is told of it.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_first_engine_found_is_this_machines_and_a_second_one_is_told_apart() {
    let (a, b) = (
        Engine::start(&[("/api/tags", TAGS)]).await,
        Engine::start(&[("/api/tags", TAGS)]).await,
    );
    let other = Engine::start(&[("/api/tags", r#"{"error":"no such thing"}"#)]).await;
    let mut bench = Bench::new();
    for port in [other.port, a.port, b.port] {
        bench.look("ollama", port);
    }
    let started = bench.start(&settings(&["ollama"], "")).await.unwrap();
    let (a, b) = (a.port, b.port);
    assert_eq!(
        bench.so_far(),
        [
            format!("local ollama 127.0.0.1:{a} healthy"),
            format!("node ollama this-pc 127.0.0.1:{a} [a,b] warm [] slots 0 ctx  local up"),
            format!("node ollama this-pc:{b} 127.0.0.1:{b} [a,b] warm [] slots 0 ctx  found up"),
            "enable ollama 0 ignore=false []".to_owned(),
        ]
    );
    let ids: Vec<_> = started.rows[0].nodes.iter().map(NodeId::as_str).collect();
    assert_eq!(ids, ["this-pc".to_owned(), format!("this-pc:{b}")]);
    assert!(started.warnings.is_empty(), "{:?}", started.warnings);
}

#[tokio::test(start_paused = true)]
async fn each_engine_is_read_in_its_own_way() {
    let ollama = Engine::start(&[
        ("/api/tags", TAGS),
        (
            "/api/ps",
            r#"{"models":[{"name":"a","context_length":8192}]}"#,
        ),
    ])
    .await;
    let lm = Engine::start(&[
        (
            "/v1/models",
            r#"{"object":"list","data":[{"id":"x"},{"id":"y"}]}"#,
        ),
        (
            "/api/v0/models",
            r#"{"data":[{"id":"y","state":"loaded","loaded_context_length":4096}]}"#,
        ),
    ])
    .await;
    let llama = Engine::start(&[
        (
            "/models",
            r#"{"models":[{"name":"n"}],"object":"list","data":[{"id":"q","meta":{"n_ctx":2048}}]}"#,
        ),
        ("/props", r#"{"total_slots":4}"#),
    ])
    .await;
    let router = Engine::start(&[
        (
            "/gpu/models",
            r#"{"data":[{"id":"l/1","status":{"value":"loaded"}},
                {"id":"u","status":{"value":"unloaded"}},{"id":"f","status":{"value":"failed"}}]}"#,
        ),
        (
            "/gpu/props?model=l%2F1&autoload=false",
            r#"{"total_slots":2}"#,
        ),
    ])
    .await;
    let toml = [
        node("ollama", ollama.port, "weight = 3"),
        node("lmstudio", lm.port, ""),
        node("llamacpp", llama.port, ""),
        node("llamacpp", router.port, "name = \"router\"").replace("\"\nname", "/gpu/v1\"\nname"),
    ]
    .join("");
    let mut bench = Bench::new();
    bench.start(&settings(&[], &toml)).await.unwrap();
    let told: Vec<_> = bench
        .so_far()
        .into_iter()
        .filter(|l| l.starts_with("node"))
        .collect();
    let (o, l, c, r) = (ollama.port, lm.port, llama.port, router.port);
    assert_eq!(
        told,
        [
            format!(
                "node ollama this-pc 127.0.0.1:{o} [a,b] warm [a] slots 0 ctx 8192 local named up"
            ),
            format!(
                "node lmstudio this-pc 127.0.0.1:{l} [x,y] warm [y] slots 0 ctx 4096 local named up"
            ),
            format!(
                "node llamacpp this-pc 127.0.0.1:{c} [q] warm [q] slots 4 ctx 2048 local named up"
            ),
            format!("node llamacpp router 127.0.0.1:{r}/gpu [l/1,u] warm [l/1] slots 2 ctx  up"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_is_gone_at_the_third_missed_probe_and_back_when_it_answers() {
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    let mut bench = Bench::new();
    let s = settings(&["ollama"], &node("ollama", engine.port, "name = \"rig\""));
    bench.start(&s).await.unwrap();
    bench.so_far();
    let stopped = Instant::now();
    let port = engine.stop().await;
    assert_eq!(
        bench.next().await,
        format!("local ollama 127.0.0.1:{port} ill")
    );
    let gone = bench.next().await;
    assert!(
        gone.contains("rig") && gone.contains("[a,b]"),
        "still listed: {gone}"
    );
    assert!(gone.ends_with("gone: connection refused"), "{gone}");
    assert_eq!(stopped.elapsed().as_secs(), 15);

    let _again = Engine::start_at(port, &[("/api/tags", r#"{"models":[{"name":"c"}]}"#)]).await;
    assert_eq!(
        bench.next().await,
        format!("local ollama 127.0.0.1:{port} healthy")
    );
    let back = bench.next().await;
    assert!(back.contains("[c]") && back.ends_with(" up"), "{back}");
    assert!(stopped.elapsed().as_secs() <= 20);
}

#[tokio::test(start_paused = true)]
async fn only_changes_are_told() {
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    let mut bench = Bench::new();
    bench
        .start(&settings(&["ollama"], &node("ollama", engine.port, "")))
        .await
        .unwrap();
    bench.so_far();
    sleep(Duration::from_secs(61)).await;
    assert_eq!(engine.asked("/api/tags"), 13, "every five seconds");
    assert_eq!(bench.so_far(), [""; 0]);
    engine.set("/api/tags", 200, r#"{"models":[{"name":"new"}]}"#);
    assert!(bench.next().await.contains("[new]"));
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_hangs_delays_start_up_by_a_second_and_nobody_elses_news() {
    let (hung, good) = (
        Engine::start(&[]).await,
        Engine::start(&[("/api/tags", TAGS)]).await,
    );
    hung.hang();
    let toml = [
        node("ollama", hung.port, "name = \"hung\""),
        node("ollama", good.port, ""),
    ];
    let mut bench = Bench::new();
    let began = Instant::now();
    bench
        .start(&settings(&["ollama"], &toml.concat()))
        .await
        .unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(1));
    bench.so_far();
    good.set("/api/tags", 200, r#"{"models":[{"name":"new"}]}"#);
    assert!(
        bench.next().await.contains("hung"),
        "its own miss, at its limit of 5 s"
    );
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    assert!(bench.next().await.contains("[new]"));
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    sleep(Duration::from_secs(61)).await;
    assert_eq!(
        hung.script.lock().unwrap().most_open,
        1,
        "never two probes of one node"
    );
    assert_eq!(good.asked("/api/tags"), 14, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_facade_is_no_engine_wherever_it_is_met() {
    let facade = Engine::start(&[]).await;
    let far = Engine::start(&[]).await;
    let closed = Engine::start(&[]).await;
    facade.set(
        "/api/tags",
        409,
        r#"{"error":"the compatibility facade","code":"proxy-facade"}"#,
    );
    far.set(
        "/api/tags",
        403,
        r#"{"error":"plaintext","code":"loopback-only"}"#,
    );
    closed.set(
        "/api/tags",
        403,
        r#"{"error":"not let in","code":"address-not-allowed"}"#,
    );
    let toml = [
        node("ollama", facade.port, "name = \"loop\""),
        node("ollama", far.port, "name = \"far\""),
        node("ollama", closed.port, "name = \"closed\""),
    ];
    let mut bench = Bench::new();
    let found = Engine::start(&[]).await;
    found.set("/api/tags", 409, r#"{"models":[],"code":"proxy-facade"}"#);
    bench.look("ollama", found.port);
    let started = bench
        .start(&settings(&["ollama"], &toml.concat()))
        .await
        .unwrap();
    let told: Vec<_> = bench
        .so_far()
        .into_iter()
        .filter(|l| l.starts_with("node"))
        .collect();
    assert_eq!(told.len(), 3, "{told:?}");
    let why = "gone: answers as an nvpair-proxy facade, not as an engine";
    assert!(told.iter().all(|l| l.ends_with(why)), "{told:?}");
    assert_eq!(started.warnings.len(), 3, "{:?}", started.warnings);
}

#[tokio::test(start_paused = true)]
async fn our_own_ports_are_not_even_asked() {
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    let mut bench = Bench::new();
    bench.look("ollama", engine.port);
    let s = settings(&[&format!("ollama={}", engine.port)], "");
    // As if the port had become ours before the first look.
    bench
        .book
        .lock()
        .unwrap()
        .facades
        .push((id("lmstudio"), engine.port, Vec::new()));
    let started = bench.start(&s).await.unwrap();
    sleep(Duration::from_secs(20)).await;
    assert_eq!(engine.calls(), [""; 0]);
    let hint = "none yet: start Ollama on 11434, or add --node ollama=URL";
    assert_eq!(started.rows[0].hint.as_deref(), Some(hint));
}

#[tokio::test(start_paused = true)]
async fn a_failure_on_the_request_path_brings_the_next_probe_forward_once() {
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    let bench = Bench::new();
    let s = settings(&["ollama"], &node("ollama", engine.port, "name = \"rig\""));
    let started = bench.start(&s).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    for _ in 0..200 {
        started.probe_now.poke(id("ollama"), &NodeId::from("rig"));
    }
    started
        .probe_now
        .poke(id("ollama"), &NodeId::from("nobody"));
    sleep(Duration::from_millis(100)).await;
    assert_eq!(engine.asked("/api/tags"), 2);
    started.probe_now.poke(id("ollama"), &NodeId::from("rig"));
    sleep(Duration::from_millis(300)).await;
    assert_eq!(
        engine.asked("/api/tags"),
        2,
        "not twice within half a second"
    );
    sleep(Duration::from_millis(200)).await;
    assert_eq!(engine.asked("/api/tags"), 3);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_starts_later_is_found() {
    let spare = Engine::start(&[]).await;
    let mut bench = Bench::new();
    bench.look("ollama", spare.port);
    let started = bench.start(&settings(&["ollama"], "")).await.unwrap();
    assert!(started.rows[0].nodes.is_empty());
    bench.so_far();
    spare.set("/api/tags", 200, TAGS);
    let port = spare.port;
    assert_eq!(
        bench.next().await,
        format!("local ollama 127.0.0.1:{port} healthy")
    );
    assert!(bench.next().await.ends_with("local up"));
}

#[tokio::test(start_paused = true)]
async fn this_machines_engine_that_comes_back_on_another_port_stays_one_node() {
    let (old, new) = (
        Engine::start(&[("/api/tags", TAGS)]).await,
        Engine::start(&[]).await,
    );
    let mut bench = Bench::new();
    bench.look("ollama", old.port);
    bench.look("ollama", new.port);
    bench.start(&settings(&["ollama"], "")).await.unwrap();
    bench.so_far();
    old.stop().await;
    assert!(bench.next().await.ends_with("ill"));
    assert!(bench.next().await.contains("gone"));
    new.set("/api/tags", 200, TAGS);
    let port = new.port;
    assert_eq!(
        bench.next().await,
        format!("local ollama 127.0.0.1:{port} healthy")
    );
    let back = bench.next().await;
    assert!(
        back.starts_with(&format!("node ollama this-pc 127.0.0.1:{port}")),
        "{back}"
    );
}

#[tokio::test(start_paused = true)]
async fn configured_models_stand_and_the_node_is_still_watched() {
    let engine = Engine::start(&[]).await;
    let mut bench = Bench::new();
    let more = "models = [\"mine\"]\nslots = 2\nname = \"rig\"";
    bench
        .start(&settings(&["ollama"], &node("ollama", engine.port, more)))
        .await
        .unwrap();
    let told = bench.so_far();
    assert!(
        told[1].contains("[mine]") && told[1].contains("slots 2"),
        "{told:?}"
    );
    assert!(
        told[1].ends_with("up"),
        "alive, even without a list: {told:?}"
    );
    engine.stop().await;
    bench.next().await;
    assert!(bench.next().await.contains("gone"));
}

#[tokio::test(start_paused = true)]
async fn a_key_goes_to_its_own_node_and_every_probe_says_what_it_is() {
    let (a, b) = (
        Engine::start(&[("/api/tags", TAGS)]).await,
        Engine::start(&[]).await,
    );
    b.set("/api/tags", 401, "no");
    let keyed = node("ollama", a.port, "name = \"keyed\"\napi_key = \"canary\"");
    let toml = [keyed, node("ollama", b.port, "name = \"bare\"")].concat();
    let bench = Bench::new();
    let started = bench.start(&settings(&["ollama"], &toml)).await.unwrap();
    let heads = |e: &Engine| e.script.lock().unwrap().heads.clone();
    assert!(
        heads(&a)
            .iter()
            .all(|h| h.contains("authorization: Bearer canary\r\n"))
    );
    assert!(heads(&b).iter().all(|h| !h.contains("canary")));
    let probe = "x-nvpair-engine-identity-probe: 1\r\n";
    assert!(
        heads(&a)
            .iter()
            .chain(&heads(&b))
            .all(|h| h.contains(probe))
    );
    assert_eq!(
        started.warnings,
        ["node bare (Ollama): HTTP 401: check api_key"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_named_node_on_another_loopback_address_hides_no_engine() {
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    let port = engine.port;
    for (url, nodes) in [
        (format!("http://127.0.0.2:{port}"), 2),
        (format!("http://127.0.0.1:{port}"), 1),
        (format!("http://localhost:{port}"), 1),
    ] {
        let mut bench = Bench::new();
        bench.look("ollama", port);
        let named = format!("[[nodes]]\nengine = \"ollama\"\nurl = \"{url}\"\n");
        let started = bench.start(&settings(&["ollama"], &named)).await.unwrap();
        assert_eq!(started.rows[0].nodes.len(), nodes, "{url}");
        let log = bench.so_far();
        let found = log.iter().filter(|l| l.contains(" found up"));
        assert_eq!(found.count(), nodes - 1, "{url}: {log:?}");
    }
}
