//! Random runs of the rules beside a plain model of the specification.
//!
//! `MODEL_TRANSITIONS` says how many (50,000 by default), `MODEL_SEED` where the numbers begin. A
//! sequence that fails is made short and kept in `tests/model/regressions/`, from where it is run
//! again each time.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of tests fails the test that calls it"
)]

mod reference;
mod sut;
mod transition;
mod watch;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nvpair_proxy::rules::policy::Policy;

use reference::Reference;
use sut::Sut;
use transition::{Dice, Generator, NODES, Seen, Sight, Transition};
use watch::Watch;

/// How long one world lasts.
const WORLD: u64 = 500;

/// The real rules, the model of them, and who watches.
struct World {
    sut: Sut,
    reference: Reference,
    watch: Watch,
}

impl World {
    fn new(policy: Policy) -> Self {
        Self {
            sut: Sut::new(policy),
            reference: Reference::new(policy == Policy::Listed),
            watch: Watch::default(),
        }
    }

    fn apply(&mut self, t: &Transition) -> Result<(), String> {
        if let Transition::Advance { ms } = t {
            let end = self.sut.now() + Duration::from_millis(*ms);
            while let Some((moment, request)) = self.sut.next_wake().filter(|(m, _)| *m <= end) {
                self.set_time(moment);
                let saw = self.sut.wake(request);
                let wanted = self.reference.wake(request);
                self.compare(&saw, &wanted)?;
            }
            self.set_time(end);
        }
        self.watch.before(t, self.sut.now());
        let saw = self.sut.apply(t);
        let wanted = self.reference.apply(t);
        self.compare(&saw, &wanted)
    }

    fn set_time(&mut self, now: Duration) {
        self.sut.set_time(now);
        self.reference.set_time(now);
    }

    fn compare(&mut self, saw: &[Sight], wanted: &[Sight]) -> Result<(), String> {
        for sight in saw {
            self.watch.see(sight, self.sut.now())?;
        }
        let fits = |(a, b): (&Sight, &Sight)| a.0 == b.0 && a.1.fits(&b.1);
        if saw.len() != wanted.len() || !saw.iter().zip(wanted).all(fits) {
            return Err(format!("the rules: {saw:?}\nthe model: {wanted:?}"));
        }
        for (request, seen) in saw {
            if let Seen::Rests { to, .. } = seen {
                self.reference.rests_until(*request, *to);
            }
        }
        for node in 0..NODES {
            let (is, must) = (self.sut.load(node), self.reference.load(node));
            if is != must {
                return Err(format!("load of node {node}: {is:?} and not {must:?}"));
            }
        }
        Ok(())
    }

    /// At rest nothing is left behind.
    fn end(mut self) -> Result<Watch, String> {
        self.apply(&Transition::Shutdown)?;
        for node in 0..NODES {
            let [_, _, reserved, in_flight] = self.sut.load(node);
            if (reserved, in_flight) != (0, 0) {
                return Err(format!(
                    "at rest, node {node} has {reserved} and {in_flight}"
                ));
            }
        }
        self.watch.all_over()?;
        Ok(self.watch)
    }
}

/// Runs a sequence; a panic of the rules is a failure like any other.
fn run(policy: Policy, sequence: &[Transition]) -> Result<(), String> {
    let all = || {
        let mut world = World::new(policy);
        for (n, t) in sequence.iter().enumerate() {
            world.apply(t).map_err(|e| format!("{}: {t}\n{e}", n + 1))?;
        }
        world.end().map(drop)
    };
    catch_unwind(AssertUnwindSafe(all)).unwrap_or_else(|_| Err("a panic".to_owned()))
}

/// Leaves out whatever the failure does not need.
fn shrink(policy: Policy, mut sequence: Vec<Transition>) -> Vec<Transition> {
    let mut part = sequence.len().div_ceil(2);
    while part > 0 {
        let mut at = 0;
        while at < sequence.len() {
            let mut shorter = sequence.clone();
            shorter.drain(at..(at + part).min(sequence.len()));
            if run(policy, &shorter).is_err() {
                sequence = shorter;
            } else {
                at += part;
            }
        }
        part /= 2;
    }
    sequence
}

