use std::sync::Barrier;
use std::thread;

use http::{HeaderValue, header};

use super::*;
use crate::config::gateway::ProviderModel;
use crate::config::http_url::HttpUrl;
use crate::rules::policy::Policy;
use crate::rules::secret::Secret;

const S: Duration = Duration::from_secs(1);

struct World {
    providers: Providers,
    begun: Instant,
}

impl World {
    fn new(entries: &[ProviderSetting]) -> Self {
        let begun = Instant::now();
        let scheduler = Arc::new(Scheduler::new(Policy::Weighted));
        let providers = Providers::new(scheduler, begun);
        assert_eq!(providers.set(entries), [""; 0]);
        Self { providers, begun }
    }

    /// So many seconds after the begin.
    fn at(&self, seconds: u64) -> Instant {
        self.begun + S * u32::try_from(seconds).unwrap()
    }

    fn get(&self, name: &str) -> Arc<Provider> {
        self.providers.find(name).unwrap()
    }

    fn fail(&self, name: &str, times: usize, seconds: u64) {
        for _ in 0..times {
            let permit = self.get(name).admit(self.at(seconds)).unwrap();
            permit.settle(Verdict::of_status(500), self.at(seconds));
        }
    }

    fn status(&self, name: &str, seconds: u64) -> ProviderStatus {
        let all = self.providers.status(self.at(seconds));
        all.into_iter().find(|p| p.name == name).unwrap()
    }
}

fn setting(name: &str, tier: u32, models: &[(&str, &str)]) -> ProviderSetting {
    ProviderSetting {
        name: name.to_owned(),
        base_url: HttpUrl::parse(&format!("https://{name}.example/v1")).unwrap(),
        api_key: Some(Secret::new("k")),
        tier,
        models: models
            .iter()
            .map(|(name, upstream)| ProviderModel {
                name: (*name).to_owned(),
                upstream: (*upstream).to_owned(),
            })
            .collect(),
        upstream_timeout: S * 5,
    }
}

fn limited(seconds: &str) -> HeaderMap {
    let value = HeaderValue::from_str(seconds).unwrap();
    [(header::RETRY_AFTER, value)].into_iter().collect()
}

/// Asks by 200 threads at once; what was let through.
fn storm(provider: &Arc<Provider>, now: Instant) -> Vec<Permit> {
    let start = Barrier::new(200);
    thread::scope(|scope| {
        let ask = || {
            start.wait();
            provider.admit(now)
        };
        let askers: Vec<_> = (0..200).map(|_| scope.spawn(ask)).collect();
        let answers = askers.into_iter().map(|a| a.join().unwrap());
        answers
            .filter_map(|answer| match answer {
                Ok(permit) => Some(permit),
                Err(rest) => {
                    assert_eq!((rest.why, rest.until), (RestWhy::Probing, now + PROBING));
                    None
                },
            })
            .collect()
    })
}

#[test]
fn half_open_permits() {
    let world = World::new(&[setting("a", 0, &[])]);
    let a = world.get("a");
    world.fail("a", 5, 0);
    let rest = a.admit(world.at(29)).unwrap_err();
    assert_eq!((rest.why, rest.until), (RestWhy::Open, world.at(30)));
    // Exactly one, again and again, however it ends.
    let mut begin = 30;
    for (end, opens) in [
        (None, 0),
        (Some(Verdict::Neutral), 0),
        (Some(Verdict::of_status(503)), 60),
        (Some(Verdict::failure("x")), 120),
        (Some(Verdict::Success), 0),
    ] {
        let now = world.at(begin);
        let mut through = storm(&a, now);
        assert_eq!(through.len(), 1, "{end:?}");
        assert_eq!(world.status("a", begin).state, ProviderState::HalfOpen);
        assert_eq!(a.rests(now).unwrap().why, RestWhy::Probing);
        match (through.remove(0), end) {
            (permit, None) => drop(permit),
            (permit, Some(verdict)) => permit.settle(verdict, now),
        }
        begin += opens;
        if opens > 0 {
            let early = a.admit(world.at(begin - 1)).unwrap_err();
            assert_eq!((early.why, early.until), (RestWhy::Open, world.at(begin)));
        }
    }
    assert_eq!(storm(&a, world.at(begin)).len(), 200, "closed");
}

