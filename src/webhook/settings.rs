//! The tables `[[webhook]]` of the configuration file.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::WebhookSecret;
use crate::base::line_of;
use crate::client::{CertificateTrust, Endpoint, SettingProblem, SettingSources, certificate_trust};
use crate::s3::notification::{EventPattern, KeyFilter};

/// The most records of a request, and the number without `batch`.
const BATCH_MAX: u64 = 1000;
const BATCH_DEFAULT: u64 = 100;
/// The longest name of a target.
const NAME_MAX_BYTES: usize = 64;
/// The bounds of `delay`, and the value without it.
const DELAY: DurationRange = DurationRange { min: 0, max: 60_000, default: 200 };
/// Those of `timeout`.
const TIMEOUT: DurationRange = DurationRange { min: 100, max: 300_000, default: 10_000 };
/// Those of `drop_refused_after`.
const DROP_REFUSED_AFTER: DurationRange = DurationRange { min: 0, max: 30 * 86_400_000, default: 86_400_000 };

/// A range of durations in milliseconds.
struct DurationRange {
    min: u128,
    max: u128,
    default: u64,
}

/// A target of events.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSettings {
    /// Its name: in ARNs, in metrics, and as the name of its position in the log.
    pub name: String,
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub endpoint: String,
    /// The path and the query of requests.
    pub path: String,
    /// The certificates of the server that are accepted.
    pub trust: CertificateTrust,
    /// The key of signatures; `None` for requests that are not signed.
    pub secret: Option<WebhookSecret>,
    /// The most records of a request.
    pub batch: usize,
    /// The longest wait for more records.
    pub delay: Duration,
    /// The longest time of a request.
    pub timeout: Duration,
    /// The time after which records are dropped that the target refuses.
    pub drop_refused_after: Duration,
    /// The events that the operator chose, whatever buckets ask for.
    pub chosen: Option<ChosenEvents>,
}

/// Events that the operator chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenEvents {
    /// The events.
    pub patterns: Vec<EventPattern>,
    /// The buckets; empty for all.
    pub buckets: Vec<String>,
    /// The keys.
    pub filter: KeyFilter,
}

impl fmt::Debug for WebhookSettings {
    /// Shows neither the secret nor the path, which may hold one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name, self.endpoint)
    }
}

/// The table as it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookTable {
    name: Spanned<String>,
    url: Spanned<String>,
    secret_file: Option<Spanned<PathBuf>>,
    ca_file: Option<Spanned<PathBuf>>,
    fingerprint: Option<Spanned<String>>,
    batch: Option<Spanned<u64>>,
    delay: Option<Spanned<String>>,
    timeout: Option<Spanned<String>>,
    drop_refused_after: Option<Spanned<String>>,
    events: Option<Spanned<Vec<Spanned<String>>>>,
    buckets: Option<Spanned<Vec<String>>>,
    prefix: Option<Spanned<String>>,
    suffix: Option<Spanned<String>>,
}

/// The part of the file that is read here.
#[derive(Deserialize)]
struct WebhookFile {
    #[serde(default)]
    webhook: Vec<Spanned<WebhookTable>>,
}

impl WebhookSettings {
    /// Reads the tables `[[webhook]]` of the configuration file with this text. Everything that can
    /// be checked without the targets is checked.
    ///
    /// # Errors
    /// The first problem with its line. It quotes no secret.
    pub fn parse(text: &str, sources: &SettingSources<'_>) -> Result<Vec<Self>, String> {
        let told =
            |(at, problem): SettingProblem| format!("line {}: [[webhook]]: {problem}", line_of(text, &at));
        let file: WebhookFile = toml::from_str(text)
            .map_err(|error| told((error.span().unwrap_or_default(), error.message().to_owned())))?;
        let mut all: Vec<Self> = Vec::new();
        for table in &file.webhook {
            let name = &table.get_ref().name;
            if all.iter().any(|other| other.name == *name.get_ref()) {
                return Err(told((name.span(), format!("there are two targets named {:?}", name.get_ref()))));
            }
            all.push(table.get_ref().settings(sources).map_err(told)?);
        }
        Ok(all)
    }
}

impl WebhookTable {
    fn settings(&self, sources: &SettingSources<'_>) -> Result<WebhookSettings, SettingProblem> {
        let trust = certificate_trust(self.ca_file.as_ref(), self.fingerprint.as_ref())?;
        let (endpoint, path) = self.address(&trust)?;
        Ok(WebhookSettings {
            name: name_of(&self.name)?,
            endpoint,
            path,
            trust,
            secret: self.secret(sources)?,
            batch: self.batch()?,
            delay: DELAY.read("delay", self.delay.as_ref())?,
            timeout: TIMEOUT.read("timeout", self.timeout.as_ref())?,
            drop_refused_after: DROP_REFUSED_AFTER
                .read("drop_refused_after", self.drop_refused_after.as_ref())?,
            chosen: self.chosen()?,
        })
    }

