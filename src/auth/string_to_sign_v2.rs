//! The text that signature version 2 covers (S3 user guide, "Signing and authenticating REST
//! requests").

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use crate::auth::signature_params::ALGORITHM;
use crate::s3::{
    Dialect, ErrorCode, Headers, Method, QueryParams, Request, S3Error, encryption, hoisted, uri,
};

/// The query parameters that are signed: the sub-resources of the user guide and those that AWS's
/// SDKs sign, in ascending order. All others, such as `prefix`, are not covered.
const SIGNED_PARAMETERS: [&str; 35] = [
    "accelerate",
    "acl",
    "analytics",
    "cors",
    "defaultObjectAcl",
    "delete",
    "inventory",
    "lifecycle",
    "location",
    "logging",
    "metrics",
    "notification",
    "object-lock",
    "partNumber",
    "policy",
    "replication",
    "requestPayment",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
    "restore",
    "select",
    "select-type",
    "storageClass",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
    "versionId",
    "versioning",
    "versions",
    "website",
];

/// The standard headers that are signed, sent or moved to the query.
const STANDARD_HEADERS: [&str; 2] = ["content-md5", "content-type"];

/// Whether the signature covers the query parameter `name`.
pub(super) fn is_signed_parameter(name: &str) -> bool {
    SIGNED_PARAMETERS.binary_search(&name).is_ok()
}

/// The text, as bytes: header values need not be UTF-8.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StringToSign(Vec<u8>);

impl StringToSign {
    /// The text for a request to `resource`, a path that begins with the bucket. `date` is the end
    /// of the validity of a presigned URL.
    ///
    /// # Errors
    /// `InvalidURI` for a parameter that does not decode; `AccessDenied` or `InvalidArgument` for a
    /// request whose text is another one's, too.
    pub(super) fn of(
        request: &Request<'_>,
        query: &QueryParams,
        resource: &str,
        date: &str,
    ) -> Result<Self, S3Error> {
        check_lines(query)?;
        let mut text = Vec::new();
        write_standard_headers(&mut text, &request.method, &request.headers, query, date);
        write_vendor_headers(&mut text, &request.headers, query);
        text.extend_from_slice(resource.as_bytes());
        write_parameters(&mut text, query.as_sent())?;
        Ok(Self(text))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The paths with the bucket, any of which a client may sign: the path as sent, with the bucket
/// that the host names before it; botocore also ends the path of a bucket with a slash where it
/// sends none.
pub(super) fn resources(path: &str, host_bucket: Option<&str>) -> Vec<String> {
    match host_bucket {
        Some(bucket) => vec![format!("/{bucket}{path}")],
        None if path.len() > 1 && !path[1..].contains('/') => vec![path.to_owned(), format!("{path}/")],
        None => vec![path.to_owned()],
    }
}

impl fmt::Display for StringToSign {
    /// Shows all but the keys of customers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, line) in String::from_utf8_lossy(&self.0).split('\n').enumerate() {
            f.write_str(if at == 0 { "" } else { "\n" })?;
            match line.split_once(':').filter(|(name, _)| encryption::is_secret(name)) {
                Some((name, _)) => write!(f, "{name}:{}", encryption::HIDDEN)?,
                None => f.write_str(line)?,
            }
        }
        Ok(())
    }
}

fn write_standard_headers(
    text: &mut Vec<u8>,
    method: &Method,
    headers: &Headers,
    query: &QueryParams,
    date: &str,
) {
    text.extend_from_slice(method.as_str().as_bytes());
    text.push(b'\n');
    for name in STANDARD_HEADERS {
        text.extend_from_slice(standard_header(name, headers, query));
        text.push(b'\n');
    }
    text.extend_from_slice(date.as_bytes());
    text.push(b'\n');
}

/// The value of a header that was sent or, as botocore presigns, moved to the query; empty without
/// either.
fn standard_header<'r>(name: &str, headers: &'r Headers, query: &'r QueryParams) -> &'r [u8] {
    if let Some(sent) = headers.get(name) {
        return sent;
    }
    let moved = query.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
    moved.map_or(&[][..], |(_, value)| value.trim_ascii().as_bytes())
}

/// Writes the vendor headers, sent ones before those in the query, in ascending order of their
/// names.
fn write_vendor_headers(text: &mut Vec<u8>, headers: &Headers, query: &QueryParams) {
    let mut lines: BTreeMap<Cow<'_, str>, Vec<&[u8]>> = BTreeMap::new();
    let prefix = Dialect::Aws.header_prefix();
    let sent = headers.iter().map(|(name, value)| (Cow::Borrowed(name), value));
    let moved =
        query.iter().map(|(name, value)| (name.to_ascii_lowercase().into(), value.trim_ascii().as_bytes()));
    for (name, value) in sent.chain(moved).filter(|(name, _)| name.starts_with(prefix)) {
        lines.entry(name).or_default().push(value);
    }
    for (name, values) in lines {
        text.extend_from_slice(name.as_bytes());
        text.push(b':');
        text.extend_from_slice(&values.join(&b","[..]));
        text.push(b'\n');
    }
}

