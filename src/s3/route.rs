//! Routing: the operation and the resource of a request from its method, path, query and host. Of
//! other headers only the presence of `p-copy-source` counts.

use crate::s3::operation::{
    Operation, ResourceLevel, Route, RouteCondition, UNSERVED_OF_BUCKETS, UNSERVED_OF_OBJECTS,
};
use crate::s3::{ErrorCode, Method, ObjectKey, QueryParams, S3Error, uri};

/// The resource that a request addresses. Any text names a bucket; the store knows whether it
/// exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetResource {
    Service,
    Bucket(String),
    Object {
        /// The name of its bucket.
        bucket: String,
        key: ObjectKey,
    },
}

impl TargetResource {
    /// The kind of the resource.
    pub fn level(&self) -> ResourceLevel {
        match self {
            Self::Service => ResourceLevel::Service,
            Self::Bucket(_) => ResourceLevel::Bucket,
            Self::Object { .. } => ResourceLevel::Object,
        }
    }

    /// The name of the bucket; empty for the service, and no bucket has that name.
    pub fn bucket(&self) -> &str {
        match self {
            Self::Service => "",
            Self::Bucket(bucket) | Self::Object { bucket, .. } => bucket,
        }
    }

    /// The key of the object; empty for other resources, and no object has that key.
    pub fn key(&self) -> &str {
        match self {
            Self::Service | Self::Bucket(_) => "",
            Self::Object { key, .. } => key.as_str(),
        }
    }
}

/// How requests name their bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addressing {
    /// The domain whose subdomains are buckets (S3 user guide, "Virtual hosting of buckets"), in
    /// lower case; `None` if only paths name buckets.
    pub domain: Option<String>,
    /// The domain whose subdomains are websites of buckets (S3 user guide, "Website endpoints"), in
    /// lower case; `None` for no websites.
    pub website_domain: Option<String>,
}

impl Addressing {
    /// Determines the resource from the path, as sent, and the `Host`.
    ///
    /// # Errors
    /// `InvalidURI` for a path that does not decode; `KeyTooLongError`.
    pub fn target(&self, path: &str, host: &str) -> Result<TargetResource, S3Error> {
        let path = path.strip_prefix('/').ok_or_else(|| S3Error::invalid_uri(path))?;
        if let Some(bucket) = self.bucket_of_host(host) {
            return target(bucket, path);
        }
        match path.split_once('/') {
            None if path.is_empty() => Ok(TargetResource::Service),
            None => target(uri::decode_path(path)?, ""),
            Some((bucket, key)) => target(uri::decode_path(bucket)?, key),
        }
    }

    /// Whether `host` names a bucket.
    pub fn is_of_bucket(&self, host: &str) -> bool {
        self.label_of_bucket(host).is_some()
    }

    /// The bucket that `host` names, as sent: in any case.
    fn label_of_bucket<'h>(&self, host: &'h str) -> Option<&'h str> {
        label_below(self.domain.as_deref()?, host)
    }

    /// The bucket that `host` names, if it names one.
    pub fn bucket_of_host(&self, host: &str) -> Option<String> {
        self.label_of_bucket(host).map(str::to_ascii_lowercase)
    }

    /// The host of the website of a bucket; `None` without a domain of websites.
    pub fn website_host(&self, bucket: &str) -> Option<String> {
        self.website_domain.as_ref().map(|domain| format!("{bucket}.{domain}"))
    }

    /// The bucket whose website `host` is. Of two domains that `host` is in, the longer one counts.
    pub fn website_bucket(&self, host: &str) -> Option<String> {
        let website_domain = self.website_domain.as_deref()?;
        let label = label_below(website_domain, host)?;
        let is_of_s3 = self.domain.as_ref().is_some_and(|domain| {
            domain.len() > website_domain.len() && (is_host(domain, host) || self.is_of_bucket(host))
        });
        (!is_of_s3).then(|| label.to_ascii_lowercase())
    }
}

/// The part of a host before `domain`, if there is one.
fn label_below<'h>(domain: &str, host: &'h str) -> Option<&'h str> {
    let name = without_port(host);
    let (label, end) = name.split_at_checked(name.len().checked_sub(domain.len())?)?;
    let label = label.strip_suffix('.').filter(|_| end.eq_ignore_ascii_case(domain))?;
    (!label.is_empty()).then_some(label)
}

/// Whether `host` is `domain`.
fn is_host(domain: &str, host: &str) -> bool {
    without_port(host).eq_ignore_ascii_case(domain)
}

fn without_port(host: &str) -> &str {
    host.split_once(':').map_or(host, |(name, _)| name)
}

fn target(bucket: String, key: &str) -> Result<TargetResource, S3Error> {
    if key.is_empty() {
        return Ok(TargetResource::Bucket(bucket));
    }
    let key = ObjectKey::new(uri::decode_path(key)?)?;
    Ok(TargetResource::Object { bucket, key })
}

