//! The text format of Prometheus.

use std::fmt::Write;

use wharf_host::metrics::{Classes, Family, Kind, Sample, Value};

/// Returns the whole page.
pub(crate) fn to_prometheus_text(families: &[Family]) -> String {
    let mut text = String::new();
    for family in families {
        let kind = match family.kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
        };
        let _ = write!(text, "# HELP {0} {1}.\n# TYPE {0} {kind}\n", family.name, family.help);
        for sample in &family.samples {
            write_sample(&mut text, family.name, sample);
        }
    }
    text
}

fn write_sample(text: &mut String, name: &str, sample: &Sample) {
    let label = match &sample.label {
        Some((label, word)) => format!("{{{label}=\"{}\"}}", escape_label(word)),
        None => String::new(),
    };
    let _ = match &sample.value {
        Value::Whole(value) => writeln!(text, "{name}{label} {value}"),
        Value::Real(value) => writeln!(text, "{name}{label} {value}"),
        Value::Classes(classes) => write_histogram(text, name, classes),
    };
}

/// Writes a histogram. Each bucket counts all values up to its bound, as the format requires.
fn write_histogram(text: &mut String, name: &str, classes: &Classes) -> std::fmt::Result {
    let bounds = classes.bounds.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
    let mut total = 0;
    for (bound, count) in bounds.zip(&classes.counts) {
        total += count;
        writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {total}")?;
    }
    writeln!(text, "{name}_sum {}\n{name}_count {total}", classes.sum)
}

fn escape_label(word: &str) -> String {
    word.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_written_as_prometheus_reads_them() {
        let classes = Classes { bounds: &[0.001, 1.0], counts: vec![2, 1, 1], sum: 3.5 };
        let families = [
            Family::gauge("a", "One").of(3),
            Family::counter("b_total", "Two").with("word", "x\"\\\ny", Value::Real(0.25)),
            Family::histogram("c_seconds", "Three", classes),
        ];
        let expected = "# HELP a One.\n# TYPE a gauge\na 3\n\
            # HELP b_total Two.\n# TYPE b_total counter\nb_total{word=\"x\\\"\\\\\\ny\"} 0.25\n\
            # HELP c_seconds Three.\n# TYPE c_seconds histogram\n\
            c_seconds_bucket{le=\"0.001\"} 2\nc_seconds_bucket{le=\"1\"} 3\nc_seconds_bucket{le=\"+Inf\"} 4\n\
            c_seconds_sum 3.5\nc_seconds_count 4\n";
        assert_eq!(to_prometheus_text(&families), expected);
    }
}
