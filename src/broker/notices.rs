//! Which frame a notice becomes (control-plane facts, proxy to parent).
//!
//! Owns: names, addressing and field spelling of everything we say unasked.
//! Leaves to others: when it is said (`daemon`, `facade`), getting it out (`outbox`).
//!
//! Facade-scoped names carry their engine, `workload:*` and `node/activity` never do: the broker
//! drops or misfiles a frame that is addressed the other way.

use serde::Serialize;

use super::outbox::Outbox;
use crate::rules::engine::EngineId;
use crate::rules::ids::NodeId;
use crate::state::events::{Notice, Sink, WorkloadNotice};
use crate::wire::broker::WorkloadInfo;

impl Sink for Outbox {
    fn notice(&self, notice: &Notice) {
        match notice {
            Notice::Ready(engine, port) => self.ready(*engine, *port),
            Notice::BindFailed(engine, port, message) => self.notify(
                Some(*engine),
                "error",
                &BindFailed {
                    code: "bind-failed",
                    message,
                    port: *port,
                },
            ),
            Notice::Subscribe(engine) => {
                let services = [engine.spec().service_key];
                self.notify(
                    Some(*engine),
                    "discovery:subscribe",
                    &Subscribe { services },
                );
            },
            Notice::NodeDiscovered(engine, node) => {
                self.notify(Some(*engine), "node/discovered", node);
            },
            Notice::NodeUpdated(engine, node) => self.notify(Some(*engine), "node/updated", node),
            Notice::NodeRemoved(engine, node) => self.notify(Some(*engine), "node/removed", node),
            Notice::SelectionChanged(engine, pin) => {
                let id = pin.as_ref().map_or("", NodeId::as_str);
                self.notify(Some(*engine), "node/selection-changed", &Id { id });
            },
            Notice::ErrorReport(engine, id, message) => {
                self.notify(
                    Some(*engine),
                    "errors:report",
                    &Report::warning(id, message),
                );
            },
            Notice::ErrorClear(engine, id) => {
                self.notify(Some(*engine), "errors:clear", &Id { id });
            },
            Notice::RequestStarted(engine, event) => {
                self.notify(Some(*engine), "proxy/request-started", event);
            },
            Notice::RequestFinished(engine, event) => {
                self.notify(Some(*engine), "proxy/request", event);
            },
            Notice::Workload(which, info) => {
                let params = Workload {
                    workload_info: info,
                };
                self.notify(None, workload_method(*which), &params);
            },
            Notice::Activity(node) => {
                let params = Activity {
                    host_uuid: node,
                    ms_since: 0,
                };
                self.notify(None, "node/activity", &params);
            },
        }
    }
}

impl Outbox {
    fn ready(&self, engine: EngineId, port: u16) {
        let params = Ready {
            version: self.version(),
            port,
        };
        self.notify(Some(engine), "ready", &params);
    }
}

fn workload_method(which: WorkloadNotice) -> &'static str {
    match which {
        WorkloadNotice::Submitted => "workload:submitted",
        WorkloadNotice::Started => "workload:started",
        WorkloadNotice::Completed => "workload:completed",
        WorkloadNotice::Errored => "workload:errored",
    }
}

#[derive(Serialize)]
struct Ready<'a> {
    version: &'a str,
    port: u16,
}

#[derive(Serialize)]
struct BindFailed<'a> {
    code: &'static str,
    message: &'a str,
    port: u16,
}

#[derive(Serialize)]
struct Subscribe {
    services: [&'static str; 1],
}

#[derive(Serialize)]
struct Id<'a> {
    id: &'a str,
}

#[derive(Serialize)]
struct Report<'a> {
    id: &'a str,
    message: &'a str,
    /// The broker stamps it.
    timestamp: u64,
    severity: &'static str,
    action: &'static str,
}

