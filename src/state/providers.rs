//! The fallback providers and how each of them stands (product section 8).
//!
//! Owns: which providers there are, also after a reload; the guard of a request on one. Leaves to
//! others: the decisions (`rules::provider`), exactly one probe (`standing`), sending (`net`), when a
//! provider's turn comes (`facade`).
//!
//! No method reads a clock: each is told the time.

mod standing;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::HeaderMap;

use super::scheduler::Scheduler;
use crate::config::gateway::ProviderSetting;
use crate::rules::candidates::{ProviderLink, Target};
use crate::rules::ids::NodeId;
use crate::rules::provider::circuit::{Pass, Why};
use crate::rules::provider::limits;
use crate::rules::provider::order::{Rank, by_rank};
use crate::rules::provider::target::{Place, target};
use crate::rules::provider::verdict::Verdict;
use crate::wire::control::{ProviderFailure, ProviderState, ProviderStatus};

use standing::{Refused, Standing};

/// While another request is the probe, it is worth asking again so soon.
const PROBING: Duration = Duration::from_secs(1);

/// All of them, in the order of the file.
pub struct Providers {
    /// Where targets have their seats.
    scheduler: Arc<Scheduler>,
    origin: Instant,
    all: RwLock<Arc<[Arc<Provider>]>>,
}

/// One provider as it was configured last. A request keeps the one it began with.
#[derive(Debug)]
pub struct Provider {
    setting: ProviderSetting,
    target: Arc<Target>,
    /// Its models: our name, its name.
    models: Vec<(Arc<str>, Arc<str>)>,
    standing: Arc<Standing>,
    /// Zero of its standing's clock.
    origin: Instant,
}

/// A provider that has a model.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Who.
    pub provider: Arc<Provider>,
    /// What it calls the model.
    pub upstream_model: Arc<str>,
}

/// Why a provider takes nothing now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// Ask again then.
    pub until: Instant,
    /// What for.
    pub why: RestWhy,
}

/// What a provider rests for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestWhy {
    /// Its rate limit.
    Limited,
    /// Too many failures in a row.
    Open,
    /// Its rest is over, and one request tries it alone.
    Probing,
}

impl fmt::Display for RestWhy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Limited => "cools down after its rate limit (429)",
            Self::Open => "failed too often in a row",
            Self::Probing => "is being tried by another request",
        })
    }
}

impl Providers {
    /// None yet. `origin` is no later than any time that is told later.
    pub fn new(scheduler: Arc<Scheduler>, origin: Instant) -> Self {
        Self {
            scheduler,
            origin,
            all: RwLock::new(Arc::new([])),
        }
    }

    /// From now on these, in this order. One whose name, URL and key stay keeps its standing; with
    /// another key it is another account. Returns a sentence for each that cannot be used.
    pub fn set(&self, entries: &[ProviderSetting]) -> Vec<String> {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let (mut new, mut wrong) = (Vec::new(), Vec::new());
        for setting in entries {
            let old = all.iter().find(|p| {
                let s = &p.setting;
                (&s.name, &s.base_url, &s.api_key)
                    == (&setting.name, &setting.base_url, &setting.api_key)
            });
            match old {
                Some(same) if same.setting == *setting => new.push(same.clone()),
                _ => match self.provider(setting, old.map(|p| p.standing.clone())) {
                    Ok(provider) => new.push(Arc::new(provider)),
                    Err(why) => wrong.push(why),
                },
            }
        }
        *all = new.into();
        wrong
    }

    fn provider(
        &self,
        setting: &ProviderSetting,
        standing: Option<Arc<Standing>>,
    ) -> Result<Provider, String> {
        let url = &setting.base_url;
        let place = Place {
            name: &setting.name,
            host: &url.host,
            port: url.port,
            host_header: &url.authority(),
            base: &url.path,
            key: setting.api_key.as_ref(),
            link: ProviderLink {
                tls: url.tls,
                connect: setting.upstream_timeout,
            },
        };
        let seat = self.scheduler.seat(&NodeId::from(setting.name.as_str()));
        let target = target(&place, seat)
            .map_err(|why| format!("provider {:?} is not used: it {why}", setting.name))?;
        let models = setting.models.iter();
        Ok(Provider {
            models: models
                .map(|m| (m.name.as_str().into(), m.upstream.as_str().into()))
                .collect(),
            setting: setting.clone(),
            target: Arc::new(target),
            standing: standing.unwrap_or_default(),
            origin: self.origin,
        })
    }

    /// Every provider, in the order of the file.
    pub fn all(&self) -> Arc<[Arc<Provider>]> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.clone()
    }

    /// The provider of this name.
    pub fn find(&self, name: &str) -> Option<Arc<Provider>> {
        self.all().iter().find(|p| p.name() == name).cloned()
    }

    /// Providers that have a model of this name, those that rest too: lowest tier first, then least
    /// penalty.
    pub fn serving(&self, model: &str, now: Instant) -> Vec<Choice> {
        let all = self.all();
        let has = all.iter().filter_map(|provider| {
            let (_, upstream) = provider.models.iter().find(|(ours, _)| **ours == *model)?;
            Some(Choice {
                provider: provider.clone(),
                upstream_model: upstream.clone(),
            })
        });
        let mut serving: Vec<Choice> = has.collect();
        by_rank(&mut serving, |c| c.provider.rank(now));
        serving
    }

    /// How they stand, in the order of the file.
    pub fn status(&self, now: Instant) -> Vec<ProviderStatus> {
        let all = self.all();
        let mut order: Vec<&Arc<Provider>> = all.iter().collect();
        by_rank(&mut order, |p| p.rank(now));
        order.retain(|p| p.rests(now).is_none());
        let place = |p: &Arc<Provider>| order.iter().position(|o| Arc::ptr_eq(o, p));
        all.iter()
            .map(|p| p.status(now, place(p).map(|n| n as u32 + 1)))
            .collect()
    }
}

