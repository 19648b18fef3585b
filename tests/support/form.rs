//! Forms of browsers, and their signatures by a reading of its own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::signer::Signer;

/// The boundary of all forms.
const BOUNDARY: &str = "----form-of-the-tests";
/// The validity of policies.
const EXPIRATION: &str = "2099-01-01T00:00:00Z";

/// The version of a signature, and the prefix of its fields.
#[derive(Clone, Copy)]
pub(crate) enum FormVersion<'p> {
    V4 { prefix: &'p str },
    V2,
}

/// A form to be filled in. Its policy permits all of its fields, and has further conditions.
#[derive(Clone)]
pub(crate) struct Form {
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) file_name: Option<String>,
    pub(crate) file: Vec<u8>,
    conditions: Vec<String>,
    policy: Option<String>,
}

impl Form {
    pub(crate) fn new(fields: &[(&str, &str)], file: &[u8]) -> Self {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let file_name = Some("name.txt".to_owned());
        Self { fields, file_name, file: file.to_vec(), conditions: Vec::new(), policy: None }
    }

    /// Adds a condition, as JSON, to those that permit the fields.
    pub(crate) fn condition(mut self, condition: &str) -> Self {
        self.conditions.push(condition.to_owned());
        self
    }

    /// Another policy document than one that permits the fields.
    pub(crate) fn policy(mut self, document: &str) -> Self {
        self.policy = Some(document.to_owned());
        self
    }

    pub(crate) fn named(mut self, file_name: Option<&str>) -> Self {
        self.file_name = file_name.map(str::to_owned);
        self
    }

    pub(crate) fn field(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(other, _)| other != name);
        self
    }

    /// Adds the fields of a signature over the policy.
    pub(crate) fn signed(mut self, signer: &Signer, version: FormVersion<'_>) -> Self {
        let fields = match version {
            FormVersion::V4 { prefix } => vec![
                (format!("{prefix}algorithm"), "AWS4-HMAC-SHA256".to_owned()),
                (format!("{prefix}credential"), signer.credential()),
                (format!("{prefix}date"), signer.moment.clone()),
            ],
            FormVersion::V2 => Vec::new(),
        };
        self.fields.extend(fields);
        let policy = BASE64.encode(self.policy.clone().unwrap_or_else(|| self.permissive_policy()));
        self.fields.push(("policy".to_owned(), policy.clone()));
        match version {
            FormVersion::V4 { prefix } => {
                self.fields.push((format!("{prefix}signature"), signer.sign(&policy)));
            }
            FormVersion::V2 => {
                self.fields.push(("AWSAccessKeyId".to_owned(), signer.access_key.clone()));
                self.fields.push(("signature".to_owned(), signer.sign_v2(&policy)));
            }
        }
        self
    }

    /// A document that permits the fields as far as they have come.
    fn permissive_policy(&self) -> String {
        let fields = self.fields.iter().map(|(name, _)| format!("[\"starts-with\", \"${name}\", \"\"]"));
        let conditions: Vec<_> = fields.chain(self.conditions.iter().cloned()).collect();
        format!("{{\"expiration\": \"{EXPIRATION}\", \"conditions\": [{}]}}", conditions.join(", "))
    }

    pub(crate) fn media_type() -> String {
        format!("multipart/form-data; boundary={BOUNDARY}")
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for (name, value) in &self.fields {
            body.extend(part_head(name, None));
            body.extend(value.bytes());
            body.extend(b"\r\n");
        }
        body.extend(part_head("file", self.file_name.as_deref()));
        body.extend(&self.file);
        body.extend(format!("\r\n--{BOUNDARY}--\r\n").bytes());
        body
    }
}

fn part_head(name: &str, file_name: Option<&str>) -> Vec<u8> {
    let file_name = file_name.map_or_else(String::new, |name| format!("; filename=\"{name}\""));
    format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"{file_name}\r\n\r\n").into_bytes()
}
