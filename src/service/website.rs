//! Website hosts: the objects of a bucket as pages for browsers (S3 user guide, "Website
//! endpoints").

use super::Service;
use super::access_log::RequestLogEntry;
use super::bucket_logs::LoggedRequest;
use crate::auth::Identity;
use crate::ops::WebsiteObject;
use crate::s3::website::{
    UrlScheme, WebsiteAddress, WebsiteConfiguration, WebsitePages, error_page, folder_location,
    is_for_error_document, may_be_folder, name_error,
};
use crate::s3::{
    Arrival, Body, Call, Dialect, ErrorCode, Headers, Method, ObjectKey, Operation, Request, Response,
    S3Error, TargetResource, uri,
};

/// The name of these requests in logs and metrics.
const OPERATION: &str = "Website";

/// The headers of conditions and ranges. They are meant for the requested object and for no other.
const OF_THE_OBJECT: [&str; 6] =
    ["if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "range"];

/// Parameters with which a request is signed, in lower case.
const OF_SIGNATURES: [&str; 3] = ["awsaccesskeyid", "x-amz-signature", "x-svc-signature"];

/// A request for a page.
struct Visit<'r> {
    bucket: &'r str,
    request: &'r Request<'r>,
    /// `GetObject` or `HeadObject`.
    operation: Operation,
    address: WebsiteAddress<'r>,
    arrival: Arrival,
    identity: Identity,
}

impl Service {
    /// The bucket whose website the request is sent to.
    pub(super) fn website_bucket(&self, request: &Request<'_>) -> Option<String> {
        // Most servers have no websites, and look for no host.
        self.settings.addressing.website_domain.as_ref()?;
        self.settings.addressing.website_bucket(request.headers.get_str("host").unwrap_or_default())
    }

    /// The host of the website of a bucket; `None` where the server has no websites.
    pub fn website_host(&self, bucket: &str) -> Option<String> {
        self.settings.addressing.website_host(bucket)
    }

    /// Handles a request to the website of `bucket`.
    ///
    /// # Errors
    /// `NotModified` alone. Other errors are pages.
    pub(super) fn website(
        &self,
        bucket: &str,
        request: &Request<'_>,
        entry: &mut RequestLogEntry,
    ) -> Result<Response, S3Error> {
        entry.operation = OPERATION;
        self.note_visit_for_log(bucket, request, entry);
        let id = entry.id.clone();
        let outcome = match request.method {
            Method::Options => self.preflight(request, entry.dialect),
            _ => self.visit(bucket, request, entry).and_then(|visit| self.answer(&visit, entry)),
        };
        match outcome {
            Err(error) if error.code != ErrorCode::NotModified => {
                entry.error = Some(error.code.as_str());
                Ok(error_page(&error, None, &id))
            }
            outcome => outcome,
        }
    }

    /// Notes the request for the log of the bucket, if it has one.
    fn note_visit_for_log(&self, bucket: &str, request: &Request<'_>, entry: &mut RequestLogEntry) {
        if self.recorder.bucket_logs.is_none() {
            return;
        }
        let Some(log) = self.context.log_of(bucket) else { return };
        let path = request.path.strip_prefix('/').unwrap_or(&request.path);
        let operation = format!("WEBSITE.{}.OBJECT", request.method.as_str());
        let logged = LoggedRequest::of_request(log, request, operation);
        entry.logged.push(logged.with_key(uri::decode_path(path).unwrap_or_default()));
    }