/// Determines the operation of a request. Unknown parameters are ignored, since clients add their
/// own.
///
/// # Errors
/// `MethodNotAllowed` with `Allow` for a method that the resource does not have.
pub fn operation(
    method: &Method,
    level: ResourceLevel,
    query: &QueryParams,
    has_copy_source: bool,
) -> Result<Operation, S3Error> {
    let subresource = subresource(level, query);
    let routes =
        || Operation::TABLE.iter().filter(|route| route.level == level && route.subresource == subresource);
    match routes().rfind(|route| route.method == *method && holds(route, query, has_copy_source)) {
        Some(route) => Ok(route.operation),
        None if unserved(level).contains(&subresource) => Ok(Operation::NotServed),
        None => Err(method_not_allowed(method, level, routes())),
    }
}

/// The first sub-resource of `level` that the query names; empty for none.
pub fn subresource(level: ResourceLevel, query: &QueryParams) -> &'static str {
    // Most requests for objects have no query.
    if query.is_empty() {
        return "";
    }
    let of_rows = Operation::TABLE.iter().filter(|route| route.level == level).map(|route| route.subresource);
    let mut known = of_rows.filter(|name| !name.is_empty()).chain(unserved(level).iter().copied());
    known.find(|name| query.has(name)).unwrap_or("")
}

/// Whether a query parameter of this name selects a sub-resource of S3, served or not.
pub fn is_subresource(name: &str) -> bool {
    let of_rows = Operation::TABLE.iter().map(|route| route.subresource);
    let unserved = UNSERVED_OF_BUCKETS.iter().chain(UNSERVED_OF_OBJECTS).copied();
    !name.is_empty() && of_rows.chain(unserved).any(|known| known == name)
}

fn unserved(level: ResourceLevel) -> &'static [&'static str] {
    match level {
        ResourceLevel::Service => &[],
        ResourceLevel::Bucket => UNSERVED_OF_BUCKETS,
        ResourceLevel::Object => UNSERVED_OF_OBJECTS,
    }
}

fn holds(route: &Route, query: &QueryParams, has_copy_source: bool) -> bool {
    match route.condition {
        RouteCondition::None => true,
        RouteCondition::Parameter(name, value) => query.get(name) == Some(value),
        RouteCondition::Present(name) => query.has(name),
        RouteCondition::CopySource => has_copy_source,
    }
}

