//! The section `[remote]` of the configuration file.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;

use crate::base::line_of;
use crate::client::settings::{KeyFields, ServerFields, checked, is_bucket, prefix_of, rate_of};
use crate::client::{ServerSettings, SettingProblem, SettingSources};
use crate::remote::{EncryptedRemote, EncryptionKeys, Remote, S3Remote};

/// The beginning of the variables with the keys, in place of those in the file.
const KEY_VARIABLES: &str = "SILTSTONE_REMOTE";

/// A remote: a bucket and prefix on a server.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteSettings {
    /// The server.
    pub server: ServerSettings,
    /// The bucket.
    pub bucket: String,
    /// The beginning of all keys, without a `/` at its end; may be empty.
    pub prefix: String,
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
        write!(f, "{} of {}", self.place(), self.server.endpoint)
    }
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

impl RemoteSettings {
    /// Reads the section `[remote]` of the configuration file with this text; `None` where there is
    /// none. Everything that can be checked without the remote is checked.
    ///
    /// # Errors
    /// The first problem with its line. It quotes no key.
    pub fn parse(text: &str, sources: &SettingSources<'_>) -> Result<Option<Self>, String> {
        let file: RemoteFile = toml::from_str(text)
            .map_err(|error| problem_at(text, &error.span().unwrap_or_default(), error.message()))?;
        let Some(table) = file.remote else { return Ok(None) };
        let settings = table.get_ref().settings(&table.span(), sources);
        settings.map(Some).map_err(|(at, problem)| problem_at(text, &at, &problem))
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

fn problem_at(text: &str, at: &Range<usize>, why: &str) -> String {
    format!("line {}: [remote]: {why}", line_of(text, at))
}

impl RemoteTable {
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
        sources: &SettingSources<'_>,
    ) -> Result<RemoteSettings, SettingProblem> {
        Ok(RemoteSettings {
            server: self.server().settings(KEY_VARIABLES, whole, sources)?,
            bucket: checked(&self.bucket, is_bucket, "is not the name of a bucket")?,
            prefix: self.prefix.as_ref().map_or(Ok(String::new()), prefix_of)?,
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

fn encryption_of(
    file: &Spanned<PathBuf>,
    sources: &SettingSources<'_>,
) -> Result<EncryptionKeys, SettingProblem> {
    let read = (sources.read)(file.get_ref()).and_then(|text| EncryptionKeys::parse(&text));
    read.map_err(|why| (file.span(), format!("`encryption_key_file`: {why}")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::base::SeededEntropy;
    use crate::client::CertificateTrust;
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
        assert_eq!(
            (settings.server.endpoint.as_str(), settings.key_prefix().as_str()),
            ("https://h:1", "a/b/")
        );
        assert_eq!(
            (settings.server.access_key.as_str(), settings.server.secret_key.as_str()),
            ("AK", "from-file")
        );
        assert_eq!((settings.upload_rate, settings.download_rate), (1 << 20, 0));
        assert_eq!(settings.server.trust, CertificateTrust::System);
        assert_eq!(format!("{settings:?}"), "cold/a/b/ of https://h:1");
        let other = WHOLE.replace("access_key = 'AK'", &format!("fingerprint = '{}'", "ab".repeat(32)));
        let settings = parse(&other.replace("region = 'r'\n", "")).unwrap().unwrap();
        assert_eq!(
            (settings.server.access_key.as_str(), settings.server.region.as_str()),
            ("AKENV", "us-east-1")
        );
        assert!(matches!(settings.server.trust, CertificateTrust::Fingerprint(_)));
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
