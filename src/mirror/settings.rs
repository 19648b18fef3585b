//! The tables `[[mirror]]` of the configuration file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use serde::Deserialize;
use toml::Spanned;

use crate::base::{Timestamp, line_of};
use crate::client::settings::{self, KeyFields, ServerFields};
use crate::client::{ServerSettings, SettingProblem, SettingSources};
use crate::store::MirroredPlace;

/// The most mirrors.
const MIRRORS_MAX: usize = 16;
/// Threads that copy keys, unless the table says otherwise.
const WORKERS: usize = 4;
const WORKERS_MAX: usize = 64;
/// The place of the name of the source bucket in the target's name.
const BUCKET_MARK: &str = "{bucket}";

/// A mirror.
#[derive(Clone, PartialEq, Eq)]
pub struct MirrorSettings {
    /// Its name.
    pub name: String,
    /// The server of the target.
    pub server: ServerSettings,
    /// The buckets, each with the beginning of its keys; empty for all.
    pub sources: Vec<(String, String)>,
    /// The bucket at the target, where `{bucket}` stands for the name of the source.
    pub target_bucket: String,
    /// The buckets at the target that have other names, by the names of their sources.
    pub target_buckets: BTreeMap<String, String>,
    /// The beginning of all keys at the target: empty, or with a `/` at its end.
    pub target_prefix: String,
    /// The most bytes a second; zero for no limit.
    pub rate: u64,
    /// The hours of the day at which it copies.
    pub hours: ActiveHours,
    /// The number of keys that are copied side by side.
    pub workers: usize,
    /// Whether the rules of buckets say what it sends, and it removes nothing.
    pub replication: bool,
}

/// A key at the target.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MirrorPlace {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
}

/// The hours of the day, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ActiveHours {
    /// The first minute and the minute after the last; equal for the whole day.
    from: u32,
    to: u32,
}

impl fmt::Debug for MirrorSettings {
    /// Shows no key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}/{} of {}", self.name, self.target_bucket, self.target_prefix, self.server.endpoint)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MirrorTable {
    name: Spanned<String>,
    endpoint: Spanned<String>,
    region: Option<Spanned<String>>,
    access_key: Option<Spanned<String>>,
    access_key_file: Option<Spanned<PathBuf>>,
    secret_key: Option<Spanned<String>>,
    secret_key_file: Option<Spanned<PathBuf>>,
    ca_file: Option<Spanned<PathBuf>>,
    fingerprint: Option<Spanned<String>>,
    buckets: Option<Vec<Spanned<String>>>,
    target_bucket: Option<Spanned<String>>,
    target_buckets: Option<Spanned<BTreeMap<String, String>>>,
    target_prefix: Option<Spanned<String>>,
    rate: Option<Spanned<String>>,
    hours: Option<Spanned<String>>,
    workers: Option<Spanned<usize>>,
    replication: Option<Spanned<bool>>,
}

#[derive(Deserialize)]
struct MirrorFile {
    #[serde(default)]
    mirror: Vec<Spanned<MirrorTable>>,
}

impl ActiveHours {
    /// Parses `HH:MM-HH:MM`; the end may be on the next day.
    pub fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.split_once('-')?;
        Some(Self { from: minute_of_day(from)?, to: minute_of_day(to)? })
    }

    /// Whether they include this time.
    pub fn include(self, now: Timestamp) -> bool {
        let minute = (now.as_secs() / 60 % (24 * 60)) as u32;
        match self {
            Self { from, to } if from == to => true,
            Self { from, to } if from < to => (from..to).contains(&minute),
            Self { from, to } => minute >= from || minute < to,
        }
    }
}

