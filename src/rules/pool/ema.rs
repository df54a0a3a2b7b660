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
