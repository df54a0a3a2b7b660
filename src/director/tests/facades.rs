//! Which facades are enabled, on which port, with which aliases, and what the table says of it.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_daemon_that_knows_no_node_before_its_facade_is_told_after_it() {
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    let mut bench = Bench::new();
    bench.book.lock().unwrap().strict = true;
    bench
        .start(&settings(&["ollama"], &node("ollama", engine.port, "")))
        .await
        .unwrap();
    let told = bench.so_far();
    assert!(
        told[1].starts_with("enable") && told[2].starts_with("node"),
        "{told:?}"
    );
    assert_eq!(told.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_port_that_cannot_be_bound_gives_way_once_and_the_table_says_so() {
    let mut bench = Bench::new();
    bench.book.lock().unwrap().unbindable.push(11435);
    bench.taken.push(1234);
    let started = bench.start(&settings(&[], "")).await.unwrap();
    assert_eq!(
        bench.so_far(),
        [
            "enable ollama 0 ignore=false []",
            "enable ollama 11436 ignore=true []",
            "enable lmstudio 1235 ignore=false []",
            "enable llamacpp 0 ignore=false []",
        ]
    );
    let notes: Vec<_> = started
        .rows
        .iter()
        .map(|r| (r.port, r.note.as_deref()))
        .collect();
    let want = [
        (11436, Some("11435 is taken")),
        (1235, Some("1234 is taken")),
        (8080, None),
    ];
    assert_eq!(notes, want);
}

#[tokio::test(start_paused = true)]
async fn a_saved_port_goes_before_the_fallback() {
    let mut bench = Bench::new();
    bench.book.lock().unwrap().saved = Some(12000);
    bench.taken.push(11435);
    let started = bench.start(&settings(&["ollama"], "")).await.unwrap();
    let row = &started.rows[0];
    assert_eq!(
        (row.port, row.note.as_deref()),
        (12000, Some("saved by set-port"))
    );
}

#[tokio::test(start_paused = true)]
async fn some_facades_are_a_warning_and_none_is_an_error() {
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    let mut bench = Bench::new();
    bench.book.lock().unwrap().unbindable.extend([9000, 9001]);
    let toml = node("ollama", engine.port, "name = \"rig\"");
    let started = bench
        .start(&settings(&["ollama=9000", "llamacpp"], &toml))
        .await
        .unwrap();
    assert_eq!(started.rows.len(), 1);
    assert_eq!(started.warnings, ["no Ollama facade: port 9000: in use"]);
    assert_eq!(bench.so_far().last().unwrap(), "remove ollama rig");
    sleep(Duration::from_secs(20)).await;
    assert_eq!(engine.asked("/api/tags"), 1, "nobody needs it any more");

    let bench = Bench::new();
    bench.book.lock().unwrap().unbindable.extend([9000, 9001]);
    let failed = bench
        .start(&settings(&["ollama=9000", "llamacpp=9001"], ""))
        .await;
    let text = failed.err().unwrap().to_string();
    let want =
        "no facade could be enabled\n  Ollama: port 9000: in use\n  llama.cpp: port 9001: in use";
    assert_eq!(text, want);
}

#[tokio::test(start_paused = true)]
async fn the_host_variables_address_is_proposed_only_beside_a_running_engine() {
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    for (running, taken, want) in [
        (true, false, "[127.0.0.1:11500]"),
        (true, true, "[]"),
        (false, false, "[]"),
    ] {
        let mut bench = Bench::new();
        let mut s = settings(&["ollama"], "");
        s.host_variables = vec![(id("ollama"), "127.0.0.1:11500".parse().unwrap())];
        if running {
            bench.look("ollama", engine.port);
        }
        bench.taken.extend(taken.then_some(11500));
        bench.start(&s).await.unwrap();
        let log = bench.so_far();
        let enable = log.iter().find(|l| l.starts_with("enable")).unwrap();
        assert!(enable.ends_with(want), "{enable}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_table_shows_the_aliases_that_were_bound() {
    let bench = Bench::new();
    let mut s = settings(&["ollama", "llamacpp"], "");
    s.aliases = ["127.0.0.1:11500", "[::1]:11500"]
        .map(|a| (id("ollama"), a.parse().unwrap()))
        .to_vec();
    bench.book.lock().unwrap().alias_blocked = vec!["[::1]:11500".to_owned()];
    let rows = bench.start(&s).await.unwrap().rows;
    assert_eq!(rows[0].aliases, ["127.0.0.1:11500"]);
    assert!(rows[1].aliases.is_empty());
}

#[tokio::test]
async fn a_taken_port_is_told_by_dialling() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    assert!(local::listens(port).await);
    drop(listener);
    assert!(!local::listens(port).await);
}