impl Provider {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.setting.name
    }

    /// What is dialled.
    pub fn target(&self) -> Arc<Target> {
        self.target.clone()
    }

    /// Its models, by our names.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.models.iter().map(|(ours, _)| &**ours)
    }

    /// What it calls a model; one that it does not list is called as it is here.
    pub fn upstream_model(&self, model: &str) -> Arc<str> {
        let listed = self.models.iter().find(|(ours, _)| **ours == *model);
        listed.map_or_else(|| model.into(), |(_, upstream)| upstream.clone())
    }

    /// Why it takes nothing now, if so. Claims nothing.
    pub fn rests(&self, now: Instant) -> Option<Rest> {
        let refused = self.standing.look(self.ms(now)).err()?;
        Some(self.rest(refused, now))
    }

    /// Lets a request through, by a permit that must come back.
    ///
    /// # Errors
    /// It takes nothing now.
    pub fn admit(self: &Arc<Self>, now: Instant) -> Result<Permit, Rest> {
        match self.standing.admit(self.ms(now)) {
            Ok(pass) => Ok(Permit {
                provider: self.clone(),
                pass,
                limited: false,
                settled: false,
            }),
            Err(refused) => Err(self.rest(refused, now)),
        }
    }

    fn rest(&self, refused: Refused, now: Instant) -> Rest {
        let (until, why) = match refused {
            Refused::Probing => {
                return Rest {
                    until: now + PROBING,
                    why: RestWhy::Probing,
                };
            },
            Refused::Rests { until, why } => (until, why),
        };
        let why = match why {
            Why::Limited => RestWhy::Limited,
            Why::Open => RestWhy::Open,
        };
        let until = self.origin.checked_add(Duration::from_millis(until));
        Rest {
            until: until.unwrap_or(now),
            why,
        }
    }

    fn rank(&self, now: Instant) -> Rank {
        Rank {
            tier: self.setting.tier,
            penalty_ms: self.standing.penalty(self.ms(now)),
        }
    }

    fn ms(&self, now: Instant) -> u64 {
        ms(now.saturating_duration_since(self.origin))
    }

    fn status(&self, now: Instant, standing: Option<u32>) -> ProviderStatus {
        let (at, remembered) = (self.ms(now), self.standing.remembered());
        let (state, cool_down_ms) = match self.standing.look(at) {
            Ok(Pass::Plain) => (ProviderState::Ready, 0),
            Ok(Pass::Probe) | Err(Refused::Probing) => (ProviderState::HalfOpen, 0),
            Err(Refused::Rests { until, why }) => {
                let state = match why {
                    Why::Limited => ProviderState::CoolingDown,
                    Why::Open => ProviderState::Open,
                };
                (state, until.saturating_sub(at))
            },
        };
        ProviderStatus {
            name: self.name().to_owned(),
            base_url: self.setting.base_url.to_string(),
            tier: self.setting.tier,
            state,
            standing,
            penalty_ms: remembered.penalty.at(at),
            cool_down_ms,
            failures_in_a_row: remembered.circuit.failures(),
            failures: remembered.failures,
            last_failure: remembered.last_failure.map(|(text, when)| ProviderFailure {
                text: text.into_owned(),
                age_ms: at.saturating_sub(when),
            }),
            requests: self.standing.requests(),
            limited: remembered.limits,
            models: self.models().map(str::to_owned).collect(),
        }
    }
}

/// A request on a provider. Settled once; dropped before, it says nothing about the provider.
#[derive(Debug)]
#[must_use = "a permit that is dropped says nothing about its provider"]
pub struct Permit {
    provider: Arc<Provider>,
    pass: Pass,
    /// Whether its cool-down was noted.
    limited: bool,
    settled: bool,
}

impl Permit {
    /// Whose.
    pub fn provider(&self) -> &Arc<Provider> {
        &self.provider
    }

    /// Notes what an answer's head says of rate limits: after a 429 others are kept away at once.
    /// `wall_clock` is what dates are compared with.
    pub fn headers(
        &mut self,
        status: u16,
        headers: &HeaderMap,
        now: Instant,
        wall_clock: SystemTime,
    ) {
        if status == 429 {
            let unix = wall_clock.duration_since(UNIX_EPOCH).unwrap_or_default();
            self.limit(limits::cool_down(headers, ms(unix)), now);
        }
    }

    /// The request ended like this.
    pub fn settle(mut self, verdict: Verdict, now: Instant) {
        if verdict == Verdict::Limited {
            self.limit(limits::DEFAULT, now);
        }
        self.settled = true;
        let (standing, now) = (&self.provider.standing, self.provider.ms(now));
        standing.settle(self.pass, verdict, now);
    }

    /// The first time counts: an end that is only a status knows no better.
    fn limit(&mut self, span: Duration, now: Instant) {
        if !std::mem::replace(&mut self.limited, true) {
            let until = self.provider.ms(now).saturating_add(ms(span));
            self.provider.standing.limit(until);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.settled && self.pass == Pass::Probe {
            self.provider.standing.give_back();
        }
    }
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
