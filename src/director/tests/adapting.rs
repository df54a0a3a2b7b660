//! The running director follows other settings.

use super::named::{at, named, record};
use super::*;
use crate::state::named::NewNode;

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
    let told = |l: &String| l.starts_with("node ollama a ") && l.ends_with(" up");
    assert!(said.iter().any(told), "with what was known of it: {said:?}");
    let asked = a.asked("/api/tags");
    sleep(Duration::from_secs(6)).await;
    assert!(a.asked("/api/tags") > asked, "and it is asked again");
}

/// A bench with a state folder, and a started director.
async fn with_book(toml: &str) -> (Bench, Started, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::new();
    bench.state = Some(dir.path().to_owned());
    let started = bench.start(&both(toml)).await.unwrap();
    bench.so_far();
    (bench, started, dir)
}

fn book(dir: &tempfile::TempDir) -> Vec<String> {
    let nodes = Added::open(Some(dir.path())).0.nodes().to_vec();
    nodes.into_iter().filter_map(|n| n.name).collect()
}

#[tokio::test(start_paused = true)]
async fn added_nodes_rest_while_their_facade_is_off_and_come_back_with_it() {
    let (a, b) = (
        Engine::start(&[("/api/tags", TAGS)]).await,
        Engine::start(&[("/api/tags", TAGS)]).await,
    );
    let (mut bench, started, dir) = with_book("").await;
    bench.add(at(a.port, named("rig"))).await.unwrap();
    bench
        .add(record("uuid", b.port, &["127.0.0.1"]))
        .await
        .unwrap();
    bench.add(at(9, named("gone"))).await.unwrap();
    bench.so_far();
    let off = both("[engines.ollama]\nenabled = false\n");
    assert_eq!(started.changes.apply(off).await, [""; 0]);
    assert_eq!(bench.so_far(), ["disable ollama"]);
    let asked = (a.asked("/api/tags"), b.asked("/api/tags"));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(
        (a.asked("/api/tags"), b.asked("/api/tags")),
        asked,
        "nobody is asked for nothing"
    );
    let told = bench.add(at(b.port, named("den"))).await.unwrap_err();
    assert!(told.message.contains("facade is off"), "{told:?}");
    assert_eq!(bench.remove("gone").await, Ok(true));
    assert_eq!(book(&dir), ["rig"]);

    assert_eq!(started.changes.apply(both("")).await, [""; 0]);
    let said = bench.so_far();
    for id in ["rig", "uuid"] {
        let node = format!("node ollama {id} ");
        let told = |l: &String| l.starts_with(&node) && l.ends_with(" up");
        assert!(said.iter().any(told), "{id}: {said:?}");
    }
    assert!(!said.iter().any(|l| l.starts_with("node ollama gone")));
    sleep(Duration::from_secs(6)).await;
    assert!(a.asked("/api/tags") > asked.0 && b.asked("/api/tags") > asked.1);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_a_reload_turns_on_is_looked_for_and_has_its_added_nodes() {
    let (a, b) = (
        Engine::start(&[("/v1/models", r#"{"data":[{"id":"x"}]}"#)]).await,
        Engine::start(&[("/api/tags", TAGS)]).await,
    );
    let dir = tempfile::tempdir().unwrap();
    let mut saved = Added::open(Some(dir.path())).0;
    let node = NewNode::at(
        id("lmstudio"),
        &format!("http://127.0.0.1:{}", a.port),
        named("rig"),
    );
    saved
        .change(|_| false, Some(node.unwrap().setting))
        .await
        .unwrap();
    let mut bench = Bench::new();
    bench.state = Some(dir.path().to_owned());
    bench.look("ollama", b.port);
    let only = |e: &str| {
        let off = ["ollama", "lmstudio"].into_iter().filter(|o| *o != e);
        both(
            &off.map(|o| format!("[engines.{o}]\nenabled = false\n"))
                .collect::<String>(),
        )
    };
    let started = bench.start(&only("")).await;
    assert!(started.is_err(), "all are off");
    let started = bench.start(&only("lmstudio")).await.unwrap();
    assert_eq!(started.rows[0].nodes, [NodeId::from("rig")]);
    let asked = b.calls();
    assert_eq!(started.changes.apply(only("ollama")).await, [""; 0]);
    bench.so_far();
    while !bench.next().await.starts_with("node ollama this-pc ") {}
    assert!(b.calls().len() > asked.len());
    assert_eq!(started.changes.apply(only("lmstudio")).await, [""; 0]);
    let said = bench.so_far();
    assert!(
        said.iter().any(|l| l.starts_with("node lmstudio rig ")),
        "{said:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_added_node_that_the_file_names_is_the_file_s_until_it_is_taken_out_there() {
    let a = Engine::start(&[("/api/tags", TAGS)]).await;
    let (mut bench, started, dir) = with_book("").await;
    bench.add(at(a.port, named("rig"))).await.unwrap();
    bench.so_far();
    let toml = node("ollama", a.port, "name = \"rig\"\nslots = 3");
    assert_eq!(started.changes.apply(both(&toml)).await, [""; 0]);
    let said = bench.so_far();
    assert!(
        said.iter().all(|l| !l.starts_with("remove")),
        "it keeps its place: {said:?}"
    );
    assert!(said.iter().any(|l| l.contains("slots 3")), "{said:?}");
    let told = bench.remove("rig").await.unwrap_err().message;
    assert!(told.contains("take it out there"), "{told}");
    assert_eq!(book(&dir), ["rig"], "as after a start with that file");
    assert_eq!(started.changes.apply(both("")).await, [""; 0]);
    assert!(bench.so_far().contains(&"remove ollama rig".to_owned()));
    loop {
        let line = bench.next().await;
        if line.starts_with("node ollama rig ") && line.ends_with(" up") {
            assert!(line.contains("slots 0"), "{line}");
            break;
        }
    }
    assert_eq!(bench.remove("rig").await, Ok(true));
    assert_eq!(book(&dir), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_name_of_the_file_is_the_file_s_and_an_added_node_gets_another_one() {
    let (a, b) = (
        Engine::start(&[("/api/tags", TAGS)]).await,
        Engine::start(&[("/api/tags", TAGS)]).await,
    );
    let (mut bench, started, dir) = with_book("").await;
    bench.add(at(a.port, named("rig"))).await.unwrap();
    bench.so_far();
    let toml = node("ollama", b.port, "name = \"rig\"");
    assert_eq!(started.changes.apply(both(&toml)).await, [""; 0]);
    let said = bench.so_far();
    let of = |port: u16, id: &str| format!("node ollama {id} 127.0.0.1:{port} ");
    let (file, added) = (
        of(b.port, "rig"),
        of(a.port, &format!("this-pc:{}", a.port)),
    );
    for want in [file, added] {
        assert!(
            said.iter().any(|l| l.starts_with(&want)),
            "{want}: {said:?}"
        );
    }
    assert_eq!(book(&dir), ["rig"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_found_goes_where_a_peer_is_named_and_its_port_is_dialled_no_more() {
    let a = Engine::start(&[("/api/tags", TAGS)]).await;
    let mut bench = Bench::new();
    bench.look("ollama", a.port);
    let started = bench.start(&both(NO_LMSTUDIO)).await.unwrap();
    bench.so_far();
    let peer = "name = \"p\"\nmodels = [\"m\"]\npeer = \"01234567-89ab-cdef-0123-456789abcdef\"";
    let named = both(&format!("{NO_LMSTUDIO}{}", node("ollama", a.port, peer)));
    assert_eq!(started.changes.apply(named.clone()).await, [""; 0]);
    let said = bench.so_far();
    assert!(
        said.contains(&"remove ollama this-pc".to_owned()),
        "{said:?}"
    );
    assert!(
        said.iter().any(|l| l.starts_with("node ollama p ")),
        "{said:?}"
    );
    let calls = a.calls();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(a.calls(), calls);
    // The same after its facade was off and on.
    let text = format!(
        "[engines.ollama]\nenabled = false\n{}",
        node("ollama", a.port, peer)
    );
    assert_eq!(started.changes.apply(both(&text)).await, [""; 0]);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(started.changes.apply(named).await, [""; 0]);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(a.calls(), calls);
    // An engine again, once nobody says otherwise.
    assert_eq!(started.changes.apply(both(NO_LMSTUDIO)).await, [""; 0]);
    while !bench.next().await.starts_with("node ollama this-pc ") {}
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