#[test]
fn after_a_limit_exactly_one_goes_first() {
    let world = World::new(&[setting("a", 0, &[])]);
    let a = world.get("a");
    // All of a storm are told so, and the last time counts.
    let through = storm(&a, world.at(0));
    assert_eq!(through.len(), 200);
    for (n, mut permit) in through.into_iter().enumerate() {
        let told = if n == 77 { "20" } else { "7" };
        permit.headers(429, &limited(told), world.at(0), UNIX_EPOCH);
        permit.settle(Verdict::of_status(429), world.at(0));
    }
    let status = world.status("a", 5);
    assert_eq!(
        (
            status.state,
            status.cool_down_ms,
            status.limited,
            status.requests
        ),
        (ProviderState::CoolingDown, 15_000, 200, 200)
    );
    assert_eq!((status.failures, status.penalty_ms), (0, 0), "no failure");
    let rest = a.admit(world.at(19)).unwrap_err();
    assert_eq!((rest.why, rest.until), (RestWhy::Limited, world.at(20)));
    // The probe is limited again, this time without a word of when.
    let mut through = storm(&a, world.at(20));
    assert_eq!(through.len(), 1);
    through.remove(0).settle(Verdict::Limited, world.at(20));
    assert_eq!(a.rests(world.at(49)).unwrap().until, world.at(50));
    let mut through = storm(&a, world.at(50));
    assert_eq!(through.len(), 1);
    through.remove(0).settle(Verdict::Success, world.at(50));
    assert_eq!(storm(&a, world.at(50)).len(), 200);
}

#[test]
fn a_limit_keeps_others_away_as_soon_as_its_head_is_there() {
    let world = World::new(&[setting("a", 0, &[])]);
    let a = world.get("a");
    let mut permit = a.admit(world.at(0)).unwrap();
    permit.headers(500, &limited("9"), world.at(0), UNIX_EPOCH);
    permit.headers(200, &limited("9"), world.at(0), UNIX_EPOCH);
    assert_eq!(a.rests(world.at(0)), None, "only a 429 limits");
    let date = limited("Sun, 06 Nov 1994 08:49:37 GMT");
    let wall = UNIX_EPOCH + Duration::from_secs(784_111_777 - 90);
    permit.headers(429, &date, world.at(1), wall);
    assert_eq!(a.rests(world.at(1)).unwrap().until, world.at(91));
    // Dropped, it took nothing back.
    drop(permit);
    assert_eq!(a.rests(world.at(1)).unwrap().until, world.at(91));
    // A clock before 1970 has no dates, and seconds still count.
    let mut probe = a.admit(world.at(91)).unwrap();
    probe.headers(429, &limited("4"), world.at(91), UNIX_EPOCH - S);
    probe.settle(Verdict::Limited, world.at(91));
    assert_eq!(a.rests(world.at(91)).unwrap().until, world.at(95));
    assert_eq!(world.status("a", 91).limited, 2);
}

