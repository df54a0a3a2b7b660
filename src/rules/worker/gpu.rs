//! What `nvidia-smi` tells of a machine's GPUs.
//!
//! Owns: the query and reading its answer. Leaves to others: running it (`agent::gpu`).
//! A figure that a GPU does not have (`[N/A]`) is not known; it is never taken for 0, and a sum with
//! an unknown part is unknown too.

use std::ops::RangeInclusive;

use crate::rules::pool::sizes::{MAX_EXACT, MAX_GPUS, MAX_TEXT, TEMPERATURE, UTILIZATION};

/// Arguments whose answer [`parse`] reads.
pub const QUERY: [&str; 2] = [
    "--query-gpu=name,memory.total,memory.free,temperature.gpu,utilization.gpu",
    "--format=csv,noheader,nounits",
];

/// Bytes of a mebibyte, the unit of the tool's memory figures.
const MIB: u64 = 1024 * 1024;

/// The GPUs of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gpus {
    /// Name of the first.
    pub name: Option<String>,
    /// How many there are; at least 1.
    pub count: u32,
    /// Video memory of all of them in bytes.
    pub total_bytes: Option<u64>,
    /// Free video memory of all of them in bytes.
    pub free_bytes: Option<u64>,
    /// The hottest one, in degrees Celsius.
    pub temperature_c: Option<f64>,
    /// The busiest one, 0 to 100.
    pub utilization_percent: Option<f64>,
}

/// Reads the answer; `None` where it tells of no GPU.
pub fn parse(text: &str) -> Option<Gpus> {
    let mut gpus = Gpus {
        total_bytes: Some(0),
        free_bytes: Some(0),
        ..Gpus::default()
    };
    for line in text.lines() {
        // From behind: only the name may have a comma.
        let mut fields = line.rsplitn(5, ',').map(str::trim);
        let (Some(utilization), Some(temperature), Some(free), Some(total), Some(name)) = (
            fields.next(),
            fields.next(),
            fields.next(),
            fields.next(),
            fields.next(),
        ) else {
            continue;
        };
        if gpus.count == 0 {
            gpus.name = shown(name);
        }
        gpus.count += 1;
        let sum = |so_far: Option<u64>, field| so_far?.checked_add(mebibytes(field)?);
        gpus.total_bytes = sum(gpus.total_bytes, total);
        gpus.free_bytes = sum(gpus.free_bytes, free);
        let most = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        let temperature = figure(temperature, TEMPERATURE);
        gpus.temperature_c = most(gpus.temperature_c, temperature);
        let utilization = figure(utilization, UTILIZATION);
        gpus.utilization_percent = most(gpus.utilization_percent, utilization);
    }
    (1..=MAX_GPUS).contains(&gpus.count).then_some(gpus)
}

fn mebibytes(field: &str) -> Option<u64> {
    let bytes = field.parse::<u64>().ok()?.checked_mul(MIB)?;
    (bytes <= MAX_EXACT).then_some(bytes)
}

fn figure(field: &str, range: RangeInclusive<f64>) -> Option<f64> {
    let value = field.parse::<f64>().ok()?;
    range.contains(&value).then_some(value)
}

fn shown(name: &str) -> Option<String> {
    let fits = !name.is_empty() && name.len() <= MAX_TEXT && !name.contains(char::is_control);
    (fits && !name.starts_with('[')).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_gpus_are_summed_and_the_worst_of_each_figure_counts() {
        let text = "NVIDIA H100 80GB HBM3, 81559, 80000, 41, 7\nNVIDIA H100 80GB HBM3, 81559, 1559, 63, 98\n";
        let gpus = parse(text).unwrap();
        assert_eq!(gpus.name.as_deref(), Some("NVIDIA H100 80GB HBM3"));
        assert_eq!(gpus.count, 2);
        assert_eq!(gpus.total_bytes, Some(2 * 81_559 * MIB));
        assert_eq!(gpus.free_bytes, Some(81_559 * MIB));
        assert_eq!(gpus.temperature_c, Some(63.0));
        assert_eq!(gpus.utilization_percent, Some(98.0));
    }

    #[test]
    fn what_a_gpu_does_not_tell_is_unknown_and_not_zero() {
        let gpus = parse("NVIDIA GB10, [N/A], [N/A], 45, [Not Supported]\n").unwrap();
        let none: (Option<u64>, Option<u64>, Option<f64>) = (None, None, None);
        assert_eq!(
            (gpus.total_bytes, gpus.free_bytes, gpus.utilization_percent),
            none
        );
        assert_eq!(gpus.temperature_c, Some(45.0));
        // One unknown part makes the sum unknown, not smaller.
        let gpus = parse("A, 100, 50, 1, 1\nB, [N/A], 20, [N/A], 2").unwrap();
        assert_eq!((gpus.total_bytes, gpus.free_bytes), (None, Some(70 * MIB)));
        assert_eq!(gpus.temperature_c, Some(1.0));
    }

    #[test]
    fn other_texts_tell_of_no_gpu() {
        for text in [
            "",
            "No devices were found\n",
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
            "a,b,c\n",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        let odd = parse("X\u{7}, 18446744073709551615, -1, 900, NaN").unwrap();
        let unknown = Gpus {
            count: 1,
            ..Gpus::default()
        };
        assert_eq!(odd, unknown);
    }
}