    /// The endpoint, and the path below it.
    fn address(&self, trust: &CertificateTrust) -> Result<(String, String), SettingProblem> {
        let url = self.url.get_ref();
        if !url.bytes().all(|byte| byte.is_ascii_graphic()) || url.contains('#') {
            return Err(self.wrong_url("it has characters that no URL has"));
        }
        if matches!(trust, CertificateTrust::Fingerprint(_)) && !url.starts_with("https://") {
            return Err(self.wrong_url("`fingerprint` needs a URL with https"));
        }
        let (endpoint, path) = Endpoint::split(url);
        Endpoint::unresolved(endpoint, trust).map_err(|why| self.wrong_url(&why))?;
        Ok((endpoint.to_owned(), path.to_owned()))
    }

    fn wrong_url(&self, why: &str) -> SettingProblem {
        (self.url.span(), format!("`url`: {why}"))
    }

    fn secret(&self, sources: &SettingSources<'_>) -> Result<Option<WebhookSecret>, SettingProblem> {
        let Some(file) = &self.secret_file else { return Ok(None) };
        let secret = WebhookSecret::read(file.get_ref(), sources.read);
        secret.map(Some).map_err(|why| (file.span(), format!("`secret_file`: {why}")))
    }

    fn batch(&self) -> Result<usize, SettingProblem> {
        let Some(batch) = &self.batch else { return Ok(BATCH_DEFAULT as usize) };
        match *batch.get_ref() {
            size @ 1..=BATCH_MAX => Ok(size as usize),
            _ => Err((batch.span(), format!("`batch` is a number of records from 1 to {BATCH_MAX}"))),
        }
    }

    fn chosen(&self) -> Result<Option<ChosenEvents>, SettingProblem> {
        let Some(events) = &self.events else { return self.without_events() };
        let mut patterns = Vec::new();
        for event in events.get_ref() {
            let text = event.get_ref();
            let pattern = EventPattern::parse(text);
            patterns
                .push(pattern.map_err(|_| {
                    (event.span(), format!("{text:?} is no event, as s3:ObjectCreated:* is"))
                })?);
        }
        if patterns.is_empty() {
            return Err((events.span(), "`events` is empty".to_owned()));
        }
        let filter =
            KeyFilter { prefix: text_of(self.prefix.as_ref()), suffix: text_of(self.suffix.as_ref()) };
        let buckets = self.buckets.as_ref().map(|buckets| buckets.get_ref().clone()).unwrap_or_default();
        Ok(Some(ChosenEvents { patterns, buckets, filter }))
    }

    /// A target whose events only buckets choose. Filters without `events` would be without an
    /// effect.
    fn without_events(&self) -> Result<Option<ChosenEvents>, SettingProblem> {
        let filters = [
            ("buckets", self.buckets.as_ref().map(Spanned::span)),
            ("prefix", self.prefix.as_ref().map(Spanned::span)),
            ("suffix", self.suffix.as_ref().map(Spanned::span)),
        ];
        match filters.into_iter().find_map(|(name, at)| Some((name, at?))) {
            Some((name, at)) => Err((at, format!("`{name}` has no effect without `events`"))),
            None => Ok(None),
        }
    }
}

impl DurationRange {
    fn read(&self, name: &str, value: Option<&Spanned<String>>) -> Result<Duration, SettingProblem> {
        let Some(value) = value else { return Ok(Duration::from_millis(self.default)) };
        let duration = humantime::parse_duration(value.get_ref()).ok();
        duration.filter(|duration| (self.min..=self.max).contains(&duration.as_millis())).ok_or_else(|| {
            let min = shown_duration(self.min);
            let max = shown_duration(self.max);
            (value.span(), format!("`{name}` is a duration from {min} to {max}, such as 5s"))
        })
    }
}

fn shown_duration(millis: u128) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_millis(millis as u64))
}

fn text_of(value: Option<&Spanned<String>>) -> Option<String> {
    value.map(|value| value.get_ref().clone())
}

