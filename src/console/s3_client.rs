//! S3 requests of the pages, handled in this process as the signed-in user's.

use std::net::SocketAddr;

use super::Visitor;
use crate::s3::{
    Body, BodyRead, Headers, Method, ObjectKey, Request, Response, ResponseBody, S3Error, TargetResource, uri,
};
use crate::service::Service;
use crate::xml::Document;

/// Bytes of a response that a page may need.
const RESPONSE_MAX_BYTES: usize = 8 << 20;

/// An error as a page shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    /// The code of an S3 error.
    pub(super) code: Option<String>,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, code: None, message: message.into() }
    }

    /// The message, with the code of S3 where there is one.
    pub(super) fn told(&self) -> String {
        match &self.code {
            Some(code) => format!("{code}: {}", self.message),
            None => self.message.clone(),
        }
    }

    /// The refusal for browsers without a session.
    pub(super) fn signed_out() -> Self {
        Self::new(401, "You are not signed in. Open the console again and sign in.")
    }

    pub(super) fn not_found() -> Self {
        Self::new(404, "There is no such page.")
    }

    pub(super) fn of_error(error: &S3Error) -> Self {
        let code = Some(error.code.as_str().to_owned());
        Self { status: error.status(), code, message: error.message.clone() }
    }
}

/// A successful response, read to its end.
pub(super) struct Reply {
    headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Vec<u8>,
}

impl Reply {
    /// A header that is text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(&found.1).ok()
    }

    /// All headers that are text.
    pub(super) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers
            .iter()
            .filter_map(|(name, value)| Some((name.as_str(), std::str::from_utf8(value).ok()?)))
    }
}

/// Makes requests as one user.
pub(super) struct S3Client<'a> {
    pub(super) service: &'a Service,
    pub(super) visitor: &'a Visitor,
    /// The request for the page, whose sender and connection the requests share.
    pub(super) page: &'a Request<'a>,
}

/// The parts of a request.
#[derive(Default)]
pub(super) struct S3Request<'a> {
    pub(super) query: &'a [(&'a str, &'a str)],
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: Vec<u8>,
}

/// The target for a bucket and a key; without a key the bucket, without both the service.
///
/// # Errors
/// The key is none.
pub(super) fn target(bucket: Option<&str>, key: Option<&str>) -> Result<TargetResource, Refusal> {
    Ok(match (bucket, key) {
        (None, _) => TargetResource::Service,
        (Some(bucket), None) => TargetResource::Bucket(bucket.to_owned()),
        (Some(bucket), Some(key)) => {
            let key = ObjectKey::new(key.to_owned()).map_err(|error| Refusal::of_error(&error))?;
            TargetResource::Object { bucket: bucket.to_owned(), key }
        }
    })
}

/// The sender and the connection of a request for a page, which its S3 requests share.
pub(super) struct RequestSender {
    headers: Vec<(&'static str, Vec<u8>)>,
    secure: bool,
    peer: Option<SocketAddr>,
}

impl S3Client<'_> {
    /// The sender of the requests.
    pub(super) fn sender(&self) -> RequestSender {
        let mut headers = Vec::new();
        for name in ["host", "user-agent"] {
            if let Some(value) = self.page.headers.get(name) {
                headers.push((name, value.to_vec()));
            }
        }
        RequestSender { headers, secure: self.page.secure, peer: self.page.peer }
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The error of S3.
    pub(super) fn send(
        &self,
        method: Method,
        target: TargetResource,
        request: S3Request<'_>,
    ) -> Result<Reply, Refusal> {
        // Pages ask what they may show: a read that is refused is no request that failed.
        let is_question = matches!(method, Method::Get | Method::Head);
        let request = self.sender().request(method, &target, request);
        let identity = &self.visitor.identity;
        read(match is_question {
            true => self.service.ask_as(identity, target, request),
            false => self.service.handle_as(identity, target, request),
        })
    }
}

impl RequestSender {
    /// A request of this sender.
    pub(super) fn request(
        &self,
        method: Method,
        target: &TargetResource,
        request: S3Request<'_>,
    ) -> Request<'static> {
        let mut headers = Headers::default();
        for (name, value) in &self.headers {
            headers.push(name, value);
        }
        for (name, value) in request.headers {
            headers.push(name, value.as_bytes());
        }
        Request {
            method,
            path: path(target),
            query: uri::encode_pairs(request.query.iter().copied()),
            headers,
            body: Body {
                content_length: Some(request.body.len() as u64),
                chunked: false,
                reader: Box::new(Bytes(std::io::Cursor::new(request.body))),
            },
            secure: self.secure,
            peer: self.peer,
            client: None,
        }
    }
}

fn path(target: &TargetResource) -> String {
    match target {
        TargetResource::Service => "/".to_owned(),
        TargetResource::Bucket(bucket) => format!("/{}", uri::encode_path(bucket)),
        TargetResource::Object { bucket, key } => {
            format!("/{}/{}", uri::encode_path(bucket), uri::encode_path(key.as_str()))
        }
    }
}

/// Reads a response to its end.
fn read(response: Response) -> Result<Reply, Refusal> {
    let response = response.complete_deferred().map_err(|error| Refusal::of_error(&error))?;
    let Response { status, headers, body, .. } = response;
    let headers = headers.into_iter().map(|(name, value)| (name.into_owned(), value)).collect();
    let body = match body {
        ResponseBody::Bytes(bytes) => bytes,
        ResponseBody::Stream { mut source, .. } => {
            let mut bytes = Vec::new();
            let mut piece = vec![0; 64 * 1024];
            loop {
                let read = source.read(&mut piece).map_err(|error| Refusal::new(500, error.to_string()))?;
                if read == 0 {
                    break bytes;
                }
                if bytes.len() + read > RESPONSE_MAX_BYTES {
                    return Err(Refusal::new(500, "The response is too long for a page."));
                }
                bytes.extend_from_slice(&piece[..read]);
            }
        }
        ResponseBody::Empty | ResponseBody::Deferred(_) => Vec::new(),
    };
    match status {
        200..=299 => Ok(Reply { headers, body }),
        status => Err(error_in(status, &body)),
    }
}

/// The error in a response. That to a HEAD has no document.
fn error_in(status: u16, body: &[u8]) -> Refusal {
    let default = Refusal::new(status, default_message(status));
    let Ok(document) = Document::parse(body) else { return default };
    let code = document.root().child_text("Code").ok().flatten();
    let message = document.root().child_text("Message").ok().flatten();
    Refusal {
        code: code.map(std::borrow::Cow::into_owned),
        message: message.map_or(default.message, std::borrow::Cow::into_owned),
        status,
    }
}

fn default_message(status: u16) -> &'static str {
    match status {
        400 => {
            "The server refused the request. The object may be encrypted with a key of its client (SSE-C), which the console does not have."
        }
        403 => "You may not do this.",
        404 => "There is no such object.",
        405 => "This version is a delete marker.",
        _ => "The server refused the request.",
    }
}

/// A body in memory.
struct Bytes(std::io::Cursor<Vec<u8>>);

impl BodyRead for Bytes {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        Ok(std::io::Read::read(&mut self.0, buf).unwrap_or(0))
    }
}