    /// Checks a request before its bucket is looked up.
    ///
    /// # Errors
    /// `MethodNotAllowed`; `InvalidRequest` for a signed request.
    fn visit<'r>(
        &self,
        bucket: &'r str,
        request: &'r Request<'r>,
        entry: &mut RequestLogEntry,
    ) -> Result<Visit<'r>, S3Error> {
        let operation = operation(&request.method)?;
        if is_signed(request) {
            return Err(S3Error::new(ErrorCode::InvalidRequest)
                .message("Websites take no signatures. Send signed requests to the S3 endpoint."));
        }
        let identity = self.authenticator.anonymous();
        entry.user = Some(identity.name().to_owned());
        let scheme = if request.secure { UrlScheme::Https } else { UrlScheme::Http };
        let address = WebsiteAddress { scheme, host: host_of(request) };
        Ok(Visit { bucket, request, operation, address, arrival: entry.arrival(), identity })
    }

    fn answer(&self, visit: &Visit<'_>, entry: &mut RequestLogEntry) -> Result<Response, S3Error> {
        let website = self.context.website(visit.bucket, &visit.arrival.id)?;
        match website.configuration(&visit.arrival.id)? {
            WebsiteConfiguration::RedirectAll { host, scheme } => {
                let Request { path, query, .. } = visit.request;
                Ok(redirect(301, &visit.address.moved_to(host, *scheme, path, query)))
            }
            WebsiteConfiguration::Pages(pages) => self.serve_page(visit, pages, entry),
        }
    }

    /// The page for the path of the request.
    ///
    /// # Errors
    /// `InvalidURI`; `NotModified`.
    fn serve_page(
        &self,
        visit: &Visit<'_>,
        pages: &WebsitePages,
        entry: &mut RequestLogEntry,
    ) -> Result<Response, S3Error> {
        let path =
            visit.request.path.strip_prefix('/').ok_or_else(|| S3Error::invalid_uri(&visit.request.path))?;
        let key = uri::decode_path(path)?;
        if let Some(rule) = pages.rule_before(&key) {
            return Ok(redirect(rule.status(), &rule.location(visit.address, &key)));
        }
        match self.read(visit, &pages.page_key(&key), visit.operation, |_| true) {
            Ok(object) => Ok(response(object)),
            Err(error) if error.code == ErrorCode::NotModified => Err(error),
            Err(error) => {
                let response = self.failed(visit, pages, &key, &error);
                // A redirect shows the client no error.
                entry.error = (response.status == error.status()).then_some(error.code.as_str());
                Ok(response)
            }
        }
    }

    /// The response where `key` cannot be served because of `error`.
    fn failed(&self, visit: &Visit<'_>, pages: &WebsitePages, key: &str, error: &S3Error) -> Response {
        if may_be_folder(error) && pages.index_below(key).is_some_and(|index| self.is_readable(visit, &index))
        {
            return redirect(302, &folder_location(key));
        }
        if let Some(rule) = pages.rule_after(key, error.status()) {
            return redirect(rule.status(), &rule.location(visit.address, key));
        }
        let document = pages.error_key().filter(|_| is_for_error_document(error));
        match document.map(|key| self.read(visit, key, visit.operation, is_of_no_object)) {
            None => error_page(error, None, &visit.arrival.id),
            Some(Err(of_document)) => error_page(error, Some(&of_document), &visit.arrival.id),
            Some(Ok(WebsiteObject::Redirect(location))) => redirect(301, &uri::encode_location(&location)),
            Some(Ok(WebsiteObject::Content(response))) => {
                name_error(Response { status: error.status(), ..response }, error)
            }
        }
    }

    fn is_readable(&self, visit: &Visit<'_>, key: &str) -> bool {
        self.read(visit, key, Operation::HeadObject, is_of_no_object).is_ok()
    }

    /// Reads an object as the anonymous user. Of the headers of the request, those that `keeps`
    /// names count, and none of the vendor's.
    fn read(
        &self,
        visit: &Visit<'_>,
        key: &str,
        operation: Operation,
        keeps: impl Fn(&str) -> bool,
    ) -> Result<WebsiteObject, S3Error> {
        let key = ObjectKey::new(key.to_owned())?;
        let target = TargetResource::Object { bucket: visit.bucket.to_owned(), key };
        let call = Call::new(visit.arrival.clone(), operation, target, visit.request_with(operation, keeps));
        let proof = self.context.authorize(&visit.identity, &call)?;
        self.context.website_object(&proof, &call)
    }
}

impl Visit<'_> {
    fn request_with(&self, operation: Operation, keeps: impl Fn(&str) -> bool) -> Request<'static> {
        let mut headers = Headers::default();
        let kept = self.request.headers.iter().filter(|(name, _)| keeps(name) && !is_vendors(name));
        for (name, value) in kept {
            headers.push(name, value);
        }
        Request {
            method: if operation == Operation::HeadObject { Method::Head } else { Method::Get },
            path: self.request.path.clone(),
            query: String::new(),
            headers,
            body: Body::none(),
            secure: self.request.secure,
            peer: self.request.peer,
            client: None,
        }
    }
}

/// Whether a header belongs to one of the dialects.
fn is_vendors(name: &str) -> bool {
    Dialect::ALL.iter().any(|dialect| name.starts_with(dialect.header_prefix()))
}

/// The host of a request. Its name is a website's; what follows it is kept only where it is a
/// port.
fn host_of<'r>(request: &'r Request<'_>) -> &'r str {
    let host = request.headers.get_str("host").unwrap_or_default();
    match host.split_once(':') {
        Some((name, port)) if !port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn operation(method: &Method) -> Result<Operation, S3Error> {
    match method {
        Method::Get => Ok(Operation::GetObject),
        Method::Head => Ok(Operation::HeadObject),
        other => Err(S3Error::new(ErrorCode::MethodNotAllowed)
            .element("Method", other.as_str())
            .element("ResourceType", "OBJECT")
            .header("Allow", "GET, HEAD")),
    }
}

fn is_signed(request: &Request<'_>) -> bool {
    request.headers.get("authorization").is_some() || request.query.split('&').any(is_of_signature)
}

/// Whether a parameter of a query belongs to a signature, however its name is escaped.
fn is_of_signature(parameter: &str) -> bool {
    let name = parameter.split('=').next().unwrap_or_default();
    let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy().to_ascii_lowercase();
    OF_SIGNATURES.contains(&name.as_str())
}

fn is_of_no_object(name: &str) -> bool {
    !OF_THE_OBJECT.contains(&name)
}

fn response(object: WebsiteObject) -> Response {
    match object {
        WebsiteObject::Content(response) => response,
        WebsiteObject::Redirect(location) => redirect(301, &uri::encode_location(&location)),
    }
}

/// A redirect. All bytes of `location` are allowed in a URI.
fn redirect(status: u16, location: &str) -> Response {
    Response::new(status).header("Location", location)
}
