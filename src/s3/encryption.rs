//! Server-side encryption in the headers of requests and responses (S3 user guide, "Protecting data
//! with server-side encryption").
//!
//! No error here quotes the key of a customer, nor a text in its place.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use crate::base::digest::Md5;
use crate::base::limits::ENCRYPTION_CONTEXT_MAX_BYTES;
use crate::crypto::MasterKey;
use crate::s3::{ErrorCode, Headers, S3Error, VendorHeaders};

/// The vendor header with the kind of encryption.
pub const KIND: &str = "server-side-encryption";
/// The vendor header with the key of [`Kind::Kms`](RequestedEncryption::Kms).
pub const KMS_KEY_ID: &str = "server-side-encryption-aws-kms-key-id";
const CONTEXT: &str = "server-side-encryption-context";
const BUCKET_KEY: &str = "server-side-encryption-bucket-key-enabled";
/// The vendor header with the algorithm of a customer's key.
pub const CUSTOMER_ALGORITHM: &str = "server-side-encryption-customer-algorithm";
/// What begins the names of all headers with a customer's key.
const CUSTOMER: &str = "server-side-encryption-customer-";
/// What comes before it for the source of a copy.
const OF_SOURCE: &str = "copy-source-";
/// The only algorithm.
pub const AES256: &str = "AES256";
/// The kind with keys that have names.
pub const AWS_KMS: &str = "aws:kms";
/// The kind that encrypts twice, which is not served.
pub const AWS_KMS_DSSE: &str = "aws:kms:dsse";

/// The object whose key the headers state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHolder {
    /// The object that the request addresses.
    Target,
    /// The source of a copy.
    CopySource,
}

/// The encryption that a write asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestedEncryption {
    /// The request states none.
    Unstated,
    /// `AES256`.
    S3,
    /// `aws:kms`.
    Kms(KmsRequest),
    /// The customer's own key.
    Customer(CustomerKey),
}

/// A request for a key that has a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KmsRequest {
    /// The key, as the client names it; `None` for the default.
    pub key: Option<String>,
    /// The encryption context, as it was sent; empty without one.
    pub context: String,
    /// Whether a bucket key is asked for; `None` where the bucket decides.
    pub bucket_key: Option<bool>,
}

/// A customer's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomerKey {
    /// The key.
    pub key: MasterKey,
    /// Its MD5 in base64, as the client stated it.
    pub md5: String,
}

impl RequestedEncryption {
    /// Reads the headers of a write.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown kind, for headers that contradict each other, and as of
    /// [`CustomerKey::from_headers`]; `NotImplemented` for `aws:kms:dsse`.
    pub fn from_headers(vendor: VendorHeaders<'_>) -> Result<Self, S3Error> {
        let customer = CustomerKey::from_headers(vendor, KeyHolder::Target)?;
        let kind = vendor.get_str(KIND);
        let kms = kms_request(vendor)?;
        match (kind, customer) {
            (Some(_), Some(_)) => Err(invalid(
                vendor,
                KIND,
                "Server Side Encryption with Customer provided key is incompatible with the encryption method specified",
            )),
            (None | Some(AES256), _) if vendor.get(KMS_KEY_ID).is_some() => {
                let message = "Server Side Encryption with AWS KMS managed key requires HTTP header x-amz-server-side-encryption : aws:kms";
                Err(invalid(vendor, KIND, message))
            }
            (None | Some(AES256), _) if vendor.get(CONTEXT).is_some() => Err(invalid(
                vendor,
                CONTEXT,
                "An encryption context belongs to the encryption method aws:kms",
            )),
            (None, Some(customer)) => Ok(Self::Customer(customer)),
            (None, None) => Ok(Self::Unstated),
            (Some(AES256), None) => Ok(Self::S3),
            (Some(AWS_KMS), None) => Ok(Self::Kms(kms)),
            (Some(AWS_KMS_DSSE), None) => {
                Err(not_served_dsse(&format!("{}{KIND}", vendor.dialect().header_prefix())))
            }
            (Some(_), None) => Err(invalid(vendor, KIND, "The encryption method specified is not supported")),
        }
    }

    /// Whether the headers of a write state any encryption.
    pub fn is_stated(vendor: VendorHeaders<'_>) -> bool {
        vendor.iter().any(|(name, _)| name.starts_with(KIND))
    }
}

