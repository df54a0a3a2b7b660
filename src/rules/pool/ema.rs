//! Exponential moving averages of a model's speed on a node.
//!
//! Owns: how a sample changes one. Leaves to others: which answers are samples (committed 2xx),
//! what they are good for (the weights).

/// Share of a new sample.
pub const ALPHA: f64 = 0.2;

/// A moving average; none before the first sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ema(Option<f64>);

/// Figures of one answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Time to the first token in ms.
    pub ttft_ms: Option<f64>,
    /// Output tokens a second; absent for embeddings, which have none.
    pub tokens_per_second: Option<f64>,
}

impl Ema {
    /// The average that is stored, or none.
    pub fn of(value: Option<f64>) -> Self {
        Self(value.filter(|v| is_sample(*v)))
    }

    /// The average, if there was a sample.
    pub fn value(self) -> Option<f64> {
        self.0
    }

    /// Takes a sample in. One that is no positive number is not taken.
    pub fn add(&mut self, sample: Option<f64>) {
        let Some(sample) = sample.filter(|s| is_sample(*s)) else {
            return;
        };
        self.0 = Some(match self.0 {
            Some(mean) => mean + ALPHA * (sample - mean),
            None => sample,
        });
    }
}

/// Whether a figure can be averaged: a positive, finite number.
pub fn is_sample(figure: f64) -> bool {
    figure.is_finite() && figure > 0.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_sample_is_the_average_and_later_ones_count_a_fifth() {
        let mut e = Ema::default();
        assert_eq!(e.value(), None);
        e.add(Some(100.0));
        assert_eq!(e.value(), Some(100.0));
        e.add(Some(200.0));
        assert_eq!(e.value(), Some(120.0));
        e.add(None);
        assert_eq!(e.value(), Some(120.0));
    }

    #[test]
    fn what_is_no_figure_is_not_taken() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let mut e = Ema::of(Some(5.0));
            e.add(Some(bad));
            assert_eq!(
                (e.value(), Ema::of(Some(bad)).value()),
                (Some(5.0), None),
                "{bad}"
            );
        }
    }

    proptest! {
        #[test]
        fn an_average_stays_among_its_samples(samples in prop::collection::vec(0.001f64..1e9, 1..50)) {
            let mut e = Ema::default();
            samples.iter().for_each(|s| e.add(Some(*s)));
            let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
            let most = samples.iter().copied().fold(0.0, f64::max);
            let mean = e.value().unwrap();
            prop_assert!(mean >= least * (1.0 - 1e-9) && mean <= most * (1.0 + 1e-9));
        }
    }
}
