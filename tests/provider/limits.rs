//! What a provider's 429 does, over real TLS.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nvpair_proxy::net::upstream::Upstreams;
use nvpair_proxy::rules::provider::verdict::Verdict;
use nvpair_proxy::state::providers::{Provider as Known, RestWhy};

use crate::support::engine::{Engine, Reply};
use crate::support::provider::{Authority, Provider};
use crate::{ask, provider, setting, way};

const S: Duration = Duration::from_secs(1);

struct World {
    there: Provider,
    known: Arc<Known>,
    begun: Instant,
    upstreams: Arc<Upstreams>,
}

impl World {
    fn new(reply: Reply) -> Self {
        let authority = Authority::new();
        let there = Provider::secured(Engine::always(reply), authority.server(&["127.0.0.1"]));
        let url = format!("https://127.0.0.1:{}/v1", there.port());
        let (known, begun) = provider(setting(&url));
        let upstreams = way(authority.roots(), "", "");
        Self {
            there,
            known,
            begun,
            upstreams,
        }
    }

    /// Sends a request at this time, if it is let through, as the gateway does.
    async fn request(&self, now: Instant, wall: SystemTime) -> Option<u16> {
        let mut permit = self.known.admit(now).ok()?;
        match ask(&self.upstreams, &self.known.target()).await {
            Ok(answer) => {
                permit.headers(answer.status, &answer.headers, now, wall);
                permit.settle(Verdict::of_status(answer.status), now);
                Some(answer.status)
            },
            Err(e) => {
                permit.settle(Verdict::failure(e.text()), now);
                None
            },
        }
    }
}

#[tokio::test]
async fn each_form_of_a_limit_rests_the_provider_for_as_long_as_it_says() {
    let wall = UNIX_EPOCH + Duration::from_secs(1_741_305_600);
    let forms: &[(&[(&str, &str)], u64)] = &[
        (&[("Retry-After", "17")], 17),
        (&[("Retry-After", "Fri, 07 Mar 2025 00:01:00 GMT")], 60),
        (&[("retry-after-ms", "2000"), ("Retry-After", "60")], 2),
        (
            &[
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-remaining-tokens", "100"),
                ("x-ratelimit-reset-requests", "6m0s"),
                ("x-ratelimit-reset-tokens", "20ms"),
            ],
            360,
        ),
        (&[("ratelimitbysize-reset", "42")], 42),
        (&[("X-RateLimit-Reset", "1741305645000")], 45),
        (&[], 30),
        (
            &[("Retry-After", "-5"), ("x-ratelimit-reset", "yesterday")],
            30,
        ),
        (&[("Retry-After", "99999")], 3600),
    ];
    let world = World::new(Reply::status(429));
    let mut now = world.begun;
    for (headers, seconds) in forms {
        let limited = Reply::with(429, headers, "{\"error\":{\"message\":\"slow down\"}}");
        world.there.engine.now(move |_| limited.clone());
        assert_eq!(world.request(now, wall).await, Some(429), "{headers:?}");
        let rest = world.known.rests(now).unwrap();
        let want = (RestWhy::Limited, now + S * u32::try_from(*seconds).unwrap());
        assert_eq!((rest.why, rest.until), want, "{headers:?}");
        now = rest.until;
    }
}

/// 200 requests at once, again and again: after each cool-down one of them reaches the provider.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_limits_lets_one_probe_through_after_each_cool_down() {
    let limited = Reply::with(429, &[("Retry-After", "20")], "");
    let world = Arc::new(World::new(limited));
    let storm = async |now: Instant| {
        let before = world.there.engine.hits();
        let sends = (0..200).map(|_| {
            let world = world.clone();
            tokio::spawn(async move { world.request(now, UNIX_EPOCH).await })
        });
        let mut sent = Vec::new();
        for send in sends.collect::<Vec<_>>() {
            sent.extend(send.await.unwrap());
        }
        assert_eq!(world.there.engine.hits() - before, sent.len());
        sent
    };
    let mut now = world.begun;
    let first = storm(now).await;
    assert!(!first.is_empty() && first.iter().all(|s| *s == 429));
    for _ in 0..3 {
        assert!(storm(now + 19 * S).await.is_empty(), "it rests");
        now += 20 * S;
        assert_eq!(storm(now).await, [429], "one probe");
    }
    now += 20 * S;
    world.there.engine.now(|_| Reply::with(200, &[], "ok"));
    // It may be over before the last one asks; whoever comes then is no probe.
    assert!(storm(now).await.iter().all(|s| *s == 200));
    assert_eq!(storm(now).await.len(), 200, "closed");
}
