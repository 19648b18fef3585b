//! Calls of STS and IAM: a form of parameters with an `Action`, and answers in XML (STS API
//! reference, "Making query requests").

use crate::s3::render::xml;
use crate::s3::{Headers, Method, QueryParams, Request, Response, S3Error};
use crate::xml::{Writer, legible};

/// A service of AWS whose calls are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryApi {
    Sts,
    Iam,
}

impl QueryApi {
    /// The namespace of its documents.
    fn namespace(self) -> &'static str {
        match self {
            Self::Sts => "https://sts.amazonaws.com/doc/2011-06-15/",
            Self::Iam => "https://iam.amazonaws.com/doc/2010-05-08/",
        }
    }
}

/// The parameter with the name of the call.
const ACTION: &str = "Action";
/// The media type of a form of parameters.
const FORM: &str = "application/x-www-form-urlencoded";

/// Writes the result of a call.
pub type CallWriter = Writer;

/// The error of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    pub status: u16,
    pub code: &'static str,
    pub message: String,
}

impl CallError {
    pub fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    /// `AccessDenied`.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(403, "AccessDenied", message)
    }

    /// `ValidationError`.
    pub fn validation(message: impl Into<String>) -> Self {
        Self::new(400, "ValidationError", message)
    }

    /// `InternalFailure`.
    pub fn failure(message: impl Into<String>) -> Self {
        Self::new(500, "InternalFailure", message)
    }

    /// The response, in the form of the service that was called.
    pub fn respond(&self, api: QueryApi, request_id: &str) -> Response {
        let mut document = Writer::new("ErrorResponse", Some(api.namespace()));
        document.element("Error", |error| {
            error.leaf("Type", if self.status < 500 { "Sender" } else { "Receiver" });
            error.leaf("Code", self.code);
            error.leaf("Message", &legible(&self.message));
        });
        document.leaf("RequestId", request_id);
        xml(self.status, document)
    }
}

/// An error of authentication or of reading, by the name that STS has for it (STS API reference,
/// "Common errors").
impl From<S3Error> for CallError {
    fn from(error: S3Error) -> Self {
        use crate::s3::ErrorCode::{
            AuthorizationHeaderMalformed, AuthorizationQueryParametersError, InvalidAccessKeyId,
            InvalidRequest, InvalidToken, InvalidURI, RequestTimeTooSkewed, SignatureDoesNotMatch,
            XAmzContentSHA256Mismatch,
        };
        let code = match error.code {
            InvalidAccessKeyId | InvalidToken => {
                let message = "The security token included in the request is invalid.";
                return Self::new(403, "InvalidClientTokenId", message);
            }
            AuthorizationHeaderMalformed | AuthorizationQueryParametersError => {
                return Self::new(400, "IncompleteSignature", error.message);
            }
            RequestTimeTooSkewed | XAmzContentSHA256Mismatch | SignatureDoesNotMatch => {
                return Self::new(403, SignatureDoesNotMatch.as_str(), error.message);
            }
            InvalidRequest | InvalidURI => "InvalidRequest",
            other => other.as_str(),
        };
        Self::new(error.status(), code, error.message)
    }
}

/// Whether a request to `/` is a call: a form that is put there, or a query with an action.
pub fn is_call(request: &Request<'_>) -> bool {
    if request.path != "/" {
        return false;
    }
    match request.method {
        Method::Post => is_form(&request.headers),
        Method::Get => QueryParams::parse(&request.query).is_ok_and(|query| query.has(ACTION)),
        _ => false,
    }
}

fn is_form(headers: &Headers) -> bool {
    let sent = headers.get_str("content-type").unwrap_or_default();
    sent.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(FORM)
}

/// The parameters of a call.
#[derive(Debug)]
pub struct CallParams(QueryParams);

