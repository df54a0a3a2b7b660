//! Keys and nodes over the control socket, as an administrator has them.
#![cfg(unix)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nvpair_proxy::control::client::{ClientError, ControlClient, PoolApiClient};
use nvpair_proxy::control::socket::{ControlServer, ControlSocket};
use nvpair_proxy::rules::engine::EngineId;
use nvpair_proxy::rules::ids::{JobId, NodeId, RunId};
use nvpair_proxy::state::command::{CommandQueue, Commands};
use nvpair_proxy::state::fleet::PoolDesk;
use nvpair_proxy::state::follow::{Feed, Follower};
use nvpair_proxy::state::query::Queries;
use nvpair_proxy::wire::broker::NodeRecord;
use nvpair_proxy::wire::control::*;
use serde_json::json;

use crate::rig::{Rig, beat, registration};

const LIMIT: Duration = Duration::from_secs(20);
const HERE: &str = "http://10.0.0.7:11434";

/// A daemon of which only the pool is asked.
struct Daemon {
    pool: Option<Arc<PoolDesk>>,
    feed: Feed,
}

impl Queries for Daemon {
    fn is_enabled(&self, _: EngineId) -> bool {
        false
    }
    fn nodes(&self, _: EngineId) -> Vec<NodeRecord> {
        vec![]
    }
    fn selected(&self, _: EngineId) -> Option<NodeId> {
        None
    }
    fn info(&self) -> DaemonInfo {
        DaemonInfo {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: 1,
            mode: Mode::Standalone,
            run_id: RunId::from_bytes([1; 8]),
            started_at: 1,
            socket: None,
        }
    }
    fn status(&self) -> Status {
        Status {
            schema_version: SCHEMA_VERSION,
            daemon: self.info(),
            facades: vec![],
            nodes: vec![],
            scheduler: SchedulerStatus {
                policy: "weighted".into(),
                generation: 0,
                age_ms: None,
            },
            workloads: WorkloadCounts::default(),
            providers: vec![],
            door: Default::default(),
            pool: None,
            telemetry: None,
        }
    }
    fn workloads(&self, _: &WorkloadFilter) -> WorkloadList {
        WorkloadList {
            schema_version: SCHEMA_VERSION,
            workloads: vec![],
        }
    }
    fn workload(&self, _: Option<EngineId>, _: JobId) -> Vec<Workload> {
        vec![]
    }
    fn models(&self, _: Option<EngineId>, _: bool) -> ModelList {
        ModelList {
            schema_version: SCHEMA_VERSION,
            models: vec![],
        }
    }
    fn follow(&self, filter: WorkloadFilter) -> Follower {
        self.feed.follow(filter)
    }
    fn route(&self, _: EngineId, _: &str) -> Option<RouteExplained> {
        None
    }
    fn pool(&self) -> Option<Arc<PoolDesk>> {
        self.pool.clone()
    }
}

/// A control socket over a rig's pool, or over none.
pub struct Desk {
    _dir: tempfile::TempDir,
    pub path: PathBuf,
    _server: ControlServer,
    _queue: CommandQueue,
}

impl Desk {
    pub fn over(rig: Option<&Rig>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run").join("control.sock");
        let (commands, queue) = Commands::queue(8);
        let pool = rig.map(|rig| {
            Arc::new(PoolDesk {
                usage: None,
                fleet: rig.fleet.clone(),
                proxy_addr: "gw.lan:9090".to_owned(),
                fingerprint: Arc::new(|| Some("sha256:ab".to_owned())),
            })
        });
        let queries = Arc::new(Daemon {
            pool,
            feed: Feed::default(),
        });
        let server = ControlSocket::bind(&path).unwrap();
        let server = server.serve(commands, queries).unwrap();
        Self {
            _dir: dir,
            path,
            _server: server,
            _queue: queue,
        }
    }

