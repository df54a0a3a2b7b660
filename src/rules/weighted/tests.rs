use proptest::prelude::*;

use super::*;

impl Rotation {
    /// Picks one of these, of which nothing is reckoned yet.
    fn pick(&mut self, facts: &[Facts]) -> Option<usize> {
        let mut rows: Vec<_> = facts
            .iter()
            .map(|f| Row::new(*f, Told::default()))
            .collect();
        let mut survey = Survey::default();
        rows.iter().for_each(|row| survey.see(row));
        self.turn(survey, &mut rows, 0..facts.len())
    }
}

fn node(seat: usize, slots: u32) -> Facts {
    Facts {
        seat,
        slots,
        base_weight: slots,
        active: 0,
        queue: 0,
        warm: true,
        health: Health::Healthy,
        speed: Speed::default(),
    }
}

fn speed(ttft_ms: f64, tps: f64) -> Speed {
    Speed {
        ttft_ms: Ema::of(Some(ttft_ms)),
        tps: Ema::of(Some(tps)),
    }
}

#[test]
fn a_weight_is_its_base_times_load_times_speed() {
    let fastest = speed(100.0, 50.0);
    let best = Best {
        ttft_ms: Some(100.0),
        tps: Some(50.0),
    };
    for (name, facts, want) in [
        ("idle, one slot", node(0, 1), 100),
        ("idle, eight slots", node(0, 8), 800),
        (
            "half free",
            Facts {
                active: 4,
                ..node(0, 8)
            },
            400,
        ),
        (
            "a queue as long as its slots",
            Facts {
                queue: 8,
                ..node(0, 8)
            },
            400,
        ),
        (
            "full",
            Facts {
                active: 8,
                ..node(0, 8)
            },
            1,
        ),
        (
            "over full",
            Facts {
                active: 9,
                ..node(0, 8)
            },
            1,
        ),
        (
            "the best",
            Facts {
                speed: fastest,
                ..node(0, 1)
            },
            100,
        ),
        (
            "four times slower to begin",
            Facts {
                speed: speed(400.0, 50.0),
                ..node(0, 1)
            },
            50,
        ),
        (
            "four times slower to go on",
            Facts {
                speed: speed(100.0, 12.5),
                ..node(0, 1)
            },
            50,
        ),
        (
            "never below a quarter",
            Facts {
                speed: speed(9e9, 0.001),
                ..node(0, 1)
            },
            25,
        ),
        (
            "embeddings: by the first alone",
            Facts {
                speed: speed(400.0, 0.0),
                ..node(0, 1)
            },
            50,
        ),
    ] {
        assert_eq!(facts.weight(best), want, "{name}");
    }
}

#[test]
fn tiers_go_warm_cold_suspect_full() {
    let full = Facts {
        active: 1,
        ..node(0, 1)
    };
    let suspect_cold = Facts {
        health: Health::Suspect,
        warm: false,
        ..node(1, 1)
    };
    let suspect_warm = Facts {
        health: Health::Suspect,
        ..node(2, 1)
    };
    let cold = Facts {
        warm: false,
        ..node(3, 1)
    };
    let warm = node(4, 1);
    let mut all = vec![full, suspect_cold, suspect_warm, cold, warm];
    while !all.is_empty() {
        let last = all.len() - 1;
        assert_eq!(Rotation::default().pick(&all), Some(last));
        all.pop();
    }
}

#[test]
fn of_full_nodes_the_one_with_the_least_a_slot_goes_first() {
    let mut a = Facts {
        active: 9,
        ..node(0, 8)
    };
    let b = Facts {
        active: 1,
        base_weight: 1,
        ..node(1, 1)
    };
    a.base_weight = 1;
    assert_eq!(
        Rotation::default().pick(&[b, a]),
        Some(0),
        "1 a slot before 9/8"
    );
    let more = Facts { active: 2, ..b };
    assert_eq!(Rotation::default().pick(&[more, a]), Some(1));
}

#[test]
fn the_classic_rotation() {
    let mut r = Rotation::default();
    let nodes = [node(0, 5), node(1, 1), node(2, 1)];
    let turns: Vec<_> = (0..7).map(|_| r.pick(&nodes).unwrap()).collect();
    assert_eq!(turns, [0, 0, 1, 0, 2, 0, 0]);
}

proptest! {
    /// Issue 7: with constant weights, over any run of picks each node's count is within 2 of its
    /// weight's share.
    #[test]
    fn every_node_gets_its_share(
        weights in prop::collection::vec(1u32..40, 1..8),
        lead in 0usize..50,
        picks in 1usize..300,
    ) {
        let nodes: Vec<_> = weights.iter().enumerate().map(|(i, w)| node(i, *w)).collect();
        let total: u32 = weights.iter().sum();
        let mut r = Rotation::default();
        for _ in 0..lead {
            r.pick(&nodes);
        }
        let mut counts = vec![0f64; nodes.len()];
        for _ in 0..picks {
            counts[r.pick(&nodes).unwrap()] += 1.0;
        }
        for (count, weight) in counts.iter().zip(&weights) {
            let share = picks as f64 * f64::from(*weight) / f64::from(total);
            prop_assert!((count - share).abs() <= 2.0, "{count} of {share}");
        }
    }

    #[test]
    fn a_worse_tier_is_never_picked_while_there_is_a_better(
        nodes in prop::collection::vec((0u64..3, any::<bool>(), any::<bool>()), 1..8),
        picks in 1usize..20,
    ) {
        let nodes: Vec<_> = nodes.iter().enumerate().map(|(i, (active, warm, hot))| Facts {
            active: *active,
            warm: *warm,
            health: if *hot { Health::Suspect } else { Health::Healthy },
            ..node(i, 2)
        }).collect();
        let best = nodes.iter().map(Facts::tier).min().unwrap();
        let mut r = Rotation::default();
        for _ in 0..picks {
            let i = r.pick(&nodes).unwrap();
            prop_assert_eq!(nodes[i].tier(), best);
        }
    }
}
