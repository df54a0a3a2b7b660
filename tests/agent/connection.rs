//! The agent's connection to the registry: one, kept, and replaced without loss.

use nvpair_proxy::rules::pool::record::Record;

use crate::doors::certificate;
use crate::gateway::{Gateway, agent_at, ollama, url};
use crate::relay::Relay;
use crate::support::daemon::{Process, World};
use crate::support::{ask_until, wait_for};

struct Rig {
    agent: Process,
    gateway: Gateway,
    relay: Relay,
    // Alive for as long as the agent is.
    _parts: (World, crate::support::engine::Engine),
}

/// An agent behind a relay, with TLS or without, that beats.
fn rig(tls: bool) -> Rig {
    let (world, engine) = (World::new(), ollama());
    let (mut gateway, pin) = match tls {
        true => {
            let tls = certificate(&world);
            let pin = vec!["--proxy-fingerprint".to_owned(), tls.fingerprint()];
            (Gateway::with_tls(Some(tls)), pin)
        },
        false => (Gateway::start(), Vec::new()),
    };
    let key = gateway.key("w1");
    let relay = Relay::start(gateway.address().parse().unwrap());
    let at = relay.address.to_string();
    let pin: Vec<&str> = pin.iter().map(String::as_str).collect();
    let agent = agent_at(&world, &at, &key, "ollama", &url(&engine), &pin);
    gateway.until("a beat", "w1", |r| r.beat.is_some());
    Rig {
        gateway,
        relay,
        agent,
        _parts: (world, engine),
    }
}

impl Rig {
    fn record(&self) -> Record {
        self.gateway.record("w1").unwrap()
    }

    /// Waits for so many beats; they come in one session.
    fn beats(&self, n: usize) -> Record {
        (0..n).fold(self.record(), |last, _| self.gateway.next_beat(&last))
    }

    /// Nobody would say that the node was ever gone, neither there nor here.
    fn assert_unharmed(&self) {
        let log = self.agent.log.text();
        assert!(log.contains("state=\"healthy\""), "{log}");
        // The agent says so when a beat fails.
        assert!(!log.contains("cannot be used"), "{log}");
        assert!(!log.contains("offline"), "{log}");
        assert_eq!(log.matches("] registered node=").count(), 1, "{log}");
    }
}

#[test]
fn beats_come_over_one_connection() {
    for tls in [false, true] {
        let rig = rig(tls);
        rig.beats(3);
        assert_eq!(rig.relay.accepted(), 1, "with TLS: {tls}");
        rig.assert_unharmed();
    }
}

#[test]
fn a_registry_that_restarts_costs_no_beat() {
    for tls in [false, true] {
        let mut rig = rig(tls);
        let before = rig.beats(1);
        rig.gateway.stop();
        rig.gateway.again();
        let after = rig.beats(2);
        assert_eq!(after.session, before.session);
        assert_eq!(rig.relay.accepted(), 2, "with TLS: {tls}");
        rig.assert_unharmed();
    }
}

#[test]
fn a_connection_that_is_cut_costs_no_beat() {
    let rig = rig(true);
    for n in 2..4 {
        rig.beats(1);
        rig.relay.cut();
        wait_for("the agent comes again", || rig.relay.accepted() >= n);
        rig.beats(1);
    }
    rig.assert_unharmed();
}

#[test]
fn a_beat_whose_answer_is_lost_counts_once_and_the_next_is_heard() {
    let rig = rig(false);
    let before = rig.beats(1);
    rig.relay.lose_an_answer();
    wait_for("an answer is lost", || !rig.relay.is_to_lose());
    let after = rig.beats(2);
    assert_eq!(after.session, before.session);
    rig.assert_unharmed();
    // What the gateway has to say is heard again.
    rig.gateway.drain("w1", true);
    rig.agent.log.expect("an administrator drains this node");
    assert!(rig.relay.accepted() >= 2);
}

#[test]
fn nothing_is_left_open_when_the_agent_ends() {
    let mut rig = rig(true);
    rig.agent.terminate();
    assert_eq!(rig.agent.exit_code(), 0);
    assert_eq!(rig.relay.accepted(), 1, "unregistering goes the same way");
    ask_until("it unregistered", || {
        rig.gateway.record("w1").is_none().then_some(())
    });
}
