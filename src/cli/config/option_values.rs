//! The values of options in the form in which operators write them.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use siltstone::auth::ANY_REGION;
use siltstone::base::limits::{GIB, KIB, MIB};
use siltstone::service::MetricsAccess;
use siltstone::store::ShipMode;

/// One or more region names, separated by commas. All but the first may be [`ANY_REGION`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegionNames(pub(crate) Vec<String>);

/// Origins of pages, separated by commas, each with at most one `*`; or `none`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WebOrigins(pub(crate) Vec<String>);

/// A duration such as `10s` or `2m 30s`; not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeSpan(pub(crate) Duration);

/// A number of bytes such as `512KiB` or `64MiB`; at least one mebibyte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteCount(pub(crate) u64);

/// Bytes a second, as [`ByteCount`] or `0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScrubRate(pub(crate) u64);

impl FromStr for RegionNames {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let names: Vec<_> = text.split(',').map(|name| name.trim().to_owned()).collect();
        match names.iter().any(String::is_empty) {
            true => Err("a region has no name"),
            false if names[0] == ANY_REGION => {
                Err("the first region is that of the server, which has a name")
            }
            false => Ok(Self(names)),
        }
    }
}

impl FromStr for WebOrigins {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self(Vec::new()));
        }
        let origins: Vec<_> = text.split(',').map(|origin| origin.trim().to_owned()).collect();
        match origins.iter().find_map(|origin| Some((origin, origin_problem(origin)?))) {
            Some((origin, problem)) => Err(format!("{origin:?}: {problem}")),
            None => Ok(Self(origins)),
        }
    }
}

/// The reason why no page has this origin (RFC 6454, section 6.1).
fn origin_problem(origin: &str) -> Option<&'static str> {
    if origin == "null" || origin == "*" {
        return None;
    }
    if origin.matches('*').count() > 1 {
        return Some("an origin may have one *");
    }
    let Some((_, host)) = origin.split_once("://") else {
        return Some("an origin has a scheme (write https://app.example, or * for all)");
    };
    let is_host = !host.is_empty() && !host.contains(['/', '?', '#', '@']);
    let is_plain =
        origin.bytes().all(|b| b.is_ascii_graphic()) && !origin.bytes().any(|b| b.is_ascii_uppercase());
    (!is_host || !is_plain)
        .then_some("an origin is a scheme, a host and a port, in lower case, without a path")
}

impl TimeSpan {
    pub(crate) fn from_secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }
}

impl FromStr for TimeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match humantime::parse_duration(text) {
            Ok(time) if time.is_zero() => Err("it must be more than zero".to_owned()),
            Ok(time) => Ok(Self(time)),
            Err(e) => Err(format!("{e} (write 30s or 2m)")),
        }
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

/// When a write is on the remote; `None` for never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShipWhen(pub(crate) Option<ShipMode>);

impl ShipWhen {
    const NAMES: [(Option<ShipMode>, &str); 3] =
        [(None, "off"), (Some(ShipMode::Async), "async"), (Some(ShipMode::Sync), "sync")];
}

impl FromStr for ShipWhen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::NAMES.into_iter().find(|(_, name)| *name == text);
        found.map(|(mode, _)| Self(mode)).ok_or_else(|| "it is off, async or sync".to_owned())
    }
}

impl fmt::Display for ShipWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.into_iter().find(|(mode, _)| *mode == self.0);
        f.write_str(name.expect("it has all modes").1)
    }
}

impl FromStr for ByteCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse::<ByteSize>()?.as_u64() {
            bytes @ MIB.. => Ok(Self(bytes)),
            _ => Err("it must be at least 1MiB".to_owned()),
        }
    }
}

impl fmt::Display for ByteCount {
    /// In the largest unit of which it is a multiple.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")];
        match units.iter().find(|(unit, _)| self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl FromStr for ScrubRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "0" { Ok(Self(0)) } else { text.parse().map(|ByteCount(bytes)| Self(bytes)) }
    }
}

/// Parses one of several names into its value.
pub(crate) fn one_of<T: Copy + Send + Sync + 'static>(
    values: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(values.iter().map(|(name, _)| *name)).try_map(move |name| {
        let found = values.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value).ok_or("it is not one of the names")
    })
}

/// A number that is not zero, as a default.
pub(crate) const fn not_zero(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).expect("a default is not zero")
}

/// Parses the clients that may read the metrics.
pub(crate) fn metrics_access(text: &str) -> Result<MetricsAccess, &'static str> {
    match text {
        "off" => Ok(MetricsAccess::Off),
        "local" => Ok(MetricsAccess::Local),
        "open" => Ok(MetricsAccess::Open),
        // The values of earlier versions. `true` was the default, and its meaning is ambiguous.
        "true" => Err("instead of true, write open (for every client) or local (for those on this host)"),
        "false" => Err("instead of false, write off"),
        _ => Err("it is off, local or open"),
    }
}

/// Parses `http://HOST[:PORT]`, perhaps with a `/` at the end, which is left out.
///
/// # Errors
/// The URL has a path or another form.
pub(crate) fn public_url(text: &str) -> Result<String, String> {
    let url = web_url(text)?;
    if url.matches('/').count() > 2 {
        return Err("a signature names the host alone: write it without a path".to_owned());
    }
    Ok(url)
}

/// Parses `http://HOST[:PORT][/PATH]` or the same with `https`. A `/` at the end is left out.
///
/// # Errors
/// The URL has another form.
pub(crate) fn web_url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let host = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
    // What is left out would begin another part of the URL, or end the place where it is shown.
    let is_plain = text.chars().all(|c| c.is_ascii_graphic() && !"?#@\\\"<>".contains(c));
    if host.is_empty() || !is_plain {
        return Err("it is not of the form https://HOST:PORT".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_shown_as_they_are_written() {
        for text in ["1MiB", "256MiB", "3GiB", "1025KiB", "1048577B"] {
            assert_eq!(text.parse::<ByteCount>().unwrap().to_string(), text);
        }
        for text in ["10s", "1m", "1m 5s"] {
            assert_eq!(text.parse::<TimeSpan>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn origins_are_those_of_pages() {
        let parse = |text: &str| text.parse::<WebOrigins>().map(|origins| origins.0);
        assert_eq!((parse("none"), parse("*")), (Ok(Vec::new()), Ok(vec!["*".to_owned()])));
        let several = parse("https://*.example, http://localhost:3000,null").unwrap();
        assert_eq!(several, ["https://*.example", "http://localhost:3000", "null"]);
        for (wrong, part) in [
            ("", "scheme"),
            ("app.example", "scheme"),
            ("https://a,", "scheme"),
            ("https://a/", "path"),
            ("https://A.example", "lower case"),
            ("https://", "host"),
            ("https://a b", "host"),
            ("https://*.*", "one *"),
        ] {
            let problem = parse(wrong).unwrap_err();
            assert!(problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn the_metrics_of_earlier_versions_are_refused_with_their_replacement() {
        for (old, instead) in [("true", "open"), ("false", "off")] {
            assert!(metrics_access(old).unwrap_err().contains(instead));
        }
    }
}