/// Writes the signed parameters of a query as sent, sorted by name: values decoded, and `=` only
/// where it was sent.
fn write_parameters(text: &mut Vec<u8>, sent: &str) -> Result<(), S3Error> {
    let mut signed = Vec::new();
    for pair in sent.split('&') {
        let (name, value) = pair.split_once('=').map_or((pair, None), |(name, value)| (name, Some(value)));
        let name = uri::decode_query(name)?;
        if is_signed_parameter(&name) {
            signed.push((name, value.map(uri::decode_query).transpose()?));
        }
    }
    if signed.iter().filter_map(|(_, value)| value.as_deref()).any(hides_parameter) {
        return Err(ambiguous("A parameter that signature version 2 covers contains another one."));
    }
    signed.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (at, (name, value)) in signed.iter().enumerate() {
        text.push(if at == 0 { b'?' } else { b'&' });
        text.extend_from_slice(name.as_bytes());
        if let Some(value) = value {
            text.push(b'=');
            text.extend_from_slice(value.as_bytes());
        }
    }
    Ok(())
}

/// Whether a signed value would be read as several parameters where it stands in the text, which is
/// decoded: `1&versionId=2`.
fn hides_parameter(value: &str) -> bool {
    let mut further =
        value.split('&').skip(1).map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    further.any(is_signed_parameter)
}

/// Checks that no parameter that is signed as a header would be read as several lines of the text,
/// or as another header.
///
/// # Errors
/// `InvalidArgument`.
fn check_lines(query: &QueryParams) -> Result<(), S3Error> {
    let prefix = Dialect::Aws.header_prefix();
    for (name, value) in query.iter() {
        let name = name.to_ascii_lowercase();
        let is_header = name.starts_with(prefix) || STANDARD_HEADERS.contains(&name.as_str());
        if is_header {
            hoisted::check_header(&name, value)?;
        }
    }
    Ok(())
}