fn name_of(name: &Spanned<String>) -> Result<String, SettingProblem> {
    let text = name.get_ref();
    let is_name = (1..=NAME_MAX_BYTES).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if !is_name {
        let problem = format!("{text:?} is no name: up to {NAME_MAX_BYTES} letters, digits and -_");
        return Err((name.span(), problem));
    }
    Ok(text.clone())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::s3::notification::ObjectEvent;

    const WHOLE: &str = "workers = 2\n[[webhook]]\nname = 'thumbs'\nurl = 'https://h:1/in/x?y=z'\nsecret_file = 'secret'\n\
        batch = 7\ndelay = '1s'\ntimeout = '3s'\ndrop_refused_after = '2h'\nevents = ['s3:ObjectCreated:*', 's3:ObjectTagging:Put']\n\
        buckets = ['photos']\nprefix = 'in/'\nsuffix = '.jpg'\n\n[[webhook]]\nname = 'audit'\nurl = 'http://h'\n";

    fn parse(text: &str) -> Result<Vec<WebhookSettings>, String> {
        let read = |path: &Path| match path.to_str() {
            Some("secret") => Ok("hush\n".to_owned()),
            Some("empty") => Ok("\n".to_owned()),
            _ => Err("no such file".to_owned()),
        };
        WebhookSettings::parse(text, &SettingSources { read: &read, variable: &|_| None })
    }

    #[test]
    fn tables_are_read_with_their_defaults() {
        let all = parse(WHOLE).unwrap();
        let [thumbs, audit] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((thumbs.endpoint.as_str(), thumbs.path.as_str()), ("https://h:1", "/in/x?y=z"));
        let secret = thumbs.secret.as_ref().unwrap().key();
        assert_eq!((thumbs.batch, secret.as_slice()), (7, b"hush".as_slice()));
        let seconds = [thumbs.delay, thumbs.timeout, thumbs.drop_refused_after].map(|it| it.as_secs());
        assert_eq!(seconds, [1, 3, 7200]);
        let chosen = thumbs.chosen.as_ref().unwrap();
        assert_eq!((chosen.buckets.as_slice(), chosen.patterns.len()), (["photos".to_owned()].as_slice(), 2));
        assert!(chosen.patterns[0].events().contains(ObjectEvent::CreatedPost));
        assert!(chosen.filter.includes("in/a.jpg") && !chosen.filter.includes("a.jpg"));
        assert_eq!((audit.path.as_str(), audit.batch, &audit.secret), ("/", 100, &None));
        assert_eq!((audit.delay.as_millis(), audit.timeout.as_secs(), &audit.chosen), (200, 10, &None));
        assert_eq!(format!("{thumbs:?}"), "thumbs at https://h:1");
        assert_eq!(parse("workers = 2\n"), Ok(Vec::new()));
    }

    #[test]
    fn problems_name_the_line_to_change() {
        for (from, to, line, word) in [
            ("'thumbs'", "'a:b'", 3, "name"),
            ("'audit'", "'thumbs'", 16, "two targets"),
            ("name = 'audit'\n", "", 15, "missing field `name`"),
            ("https://h:1/in/x?y=z", "h:1", 4, "https://"),
            ("https://h:1/in/x?y=z", "https://h:1/a b", 4, "characters"),
            ("https://h:1/in/x?y=z", "https://u@h:1/", 4, "HOST:PORT"),
            ("'secret'", "'none'", 5, "no such file"),
            ("'secret'", "'empty'", 5, "empty"),
            ("batch = 7", "batch = 0", 6, "from 1 to 1000"),
            ("'1s'", "'2m'", 7, "`delay`"),
            ("'3s'", "'soon'", 8, "`timeout`"),
            ("'2h'", "'1y'", 9, "`drop_refused_after`"),
            ("s3:ObjectTagging:Put", "s3:ObjectAccessed:Get", 10, "no event"),
            ("['s3:ObjectCreated:*', 's3:ObjectTagging:Put']", "[]", 10, "empty"),
            ("events = ['s3:ObjectCreated:*', 's3:ObjectTagging:Put']\n", "", 10, "`buckets`"),
            ("suffix", "suffixes", 13, "unknown field"),
            ("'http://h'", "'http://h'\nfingerprint = 'ab'", 17 + 1, "64 hexadecimal"),
        ] {
            let problem = parse(&WHOLE.replace(from, to)).unwrap_err();
            assert!(problem.contains(&format!("line {line}:")) && problem.contains(word), "{to}: {problem}");
        }
        let plain = format!("'http://h'\nfingerprint = '{}'", "ab".repeat(32));
        let problem = parse(&WHOLE.replace("'http://h'", &plain)).unwrap_err();
        assert!(problem.contains("line 17:") && problem.contains("https"), "{problem}");
    }
}