fn regressions() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/model/regressions")
}

fn text(policy: Policy, sequence: &[Transition]) -> String {
    let lines = sequence.iter().map(|t| format!("{t}\n"));
    format!("{}\n{}", policy.as_str(), lines.collect::<String>())
}

fn read(text: &str) -> (Policy, Vec<Transition>) {
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    let mut lines = lines.filter(|l| !l.is_empty());
    let policy = match lines.next() {
        Some("listed") => Policy::Listed,
        Some("weighted") => Policy::Weighted,
        other => panic!("no policy: {other:?}"),
    };
    let parse = |l| Transition::parse(l).unwrap_or_else(|| panic!("no transition: {l}"));
    (policy, lines.map(parse).collect())
}

/// Makes a failure short, keeps it, and fails.
fn report(seed: u64, policy: Policy, sequence: Vec<Transition>, error: &str) -> ! {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let short = shrink(policy, sequence);
    let last = run(policy, &short).err();
    std::panic::set_hook(hook);
    let error = last.as_deref().unwrap_or(error);
    let text = text(policy, &short);
    let file = regressions().join(format!("seed-{seed}.txt"));
    let kept = match std::fs::write(&file, &text) {
        Ok(()) => format!("kept as {}", file.display()),
        Err(e) => format!("not kept: {e}"),
    };
    panic!("MODEL_SEED={seed}: {error}\n\n{text}\n{kept}");
}

fn setting(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(default, |v| {
        v.parse().unwrap_or_else(|_| panic!("{name} is a number"))
    })
}

#[test]
fn random_runs_agree_with_the_model() {
    let transitions = setting("MODEL_TRANSITIONS", 50_000);
    // Of the first seeds, the one whose run meets every rule.
    let seed = setting("MODEL_SEED", 11);
    let mut kinds = BTreeMap::new();
    for n in 0..transitions.div_ceil(WORLD) {
        let seed = seed.wrapping_add(n);
        let mut dice = Dice::new(seed);
        let policy = match dice.chance(70) {
            true => Policy::Listed,
            false => Policy::Weighted,
        };
        let mut generator = Generator::new(dice);
        let mut world = World::new(policy);
        let mut sequence = vec![];
        for _ in 0..WORLD {
            let t = generator.next(world.sut.live());
            sequence.push(t);
            let t = &sequence[sequence.len() - 1];
            match catch_unwind(AssertUnwindSafe(|| world.apply(t))) {
                Ok(Ok(())) => {},
                Ok(Err(e)) => report(seed, policy, sequence, &e),
                Err(_) => report(seed, policy, sequence, "a panic"),
            }
        }
        match world.end() {
            Ok(watch) => watch.add_kinds(&mut kinds),
            Err(e) => report(seed, policy, sequence, &e),
        }
    }
    println!("{kinds:#?}");
    // A run that never meets a rule proves nothing about it.
    for kind in watch::KINDS {
        assert!(
            transitions < 50_000 || kinds.get(kind).is_some_and(|n| *n > 0),
            "never seen: {kind}; {kinds:#?}"
        );
    }
}

#[test]
fn sequences_that_failed_once_pass() {
    for file in std::fs::read_dir(regressions()).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_some_and(|e| e == "txt") {
            let (policy, sequence) = read(&std::fs::read_to_string(&file).unwrap());
            if let Err(e) = run(policy, &sequence) {
                panic!("{}: {e}", file.display());
            }
        }
    }
}

#[test]
fn a_sequence_survives_being_written_down() {
    let mut generator = Generator::new(Dice::new(3));
    let live = transition::Live {
        sent: 1,
        headed: 1,
        streaming: 1,
        resting: 1,
    };
    let sequence: Vec<_> = (0..500).map(|_| generator.next(live)).collect();
    let (policy, again) = read(&text(Policy::Weighted, &sequence));
    assert_eq!((policy, again), (Policy::Weighted, sequence));
}