#[test]
fn those_that_have_the_model_come_by_tier_and_penalty() {
    let world = World::new(&[
        setting("late", 1, &[("m", "m")]),
        setting("a", 0, &[("m", "theirs"), ("other", "x")]),
        setting("b", 0, &[("m", "m")]),
        setting("none", 0, &[("other", "other")]),
    ]);
    let order = |seconds| {
        let found = world.providers.serving("m", world.at(seconds));
        let name = |c: Choice| format!("{}={}", c.provider.name(), c.upstream_model);
        found.into_iter().map(name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(order(0), "a=theirs b=m late=m");
    world.fail("a", 2, 0);
    assert_eq!(order(0), "b=m a=theirs late=m", "2 s against none");
    world.fail("b", 3, 60);
    assert_eq!(order(60), "a=theirs b=m late=m", "1 s against 4 s");
    world.fail("a", 3, 60);
    assert_eq!(world.status("a", 60).state, ProviderState::Open);
    assert_eq!(order(60), "b=m a=theirs late=m", "also while it rests");
    assert!(world.providers.serving("none", world.at(0)).is_empty());
    let a = world.get("a");
    assert_eq!(&*a.upstream_model("m"), "theirs");
    assert_eq!(&*a.upstream_model("unlisted"), "unlisted");
    assert!(world.providers.find("nobody").is_none());
}

#[test]
fn status_says_how_each_stands() {
    let world = World::new(&[
        setting("a", 0, &[("m", "theirs")]),
        setting("b", 0, &[]),
        setting("c", 3, &[]),
    ]);
    world.fail("a", 5, 0);
    let permit = world.get("b").admit(world.at(0)).unwrap();
    permit.settle(Verdict::of_status(401), world.at(2));
    let shown = serde_json::to_value(world.providers.status(world.at(10))).unwrap();
    let want = serde_json::json!({
        "name": "a", "base_url": "https://a.example/v1", "tier": 0, "state": "open",
        "standing": null, "penalty_ms": 16_000, "cool_down_ms": 20_000, "failures_in_a_row": 5,
        "failures": 5, "last_failure": {"text": "answered 500", "age_ms": 10_000},
        "requests": 5, "limited": 0, "models": ["m"],
    });
    assert_eq!(shown[0], want);
    let standing = |n: usize| shown[n]["standing"].as_u64();
    assert_eq!((standing(1), standing(2)), (Some(1), Some(2)));
    assert_eq!(
        shown[1]["last_failure"]["text"],
        "answered 401: it does not know the key"
    );
    assert!(!shown.to_string().contains("\"k\""));
    assert_eq!(world.status("a", 30).state, ProviderState::HalfOpen);
    assert_eq!(world.status("a", 30).standing, Some(2), "behind b's 1 s");
}

#[test]
fn a_reload_keeps_the_standing_of_the_same_account() {
    let old = setting("a", 0, &[("m", "m")]);
    let world = World::new(&[old.clone(), setting("b", 0, &[])]);
    world.fail("a", 5, 0);
    let (before, permit) = (world.get("a"), world.get("b").admit(world.at(0)).unwrap());
    let failures = |entry: &ProviderSetting| {
        world.providers.set(std::slice::from_ref(entry));
        world.status("a", 0).failures_in_a_row
    };
    assert_eq!(failures(&old), 5);
    assert!(Arc::ptr_eq(&before, &world.get("a")), "nothing changed");
    // What was on another one ends as it began.
    permit.settle(Verdict::failure("x"), world.at(0));
    let tier = ProviderSetting {
        tier: 4,
        models: Vec::new(),
        upstream_timeout: S,
        ..old.clone()
    };
    assert_eq!(failures(&tier), 5);
    assert_eq!(world.get("a").target().provider().unwrap().connect, S);
    assert!(world.providers.serving("m", world.at(0)).is_empty());
    let key = ProviderSetting {
        api_key: Some(Secret::new("new")),
        ..old.clone()
    };
    assert_eq!(failures(&key), 0, "another account");
    // One that is still under way counts for the account that it was sent with.
    let old_permit = before.admit(world.at(30)).unwrap();
    old_permit.settle(Verdict::failure("x"), world.at(30));
    assert_eq!(world.status("a", 30).failures, 0);
    world.fail("a", 1, 0);
    let moved = ProviderSetting {
        base_url: HttpUrl::parse("https://elsewhere.example/v1").unwrap(),
        ..key
    };
    assert_eq!(failures(&moved), 0);
    let wrong = ProviderSetting {
        api_key: Some(Secret::new("canary\n")),
        ..old
    };
    let told = world.providers.set(&[wrong]);
    assert!(
        told[0].contains("\"a\" is not used") && !told[0].contains("canary"),
        "{told:?}"
    );
    assert!(world.providers.all().is_empty());
}

#[test]
fn permits_and_providers_show_no_key() {
    let mut secret = setting("a", 0, &[]);
    secret.api_key = Some(Secret::new("canary"));
    let world = World::new(&[secret]);
    let permit = world.get("a").admit(world.at(0)).unwrap();
    assert!(!format!("{permit:?}").contains("canary"));
    assert!(permit.provider().target().bearer.is_some());
}
