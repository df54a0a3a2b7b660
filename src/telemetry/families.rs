//! Measured values as they are read: the one form that every export starts from.
//!
//! Owns: names, units, labels and values of a moment. Leaves to others: measuring (`metrics`), and the
//! forms on a wire (`export`).

use std::borrow::Cow;

/// One instrument, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Its name in the semantic conventions' form: `gen_ai.client.token.usage`.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Unit in the conventions' form: `s`, `{token}`.
    pub unit: &'static str,
    /// How its values are meant.
    pub kind: Kind,
    /// A value a set of labels.
    pub points: Vec<Point>,
}

/// How the values of a family are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only ever grows while the process lives.
    Counter,
    /// As it is now.
    Gauge,
    /// A distribution over buckets.
    Histogram,
}

/// A label: its name in the conventions' form, and its value.
pub type Label = (&'static str, Cow<'static, str>);

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Its labels.
    pub labels: Vec<Label>,
    /// It.
    pub value: Value,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a counter or a gauge.
    Number(u64),
    /// Of a histogram.
    Spread(Spread),
}

/// How values are spread over buckets.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// Upper bounds, inclusive and rising; values beyond the last one have a bucket of their own.
    pub bounds: &'static [f64],
    /// Values a bucket: one more than bounds.
    pub counts: Box<[u64]>,
    /// Of all values.
    pub sum: f64,
}

impl Spread {
    /// Without values.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len() + 1].into(),
            sum: 0.0,
        }
    }

    /// Takes a value.
    pub fn take(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += 1;
        self.sum += value;
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl Family {
    /// A family of single numbers.
    pub fn numbers(
        name: &'static str,
        help: &'static str,
        unit: &'static str,
        kind: Kind,
        points: impl IntoIterator<Item = (Vec<Label>, u64)>,
    ) -> Self {
        let points = points.into_iter().map(|(labels, n)| Point {
            labels,
            value: Value::Number(n),
        });
        Self {
            name,
            help,
            unit,
            kind,
            points: points.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_a_bound_is_within_it() {
        let mut s = Spread::new(&[1.0, 2.0]);
        for v in [0.5, 1.0, 1.5, 2.0, 9.0] {
            s.take(v);
        }
        assert_eq!((&*s.counts, s.sum, s.count()), (&[2, 2, 1][..], 14.0, 5));
    }
}