fn kms_request(vendor: VendorHeaders<'_>) -> Result<KmsRequest, S3Error> {
    let context = vendor.get_str(CONTEXT).unwrap_or_default();
    if vendor.get(CONTEXT).is_some() && !is_context(context) {
        let message = "The encryption context is not a JSON object of strings in base64, of 8 KiB at most";
        return Err(invalid(vendor, CONTEXT, message));
    }
    let bucket_key = match vendor.get_str(BUCKET_KEY) {
        None => None,
        Some(text) if text.eq_ignore_ascii_case("true") => Some(true),
        Some(text) if text.eq_ignore_ascii_case("false") => Some(false),
        Some(_) => return Err(invalid(vendor, BUCKET_KEY, "The value is neither true nor false")),
    };
    let key = vendor.get_str(KMS_KEY_ID).map(str::to_owned);
    if key.as_deref() == Some("") {
        return Err(invalid(vendor, KMS_KEY_ID, "The id of a key is not empty"));
    }
    Ok(KmsRequest { key, context: context.to_owned(), bucket_key })
}

/// Whether `text` is an encryption context: a JSON object with strings as values, in base64.
fn is_context(text: &str) -> bool {
    if text.len() > ENCRYPTION_CONTEXT_MAX_BYTES {
        return false;
    }
    let Ok(bytes) = BASE64.decode(text) else { return false };
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(pairs)) => pairs.values().all(Value::is_string),
        _ => false,
    }
}

impl CustomerKey {
    /// Reads the key of the target or of the source of a copy; `None` without one.
    ///
    /// # Errors
    /// `InvalidArgument` for a header that is missing, an unknown algorithm, a key that is not 32
    /// bytes in base64, and another MD5 than the key's.
    pub fn from_headers(vendor: VendorHeaders<'_>, holder: KeyHolder) -> Result<Option<Self>, S3Error> {
        let prefix = match holder {
            KeyHolder::Target => "",
            KeyHolder::CopySource => OF_SOURCE,
        };
        // Most requests have none, and pay for no names.
        if !is_there(vendor, prefix) {
            return Ok(None);
        }
        let [algorithm_name, key_name, md5_name] =
            ["algorithm", "key", "key-md5"].map(|part| format!("{prefix}{CUSTOMER}{part}"));
        let [algorithm, key, md5] = [&algorithm_name, &key_name, &md5_name]
            .map(|name| vendor.get_str(name).filter(|it| !it.is_empty()));
        let of = "Requests specifying Server Side Encryption with Customer provided keys must provide";
        if algorithm != Some(AES256) {
            let message = format!("{of} a valid encryption algorithm.");
            return Err(invalid(vendor, &algorithm_name, message));
        }
        let key =
            key.ok_or_else(|| invalid(vendor, &key_name, format!("{of} an appropriate secret key.")))?;
        let md5 = md5.ok_or_else(|| {
            invalid(vendor, &md5_name, format!("{of} the client calculated MD5 of the secret key."))
        })?;
        let Some(bytes) = BASE64.decode(key).ok().and_then(|key| <[u8; 32]>::try_from(key).ok()) else {
            let message = "The secret key was invalid for the specified algorithm.";
            return Err(invalid(vendor, &key_name, message));
        };
        if BASE64.decode(md5).ok().as_deref() != Some(&Md5::of(&bytes)[..]) {
            let message = "The calculated MD5 hash of the key did not match the hash that was provided.";
            return Err(invalid(vendor, &md5_name, message));
        }
        Ok(Some(Self { key: MasterKey::new(bytes), md5: md5.to_owned() }))
    }
}

/// Whether one of the headers of a customer's key is there, even if it is empty.
fn is_there(vendor: VendorHeaders<'_>, prefix: &str) -> bool {
    vendor.iter().any(|(name, _)| name.strip_prefix(prefix).is_some_and(|name| name.starts_with(CUSTOMER)))
}

/// Whether a request states a customer's key.
pub fn states_customer_key(vendor: VendorHeaders<'_>) -> bool {
    vendor.iter().any(|(name, _)| is_of_customer_key(name))
}

/// Whether `p-{suffix}` is one of the headers of a customer's key.
pub fn is_of_customer_key(suffix: &str) -> bool {
    suffix.strip_prefix(OF_SOURCE).unwrap_or(suffix).starts_with(CUSTOMER)
}

/// Whether `name`, a header, a parameter or a field in any dialect, holds a customer's key: its
/// value is never shown.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with("server-side-encryption-customer-key")
}

/// Refuses the headers of a write in requests that read.
///
/// # Errors
/// `InvalidArgument`.
pub fn refuse_kind(vendor: VendorHeaders<'_>) -> Result<(), S3Error> {
    let mut names = vendor.iter().map(|(name, _)| name);
    let Some(name) = names.find(|name| [KIND, KMS_KEY_ID, CONTEXT, BUCKET_KEY].contains(name)) else {
        return Ok(());
    };
    let header = format!("{}{name}", vendor.dialect().header_prefix());
    Err(invalid(vendor, name, format!("{header} header is not supported for this operation.")))
}

