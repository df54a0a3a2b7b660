//! A reading as Prometheus' text format, version 0.0.4.
//!
//! Owns: the form: names, escapes, order. Leaves to others: what is read (`gauges`), who may have it
//! (`admin`).

use std::fmt::Write;

use crate::telemetry::families::{Family, Kind, Label, Spread, Value};

/// `Content-Type` of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text. A family without values is left out.
pub fn text(families: &[Family]) -> String {
    let mut out = String::with_capacity(8 * 1024);
    for family in families.iter().filter(|f| !f.points.is_empty()) {
        // Writing to a text cannot fail.
        let _ = one(&mut out, family);
    }
    out
}

fn one(out: &mut String, family: &Family) -> std::fmt::Result {
    let name = name(family);
    let kind = match family.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
    for point in &family.points {
        match &point.value {
            Value::Number(n) => {
                out.push_str(&name);
                labels(out, &point.labels, None);
                writeln!(out, " {n}")?;
            },
            Value::Spread(spread) => histogram(out, &name, &point.labels, spread)?,
        }
    }
    Ok(())
}

fn histogram(out: &mut String, name: &str, of: &[Label], spread: &Spread) -> std::fmt::Result {
    let mut below = 0;
    for (i, count) in spread.counts.iter().enumerate() {
        below += count;
        let bound = match spread.bounds.get(i) {
            Some(bound) => bound.to_string(),
            None => "+Inf".to_owned(),
        };
        write!(out, "{name}_bucket")?;
        labels(out, of, Some(&bound));
        writeln!(out, " {below}")?;
    }
    for (end, value) in [
        ("sum", spread.sum.to_string()),
        ("count", below.to_string()),
    ] {
        write!(out, "{name}_{end}")?;
        labels(out, of, None);
        writeln!(out, " {value}")?;
    }
    Ok(())
}

/// The conventions' name as OpenTelemetry has it turned into one of Prometheus.
fn name(family: &Family) -> String {
    let mut name = family.name.replace('.', "_");
    match family.unit {
        "s" => name.push_str("_seconds"),
        "ms" => name.push_str("_milliseconds"),
        _ => {},
    }
    if family.kind == Kind::Counter {
        name.push_str("_total");
    }
    name
}

fn labels(out: &mut String, labels: &[Label], bound: Option<&str>) {
    let le = bound.map(|bound| ("le", bound));
    let all = labels.iter().map(|(k, v)| (*k, v.as_ref())).chain(le);
    let mut open = '{';
    for (key, value) in all {
        out.push(open);
        open = ',';
        out.extend(key.chars().map(|c| if c == '.' { '_' } else { c }));
        out.push_str("=\"");
        for c in value.chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                c => out.push(c),
            }
        }
        out.push('"');
    }
    if open == ',' {
        out.push('}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::families::Point;

    #[test]
    fn numbers_have_the_names_that_prometheus_expects() {
        let families = [
            Family::numbers(
                "a.b.requests",
                "Requests\nthat \\ ended.",
                "{request}",
                Kind::Counter,
                [(vec![("x.y", "say \"a\\b\"\n".into())], 3)],
            ),
            Family::numbers("a.level", "Now.", "1", Kind::Gauge, [(Vec::new(), 7)]),
            Family::numbers("a.none", "Nothing.", "1", Kind::Gauge, []),
        ];
        assert_eq!(
            text(&families),
            "# HELP a_b_requests_total Requests\\nthat \\\\ ended.\n\
             # TYPE a_b_requests_total counter\n\
             a_b_requests_total{x_y=\"say \\\"a\\\\b\\\"\\n\"} 3\n\
             # HELP a_level Now.\n# TYPE a_level gauge\na_level 7\n"
        );
    }

    #[test]
    fn buckets_add_up_and_end_in_all() {
        let mut spread = Spread::new(&[0.5, 2.0]);
        for v in [0.25, 1.0, 1.0, 9.0] {
            spread.take(v);
        }
        let family = Family {
            name: "a.took",
            help: "Time.",
            unit: "s",
            kind: Kind::Histogram,
            points: vec![Point {
                labels: vec![("m", "x".into())],
                value: Value::Spread(spread),
            }],
        };
        assert_eq!(
            text(&[family]),
            "# HELP a_took_seconds Time.\n# TYPE a_took_seconds histogram\n\
             a_took_seconds_bucket{m=\"x\",le=\"0.5\"} 1\n\
             a_took_seconds_bucket{m=\"x\",le=\"2\"} 3\n\
             a_took_seconds_bucket{m=\"x\",le=\"+Inf\"} 4\n\
             a_took_seconds_sum{m=\"x\"} 11.25\na_took_seconds_count{m=\"x\"} 4\n"
        );
    }
}
