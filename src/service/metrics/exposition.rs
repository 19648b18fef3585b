//! The text format of Prometheus (Prometheus, "Exposition formats").

use std::fmt::{Display, Write as _};

use crate::base::HistogramSnapshot;

/// The prefix of all names.
const PREFIX: &str = "siltstone_";

/// A page of metrics in the making.
#[derive(Default)]
pub(in crate::service) struct Exposition(String);

/// Metrics with one sample for each of several items.
pub(in crate::service) struct SamplesOfEach<'p, T> {
    page: &'p mut Exposition,
    items: &'p [T],
    /// The label whose value names the item.
    label: &'static str,
    name: fn(&T) -> &str,
}

impl<T> SamplesOfEach<'_, T> {
    /// Adds a metric with its samples. Without items there are none.
    pub(in crate::service) fn family(&mut self, name: &str, kind: &str, help: &str, value: fn(&T) -> u64) {
        self.page.family(name, kind, help);
        for item in self.items {
            self.page.sample(name, &[(self.label, (self.name)(item))], value(item));
        }
    }
}

impl Exposition {
    /// Begins the samples of a metric. Its help is one sentence.
    pub(in crate::service) fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to memory does not fail.
        let _ = writeln!(self.0, "# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {kind}");
    }

    /// Adds a sample of the metric.
    pub(in crate::service) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.0, "{PREFIX}{name}");
        self.labels(labels, None);
        let _ = writeln!(self.0, " {value}");
    }

    /// A metric with one sample.
    pub(in crate::service) fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// Metrics with one sample for each of `items`. The label `label` names the item.
    pub(in crate::service) fn of_each<'p, T>(
        &'p mut self,
        items: &'p [T],
        label: &'static str,
        name: fn(&T) -> &str,
    ) -> SamplesOfEach<'p, T> {
        SamplesOfEach { page: self, items, label, name }
    }

    /// Adds the samples of a histogram, whose values are divided by `per_unit`. A quotient has the
    /// shortest digits, so that bounds read as they are written in rules.
    pub(in crate::service) fn histogram(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        values: &HistogramSnapshot,
        per_unit: f64,
    ) {
        let bounds =
            values.buckets.iter().map(|(bound, count)| ((*bound as f64 / per_unit).to_string(), *count));
        for (bound, count) in bounds.chain([("+Inf".to_owned(), values.count)]) {
            let _ = write!(self.0, "{PREFIX}{name}_bucket");
            self.labels(labels, Some(("le", &bound)));
            let _ = writeln!(self.0, " {count}");
        }
        for (suffix, value) in
            [("_sum", (values.sum as f64 / per_unit).to_string()), ("_count", values.count.to_string())]
        {
            let _ = write!(self.0, "{PREFIX}{name}{suffix}");
            self.labels(labels, None);
            let _ = writeln!(self.0, " {value}");
        }
    }

    fn labels(&mut self, labels: &[(&str, &str)], last: Option<(&str, &str)>) {
        let mut between = '{';
        for (name, value) in labels.iter().copied().chain(last) {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{between}{name}=\"{value}\"");
            between = ',';
        }
        if between == ',' {
            self.0.push('}');
        }
    }

    /// The page.
    pub(in crate::service) fn finish(self) -> Vec<u8> {
        self.0.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_histograms_cumulate() {
        let mut page = Exposition::default();
        page.single("one", "gauge", "Help.", 1);
        page.sample("two", &[("a", "x\\y\"z\n")], 2.5);
        let values = HistogramSnapshot { buckets: vec![(500, 1), (50_000, 3)], count: 4, sum: 2_000_000 };
        page.histogram("h", &[("o", "p")], &values, 1e6);
        let text = String::from_utf8(page.finish()).unwrap();
        let expected = "# HELP siltstone_one Help.\n# TYPE siltstone_one gauge\nsiltstone_one 1\n\
                        siltstone_two{a=\"x\\\\y\\\"z\\n\"} 2.5\n\
                        siltstone_h_bucket{o=\"p\",le=\"0.0005\"} 1\nsiltstone_h_bucket{o=\"p\",le=\"0.05\"} 3\n\
                        siltstone_h_bucket{o=\"p\",le=\"+Inf\"} 4\nsiltstone_h_sum{o=\"p\"} 2\nsiltstone_h_count{o=\"p\"} 4\n";
        assert_eq!(text, expected);
    }
}
