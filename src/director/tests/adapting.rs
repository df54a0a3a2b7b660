//! The running director follows other settings.

use super::*;

fn both(toml: &str) -> Arc<Settings> {
    Arc::new(settings(
        &[],
        &format!("[engines.llamacpp]\nenabled = false\n{toml}"),
    ))
}

const NO_LMSTUDIO: &str = "[engines.lmstudio]\nenabled = false\n";

#[tokio::test(start_paused = true)]
async fn a_facade_that_could_not_be_opened_is_tried_again_with_its_nodes() {
    let a = Engine::start(&[("/v1/models", r#"{"data":[{"id":"x"}]}"#)]).await;
    let nodes = node("lmstudio", a.port, "name = \"a\"\nmodels = [\"x\"]");
    let mut bench = Bench::new();
    let started = bench.start(&both(NO_LMSTUDIO)).await.unwrap();
    bench.book.lock().unwrap().unbindable = vec![1234, 1235, 1236];
    bench.so_far();
    let wanted = both(&nodes);
    for _ in 0..2 {
        let told = started.changes.apply(wanted.clone()).await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("LM Studio facade: "), "{told:?}");
        assert!(
            bench
                .so_far()
                .iter()
                .any(|l| l.starts_with("enable lmstudio"))
        );
    }
    bench.book.lock().unwrap().unbindable.clear();
    assert_eq!(started.changes.apply(wanted).await, [""; 0]);
    let said = bench.so_far();
    assert!(
        said.iter().any(|l| l.starts_with("enable lmstudio")),
        "{said:?}"
    );
    let here = |l: &String| l.starts_with("node lmstudio a ");
    assert!(said.iter().any(here), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_facade_goes_without_its_nodes_being_taken_from_requests_under_way() {
    let a = Engine::start(&[("/api/tags", TAGS)]).await;
    let nodes = node("ollama", a.port, "name = \"a\"");
    let mut bench = Bench::new();
    let started = bench.start(&both(&nodes)).await.unwrap();
    bench.so_far();
    let off = both(&format!("[engines.ollama]\nenabled = false\n{nodes}"));
    assert_eq!(started.changes.apply(off).await, [""; 0]);
    assert_eq!(bench.so_far(), ["disable ollama"]);
    assert_eq!(started.changes.apply(both(&nodes)).await, [""; 0]);
    let said = bench.so_far();
    assert_eq!(
        said[0], "remove ollama a",
        "what it held is told anew: {said:?}"
    );
    assert!(
        said.iter().any(|l| l.starts_with("enable ollama")),
        "{said:?}"
    );
    loop {
        if bench.next().await.starts_with("node ollama a ") {
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_is_named_after_it_was_found_is_one_node_and_found_again_when_it_is_not() {
    let a = Engine::start(&[("/api/tags", TAGS)]).await;
    let mut bench = Bench::new();
    bench.look("ollama", a.port);
    let found = both(NO_LMSTUDIO);
    let started = bench.start(&found).await.unwrap();
    bench.so_far();
    let named = format!("{NO_LMSTUDIO}{}", node("ollama", a.port, "name = \"rig\""));
    assert_eq!(started.changes.apply(both(&named)).await, [""; 0]);
    let said = bench.so_far();
    assert!(
        said.contains(&"remove ollama this-pc".to_owned()),
        "{said:?}"
    );
    loop {
        let line = bench.next().await;
        assert!(!line.starts_with("node ollama this-pc"), "{line}");
        if line.starts_with("node ollama rig") && line.contains("[a,b]") {
            break;
        }
    }
    assert_eq!(started.changes.apply(found).await, [""; 0]);
    let mut removed = false;
    loop {
        let line = bench.next().await;
        removed |= line == "remove ollama rig";
        if line.starts_with("node ollama this-pc") && line.contains("[a,b]") {
            assert!(removed);
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_is_told_as_configured_and_never_probed() {
    let a = Engine::start(&[("/api/tags", TAGS)]).await;
    let peer = "models = [\"m\"]\npeer = \"01234567-89ab-cdef-0123-456789abcdef\"";
    let mut bench = Bench::new();
    let settings = both(&format!("{NO_LMSTUDIO}{}", node("ollama", a.port, peer)));
    bench.start(&settings).await.unwrap();
    sleep(Duration::from_secs(60)).await;
    let said = bench.so_far();
    assert!(
        said.iter()
            .any(|l| l.starts_with("node ollama") && l.contains("[m]")),
        "{said:?}"
    );
    assert_eq!(a.calls(), [""; 0]);
}