fn method_not_allowed(
    method: &Method,
    level: ResourceLevel,
    routes: impl Iterator<Item = &'static Route>,
) -> S3Error {
    let mut allowed: Vec<_> = routes.map(|route| route.method.as_str()).collect();
    allowed.sort_unstable();
    allowed.dedup();
    S3Error::new(ErrorCode::MethodNotAllowed)
        .element("Method", method.as_str())
        .element("ResourceType", level.name_in_errors())
        .header("Allow", allowed.join(", "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn target(path: &str) -> Result<TargetResource, ErrorCode> {
        Addressing::default().target(path, "localhost:9000").map_err(|e| e.code)
    }

    fn object(bucket: &str, key: &str) -> TargetResource {
        TargetResource::Object { bucket: bucket.to_owned(), key: ObjectKey::new(key.to_owned()).unwrap() }
    }

    fn route(method: &str, path: &str, query: &str) -> Result<Operation, S3Error> {
        let level = target(path).unwrap().level();
        operation(&Method::from_token(method), level, &QueryParams::parse(query).unwrap(), false)
    }

    #[test]
    fn paths_name_the_service_a_bucket_or_an_object() {
        assert_eq!(target("/"), Ok(TargetResource::Service));
        assert_eq!(target("/b"), Ok(TargetResource::Bucket("b".to_owned())));
        assert_eq!(target("/b/"), Ok(TargetResource::Bucket("b".to_owned())));
        assert_eq!(target("/b/k"), Ok(object("b", "k")));
        assert_eq!(target("/b/a+b%20c%2Fd"), Ok(object("b", "a+b c/d")));
    }

    #[test]
    fn odd_keys_are_unchanged() {
        for key in ["/", "//", "..", "../x", ".", "a//b", "a/", "a/./b", "?"] {
            let path = format!("/b/{}", uri::encode_listed(key));
            assert_eq!(target(&path), Ok(object("b", key)), "{key}");
        }
    }

    #[test]
    fn paths_that_cannot_be_read_are_refused() {
        for path in ["", "*", "b/k", "/%zz", "/b/%ff", "/b/%"] {
            assert_eq!(target(path), Err(ErrorCode::InvalidURI), "{path}");
        }
        assert_eq!(target(&format!("/b/{}", "k".repeat(1025))), Err(ErrorCode::KeyTooLongError));
    }

    #[test]
    fn a_host_below_the_domain_names_the_bucket() {
        let addressing = Addressing { domain: Some("s3.example".to_owned()), ..Addressing::default() };
        let at = |host, path| addressing.target(path, host).unwrap();
        assert_eq!(at("photos.s3.example:9000", "/a/b"), object("photos", "a/b"));
        assert_eq!(at("My.Photos.S3.Example", "/"), TargetResource::Bucket("my.photos".to_owned()));
        assert_eq!(at("s3.example", "/a/b"), object("a", "b"));
        assert_eq!(at("xs3.example", "/a/b"), object("a", "b"));
        assert_eq!(at(".s3.example", "/a/b"), object("a", "b"));
        assert_eq!(target("/a/b"), Ok(object("a", "b")));
    }

    #[test]
    fn a_host_below_the_domain_of_websites_is_one_unless_the_domain_of_s3_is_longer() {
        let bucket = |domain: Option<&str>, website_domain: &str, host| {
            let addressing = Addressing {
                domain: domain.map(str::to_owned),
                website_domain: Some(website_domain.to_owned()),
            };
            addressing.website_bucket(host)
        };
        let photos = Some("photos".to_owned());
        assert_eq!(bucket(None, "web.example", "photos.web.example"), photos);
        assert_eq!(bucket(None, "web.example", "Photos.Web.Example:9000"), photos);
        assert_eq!(bucket(None, "web.example", "a.b.web.example"), Some("a.b".to_owned()));
        for host in
            ["", "web.example", ".web.example", "photosweb.example", "photos.web.example.org", "127.0.0.1:1"]
        {
            assert_eq!(bucket(None, "web.example", host), None, "{host}");
        }
        assert_eq!(bucket(Some("example"), "web.example", "photos.web.example"), photos);
        assert_eq!(bucket(Some("s3.example"), "example", "photos.example"), photos);
        assert_eq!(bucket(Some("s3.example"), "example", "photos.s3.example"), None);
        assert_eq!(bucket(Some("s3.example"), "example", "S3.example:9000"), None);
        assert_eq!(Addressing::default().website_bucket("photos.web.example"), None);
    }

    #[test]
    fn every_row_of_the_table_is_reached() {
        for route in Operation::TABLE {
            let query = QueryParams::parse(&route.query()).unwrap();
            let copy = route.condition == RouteCondition::CopySource;
            assert_eq!(operation(&route.method, route.level, &query, copy), Ok(route.operation));
        }
    }

    #[test]
    fn parameters_of_clients_do_not_change_the_operation() {
        assert_eq!(route("GET", "/b/k", "x-id=GetObject&versionId=1"), Ok(Operation::GetObject));
        assert_eq!(route("GET", "/b", "list-type=2&x-id=L"), Ok(Operation::ListObjectsV2));
        assert_eq!(route("GET", "/b", "list-type=1"), Ok(Operation::ListObjects));
        assert_eq!(route("GET", "/", "x-id=ListBuckets&acl"), Ok(Operation::ListBuckets));
        assert_eq!(route("DELETE", "/b/k", "delete"), Ok(Operation::DeleteObject));
    }

    #[test]
    fn known_subresources_that_are_not_served_say_so_for_every_method() {
        for (method, path, query) in [
            ("POST", "/b", "acl"),
            ("POST", "/b", "policy"),
            ("POST", "/b", "inventory"),
            ("GET", "/b/k", "torrent="),
            ("POST", "/b/k", "restore&versionId=1"),
            ("POST", "/b/k", "select&select-type=2"),
        ] {
            assert_eq!(route(method, path, query), Ok(Operation::NotServed), "{method} {path}?{query}");
        }
    }

    #[test]
    fn other_methods_are_refused_with_those_that_are_allowed() {
        for (method, path, query, allow) in [
            ("POST", "/", "", "GET"),
            ("PATCH", "/b", "", "DELETE, GET, HEAD, POST, PUT"),
            ("POST", "/b/k", "", "DELETE, GET, HEAD, PUT"),
            ("OPTIONS", "/b/k", "", "DELETE, GET, HEAD, PUT"),
            ("DELETE", "/b", "versioning", "GET, PUT"),
            ("PUT", "/b", "delete", "POST"),
            ("HEAD", "/b/k", "uploadId=1", "DELETE, GET, POST, PUT"),
            ("get", "/", "", "GET"),
        ] {
            let error = route(method, path, query).unwrap_err();
            assert_eq!(error.code, ErrorCode::MethodNotAllowed);
            assert_eq!(error.headers, [("Allow", allow.to_owned())], "{method} {path}?{query}");
        }
    }

    proptest! {
        #[test]
        fn no_path_and_no_host_makes_it_panic(path in "[/%a-f0-9+é?.]{0,40}", host in "[a-z.:]{0,20}") {
            let addressing = Addressing { domain: Some("s3.example".to_owned()), ..Addressing::default() };
            if let Ok(target) = addressing.target(&path, &host) {
                prop_assert!(target.key().len() <= 1024);
            }
            let _ = addressing.target(&path, &format!("{host}.s3.example"));
        }
    }
}