    async fn client(&self) -> ControlClient {
        ControlClient::connect(&self.path, LIMIT).await.unwrap()
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, ClientError>) -> (i32, String) {
    match result {
        Err(ClientError::Refused { code, message }) => (code, message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_key_is_made_used_listed_and_revoked_with_its_node() {
    let rig = Rig::start();
    let desk = Desk::over(Some(&rig));
    let c = desk.client().await;
    let allow = vec!["10.0.0.0/8".to_owned()];
    let create = async |name: &str, allow: &[String]| {
        let (name, allow) = (name.to_owned(), allow.to_vec());
        c.call(async |c| {
            c.pool_keys_create(name, "w1".into(), Some(allow), None)
                .await
        })
        .await
    };
    let made = create("lab", &allow).await.unwrap();
    assert_eq!(made.proxy_addr, "gw.lan:9090");
    assert_eq!(made.fingerprint.as_deref(), Some("sha256:ab"));
    assert!(made.key.starts_with("ktms_node_") && made.info.created_at > 0);
    let registered = rig.register(&made.key, registration("w1", HERE)).await;
    assert!(registered.result()["session"].is_string());

    let (code, text) = refused(create("lab", &allow).await);
    assert_eq!(code, -32000);
    assert!(text.contains("already"), "{text}");
    for (name, allow) in [
        ("", &allow[..]),
        ("a b", &allow[..]),
        ("x", &["10.0.0.0/99".to_owned()][..]),
    ] {
        assert_eq!(
            refused(create(name, allow).await).0,
            -32602,
            "{name:?} {allow:?}"
        );
    }
    let keys = c.call(async |c| c.pool_keys_list().await).await.unwrap();
    assert_eq!(keys.keys, std::slice::from_ref(&made.info));
    assert!(
        !serde_json::to_string(&keys)
            .unwrap()
            .contains(&made.key[20..])
    );

    let revoke = async || {
        c.call(async |c| c.pool_keys_revoke("lab".into()).await)
            .await
    };
    let revoked = revoke().await.unwrap();
    assert!(revoked.evicted && revoked.info == made.info);
    assert!(rig.fleet.record("w1").is_none());
    let session = registered.result()["session"].as_str().unwrap();
    let beaten = rig
        .call(&made.key, "node/heartbeat", beat("w1", session, 1))
        .await;
    assert_eq!(beaten.status, 401);
    assert!(refused(revoke().await).1.contains("no node key \"lab\""));
}

#[tokio::test]
async fn a_node_is_drained_resumed_and_reset_and_an_unknown_one_told() {
    let rig = Rig::start();
    let desk = Desk::over(Some(&rig));
    let c = desk.client().await;
    let key = rig.key("w1", &["10.0.0.0/8"]).await;
    let registered = rig.register(&key, registration("w1", HERE)).await;
    let session = registered.result()["session"].as_str().unwrap();
    let drained = c
        .call(async |c| c.pool_drain("w1".into()).await)
        .await
        .unwrap();
    assert_eq!(
        (drained.node.state.as_str(), drained.node.drain),
        ("draining", true)
    );
    let beaten = rig
        .call(&key, "node/heartbeat", beat("w1", session, 1))
        .await;
    assert_eq!(beaten.result()["drain"], json!(true));
    assert_eq!(beaten.result()["state"], json!("draining"));
    let resumed = c
        .call(async |c| c.pool_resume("w1".into()).await)
        .await
        .unwrap();
    assert_eq!(resumed.node.state, "healthy");
    rig.fleet.break_node("w1");
    let list = c.call(async |c| c.pool_list().await).await.unwrap();
    assert_eq!(list.pool.nodes[0].breaker.state, "open");
    let reset = c
        .call(async |c| c.pool_reset("w1".into()).await)
        .await
        .unwrap();
    assert_eq!(reset.node.breaker.state, "closed");
    for unknown in [
        c.call(async |c| c.pool_drain("w2".into()).await).await,
        c.call(async |c| c.pool_resume("w2".into()).await).await,
        c.call(async |c| c.pool_reset("w2".into()).await).await,
    ] {
        let (code, text) = refused(unknown);
        assert_eq!(code, -32000);
        assert!(text.contains("no pool node \"w2\""), "{text}");
    }
}

#[tokio::test]
async fn without_a_pool_and_with_its_store_down_each_call_says_so() {
    let none = Desk::over(None);
    let c = none.client().await;
    let told = refused(c.call(async |c| c.pool_list().await).await).1;
    assert!(told.contains("add a [pool] section"), "{told}");
    let made = c.call(async |c| c.pool_keys_create("a".into(), "w".into(), None, None).await);
    assert!(refused(made.await).1.contains("[pool]"));
    let rig = Rig::start();
    rig.fleet
        .down
        .store(true, std::sync::atomic::Ordering::Relaxed);
    let desk = Desk::over(Some(&rig));
    let c = desk.client().await;
    let told = refused(c.call(async |c| c.pool_drain("w".into()).await).await).1;
    assert!(
        told.contains("store is down") && told.contains("nothing was changed"),
        "{told}"
    );
}