fn ambiguous(message: &str) -> S3Error {
    S3Error::new(ErrorCode::AccessDenied).message(format!("{message} Please use {ALGORITHM}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Users;
    use crate::s3::Body;

    /// The secret of the examples in the user guide.
    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

    fn text(
        (method, path, query): (&str, &str, &str),
        lines: &[(&str, &str)],
        host_bucket: Option<&str>,
        date: &str,
    ) -> StringToSign {
        let mut headers = Headers::default();
        for (name, value) in lines {
            headers.push(name, value.as_bytes());
        }
        let request = Request {
            method: Method::from_token(method),
            path: path.to_owned(),
            query: query.to_owned(),
            headers,
            body: Body::none(),
            secure: false,
            peer: None,
            client: None,
        };
        let resource = &resources(path, host_bucket)[0];
        StringToSign::of(&request, &QueryParams::parse(query).unwrap(), resource, date).unwrap()
    }

    fn signature(text: &StringToSign) -> String {
        let file = format!("[[user]]\nname = \"a\"\naccess_key = \"AK\"\nsecret_key = \"{SECRET}\"\n");
        Users::parse(&file).unwrap().find("AK").unwrap().sign_v2(text.as_bytes())
    }

    #[test]
    fn the_key_of_a_customer_is_signed_and_not_shown() {
        let name = "x-amz-server-side-encryption-customer-key";
        let text = text(("PUT", "/b/k", ""), &[(name, "the key"), ("x-amz-meta-a", "b:c")], None, "1");
        assert!(text.as_bytes().windows(7).any(|bytes| bytes == b"the key"));
        let shown = text.to_string();
        assert_eq!(shown, format!("PUT\n\n\n1\nx-amz-meta-a:b:c\n{name}:(not shown)\n/b/k"));
    }

    #[test]
    fn the_examples_of_the_user_guide_have_their_signatures() {
        let johnsmith = Some("johnsmith");
        for (request, lines, bucket, date, expected) in [
            (
                ("GET", "/photos/puppy.jpg", ""),
                &[][..],
                johnsmith,
                "Tue, 27 Mar 2007 19:36:42 +0000",
                "bWq2s1WEIj+Ydj0vQ697zp+IXMU=",
            ),
            (
                ("PUT", "/photos/puppy.jpg", ""),
                &[("Content-Type", "image/jpeg")],
                johnsmith,
                "Tue, 27 Mar 2007 21:15:45 +0000",
                "MyyxeRY7whkBe+bq8fHCL/2kKUg=",
            ),
            (
                ("GET", "/", "prefix=photos&max-keys=50&marker=puppy"),
                &[],
                johnsmith,
                "Tue, 27 Mar 2007 19:42:41 +0000",
                "htDYFYduRNen8P9ZfE/s9SuKy0U=",
            ),
            (
                ("GET", "/", "acl"),
                &[],
                johnsmith,
                "Tue, 27 Mar 2007 19:44:46 +0000",
                "c2WLPFtWHVgbEmeEG93a4cG37dM=",
            ),
            (
                ("PUT", "/db-backup.dat.gz", ""),
                &[
                    ("User-Agent", "curl/7.15.5"),
                    ("x-amz-acl", "public-read"),
                    ("content-type", "application/x-download"),
                    ("Content-MD5", "4gJE4saaMU4BqNR0kLY+lw=="),
                    ("X-Amz-Meta-ReviewedBy", "joe@johnsmith.net"),
                    ("X-Amz-Meta-ReviewedBy", "jane@johnsmith.net"),
                    ("X-Amz-Meta-FileChecksum", "0x02661779"),
                    ("X-Amz-Meta-ChecksumAlgorithm", "crc32"),
                ],
                Some("static.johnsmith.net"),
                "Tue, 27 Mar 2007 21:06:08 +0000",
                "ilyl83RwaSoYIEdixDQcA4OnAnc=",
            ),
            (
                ("GET", "/dictionary/fran%C3%A7ais/pr%c3%a9f%c3%a8re", ""),
                &[],
                None,
                "Wed, 28 Mar 2007 01:49:49 +0000",
                "DNEZGsoieTZ92F3bUfSPQcbGmlM=",
            ),
        ] {
            let text = text(request, lines, bucket, date);
            assert_eq!(signature(&text), expected, "{text}");
        }
    }

    #[test]
    fn headers_in_the_query_are_signed_as_headers() {
        let lines = [("x-amz-meta-a", " 1 "), ("x-amz-acl", "private")];
        let sent = text(("PUT", "/b/k", ""), &[("Content-Type", "a/b"), lines[0], lines[1]], None, "1");
        let query = "X-Amz-Meta-A=+1&x-amz-acl=private&content-type=a%2Fb&AWSAccessKeyId=AK&Expires=1";
        assert_eq!(text(("PUT", "/b/k", query), &[], None, "1"), sent);
        assert_eq!(sent.to_string(), "PUT\n\na/b\n1\nx-amz-acl:private\nx-amz-meta-a:1\n/b/k");
        let both = text(("PUT", "/b/k", "x-amz-meta-a=2&content-type=c"), &lines, None, "1");
        assert_eq!(both.to_string(), "PUT\n\nc\n1\nx-amz-acl:private\nx-amz-meta-a:1,2\n/b/k");
    }

    #[test]
    fn a_query_whose_text_is_that_of_another_one_is_refused() {
        let of = |query: &str| {
            let request = Request {
                method: Method::Get,
                path: "/b/k".to_owned(),
                query: query.to_owned(),
                headers: Headers::default(),
                body: Body::none(),
                secure: false,
                peer: None,
                client: None,
            };
            StringToSign::of(&request, &QueryParams::parse(query).unwrap(), "/b/k", "1")
                .map_err(|error| error.code)
        };
        for query in [
            "uploadId=1%26versionId%3D2",
            "uploadId=1%26versionId",
            "response-expires=1%26x%26tagging%3D",
            "acl=%26acl",
        ] {
            assert_eq!(of(query), Err(ErrorCode::AccessDenied), "{query}");
        }
        for query in [
            "content-type=a%0Ab",
            "Content-MD5=a%0D",
            "x-amz-meta-a=1%0Ax-amz-acl%3Apublic-read",
            "x-amz-meta-a%3A1=2",
            "x-amz-meta-a%0Ab=2",
        ] {
            assert_eq!(of(query), Err(ErrorCode::InvalidArgument), "{query}");
        }
        for query in [
            "response-content-disposition=a%26b%3Dc%26VersionId",
            "prefix=%26acl",
            "uploadId=a%3Db%3D",
            "uploadId=a&versionId=b",
        ] {
            assert!(of(query).is_ok(), "{query}");
        }
    }

    #[test]
    fn the_path_of_a_bucket_may_be_signed_with_a_slash_at_its_end() {
        assert_eq!(resources("/b", None), ["/b", "/b/"]);
        assert_eq!(resources("/", Some("b")), ["/b/"]);
        for path in ["/", "/b/", "/b/k", "/b//", "*"] {
            assert_eq!(resources(path, None), [path]);
        }
    }

    #[test]
    fn signed_parameters_are_sorted_and_decoded_and_others_left_out() {
        let query = "versionId=a%2Fb&prefix=x&acl&response-expires=a+b&tagging=&Acl&%74orrent";
        let text = text(("GET", "/b/k", query), &[], None, "1").to_string();
        assert_eq!(text, "GET\n\n\n1\n/b/k?acl&response-expires=a b&tagging=&torrent&versionId=a/b");
        assert!(SIGNED_PARAMETERS.is_sorted());
    }
}
