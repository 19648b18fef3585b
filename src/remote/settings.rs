//! The section `[remote]` of the configuration file.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytesize::ByteSize;
use serde::Deserialize;
use toml::Spanned;

use crate::client::{CertificateFingerprint, CertificateTrust, Endpoint};
use crate::remote::{EncryptedRemote, EncryptionKeys, Remote, S3Remote};

/// The variables with the keys, in place of those in the file.
const KEY_VARIABLES: [&str; 2] = ["SILTSTONE_REMOTE_ACCESS_KEY", "SILTSTONE_REMOTE_SECRET_KEY"];

const KEY_NAMES: [&str; 2] = ["access_key", "secret_key"];

/// The region that most servers have.
pub(crate) const USUAL_REGION: &str = "us-east-1";

/// The address of a remote, and the keys for it.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteSettings {
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub endpoint: String,
    /// The bucket.
    pub bucket: String,
    /// The beginning of all keys, without a `/` at its end; may be empty.
    pub prefix: String,
    /// The region that requests are signed for.
    pub region: String,
    /// The access key.
    pub access_key: String,
    /// The secret key.
    pub secret_key: String,
    /// The certificates of the server that are accepted.
    pub trust: CertificateTrust,
    /// The most bytes a second that are sent; zero for no limit.
    pub upload_rate: u64,
    /// The most bytes a second that are received; zero for no limit.
    pub download_rate: u64,
    /// The keys of all objects, where they are encrypted.
    pub encryption: Option<EncryptionKeys>,
}

impl fmt::Debug for RemoteSettings {
    /// Shows no key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.place(), self.endpoint)
    }
}

/// The files and the variables that settings name.
pub struct SettingSources<'s> {
    /// Reads a small file.
    pub read: &'s dyn Fn(&Path) -> Result<String, String>,
    /// The value of a variable of the process.
    pub variable: &'s dyn Fn(&str) -> Option<String>,
}

/// The table as it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RemoteTable {
    endpoint: Spanned<String>,
    bucket: Spanned<String>,
    prefix: Option<Spanned<String>>,
    region: Option<Spanned<String>>,
    access_key: Option<Spanned<String>>,
    access_key_file: Option<Spanned<PathBuf>>,
    secret_key: Option<Spanned<String>>,
    secret_key_file: Option<Spanned<PathBuf>>,
    ca_file: Option<Spanned<PathBuf>>,
    fingerprint: Option<Spanned<String>>,
    upload_rate: Option<Spanned<String>>,
    download_rate: Option<Spanned<String>>,
    encryption_key_file: Option<Spanned<PathBuf>>,
}

/// The part of the file that is read here.
#[derive(Deserialize)]
struct RemoteFile {
    remote: Option<Spanned<RemoteTable>>,
}

/// A problem, and its place in the file.
pub type SettingProblem = (Range<usize>, String);

impl RemoteSettings {
    /// Reads the section `[remote]` of the configuration file with this text; `None` where there is none. Everything that can be checked
    /// without the remote is checked.
    ///
    /// # Errors
    /// The first problem with its line. It quotes no key.
    pub fn parse(text: &str, sources: &SettingSources<'_>) -> Result<Option<Self>, String> {
        let line_of = |at: &Range<usize>| 1 + text.bytes().take(at.start).filter(|&b| b == b'\n').count();
        let file: RemoteFile = toml::from_str(text).map_err(|error| {
            format!("line {}: [remote]: {}", line_of(&error.span().unwrap_or_default()), error.message())
        })?;
        let Some(table) = file.remote else { return Ok(None) };
        let settings = table.get_ref().settings(&table.span(), sources);
        settings.map(Some).map_err(|(at, problem)| format!("line {}: [remote]: {problem}", line_of(&at)))
    }

    /// The prefix of all keys: empty, or with a `/` at its end.
    pub fn key_prefix(&self) -> String {
        if self.prefix.is_empty() { String::new() } else { format!("{}/", self.prefix) }
    }

    /// The remote, encrypted where there are keys. Nothing is connected before the first call.
    ///
    /// # Errors
    /// As of [`S3Remote::new`].
    pub fn remote(&self) -> Result<Arc<dyn Remote>, String> {
        let remote = Arc::new(S3Remote::new(self)?);
        Ok(match &self.encryption {
            Some(keys) => Arc::new(EncryptedRemote::new(remote, keys)),
            None => remote,
        })
    }

    /// The bucket and the prefix, for messages.
    pub fn place(&self) -> String {
        format!("{}/{}", self.bucket, self.key_prefix())
    }
}