impl<'a> Report<'a> {
    fn warning(id: &'a str, message: &'a str) -> Self {
        Self {
            id,
            message,
            timestamp: 0,
            severity: "warning",
            action: "none",
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Workload<'a> {
    workload_info: &'a WorkloadInfo,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Activity<'a> {
    host_uuid: &'a NodeId,
    ms_since: u64,
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::rules::ids::RunId;
    use crate::wire::broker::{NodeRecord, RequestFinished, RequestStarted, Stats, WorkloadState};

    struct Tap(Sender<Vec<u8>>);

    impl Write for Tap {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.0
                .send(buf.to_vec())
                .map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(buf.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Method and params of the frame that a notice becomes, as text.
    fn frame(notice: Notice) -> String {
        let (tx, rx) = channel();
        let outbox = Outbox::start(Tap(tx), "1.2.3", |_| {}).unwrap();
        outbox.notice(&notice);
        outbox.close();
        let line = String::from_utf8(rx.iter().flatten().collect()).unwrap();
        let rest = line.strip_prefix(r#"{"jsonrpc":"2.0","method":"#).unwrap();
        let rest = rest.strip_suffix("}\n").unwrap();
        rest.replacen(r#","params":"#, " ", 1)
    }

    fn ollama() -> EngineId {
        EngineId::parse("ollama").unwrap()
    }

    #[test]
    fn facade_notices_are_addressed() {
        let started = RequestStarted {
            id: "3".into(),
            node_id: Some("n".into()),
            method: "POST".into(),
            path: "/api/chat".into(),
            target: "h:1".into(),
        };
        let finished = RequestFinished {
            id: "4".into(),
            node_id: None,
            method: "GET".into(),
            path: "/".into(),
            target: String::new(),
            status: 502,
            duration_ms: 7,
            ttfb_ms: None,
            error: Some("no node".into()),
        };
        for (notice, want) in [
            (
                Notice::Ready(ollama(), 11434),
                r#""ollama:ready" {"version":"1.2.3","port":11434}"#,
            ),
            (
                Notice::BindFailed(ollama(), 1, "in use".into()),
                r#""ollama:error" {"code":"bind-failed","message":"in use","port":1}"#,
            ),
            (
                Notice::Subscribe(ollama()),
                r#""ollama:discovery:subscribe" {"services":["ol"]}"#,
            ),
            (
                Notice::SelectionChanged(ollama(), Some("n".into())),
                r#""ollama:node/selection-changed" {"id":"n"}"#,
            ),
            (
                Notice::SelectionChanged(ollama(), None),
                r#""ollama:node/selection-changed" {"id":""}"#,
            ),
            (
                Notice::ErrorReport(ollama(), "i".into(), "m".into()),
                r#""ollama:errors:report" {"id":"i","message":"m","timestamp":0,"severity":"warning","action":"none"}"#,
            ),
            (
                Notice::ErrorClear(ollama(), "i".into()),
                r#""ollama:errors:clear" {"id":"i"}"#,
            ),
            (
                Notice::RequestStarted(ollama(), started),
                r#""ollama:proxy/request-started" {"id":"3","node_id":"n","method":"POST","path":"/api/chat","target":"h:1"}"#,
            ),
            (
                Notice::RequestFinished(ollama(), finished),
                r#""ollama:proxy/request" {"id":"4","method":"GET","path":"/","target":"","status":502,"duration_ms":7,"error":"no node"}"#,
            ),
        ] {
            assert_eq!(frame(notice), want);
        }
    }

    #[test]
    fn subscribe_names_the_key_of_its_own_engine() {
        for (engine, key) in [("ollama", "ol"), ("lmstudio", "lm"), ("llamacpp", "lc")] {
            let notice = Notice::Subscribe(EngineId::parse(engine).unwrap());
            let want = format!(r#""{engine}:discovery:subscribe" {{"services":["{key}"]}}"#);
            assert_eq!(frame(notice), want);
        }
    }

    #[test]
    fn node_notices_carry_the_record() {
        let node = NodeRecord {
            id: "n".into(),
            host: "rig".into(),
            port: 11434,
            addresses: vec!["10.0.0.1".into()],
            txt: vec!["ip=10.0.0.1".into()],
            models: vec!["m".into()],
            ip: Some("10.0.0.1".into()),
        };
        let full = r#"{"id":"n","host":"rig","port":11434,"addresses":["10.0.0.1"],"txt":["ip=10.0.0.1"],"models":["m"],"ip":"10.0.0.1"}"#;
        let only_id = NodeRecord {
            id: "n".into(),
            ..NodeRecord::default()
        };
        let bare = r#"{"id":"n","host":"","port":0,"addresses":[],"txt":[]}"#;
        for (notice, name, params) in [
            (
                Notice::NodeDiscovered(ollama(), node.clone()),
                "discovered",
                full,
            ),
            (Notice::NodeUpdated(ollama(), node), "updated", full),
            (Notice::NodeRemoved(ollama(), only_id), "removed", bare),
        ] {
            assert_eq!(frame(notice), format!(r#""ollama:node/{name}" {params}"#));
        }
    }

    #[test]
    fn process_notices_have_no_address() {
        let info = WorkloadInfo {
            id: "23".into(),
            model: "qwen3:8b".into(),
            engine: ollama(),
            run_id: RunId::from_bytes([0xa9, 0x1f, 3, 0xc2, 0x7b, 0xe4, 0xd5, 0x18]),
            state: WorkloadState::Cancelled,
            originated_from: String::new(),
            scheduled_on: None,
            created_at: 1,
            started_at: None,
            completed_at: Some(2),
            error: Some("e".into()),
            requester_id: None,
            seq: 4,
            stats: Some(Stats {
                tokens_per_second: Some(1.5),
                ..Stats::default()
            }),
        };
        let params = r#"{"workloadInfo":{"id":"23","model":"qwen3:8b","engine":"ollama","runId":"a91f03c27be4d518","state":"cancelled","originatedFrom":"","createdAt":1,"startedAt":null,"completedAt":2,"error":"e","requesterId":null,"seq":4,"stats":{"tokensPerSecond":1.5}}}"#;
        for (which, name) in [
            (WorkloadNotice::Submitted, "submitted"),
            (WorkloadNotice::Started, "started"),
            (WorkloadNotice::Completed, "completed"),
            (WorkloadNotice::Errored, "errored"),
        ] {
            let notice = Notice::Workload(which, Box::new(info.clone()));
            assert_eq!(frame(notice), format!(r#""workload:{name}" {params}"#));
        }
        assert_eq!(
            frame(Notice::Activity("n".into())),
            r#""node/activity" {"hostUuid":"n","msSince":0}"#
        );
    }
}
