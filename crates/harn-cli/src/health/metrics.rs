//! Metrics in the Prometheus text format (version 0.0.4).

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Upper bounds of the buckets of durations in seconds, from 0.1 seconds to one day.
const BOUNDS: [f64; 11] = [0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 1_800.0, 3_600.0, 21_600.0, 86_400.0];

/// The content type of the format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric: its name, type, and a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Metric {
    name: &'static str,
    kind: Kind,
    help: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Metric {
    pub(crate) const fn counter(name: &'static str, help: &'static str) -> Metric {
        Metric { name, kind: Kind::Counter, help }
    }

    pub(crate) const fn gauge(name: &'static str, help: &'static str) -> Metric {
        Metric { name, kind: Kind::Gauge, help }
    }

    pub(crate) const fn histogram(name: &'static str, help: &'static str) -> Metric {
        Metric { name, kind: Kind::Histogram, help }
    }
}

/// The labels of a sample, sorted by name.
type Labels = Vec<(&'static str, String)>;

/// Durations by bucket.
#[derive(Debug, Clone, Default)]
struct Histogram {
    /// Number of durations in each bucket, not cumulative.
    buckets: [u64; BOUNDS.len()],
    count: u64,
    sum: f64,
}

/// The metrics of a process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metrics {
    values: BTreeMap<Metric, BTreeMap<Labels, f64>>,
    histograms: BTreeMap<Metric, BTreeMap<Labels, Histogram>>,
}

fn owned(labels: &[(&'static str, &str)]) -> Labels {
    let mut labels: Labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    labels.sort_unstable();
    labels
}

impl Metrics {
    /// Adds to a counter or gauge. Creates it if it does not exist.
    pub(crate) fn add(&mut self, metric: Metric, labels: &[(&'static str, &str)], value: f64) {
        *self.values.entry(metric).or_default().entry(owned(labels)).or_default() += value;
    }

    /// Sets a gauge.
    pub(crate) fn set(&mut self, metric: Metric, labels: &[(&'static str, &str)], value: f64) {
        self.values.entry(metric).or_default().insert(owned(labels), value);
    }

    /// Adds a duration to a histogram.
    pub(crate) fn observe(&mut self, metric: Metric, labels: &[(&'static str, &str)], seconds: f64) {
        let histogram = self.histograms.entry(metric).or_default().entry(owned(labels)).or_default();
        if let Some(bucket) = BOUNDS.iter().position(|bound| seconds <= *bound) {
            histogram.buckets[bucket] += 1;
        }
        histogram.count += 1;
        histogram.sum += seconds;
    }

    /// Formats the metrics.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        for (metric, samples) in &self.values {
            head(&mut out, metric);
            for (labels, value) in samples {
                let _ = writeln!(out, "{}{} {}", metric.name, shown(labels, None), number(*value));
            }
        }
        for (metric, samples) in &self.histograms {
            head(&mut out, metric);
            for (labels, histogram) in samples {
                let mut below = 0;
                for (bound, count) in BOUNDS.iter().zip(histogram.buckets) {
                    below += count;
                    let labels = shown(labels, Some(&number(*bound)));
                    let _ = writeln!(out, "{}_bucket{labels} {below}", metric.name);
                }
                let count = histogram.count;
                let _ = writeln!(out, "{}_bucket{} {count}", metric.name, shown(labels, Some("+Inf")));
                let _ = writeln!(out, "{}_sum{} {}", metric.name, shown(labels, None), number(histogram.sum));
                let _ = writeln!(out, "{}_count{} {count}", metric.name, shown(labels, None));
            }
        }
        out
    }
}

fn head(out: &mut String, metric: &Metric) {
    let kind = match metric.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let _ = writeln!(out, "# HELP {} {}", metric.name, metric.help);
    let _ = writeln!(out, "# TYPE {} {kind}", metric.name);
}

fn shown(labels: &Labels, bound: Option<&str>) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let own = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    let all: Vec<String> = own.chain(bound.map(|bound| format!("le=\"{bound}\""))).collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_written_in_the_format_of_prometheus() {
        const RUNS: Metric = Metric::counter("runs_total", "Runs.");
        const TIME: Metric = Metric::histogram("run_seconds", "Time of runs.");
        let mut metrics = Metrics::default();
        metrics.add(RUNS, &[("status", "a\"b\\c\nd")], 2.0);
        metrics.add(RUNS, &[("status", "a\"b\\c\nd")], 0.5);
        for seconds in [0.1, 0.2, 100_000.0] {
            metrics.observe(TIME, &[], seconds);
        }
        let text = metrics.text();
        let counter = "# HELP runs_total Runs.\n# TYPE runs_total counter\nruns_total{status=\"a\\\"b\\\\c\\nd\"} 2.5\n";
        assert!(text.starts_with(counter), "{text}");
        for line in [
            "# TYPE run_seconds histogram",
            "run_seconds_bucket{le=\"0.1\"} 1",
            "run_seconds_bucket{le=\"0.5\"} 2",
            "run_seconds_bucket{le=\"86400\"} 2",
            "run_seconds_bucket{le=\"+Inf\"} 3",
            "run_seconds_sum 100000.3",
            "run_seconds_count 3",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}: {text}");
        }
    }
}
