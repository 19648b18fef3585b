//! A page of metrics in the text format of Prometheus (Prometheus, "Exposition formats").

/// The prefix of the names of all metrics.
const PREFIX: &str = "siltstone_";

/// The samples of a page.
#[derive(Debug, Default)]
pub(super) struct MetricsPage(Vec<Sample>);

/// One value of a metric.
#[derive(Debug)]
pub(super) struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    /// The value.
    pub(super) value: f64,
}

impl Sample {
    /// The value of a label.
    pub(super) fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl MetricsPage {
    /// Reads a page. Metrics of other programs are left out.
    ///
    /// # Errors
    /// A message, if a line is no sample, or no metric is one of this server.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let samples = lines
            .filter_map(|line| line.strip_prefix(PREFIX))
            .map(|line| sample(line).ok_or_else(|| format!("the metrics have a malformed line: {line}")));
        let samples: Vec<_> = samples.collect::<Result<_, _>>()?;
        if samples.is_empty() {
            return Err("the page has no metrics of this server".to_owned());
        }
        Ok(Self(samples))
    }

    /// The samples of a metric.
    pub(super) fn samples<'p>(&'p self, name: &'p str) -> impl Iterator<Item = &'p Sample> {
        self.0.iter().filter(move |sample| sample.name == name)
    }

    /// The sum of the samples of a metric; `None` without any.
    pub(super) fn value(&self, name: &str) -> Option<f64> {
        let mut values = self.samples(name).map(|sample| sample.value);
        values.next().map(|first| first + values.sum::<f64>())
    }
}

/// Parses `name value` or `name{label="text",...} value`.
fn sample(line: &str) -> Option<Sample> {
    let (name, mut rest) = line.split_at(line.find(['{', ' '])?);
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while let Some((label, after)) = rest.split_once("=\"").filter(|_| !rest.starts_with('}')) {
            let (text, end) = unescaped(after)?;
            labels.push((label.to_owned(), text));
            rest = after[end..].strip_prefix(',').unwrap_or(&after[end..]);
        }
        rest = rest.strip_prefix('}')?;
    }
    Some(Sample { name: name.to_owned(), labels, value: rest.trim().parse().ok()? })
}

/// The text up to its closing quotation mark, and the place after the mark.
fn unescaped(quoted: &str) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((text, at + 1)),
            '\\' => match chars.next()?.1 {
                'n' => text.push('\n'),
                escaped => text.push(escaped),
            },
            char => text.push(char),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_names_labels_and_values() {
        let text = "# HELP siltstone_one Help.\nother 7\nsiltstone_one 1.5\n\
                    siltstone_two{bucket=\"a\\\"}b\",kind=\"x\\\\\\n\"} 2\nsiltstone_two{} 3\nsiltstone_e{le=\"+Inf\"} 1e3\n";
        let page = MetricsPage::parse(text).unwrap();
        assert_eq!((page.value("one"), page.value("two"), page.value("three")), (Some(1.5), Some(5.0), None));
        let two = page.samples("two").next().unwrap();
        assert_eq!((two.label("bucket"), two.label("kind")), (Some("a\"}b"), Some("x\\\n")));
        assert_eq!(page.samples("e").next().map(|sample| sample.value), Some(1000.0));
    }

    #[test]
    fn malformed_pages_are_refused() {
        for line in ["one", "one{", "one{a=\"b} 1", "one{a=\"b\" 1", "one{a} 1", "one x", "one{a=\"b\\"] {
            assert!(MetricsPage::parse(&format!("{PREFIX}{line}")).is_err(), "{line}");
        }
        assert!(MetricsPage::parse("").is_err() && MetricsPage::parse("up 1\n").is_err());
    }
}