impl RemoteTable {
    fn settings(
        &self,
        whole: &Range<usize>,
        sources: &SettingSources<'_>,
    ) -> Result<RemoteSettings, SettingProblem> {
        let trust = certificate_trust(self.ca_file.as_ref(), self.fingerprint.as_ref())?;
        let at = |why| (self.endpoint.span(), why);
        Endpoint::unresolved(self.endpoint.get_ref(), &trust).map_err(at)?;
        if matches!(trust, CertificateTrust::Fingerprint(_))
            && !self.endpoint.get_ref().starts_with("https://")
        {
            return Err(at("`fingerprint` needs an endpoint with https".to_owned()));
        }
        let key = |name: usize, value: &Option<Spanned<String>>, file: &Option<Spanned<PathBuf>>| {
            key_of((KEY_NAMES[name], KEY_VARIABLES[name]), (value, file), whole, sources)
        };
        Ok(RemoteSettings {
            endpoint: self.endpoint.get_ref().trim_end_matches('/').to_owned(),
            bucket: checked(&self.bucket, is_bucket, "is not the name of a bucket")?,
            prefix: self.prefix.as_ref().map_or(Ok(String::new()), prefix_of)?,
            region: match &self.region {
                Some(region) => checked(region, is_region, "is not the name of a region")?,
                None => USUAL_REGION.to_owned(),
            },
            access_key: key(0, &self.access_key, &self.access_key_file)?,
            secret_key: key(1, &self.secret_key, &self.secret_key_file)?,
            trust,
            upload_rate: rate_of(self.upload_rate.as_ref())?,
            download_rate: rate_of(self.download_rate.as_ref())?,
            encryption: self
                .encryption_key_file
                .as_ref()
                .map(|file| encryption_of(file, sources))
                .transpose()?,
        })
    }
}

/// The certificates that a table accepts.
///
/// # Errors
/// `ca_file` and `fingerprint` are both set, or one of them is wrong.
pub fn certificate_trust(
    ca_file: Option<&Spanned<PathBuf>>,
    fingerprint: Option<&Spanned<String>>,
) -> Result<CertificateTrust, SettingProblem> {
    match (ca_file, fingerprint) {
        (Some(_), Some(second)) => {
            Err((second.span(), "`ca_file` and `fingerprint` exclude each other".to_owned()))
        }
        (Some(file), None) => {
            let trust = CertificateTrust::Authorities(file.get_ref().clone());
            trust.check().map(|()| trust).map_err(|why| (file.span(), format!("`ca_file`: {why}")))
        }
        (None, Some(text)) => CertificateFingerprint::parse(text.get_ref())
            .map(CertificateTrust::Fingerprint)
            .map_err(|why| (text.span(), format!("`fingerprint`: {why}"))),
        (None, None) => Ok(CertificateTrust::System),
    }
}

/// A text that has to be of a kind.
pub(crate) fn checked(
    value: &Spanned<String>,
    holds: impl Fn(&str) -> bool,
    problem: &str,
) -> Result<String, SettingProblem> {
    let text = value.get_ref();
    if holds(text) { Ok(text.clone()) } else { Err((value.span(), format!("{text:?} {problem}"))) }
}

pub(crate) fn is_bucket(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    (3..=63).contains(&name.len()) && name.bytes().all(allowed)
}

pub(crate) fn is_region(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

pub(crate) fn prefix_of(value: &Spanned<String>) -> Result<String, SettingProblem> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'/');
    let text = value.get_ref().trim_end_matches('/');
    let parts = || text.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    if text.is_empty() || (text.len() <= 256 && text.bytes().all(allowed) && parts()) {
        return Ok(text.to_owned());
    }
    let problem =
        format!("{text:?} is not a prefix: letters, digits and -._ with single slashes between them");
    Err((value.span(), problem))
}

/// Bytes a second.
pub(crate) fn rate_of(value: Option<&Spanned<String>>) -> Result<u64, SettingProblem> {
    let Some(value) = value else { return Ok(0) };
    let text = value.get_ref();
    match text.parse::<ByteSize>() {
        Ok(rate) if rate.as_u64() == 0 || rate.as_u64() >= ByteSize::kib(64).as_u64() => Ok(rate.as_u64()),
        _ => Err((
            value.span(),
            format!("{text:?} is not a rate such as 20MiB a second; at least 64KiB, or 0 for none"),
        )),
    }
}

fn encryption_of(
    file: &Spanned<PathBuf>,
    sources: &SettingSources<'_>,
) -> Result<EncryptionKeys, SettingProblem> {
    let read = (sources.read)(file.get_ref()).and_then(|text| EncryptionKeys::parse(&text));
    read.map_err(|why| (file.span(), format!("`encryption_key_file`: {why}")))
}

