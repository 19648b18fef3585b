//! The fields that tables of the configuration file with an S3 server have in common: the address,
//! the keys and the certificates.

use std::ops::Range;
use std::path::{Path, PathBuf};

use bytesize::ByteSize;
use toml::Spanned;

use super::{CertificateFingerprint, CertificateTrust, Endpoint, RequestSigner};

/// The region that most servers have.
const USUAL_REGION: &str = "us-east-1";

/// The files and the variables that settings name.
pub struct SettingSources<'s> {
    /// Reads a small file.
    pub read: &'s dyn Fn(&Path) -> Result<String, String>,
    /// The value of a variable of the process.
    pub variable: &'s dyn Fn(&str) -> Option<String>,
}

/// A problem, and its place in the file.
pub type SettingProblem = (Range<usize>, String);

/// An S3 server, and the keys for it.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub endpoint: String,
    /// The region that requests are signed for.
    pub region: String,
    /// The access key.
    pub access_key: String,
    /// The secret key.
    pub secret_key: String,
    /// The certificates of the server that are accepted.
    pub trust: CertificateTrust,
}

/// A key as a table has it: by value, or by file.
#[derive(Clone, Copy)]
pub(crate) struct KeyFields<'t> {
    pub(crate) value: Option<&'t Spanned<String>>,
    pub(crate) file: Option<&'t Spanned<PathBuf>>,
}

/// The fields of a table with a server.
pub(crate) struct ServerFields<'t> {
    pub(crate) endpoint: &'t Spanned<String>,
    pub(crate) region: Option<&'t Spanned<String>>,
    pub(crate) access_key: KeyFields<'t>,
    pub(crate) secret_key: KeyFields<'t>,
    pub(crate) ca_file: Option<&'t Spanned<PathBuf>>,
    pub(crate) fingerprint: Option<&'t Spanned<String>>,
}

impl ServerSettings {
    /// The address. Nothing is connected.
    ///
    /// # Errors
    /// The certificate authorities cannot be read: a message for the operator.
    pub fn unresolved(&self) -> Result<Endpoint, String> {
        Endpoint::unresolved(&self.endpoint, &self.trust)
    }

    /// The signer of requests.
    pub fn signer(&self) -> RequestSigner {
        RequestSigner::new(&self.access_key, &self.secret_key, &self.region)
    }
}

impl ServerFields<'_> {
    /// Checks the fields of the table at `whole`. The variables with the beginning `variables` hold
    /// keys that the table has not.
    pub(crate) fn settings(
        &self,
        variables: &str,
        whole: &Range<usize>,
        sources: &SettingSources<'_>,
    ) -> Result<ServerSettings, SettingProblem> {
        let trust = certificate_trust(self.ca_file, self.fingerprint)?;
        let endpoint = endpoint_of(self.endpoint, &trust)?;
        let access_variable = format!("{variables}_ACCESS_KEY");
        let secret_variable = format!("{variables}_SECRET_KEY");
        Ok(ServerSettings {
            endpoint,
            region: match self.region {
                Some(region) => checked(region, is_region, "is not the name of a region")?,
                None => USUAL_REGION.to_owned(),
            },
            access_key: key_of("access_key", &access_variable, self.access_key, whole, sources)?,
            secret_key: key_of("secret_key", &secret_variable, self.secret_key, whole, sources)?,
            trust,
        })
    }
}

fn endpoint_of(value: &Spanned<String>, trust: &CertificateTrust) -> Result<String, SettingProblem> {
    let text = value.get_ref();
    Endpoint::unresolved(text, trust).map_err(|why| (value.span(), why))?;
    if matches!(trust, CertificateTrust::Fingerprint(_)) && !text.starts_with("https://") {
        return Err((value.span(), "`fingerprint` needs an endpoint with https".to_owned()));
    }
    Ok(text.trim_end_matches('/').to_owned())
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

/// Whether a bucket of most servers can have this name.
pub(crate) fn is_bucket(name: &str) -> bool {
    (3..=63).contains(&name.len()) && name.bytes().all(is_of_names)
}

/// Whether names of buckets, and the parts of keys that settings name, may have this byte.
fn is_of_names(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

fn is_region(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// The beginning of keys, without a `/` at its end; may be empty.
pub(crate) fn prefix_of(value: &Spanned<String>) -> Result<String, SettingProblem> {
    let text = value.get_ref().trim_end_matches('/');
    if text.is_empty() || (text.len() <= 256 && text.split('/').all(is_part_of_prefix)) {
        return Ok(text.to_owned());
    }
    let problem =
        format!("{text:?} is not a prefix: letters, digits and -._ with single slashes between them");
    Err((value.span(), problem))
}

/// Whether that may stand between the slashes of a prefix.
fn is_part_of_prefix(part: &str) -> bool {
    !part.is_empty() && part != "." && part != ".." && part.bytes().all(is_of_names)
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

/// A key: by value, by file, or by its variable.
fn key_of(
    name: &str,
    variable: &str,
    fields: KeyFields<'_>,
    whole: &Range<usize>,
    sources: &SettingSources<'_>,
) -> Result<String, SettingProblem> {
    let (key, at) = match (fields.value, fields.file) {
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