fn minute_of_day(text: &str) -> Option<u32> {
    let (hour, minute) = text.split_once(':')?;
    let hour: u32 = hour.parse().ok()?;
    let minute: u32 = minute.parse().ok()?;
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

impl MirrorSettings {
    /// Reads the tables of the configuration file with this text. Everything that can be checked
    /// without the targets is checked.
    ///
    /// # Errors
    /// The first problem with its line. It quotes no key.
    pub fn parse(text: &str, sources: &SettingSources<'_>) -> Result<Vec<Self>, String> {
        let file: MirrorFile = toml::from_str(text)
            .map_err(|error| problem_at(text, &error.span().unwrap_or_default(), error.message()))?;
        let mut mirrors: Vec<Self> = Vec::new();
        for table in &file.mirror {
            let mirror = table.get_ref().settings(&table.span(), sources);
            let mirror = mirror.map_err(|(at, why)| problem_at(text, &at, &why))?;
            let is_known = mirrors.iter().any(|known| known.name == mirror.name);
            if is_known || mirrors.len() == MIRRORS_MAX {
                let why = if is_known { "another has this name" } else { "there are too many" };
                return Err(problem_at(text, &table.get_ref().name.span(), why));
            }
            mirrors.push(mirror);
        }
        Ok(mirrors)
    }

    /// The server and the buckets of the target, for operators.
    pub fn target(&self) -> String {
        let named = self.target_buckets.iter().map(|(bucket, there)| format!(", {bucket} as {there}"));
        let Self { server, target_bucket, target_prefix, .. } = self;
        format!("{} {target_bucket}/{target_prefix}{}", server.endpoint, named.collect::<String>())
    }

    /// The place of a key at the target; `None` for one that is not mirrored.
    pub fn place(&self, bucket: &str, key: &str) -> Option<MirrorPlace> {
        let mut sources = self.sources.iter();
        let is_named = sources.any(|(name, prefix)| name == bucket && key.starts_with(&**prefix));
        if !self.sources.is_empty() && !is_named {
            return None;
        }
        let key = format!("{}{key}", self.target_prefix);
        Some(MirrorPlace { bucket: self.bucket_for(bucket), key })
    }

    /// The bucket at the target.
    pub fn bucket_for(&self, bucket: &str) -> String {
        let named = self.target_buckets.get(bucket).cloned();
        named.unwrap_or_else(|| self.target_bucket.replace(BUCKET_MARK, bucket))
    }

    /// The beginnings of keys of a bucket that are mirrored; none where the bucket is not.
    pub fn prefixes_of(&self, bucket: &str) -> Vec<String> {
        if self.sources.is_empty() {
            return vec![String::new()];
        }
        self.sources.iter().filter(|(name, _)| name == bucket).map(|(_, prefix)| prefix.clone()).collect()
    }

    /// The beginnings of keys that a bucket has at the target; none where the bucket is not
    /// mirrored.
    pub fn places_of(&self, id: u64, bucket: &str) -> Vec<MirroredPlace> {
        let mut places = Vec::new();
        for prefix in self.prefixes_of(bucket) {
            places.push(MirroredPlace {
                id,
                bucket: self.bucket_for(bucket),
                prefix: format!("{}{prefix}", self.target_prefix),
            });
        }
        places
    }
}

fn problem_at(text: &str, at: &Range<usize>, why: &str) -> String {
    format!("line {}: [[mirror]]: {why}", line_of(text, at))
}

impl MirrorTable {
    fn server(&self) -> ServerFields<'_> {
        ServerFields {
            endpoint: &self.endpoint,
            region: self.region.as_ref(),
            access_key: KeyFields { value: self.access_key.as_ref(), file: self.access_key_file.as_ref() },
            secret_key: KeyFields { value: self.secret_key.as_ref(), file: self.secret_key_file.as_ref() },
            ca_file: self.ca_file.as_ref(),
            fingerprint: self.fingerprint.as_ref(),
        }
    }

    fn settings(
        &self,
        whole: &Range<usize>,
        files: &SettingSources<'_>,
    ) -> Result<MirrorSettings, SettingProblem> {
        let name = settings::checked(&self.name, is_name, "is not a name of letters, digits and -")?;
        let variables = format!("SILTSTONE_MIRROR_{}", name.to_uppercase().replace('-', "_"));
        let sources = self.buckets.iter().flatten().map(source_of).collect::<Result<Vec<_>, _>>()?;
        let target_bucket = match &self.target_bucket {
            Some(bucket) => settings::checked(bucket, can_name_buckets, "is not the name of a bucket")?,
            None => BUCKET_MARK.to_owned(),
        };
        let prefix = self.target_prefix.as_ref().map_or(Ok(String::new()), settings::prefix_of)?;
        let mirror = MirrorSettings {
            server: self.server().settings(&variables, whole, files)?,
            sources,
            target_bucket,
            target_buckets: self.target_buckets.as_ref().map_or(Ok(BTreeMap::new()), target_buckets_of)?,
            target_prefix: if prefix.is_empty() { prefix } else { format!("{prefix}/") },
            rate: settings::rate_of(self.rate.as_ref())?,
            hours: self.hours.as_ref().map_or(Ok(ActiveHours::default()), hours_of)?,
            workers: self.workers.as_ref().map_or(Ok(WORKERS), workers_of)?,
            replication: self.replication.as_ref().is_some_and(|it| *it.get_ref()),
            name,
        };
        self.check_replication()?;
        self.check_target_buckets(&mirror)?;
        Ok(mirror)
    }

    /// Rules say what is sent, so that the operator does not.
    fn check_replication(&self) -> Result<(), SettingProblem> {
        match &self.replication {
            Some(replication) if *replication.get_ref() && self.buckets.is_some() => Err((
                replication.span(),
                "with `replication` the rules of buckets say what is sent: leave `buckets` out".to_owned(),
            )),
            _ => Ok(()),
        }
    }

    /// Two buckets in one of the target would remove each other's objects there.
    fn check_target_buckets(&self, mirror: &MirrorSettings) -> Result<(), SettingProblem> {
        let named: BTreeSet<_> = mirror.sources.iter().map(|(bucket, _)| bucket).collect();
        if let Some(given) = &self.target_buckets
            && let Some(unknown) = mirror.target_buckets.keys().find(|bucket| !named.contains(bucket))
        {
            return Err((given.span(), format!("{unknown:?} is not one of `buckets`")));
        }
        let targets: BTreeSet<_> = named.iter().map(|bucket| mirror.bucket_for(bucket)).collect();
        let is_shared = match named.is_empty() {
            true => !mirror.target_bucket.contains(BUCKET_MARK),
            false => targets.len() < named.len(),
        };
        if !is_shared {
            return Ok(());
        }
        let spans =
            [self.target_bucket.as_ref().map(Spanned::span), self.target_buckets.as_ref().map(Spanned::span)];
        let at = spans.into_iter().flatten().next().unwrap_or_default();
        Err((
            at,
            "several buckets need `{bucket}` in `target_bucket`, or names of their own in `target_buckets`"
                .to_owned(),
        ))
    }
}