/// The error for `aws:kms:dsse` as a value of `argument`.
pub fn not_served_dsse(argument: &str) -> S3Error {
    let message = format!("The encryption method {AWS_KMS_DSSE} is not supported: use {AWS_KMS}.");
    S3Error::new(ErrorCode::NotImplemented)
        .message(message)
        .element("ArgumentName", argument)
        .element("ArgumentValue", AWS_KMS_DSSE)
}

/// An `InvalidArgument` about a vendor header, without the value that is a key.
fn invalid(vendor: VendorHeaders<'_>, suffix: &str, message: impl Into<String>) -> S3Error {
    let name = format!("{}{suffix}", vendor.dialect().header_prefix());
    let shown = match vendor.get_str(suffix) {
        None => "null",
        // A key may stand in the wrong one of the three headers.
        Some(_) if suffix.contains("-customer-") => HIDDEN,
        Some(value) => value,
    };
    S3Error::invalid_argument(&name, shown, message)
}

/// The encryption of an object, as a response shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShownEncryption {
    /// `AES256`.
    S3,
    /// `aws:kms`.
    Kms {
        /// The name of the key.
        key: String,
        /// The encryption context; empty without one.
        context: String,
        bucket_key: bool,
    },
    /// The customer's key, with its MD5 as the request states it.
    Customer { md5: String },
}

impl ShownEncryption {
    /// The headers.
    pub fn headers(&self) -> Vec<(&'static str, &str)> {
        match self {
            Self::S3 => vec![("p-server-side-encryption", AES256)],
            Self::Kms { key, context, bucket_key } => {
                let mut headers = vec![
                    ("p-server-side-encryption", AWS_KMS),
                    ("p-server-side-encryption-aws-kms-key-id", key.as_str()),
                ];
                if !context.is_empty() {
                    headers.push(("p-server-side-encryption-context", context.as_str()));
                }
                if *bucket_key {
                    headers.push(("p-server-side-encryption-bucket-key-enabled", "true"));
                }
                headers
            }
            Self::Customer { md5 } => vec![
                ("p-server-side-encryption-customer-algorithm", AES256),
                ("p-server-side-encryption-customer-key-MD5", md5.as_str()),
            ],
        }
    }
}

/// The header lines without the values of customers' keys, for texts that clients and operators
/// see.
pub fn without_keys(headers: &Headers) -> Headers {
    let mut shown = Headers::default();
    for (name, value) in headers.iter() {
        shown.push(name, if is_secret(name) { HIDDEN.as_bytes() } else { value });
    }
    shown
}

