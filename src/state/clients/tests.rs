use super::*;
use crate::rules::client_key::make;

fn key(name: &str, byte: u8) -> ClientKey {
    let secret = make([byte; 32]);
    ClientKey {
        name: name.into(),
        hash: KeyHash::of_secret(secret_part(secret.reveal()).unwrap()),
        allow: vec!["all".into()],
        requests_per_minute: Some(2),
        tokens_per_day: Some(100),
        created_at: byte.into(),
    }
}

fn shown(byte: u8) -> Vec<u8> {
    format!("Bearer {}", make([byte; 32]).reveal()).into_bytes()
}

/// What is counted by the day is told apart from what midnight took away.
fn today() -> u64 {
    crate::wall_clock::unix_ms() / (24 * 60 * 60 * 1_000)
}

fn demand(input: u64, output: u64) -> Demand {
    Demand { input, output }
}

#[test]
fn a_key_is_somebodys_from_its_making_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let clients = Clients::default();
    assert!(matches!(clients.list(), Err(KeysError::Nowhere(_))));
    clients.keep_in(dir.path()).unwrap();
    assert!(clients.is_empty() && clients.recognise(&shown(1)).is_none());
    clients.add(key("a", 1)).unwrap();
    clients.add(key("b", 2)).unwrap();
    assert!(matches!(
        clients.add(key("a", 3)),
        Err(KeysError::Exists(_))
    ));
    assert_eq!(&**clients.recognise(&shown(2)).unwrap().name(), "b");
    assert!(clients.recognise(&shown(3)).is_none());
    assert!(clients.recognise(b"Bearer sk-1").is_none());
    assert_eq!(clients.revoke("b").unwrap().name, "b");
    assert!(clients.recognise(&shown(2)).is_none());
    assert!(matches!(clients.revoke("b"), Err(KeysError::Unknown(_))));
    // So it is in the next run.
    let again = Clients::default();
    again.keep_in(dir.path()).unwrap();
    assert!(again.recognise(&shown(1)).is_some() && again.recognise(&shown(2)).is_none());
    again.revoke("a").unwrap();
    assert!(again.is_empty());
}

#[test]
fn what_was_used_is_known_in_the_next_run_and_not_by_another_key_of_the_name() {
    let dir = tempfile::tempdir().unwrap();
    let clients = Clients::default();
    clients.keep_in(dir.path()).unwrap();
    clients.add(key("a", 1)).unwrap();
    let client = clients.recognise(&shown(1)).unwrap();
    let day = today();
    client.seen(77);
    client.charge(demand(10, 0)).ok().unwrap().answered(None);
    clients.save(clients.usage()).unwrap();
    let again = Clients::default();
    again.keep_in(dir.path()).unwrap();
    let info = &again.list().unwrap()[0];
    assert_eq!(info.last_used_at, Some(77));
    if today() == day {
        assert_eq!(info.tokens_today, Some(10));
    }
    again.revoke("a").unwrap();
    again.add(key("a", 5)).unwrap();
    let third = Clients::default();
    third.keep_in(dir.path()).unwrap();
    assert_eq!(third.list().unwrap()[0].last_used_at, None);
}

#[test]
fn a_charge_is_settled_by_what_is_known_of_the_answer() {
    let clients = Clients::default();
    let dir = tempfile::tempdir().unwrap();
    clients.keep_in(dir.path()).unwrap();
    let stats = |prompt_tokens, completion_tokens| Stats {
        prompt_tokens,
        completion_tokens,
        ..Stats::default()
    };
    for (i, stats, want) in [
        (1, None, 30),
        (2, Some(stats(Some(7), Some(5))), 12),
        (3, Some(stats(None, Some(5))), 15),
        (4, Some(stats(None, None)), 10),
    ] {
        clients.add(key(&format!("k{i}"), i)).unwrap();
        let day = today();
        let client = clients.recognise(&shown(i)).unwrap();
        let charge = client.charge(demand(10, 20)).ok().unwrap();
        charge.answered(stats.as_ref());
        let (_, used) = client.allowance().today(client.now());
        if today() == day {
            assert_eq!(used, want);
        }
    }
    // One without an answer costs a request and no tokens.
    clients.add(key("z", 9)).unwrap();
    let client = clients.recognise(&shown(9)).unwrap();
    for _ in 0..2 {
        drop(client.charge(demand(100, 0)).ok().unwrap());
    }
    assert!(matches!(
        client.charge(demand(1, 0)),
        Err(Over::Requests { .. })
    ));
}

#[cfg(unix)]
#[test]
fn a_file_that_others_may_open_gives_no_key_until_it_is_closed_to_them() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let first = Clients::default();
    first.keep_in(dir.path()).unwrap();
    first.add(key("a", 1)).unwrap();
    first.recognise(&shown(1)).unwrap().seen(77);
    first.save(first.usage()).unwrap();
    let mode = |mode| {
        let path = dir.path().join(KEYS);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(0o644);
    let clients = Clients::default();
    let told = clients.keep_in(dir.path()).unwrap_err();
    assert!(told.contains("chmod 600"), "{told}");
    assert!(clients.recognise(&shown(1)).is_none());
    let told = clients.add(key("b", 2)).unwrap_err().to_string();
    assert!(told.contains("chmod 600"), "{told}");
    // What it used is neither forgotten nor written over meanwhile.
    clients.save(clients.usage()).unwrap();
    mode(0o600);
    let next = Clients::default();
    next.keep_in(dir.path()).unwrap();
    for clients in [&clients, &next] {
        let all = clients.list().unwrap();
        assert_eq!((all.len(), all[0].last_used_at), (1, Some(77)));
        assert!(clients.recognise(&shown(1)).is_some());
        assert_eq!(clients.usage().len(), 1);
    }
}