/// Whether a text is the name of a bucket, once the mark stands for one.
fn can_name_buckets(text: &str) -> bool {
    settings::is_bucket(&text.replace(BUCKET_MARK, "abc"))
}

fn is_name(name: &str) -> bool {
    (1..=32).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// A bucket, or a bucket and the beginning of its keys after a slash.
fn source_of(value: &Spanned<String>) -> Result<(String, String), SettingProblem> {
    let (bucket, prefix) = value.get_ref().split_once('/').unwrap_or((value.get_ref(), ""));
    if !settings::is_bucket(bucket) {
        return Err((value.span(), format!("{bucket:?} is not the name of a bucket")));
    }
    Ok((bucket.to_owned(), prefix.to_owned()))
}

fn target_buckets_of(
    value: &Spanned<BTreeMap<String, String>>,
) -> Result<BTreeMap<String, String>, SettingProblem> {
    let names = value.get_ref();
    match names.values().find(|name| !settings::is_bucket(name)) {
        Some(name) => Err((value.span(), format!("{name:?} is not the name of a bucket"))),
        None => Ok(names.clone()),
    }
}

fn hours_of(value: &Spanned<String>) -> Result<ActiveHours, SettingProblem> {
    let text = value.get_ref();
    ActiveHours::parse(text)
        .ok_or_else(|| (value.span(), format!("{text:?} is not of the form 22:00-06:00, in UTC")))
}

fn workers_of(value: &Spanned<usize>) -> Result<usize, SettingProblem> {
    match *value.get_ref() {
        workers @ 1..=WORKERS_MAX => Ok(workers),
        _ => Err((value.span(), format!("`workers` is 1 to {WORKERS_MAX}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "[[mirror]]\nname = 'away'\nendpoint = 'http://h:1'\naccess_key = 'AK'\nsecret_key = 'SK'\n\
        buckets = ['photos', 'logs/2026/']\ntarget_bucket = 'copy-{bucket}'\ntarget_prefix = 'a/b'\nrate = '1MiB'\n\
        hours = '22:00-06:00'\nworkers = 2\n";

    fn parse(text: &str) -> Result<Vec<MirrorSettings>, String> {
        let read = |_: &std::path::Path| Err("no such file".to_owned());
        let variable = |name: &str| (name == "SILTSTONE_MIRROR_AWAY_SECRET_KEY").then(|| "SKENV".to_owned());
        MirrorSettings::parse(text, &SettingSources { read: &read, variable: &variable })
    }

    #[test]
    fn a_table_is_read_and_maps_keys() {
        let mirror = parse(WHOLE).unwrap().remove(0);
        assert_eq!(mirror.rate, 1 << 20);
        let place = mirror.place("photos", "x/y").unwrap();
        assert_eq!((place.bucket.as_str(), place.key.as_str()), ("copy-photos", "a/b/x/y"));
        assert_eq!(mirror.place("logs", "2025/x"), None);
        assert!(mirror.place("logs", "2026/x").is_some() && mirror.place("other", "x").is_none());
        let from_variable = parse(&WHOLE.replace("secret_key = 'SK'\n", "")).unwrap().remove(0);
        assert_eq!(from_variable.server.secret_key, "SKENV");
        assert_eq!(parse("workers = 2\n").unwrap(), []);
    }

    #[test]
    fn problems_name_the_line_to_change() {
        for (from, to, line, word) in [
            ("'away'", "'a way'", 2, "name"),
            ("'http://h:1'", "'h:1'", 3, "http"),
            ("access_key = 'AK'\n", "", 1, "SILTSTONE_MIRROR_AWAY_ACCESS_KEY"),
            ("'photos'", "'p/'", 6, "bucket"),
            ("copy-{bucket}", "copy", 7, "{bucket}"),
            ("'1MiB'", "'fast'", 9, "rate"),
            ("22:00-06:00", "22-6", 10, "UTC"),
            ("workers = 2", "workers = 0", 11, "workers"),
            ("workers = 2", "worker = 2", 11, "unknown field"),
        ] {
            let problem = parse(&WHOLE.replace(from, to)).unwrap_err();
            assert!(problem.contains(&format!("line {line}:")) && problem.contains(word), "{to}: {problem}");
        }
        let twice = parse(&format!("{WHOLE}{WHOLE}")).unwrap_err();
        assert!(twice.contains("line 13") && twice.contains("name"), "{twice}");
    }

    #[test]
    fn buckets_may_have_names_of_their_own_at_the_target() {
        let with = |names: &str| parse(&format!("{WHOLE}target_buckets = {{ {names} }}\n"));
        let mirror = with("photos = 'films'").unwrap().remove(0);
        assert_eq!((&*mirror.bucket_for("photos"), &*mirror.bucket_for("logs")), ("films", "copy-logs"));
        assert_eq!(mirror.place("photos", "x").unwrap().bucket, "films");
        assert_eq!(mirror.target(), "http://h:1 copy-{bucket}/a/b/, photos as films");
        // All of them have one, so that one name of `target_bucket` is enough for the others.
        let one = WHOLE.replace("copy-{bucket}", "copy");
        assert!(parse(&format!("{one}target_buckets = {{ photos = 'films' }}\n")).is_ok());
        for (names, word) in [
            ("photos = 'copy-logs'", "several buckets"),
            ("photos = 'abc', logs = 'abc'", "several buckets"),
            ("photos = 'a b'", "\"a b\" is not the name of a bucket"),
            ("other = 'theirs'", "\"other\" is not one of `buckets`"),
        ] {
            let problem = with(names).unwrap_err();
            assert!(problem.contains("line 7:") || problem.contains("line 12:"), "{problem}");
            assert!(problem.contains(word), "{names}: {problem}");
        }
    }

    #[test]
    fn hours_may_end_on_the_next_day() {
        let at = |hour: u64| Timestamp::from_millis(hour * 3_600_000);
        let night = ActiveHours::parse("22:00-06:00").unwrap();
        assert_eq!(
            [21, 22, 23, 0, 5, 6].map(|hour| night.include(at(hour))),
            [false, true, true, true, true, false]
        );
        let day = ActiveHours::parse("06:30-22:00").unwrap();
        assert_eq!([6, 7, 21, 22].map(|hour| day.include(at(hour))), [false, true, true, false]);
        assert!(ActiveHours::default().include(at(3)));
    }
}