/// What stands in place of a key.
pub const HIDDEN: &str = "(not shown)";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::Dialect;

    const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

    fn md5_of(key: &str) -> String {
        BASE64.encode(Md5::of(&BASE64.decode(key).unwrap()))
    }

    fn headers(dialect: Dialect, lines: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::default();
        for (name, value) in lines {
            headers.push(&format!("{}{name}", dialect.header_prefix()), value.as_bytes());
        }
        headers
    }

    fn read(lines: &[(&str, &str)]) -> Result<RequestedEncryption, S3Error> {
        let [one, other] = Dialect::ALL.map(|dialect| {
            RequestedEncryption::from_headers(VendorHeaders::new(&headers(dialect, lines), dialect))
        });
        assert_eq!(one.as_ref().map_err(|error| error.code), other.as_ref().map_err(|error| error.code));
        one
    }

    #[test]
    fn each_kind_is_read_in_both_dialects() {
        let context = BASE64.encode(r#"{"department":"10103.0"}"#);
        assert_eq!(read(&[]), Ok(RequestedEncryption::Unstated));
        assert_eq!(read(&[("server-side-encryption", "AES256")]), Ok(RequestedEncryption::S3));
        let kms = [
            ("server-side-encryption", "aws:kms"),
            ("server-side-encryption-aws-kms-key-id", "invoices"),
            ("server-side-encryption-context", &context),
            ("server-side-encryption-bucket-key-enabled", "true"),
        ];
        let asked =
            KmsRequest { key: Some("invoices".to_owned()), context: context.clone(), bucket_key: Some(true) };
        assert_eq!(read(&kms), Ok(RequestedEncryption::Kms(asked)));
        assert_eq!(read(&kms[..1]), Ok(RequestedEncryption::Kms(KmsRequest::default())));
        let md5 = md5_of(SECRET);
        let customer = [
            ("server-side-encryption-customer-algorithm", "AES256"),
            ("server-side-encryption-customer-key", SECRET),
            ("server-side-encryption-customer-key-md5", &md5),
        ];
        let key = MasterKey::new(*b"0123456789abcdef0123456789abcdef");
        assert_eq!(read(&customer), Ok(RequestedEncryption::Customer(CustomerKey { key, md5 })));
    }

    #[test]
    fn wrong_headers_are_invalid_arguments_that_quote_no_key() {
        let md5 = md5_of(SECRET);
        let short = &BASE64.encode([7; 31]);
        let [algorithm, key, digest] =
            ["algorithm", "key", "key-md5"].map(|part| format!("{CUSTOMER}{part}"));
        let [algorithm, key, digest] = [algorithm.as_str(), key.as_str(), digest.as_str()];
        let all = [(algorithm, AES256), (key, SECRET), (digest, md5.as_str())];
        let without = |at: usize| [&all[..at], &all[at + 1..]].concat();
        let with = |at: usize, value| {
            let mut changed = all;
            changed[at].1 = value;
            changed.to_vec()
        };
        let other_md5 = md5_of(&BASE64.encode([8; 32]));
        let cases = [
            without(0),
            without(1),
            without(2),
            with(0, "AES128"),
            with(0, ""),
            with(1, short),
            with(1, "no base64 at all"),
            with(1, ""),
            with(2, &other_md5),
            with(2, "?"),
            [&all[..], &[(KIND, AES256)]].concat(),
            [&all[..], &[(KIND, AWS_KMS)]].concat(),
            vec![(KIND, "AES192")],
            vec![(KIND, "")],
            vec![(KMS_KEY_ID, "invoices")],
            vec![(KIND, AES256), (KMS_KEY_ID, "invoices")],
            vec![(KIND, AWS_KMS), (KMS_KEY_ID, "")],
            vec![(KIND, AES256), (CONTEXT, "e30=")],
            vec![(KIND, AWS_KMS), (CONTEXT, "{}")],
            vec![(KIND, AWS_KMS), (CONTEXT, "W10=")],
            vec![(KIND, AWS_KMS), (BUCKET_KEY, "yes")],
        ];
        for case in cases {
            let error = read(&case).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidArgument, "{case:?}");
            let told = format!("{error:?}");
            assert!(error.elements[0].0 == "ArgumentName", "{told}");
            assert!(
                !told.contains(SECRET) && !told.contains(short.as_str()) && !told.contains("no base64"),
                "{told}"
            );
        }
        assert_eq!(read(&[(KIND, AWS_KMS_DSSE)]).unwrap_err().code, ErrorCode::NotImplemented);
    }

    #[test]
    fn the_key_of_a_source_is_its_own() {
        let md5 = md5_of(SECRET);
        let names = ["algorithm", "key", "key-md5"].map(|part| format!("{OF_SOURCE}{CUSTOMER}{part}"));
        let lines = [(names[0].as_str(), AES256), (names[1].as_str(), SECRET), (names[2].as_str(), &md5)];
        let headers = headers(Dialect::Aws, &lines);
        let vendor = VendorHeaders::new(&headers, Dialect::Aws);
        assert_eq!(CustomerKey::from_headers(vendor, KeyHolder::Target), Ok(None));
        assert!(CustomerKey::from_headers(vendor, KeyHolder::CopySource).unwrap().is_some());
        assert_eq!(RequestedEncryption::from_headers(vendor), Ok(RequestedEncryption::Unstated));
        assert!(states_customer_key(vendor) && !RequestedEncryption::is_stated(vendor));
        let shown = without_keys(&headers);
        assert_eq!(shown.get_str(&format!("x-amz-{}", names[1])), Some(HIDDEN));
        assert_eq!(shown.get_str(&format!("x-amz-{}", names[2])), Some(md5.as_str()));
    }

    #[test]
    fn no_key_is_shown_by_debug() {
        let md5 = md5_of(SECRET);
        let key = CustomerKey { key: MasterKey::new(*b"0123456789abcdef0123456789abcdef"), md5 };
        let told = format!("{key:?}");
        assert!(!told.contains(SECRET) && !told.contains("0123456789") && !told.contains("48, 49"), "{told}");
    }

    #[test]
    fn reads_refuse_the_headers_of_writes() {
        for name in [KIND, KMS_KEY_ID, CONTEXT, BUCKET_KEY] {
            let headers = headers(Dialect::Svc, &[(name, "x")]);
            let refused = refuse_kind(VendorHeaders::new(&headers, Dialect::Svc)).unwrap_err();
            assert_eq!(refused.code, ErrorCode::InvalidArgument, "{name}");
        }
        let headers = headers(Dialect::Svc, &[(CUSTOMER_ALGORITHM, AES256)]);
        assert_eq!(refuse_kind(VendorHeaders::new(&headers, Dialect::Svc)), Ok(()));
    }
}