impl CallParams {
    /// Parses those of a form, or of a query.
    ///
    /// # Errors
    /// `InvalidURI` for parameters that do not decode; `InvalidRequest` for one that is there
    /// twice.
    pub fn parse(text: &str) -> Result<Self, CallError> {
        let params = QueryParams::parse(text)?;
        let mut names: Vec<_> = params.names().collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let message = format!("the parameter {} is there twice", twice[0]);
            return Err(CallError::new(400, "InvalidRequest", message));
        }
        Ok(Self(params))
    }

    /// The name of the call.
    pub fn action(&self) -> &str {
        self.get(ACTION).unwrap_or_default()
    }

    /// The names and values of all parameters.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter()
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)
    }

    /// A parameter that must be there.
    ///
    /// # Errors
    /// `ValidationError`.
    pub fn required(&self, name: &str) -> Result<&str, CallError> {
        self.get(name)
            .filter(|value| !value.is_empty())
            .ok_or_else(|| CallError::validation(format!("the parameter {name} is missing")))
    }

    /// A parameter that is a number.
    ///
    /// # Errors
    /// `ValidationError`.
    pub fn number(&self, name: &str) -> Result<Option<u64>, CallError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| is_number);
        number.map(Some).ok_or_else(|| CallError::validation(format!("{name} is not a number")))
    }

    /// Whether a parameter of a list called `name` is there, or one that looks like it.
    pub fn has_list(&self, name: &str) -> bool {
        self.0
            .names()
            .any(|it| it.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    }

    /// The values `NAME.member.N.FIELD`, in the order in which they were sent.
    ///
    /// # Errors
    /// `ValidationError` for a parameter that looks like one, and is none.
    pub fn members(&self, name: &str, field: &str) -> Result<Vec<&str>, CallError> {
        self.listed(name, &format!(".{field}"))
    }

    /// The values `NAME.member.N`, in the order in which they were sent. An empty parameter `NAME`
    /// is an empty list.
    ///
    /// # Errors
    /// `ValidationError` for a parameter that looks like one, and is none.
    pub fn list(&self, name: &str) -> Result<Vec<&str>, CallError> {
        match self.get(name) {
            Some("") => Ok(Vec::new()),
            _ => self.listed(name, ""),
        }
    }

    /// The values `NAME.member.N` with `end` behind the number.
    fn listed(&self, name: &str, end: &str) -> Result<Vec<&str>, CallError> {
        let mut values = Vec::new();
        for (param, value) in self.0.iter() {
            let rest = param.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with('.'));
            let Some(rest) = rest else { continue };
            let number = rest.strip_prefix(".member.").and_then(|rest| rest.strip_suffix(end));
            if !number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit())) {
                return Err(CallError::validation(format!("{name} is a list of {name}.member.N{end}")));
            }
            values.push(value);
        }
        Ok(values)
    }

    /// The pairs `NAME.member.N.Key` and `NAME.member.N.Value`, in the order in which the keys were
    /// sent.
    ///
    /// # Errors
    /// `ValidationError` for a key without a value.
    pub fn pairs(&self, name: &str) -> Result<Vec<(String, String)>, CallError> {
        let start = format!("{name}.member.");
        let mut pairs = Vec::new();
        for (param, key) in self.0.iter() {
            let Some(number) = param.strip_prefix(&start).and_then(|rest| rest.strip_suffix(".Key")) else {
                continue;
            };
            let value = self.get(&format!("{start}{number}.Value"));
            let value = value.ok_or_else(|| CallError::validation(format!("{param} has no value")))?;
            pairs.push((key.to_owned(), value.to_owned()));
        }
        Ok(pairs)
    }
}

/// The answer to a call, whose result `fill` writes.
pub fn answer(api: QueryApi, action: &str, request_id: &str, fill: impl FnOnce(&mut Writer)) -> Response {
    let mut document = Writer::new(&format!("{action}Response"), Some(api.namespace()));
    document.element(&format!("{action}Result"), fill);
    document.element("ResponseMetadata", |metadata| metadata.leaf("RequestId", request_id));
    xml(200, document)
}

/// Writes what somebody else has stated, in characters that all parsers read.
pub fn stated_leaf(result: &mut Writer, name: &str, text: &str) {
    result.leaf(name, &legible(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_once_each() {
        let params = CallParams::parse(
            "Action=AssumeRole&DurationSeconds=900&Tags.member.1.Key=a&Tags.member.1.Value=b+c&Tags.member.2.Key=d&Tags.member.2.Value=",
        )
        .unwrap();
        assert_eq!((params.action(), params.number("DurationSeconds")), ("AssumeRole", Ok(Some(900))));
        let tags = [("a".to_owned(), "b c".to_owned()), ("d".to_owned(), String::new())];
        assert_eq!(params.pairs("Tags"), Ok(tags.to_vec()));
        assert!(params.has_list("Tags") && !params.has_list("Tag") && !params.has_list("PolicyArns"));
        for text in ["Action=A&Action=B", "Policy=&Policy=x", "Action=%ff"] {
            assert!(CallParams::parse(text).is_err(), "{text}");
        }
        for text in [
            "DurationSeconds=",
            "DurationSeconds=-1",
            "DurationSeconds=1e3",
            "DurationSeconds=99999999999999999999",
        ] {
            let params = CallParams::parse(text).unwrap();
            assert_eq!(params.number("DurationSeconds").unwrap_err().code, "ValidationError", "{text}");
        }
        let half = CallParams::parse("Tags.member.1.Key=a").unwrap();
        assert!(half.pairs("Tags").is_err());
    }
}