/// A key: by value, by file, or by its variable.
pub(crate) fn key_of(
    (name, variable): (&str, &str),
    (value, file): (&Option<Spanned<String>>, &Option<Spanned<PathBuf>>),
    whole: &Range<usize>,
    sources: &SettingSources<'_>,
) -> Result<String, SettingProblem> {
    let (key, at) = match (value, file) {
        (Some(_), Some(second)) => {
            return Err((second.span(), format!("`{name}` and `{name}_file` exclude each other")));
        }
        (Some(value), None) => (value.get_ref().clone(), value.span()),
        (None, Some(file)) => {
            let read = (sources.read)(file.get_ref());
            (
                read.map_err(|why| (file.span(), format!("`{name}_file`: {why}")))?.trim().to_owned(),
                file.span(),
            )
        }
        (None, None) => ((sources.variable)(variable).unwrap_or_default(), whole.clone()),
    };
    if key.is_empty() {
        return Err((at, format!("`{name}` is missing: set it, `{name}_file`, or the variable {variable}")));
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err((at, format!("`{name}` has characters that no key has")));
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeededEntropy;
    use crate::remote::EncryptionKey;

    const WHOLE: &str = "workers = 2\n\n[remote]\nendpoint = 'https://h:1'\nbucket = 'cold'\nprefix = 'a/b/'\nregion = 'r'\n\
        access_key = 'AK'\nsecret_key_file = 'secret'\nupload_rate = '1MiB'\ndownload_rate = '0'\n";

    fn key_line() -> String {
        EncryptionKey::generate(&SeededEntropy::new(1)).line()
    }

    fn parse(text: &str) -> Result<Option<RemoteSettings>, String> {
        let read = |path: &Path| match path.to_str() {
            Some("secret") => Ok("from file\n".replace(' ', "-")),
            Some("keys") => Ok(key_line()),
            Some("half") => Ok(key_line()[..60].to_owned()),
            _ => Err("no such file".to_owned()),
        };
        let variable = |name: &str| (name == "SILTSTONE_REMOTE_ACCESS_KEY").then(|| "AKENV".to_owned());
        RemoteSettings::parse(text, &SettingSources { read: &read, variable: &variable })
    }

    #[test]
    fn a_section_is_read_with_its_files_and_variables() {
        let settings = parse(WHOLE).unwrap().unwrap();
        assert_eq!((settings.endpoint.as_str(), settings.key_prefix().as_str()), ("https://h:1", "a/b/"));
        assert_eq!((settings.access_key.as_str(), settings.secret_key.as_str()), ("AK", "from-file"));
        assert_eq!((settings.upload_rate, settings.download_rate), (1 << 20, 0));
        assert_eq!(settings.trust, CertificateTrust::System);
        assert_eq!(format!("{settings:?}"), "cold/a/b/ of https://h:1");
        let other = WHOLE.replace("access_key = 'AK'", &format!("fingerprint = '{}'", "ab".repeat(32)));
        let settings = parse(&other.replace("region = 'r'\n", "")).unwrap().unwrap();
        assert_eq!((settings.access_key.as_str(), settings.region.as_str()), ("AKENV", "us-east-1"));
        assert!(matches!(settings.trust, CertificateTrust::Fingerprint(_)));
        assert_eq!(parse("workers = 2\n").unwrap(), None);
        assert_eq!(settings.encryption, None);
        let settings = parse(&format!("{WHOLE}encryption_key_file = 'keys'\n")).unwrap().unwrap();
        assert_eq!(settings.encryption, Some(EncryptionKeys::parse(&key_line()).unwrap()));
        assert!(settings.remote().is_ok());
    }

    #[test]
    fn problems_name_the_line_to_change() {
        let replaced = |from: &str, to: &str| parse(&WHOLE.replace(from, to)).unwrap_err();
        for (from, to, line, word) in [
            ("https://h:1", "h:1", 4, "https://"),
            ("https://h:1", "https://h/path", 4, "HOST:PORT"),
            ("'cold'", "'c'", 5, "bucket"),
            ("'cold'", "'a/b'", 5, "bucket"),
            ("'a/b/'", "'a//b'", 6, "prefix"),
            ("'a/b/'", "'../b'", 6, "prefix"),
            ("'a/b/'", "'a b'", 6, "prefix"),
            ("region = 'r'", "region = ''", 7, "region"),
            ("access_key = 'AK'", "access_key = ''", 8, "access_key"),
            ("access_key = 'AK'", "access_key = \"A\\nK\"", 8, "characters"),
            ("'secret'", "'none'", 9, "no such file"),
            ("secret_key_file = 'secret'\n", "", 3, "SILTSTONE_REMOTE_SECRET_KEY"),
            ("'1MiB'", "'fast'", 10, "rate"),
            ("'1MiB'", "'1KiB'", 10, "64KiB"),
            ("download_rate", "download_rates", 11, "unknown field"),
            ("download_rate = '0'", "encryption_key_file = 'none'", 11, "no such file"),
            ("download_rate = '0'", "encryption_key_file = 'half'", 11, "line 1"),
            ("region = 'r'", "ca_file = '/none/ca.pem'", 7, "ca_file"),
            ("region = 'r'", "fingerprint = 'ab'", 7, "64 hexadecimal"),
            ("bucket = 'cold'\n", "", 3, "missing field `bucket`"),
        ] {
            let problem = replaced(from, to);
            assert!(problem.contains(&format!("line {line}:")) && problem.contains(word), "{to}: {problem}");
        }
        let both = replaced("access_key = 'AK'\n", "access_key = 'AK'\naccess_key_file = 'secret'\n");
        assert!(both.contains("line 9") && both.contains("exclude"), "{both}");
        let plain = replaced("https://h:1'", &format!("http://h:1'\nfingerprint = '{}'", "ab".repeat(32)));
        assert!(plain.contains("line 4") && plain.contains("https"), "{plain}");
    }
}
