//! Cross-origin requests: preflights, and the headers of the responses to actual requests (S3 user
//! guide, "How CORS works"). Requests without an `Origin` pass by.

use std::str::from_utf8;

use super::Service;
use crate::ops::BucketCors;
use crate::s3::cors::{CorsConfiguration, CorsHeaders, Preflight};
use crate::s3::operation::ResourceLevel;
use crate::s3::{Dialect, ErrorCode, Method, Request, Response, S3Error, TargetResource};

/// Paths that MinIO keeps for itself. The rules of the server do not hold there.
const MINIO_PATHS: &str = "/minio/";

/// The rules of buckets without rules of their own, in each dialect; `None` if no origin is
/// allowed.
pub(super) struct ServerCors(Option<[(Dialect, CorsConfiguration); 2]>);

impl ServerCors {
    /// Rules that allow these origins.
    pub(super) fn new(origins: &[String]) -> Self {
        if origins.is_empty() {
            return Self(None);
        }
        Self(Some(Dialect::ALL.map(|dialect| (dialect, CorsConfiguration::allowing(origins, dialect)))))
    }

    fn rules(&self, dialect: Dialect) -> Option<&CorsConfiguration> {
        self.0.iter().flatten().find(|(of, _)| *of == dialect).map(|(_, rules)| rules)
    }
}

/// The rules that hold for a request.
enum CorsRules<'s> {
    Bucket(BucketCors),
    Server(&'s CorsConfiguration),
}

impl CorsRules<'_> {
    fn get(&self) -> Option<&CorsConfiguration> {
        match self {
            Self::Bucket(bucket) => bucket.rules(),
            Self::Server(rules) => Some(rules),
        }
    }
}

/// Adds headers to a response.
pub(super) fn add_headers(response: &mut Response, cors: CorsHeaders) {
    response.headers.extend(cors.into_iter().map(|(name, value)| (name.into(), value.into_bytes())));
}

impl Service {
    /// The headers of the response to an actual request, whatever comes of it. None for a request
    /// without `Origin`, which costs no lookup.
    pub(super) fn cors_headers(&self, request: &Request<'_>) -> CorsHeaders {
        let Some(origin) = request.headers.get_str("origin") else { return CorsHeaders::new() };
        if request.method == Method::Options {
            return CorsHeaders::new();
        }
        // The query is not parsed yet. An escaped prefix is missed, and the names exposed are those
        // of the other dialect.
        let dialect =
            Dialect::detect(&request.headers, request.query.split('&'), self.settings.default_dialect);
        let rules = self.cors_rules(request, dialect.unwrap_or(self.settings.default_dialect));
        let allowed = rules.and_then(|rules| rules.get()?.response(origin, request.method.as_str()));
        allowed.unwrap_or_default()
    }

    /// Answers the question of a browser whether it may send a request. It needs no signature.
    ///
    /// # Errors
    /// `BadRequest` without an origin or a known method; `AccessForbidden`. A missing bucket is one
    /// without rules.
    pub(super) fn preflight(&self, request: &Request<'_>, dialect: Dialect) -> Result<Response, S3Error> {
        let header = |name| request.headers.get_str(name).filter(|value| !value.is_empty());
        let Some(origin) = header("origin") else {
            return Err(S3Error::new(ErrorCode::BadRequest)
                .message("Insufficient information. Origin request header needed."));
        };
        let method = header("access-control-request-method");
        let forbidden = S3Error::new(ErrorCode::AccessForbidden)
            .element("Method", method.unwrap_or("OPTIONS"))
            .element("ResourceType", self.resource_type(request));
        let rules = self.cors_rules(request, dialect);
        let Some(rules) = rules.as_ref().and_then(CorsRules::get) else {
            let message = "CORSResponse: CORS is not enabled for this bucket.";
            return Err(forbidden.message(message));
        };
        let Some(method) = method.filter(|method| CorsConfiguration::knows_method(method)) else {
            let message = format!("Invalid Access-Control-Request-Method: {}", method.unwrap_or("null"));
            return Err(S3Error::new(ErrorCode::BadRequest).message(message));
        };
        let headers = request.headers.get_list("access-control-request-headers").unwrap_or_default();
        let question = from_utf8(&headers).ok().map(|headers| Preflight { origin, method, headers });
        let Some(allowed) = question.and_then(|question| rules.preflight(question)) else {
            return Err(forbidden);
        };
        let mut response = Response::new(200);
        add_headers(&mut response, allowed);
        Ok(response)
    }

    /// The rules of the bucket or of the server; `None` where cross-origin requests are not
    /// enabled. A request without a bucket, and one whose bucket cannot be read, has those of the
    /// server.
    fn cors_rules(&self, request: &Request<'_>, dialect: Dialect) -> Option<CorsRules<'_>> {
        if self.page_name(request).is_some() {
            return None;
        }
        let bucket = self.target(request).ok().and_then(|target| self.context.bucket_cors(target.bucket()));
        match bucket {
            Some(bucket) => Some(CorsRules::Bucket(bucket)),
            None if self.is_of_minio(request) => None,
            None => self.server_cors.rules(dialect).map(CorsRules::Server),
        }
    }

    fn is_of_minio(&self, request: &Request<'_>) -> bool {
        request.path.starts_with(MINIO_PATHS) && !self.is_host_of_bucket(request)
    }

    /// The requested resource; for a website, its bucket.
    fn target(&self, request: &Request<'_>) -> Result<TargetResource, S3Error> {
        if let Some(bucket) = self.website_bucket(request) {
            return Ok(TargetResource::Bucket(bucket));
        }
        let host = request.headers.get_str("host").unwrap_or_default();
        self.settings.addressing.target(&request.path, host)
    }

    /// The kind of the requested resource, as errors name it.
    fn resource_type(&self, request: &Request<'_>) -> &'static str {
        self.target(request).map_or(ResourceLevel::Service, |target| target.level()).name_in_errors()
    }
}
