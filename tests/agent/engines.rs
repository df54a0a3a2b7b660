//! What is read of each engine, and of GPUs.

use serde_json::json;

use crate::gateway::{Gateway, agent, executable, nvidia_smi, ollama, url};
use crate::support::daemon::World;
use crate::support::engine::{Engine, Reply};

#[test]
fn llama_cpp_tells_its_slots_and_how_many_are_at_work() {
    let (world, mut gateway) = (World::new(), Gateway::start());
    let key = gateway.key("w1");
    let engine = Engine::start(|r| match r.target.as_str() {
        "/models" => Reply::json(
            200,
            &json!({"object": "list", "data": [{"id": "g", "meta": {"n_ctx": 4096}}]}),
        ),
        "/props" => Reply::json(200, &json!({"total_slots": 4})),
        "/slots" => Reply::json(
            200,
            &json!([{"is_processing": true}, {"is_processing": true}, {"is_processing": false}]),
        ),
        _ => Reply::status(501),
    });
    let _agent = agent(&world, &gateway, &key, "llamacpp", &url(&engine), &[]);
    let record = gateway.until("a beat", "w1", |r| r.beat.is_some());
    assert_eq!(record.registration.max_concurrency, 4);
    let beat = record.beat.as_ref().unwrap();
    assert_eq!(beat.active_requests, 2);
    let model = record.model("g").unwrap();
    assert_eq!((model.context_length, model.is_warm), (Some(4096), true));
    // More slots after a restart of the engine: registered anew, since a beat cannot say it.
    engine.now(|r| match r.target.as_str() {
        "/models" => Reply::json(200, &json!({"object": "list", "data": [{"id": "g"}]})),
        "/props" => Reply::json(200, &json!({"total_slots": 6})),
        "/metrics" => Reply::with(
            200,
            &[],
            "llamacpp:requests_processing 1\nllamacpp:requests_deferred 3\n",
        ),
        _ => Reply::status(501),
    });
    let anew = gateway.until("six slots", "w1", |r| {
        r.registration.max_concurrency == 6 && r.beat.is_some()
    });
    assert_ne!(anew.session, record.session);
    let metrics = gateway.until("its metrics", "w1", |r| r.queue_depth() == 3);
    assert_eq!(metrics.beat.unwrap().active_requests, 1);
}

#[test]
fn vllm_is_asked_for_its_models_and_metrics() {
    let (world, mut gateway) = (World::new(), Gateway::start());
    let key = gateway.key("w1");
    let engine = Engine::start(|r| match r.target.as_str() {
        "/v1/models" => Reply::json(
            200,
            &json!({"object": "list", "data": [{"id": "org/m", "max_model_len": 32768}]}),
        ),
        "/metrics" => Reply::with(
            200,
            &[],
            "vllm:num_requests_running{model_name=\"org/m\"} 5.0\nvllm:num_requests_waiting{model_name=\"org/m\"} 2.0\n",
        ),
        _ => Reply::status(404),
    });
    let base = format!("{}/v1", url(&engine));
    let _agent = agent(
        &world,
        &gateway,
        &key,
        "vllm",
        &base,
        &["--max-concurrency", "64"],
    );
    let record = gateway.until("a beat", "w1", |r| r.beat.is_some());
    let model = record.model("org/m").unwrap();
    assert_eq!((model.context_length, model.is_warm), (Some(32_768), true));
    let beat = record.beat.as_ref().unwrap();
    assert_eq!((beat.active_requests, beat.queue_depth), (5, 2));
}

#[test]
fn what_another_server_does_not_tell_is_not_made_up() {
    let (world, mut gateway) = (World::new(), Gateway::start());
    let key = gateway.key("w1");
    let engine = Engine::start(|r| match r.target.as_str() {
        "/v1/models" => Reply::json(200, &json!({"object": "list", "data": [{"id": "m"}]})),
        _ => Reply::status(404),
    });
    let agent = agent(&world, &gateway, &key, "openai", &url(&engine), &[]);
    let record = gateway.until("a beat", "w1", |r| r.beat.is_some());
    assert!(!record.model("m").unwrap().is_warm);
    assert_eq!(record.registration.max_concurrency, 1);
    // Something that is no list of models is no engine.
    engine.now(|_| Reply::json(200, &json!({"error": "what?"})));
    gateway.until("no models", "w1", |r| r.models().is_empty());
    agent.log.expect("not with a list of models");
}

#[test]
fn a_facade_is_not_taken_for_an_engine() {
    let (world, mut gateway) = (World::new(), Gateway::start());
    let key = gateway.key("w1");
    let engine = Engine::always(Reply::json(
        409,
        &json!({"code": "proxy-facade", "error": "x"}),
    ));
    let agent = agent(&world, &gateway, &key, "ollama", &url(&engine), &[]);
    let record = gateway.until("a beat", "w1", |r| r.beat.is_some());
    assert!(record.models().is_empty());
    agent.log.expect("it is a facade of a proxy, not an engine");
}

#[test]
fn gpus_are_told_of_where_there_are_some() {
    let (world, mut gateway, engine) = (World::new(), Gateway::start(), ollama());
    let key = gateway.key("w1");
    nvidia_smi(
        &world,
        "NVIDIA GeForce RTX 4090, 24564, 20000, 61, 97\nNVIDIA GeForce RTX 4090, 24564, 4000, 70, 12",
    );
    let _agent = agent(&world, &gateway, &key, "ollama", &url(&engine), &[]);
    let record = gateway.until("a beat", "w1", |r| r.beat.is_some());
    let hardware = record.registration.hardware.as_ref().unwrap();
    assert_eq!(
        hardware.gpu_name.as_deref(),
        Some("NVIDIA GeForce RTX 4090")
    );
    assert_eq!(hardware.gpu_count, Some(2));
    assert_eq!(hardware.vram_total_bytes, Some((2 * 24_564) << 20));
    let beat = record.beat.as_ref().unwrap();
    assert_eq!(beat.free_vram_bytes, Some(24_000 << 20));
    assert_eq!(beat.gpu_temperature_c, Some(70.0));
    assert_eq!(beat.gpu_utilization_percent, Some(97.0));
    // Later the tool fails: what is not known is not told.
    executable(&world.path().join("bin/nvidia-smi"), "#!/bin/sh\nexit 9\n");
    gateway.until("no figures", "w1", |r| {
        r.beat
            .as_ref()
            .is_some_and(|b| b.gpu_temperature_c.is_none() && b.free_vram_bytes.is_none())
    });
}

#[test]
fn a_tool_that_hangs_holds_up_no_beat() {
    let (world, mut gateway, engine) = (World::new(), Gateway::start(), ollama());
    let key = gateway.key("w1");
    executable(
        &world.path().join("bin/nvidia-smi"),
        "#!/bin/sh\nexec /bin/sleep 1000\n",
    );
    let _agent = agent(&world, &gateway, &key, "ollama", &url(&engine), &[]);
    let record = gateway.until("a beat", "w1", |r| r.beat.is_some());
    assert_eq!(record.registration.hardware, None);
    gateway.next_beat(&gateway.next_beat(&record));
}
