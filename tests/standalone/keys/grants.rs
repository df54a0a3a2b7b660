//! What a key may use, and how much of it.

use super::*;

fn names(list: &Value) -> Vec<&str> {
    let models = list["models"].as_array().unwrap().iter();
    models.map(|m| m["name"].as_str().unwrap()).collect()
}

#[test]
fn a_key_uses_what_it_was_given_and_sees_no_more() {
    let (a, b) = (
        ollama(&["m", "xavier"], says("a")),
        ollama(&["m", "xaviar"], says("b")),
    );
    let world = World::new();
    let daemon = serve(&world, "", &[("a", &a), ("b", &b)]);
    let port = daemon.port;
    let (at_a, x) = (
        key(&world, "at-a", &["--allow", "a/m"]),
        key(&world, "only-x", &["--allow", "*/xavier"]),
    );
    let (pool, all) = (
        key(&world, "pool", &["--allow", "pool"]),
        key(&world, "all", &["--allow", "all"]),
    );
    for _ in 0..6 {
        assert_eq!(chat_with(port, "m", &at_a).text(), "a");
    }
    let before = (
        a.requests_for("/api/chat").len(),
        b.requests_for("/api/chat").len(),
    );
    for (key, name) in [(&x, "only-x"), (&pool, "pool")] {
        let refused = chat_with(port, "m", key);
        assert_eq!(refused.status, 403, "{refused:?}");
        let text = refused.error_text();
        assert!(
            text.contains("\"m\"") && text.contains(&format!("\"{name}\"")),
            "{text}"
        );
        assert!(!text.contains(&key[5..]));
    }
    // A request that names no model takes a grant of every model.
    let mut client = Client::connect(port);
    let headers = [("X-Api-Key", x.as_str())];
    client.send("POST", "/api/chat", &headers, b"{}");
    assert_eq!(client.answer().status, 403);
    let after = (
        a.requests_for("/api/chat").len(),
        b.requests_for("/api/chat").len(),
    );
    assert_eq!(before, after, "nobody was asked");
    // A model that nobody has is told as ever, without the names of others.
    let absent = chat_with(port, "xavie", &x);
    assert_eq!(absent.status, 502);
    let text = absent.error_text();
    assert!(
        text.contains("nearest: xavier") && !text.contains("xaviar"),
        "{text}"
    );

    for (key, want) in [
        (&at_a, vec!["m"]),
        (&x, vec!["xavier"]),
        (&pool, vec![]),
        (&all, vec!["m", "xavier", "xaviar"]),
    ] {
        let list = http(port, "GET", "/api/tags", &[("X-Api-Key", key)], b"");
        assert_eq!((list.status, names(&list.json())), (200, want));
    }
    for (key, method, path, status) in [
        (&at_a, "DELETE", "/api/delete", 403),
        (&at_a, "GET", "/api/version", 200),
        (&all, "DELETE", "/api/delete", 200),
    ] {
        let answer = http(port, method, path, &[("Authorization", &bearer(key))], b"");
        assert_eq!(answer.status, status, "{method} {path} {answer:?}");
    }
}

#[test]
fn a_key_s_limits_are_told_and_count_what_was_sent() {
    let usage = "{\"done\":true,\"prompt_eval_count\":30,\"eval_count\":12}\n";
    let (world, a) = (World::new(), ollama(&["m"], says(usage)));
    let daemon = serve(&world, "", &[("a", &a)]);
    let port = daemon.port;
    let few = key(
        &world,
        "few",
        &["--allow", "ollama", "--requests-per-minute", "2"],
    );
    // What finds nobody does not count.
    for _ in 0..4 {
        assert_eq!(chat_with(port, "none", &few).status, 502);
    }
    for _ in 0..2 {
        assert_eq!(chat_with(port, "m", &few).status, 200);
    }
    let over = chat_with(port, "m", &few);
    assert_eq!(over.status, 429);
    let wait: u64 = over.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait), "{wait}");
    let text = over.error_text();
    assert!(
        text.contains("2 requests a minute") && !text.contains(&few[5..]),
        "{text}"
    );
    let mut client = Client::connect(port);
    let over = chat_on(&mut client, "/v1/chat/completions", "m", Some(&few));
    assert_eq!(over.json()["error"]["type"], "rate_limit_error");
    let sent = a.requests_for("/api/chat").len() + a.requests_for("/v1/chat/completions").len();
    assert_eq!(sent, 2);

    let day = || {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs()
            / 86_400
    };
    let begun = day();
    let tokens = key(
        &world,
        "day",
        &["--allow", "ollama", "--tokens-per-day", "100"],
    );
    let large = json!({"model": "m", "messages": [], "options": {"num_predict": 1000}});
    let refused = {
        let mut client = Client::connect(port);
        let headers = [("X-Api-Key", tokens.as_str())];
        client.send("POST", "/api/chat", &headers, large.to_string().as_bytes());
        client.answer()
    };
    assert_eq!(refused.status, 429, "set aside by what it may need");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=86_400).contains(&wait), "{wait}");
    for spent in [42, 84, 126] {
        assert_eq!(chat_with(port, "m", &tokens).status, 200);
        let used = ask_until("it is settled", || {
            let list = world.json(&["keys", "list"]);
            let key = list["keys"]
                .as_array()
                .unwrap()
                .iter()
                .find(|k| k["name"] == "day");
            key.unwrap()["tokens_today"]
                .as_u64()
                .filter(|used| *used > 0 && (*used == spent || day() != begun))
        });
        assert!(used == spent || day() != begun);
    }
    if day() == begun {
        assert_eq!(
            chat_with(port, "m", &tokens).status,
            429,
            "the day is used up"
        );
    }
}
