//! Another model's name in a body, which stays byte for byte otherwise.

use super::*;
use crate::support::client::Client;
use crate::support::engine::values;

/// A gateway whose `fast` is `a longer "name"` of an engine.
fn renaming(world: &World) -> (Standalone, Engine) {
    let a = engine("lmstudio", &["a longer \"name\""], |_| Reply::status(200));
    let config = "[virtual_models]\nfast = ['a/a longer \"name\"']\n";
    let daemon = serve(world, config, &[("lmstudio", "a", &a)]);
    (daemon, a)
}

#[test]
fn a_body_is_the_same_but_for_the_model_and_its_length_is_right() {
    let world = World::new();
    let (daemon, a) = renaming(&world);
    for (before, after) in [
        (
            "{\"model\":\"fast\"}",
            "{\"model\":\"a longer \\\"name\\\"\"}",
        ),
        (
            " {\n\t\"messages\" : [ {\"model\":\"fast\"} ],\"x\":1.0e5 , \"model\" :\"fast\" } ",
            " {\n\t\"messages\" : [ {\"model\":\"fast\"} ],\"x\":1.0e5 , \"model\" :\"a longer \\\"name\\\"\" } ",
        ),
        (
            "{\"model\":\"f\\u0061st\",\"ü\":\"\\ud83d\\ude00\"}",
            "{\"model\":\"a longer \\\"name\\\"\",\"ü\":\"\\ud83d\\ude00\"}",
        ),
    ] {
        for chunked in [false, true] {
            let mut client = Client::connect(daemon.port);
            let length = before.len().to_string();
            let framing = match chunked {
                true => ("Transfer-Encoding", "chunked"),
                false => ("Content-Length", &*length),
            };
            let digest = ("Content-Digest", "sha-256=:AAAA:");
            let kind = ("Content-Type", "application/json");
            client.start("POST", CHAT, &[framing, kind, digest]);
            match chunked {
                true => {
                    let (first, rest) = before.split_at(12);
                    for piece in [first, rest, ""] {
                        client.write(format!("{:x}\r\n{piece}\r\n", piece.len()));
                    }
                },
                false => client.write(before),
            }
            assert_eq!(client.answer().status, 200, "{before}");
            let got = a.requests_for(CHAT).pop().unwrap();
            assert_eq!(String::from_utf8(got.body.clone()).unwrap(), after);
            assert_eq!(got.chunked, chunked);
            if !chunked {
                assert_eq!(
                    values(&got.headers, "content-length"),
                    [after.len().to_string()]
                );
            }
            assert_eq!(got.header("content-digest"), None, "it was of other bytes");
        }
    }
}

#[test]
fn a_name_that_stays_leaves_body_and_headers_alone() {
    let world = World::new();
    let a = engine("lmstudio", &["m"], |_| Reply::status(200));
    let daemon = serve(&world, "", &[("lmstudio", "a", &a)]);
    let body = "{ \"model\": \"m\" }";
    let mut client = Client::connect(daemon.port);
    let headers = [
        ("Content-Digest", "sha-256=:AAAA:"),
        ("Content-Type", "application/json"),
    ];
    client.send("POST", CHAT, &headers, body.as_bytes());
    assert_eq!(client.answer().status, 200);
    let got = a.requests_for(CHAT).pop().unwrap();
    assert_eq!(got.body, body.as_bytes());
    assert_eq!(got.header("content-digest"), Some("sha-256=:AAAA:"));
}
