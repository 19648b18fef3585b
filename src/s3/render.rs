//! The last step of every response: errors become XML, header values become ASCII, `p-` names get
//! the prefix of the dialect, the request id is added, and the response to a HEAD loses its body.
//! No other module writes a vendor name.

use std::borrow::Cow;

use crate::base::encoded_words;
use crate::s3::metadata::is_user_metadata;
use crate::s3::{Dialect, ErrorCode, RequestId, Response, ResponseBody, S3Error};
use crate::xml::{Writer, legible};

/// The properties of a request that its response depends on.
#[derive(Debug, Clone, Copy)]
pub struct ResponseFrame<'a> {
    /// The dialect of the response.
    pub dialect: Dialect,
    /// The id of the request.
    pub id: &'a RequestId,
    /// The path, as sent.
    pub resource: &'a str,
    /// Whether the method is HEAD.
    pub head: bool,
}

/// A response with an XML document as its body.
pub fn xml(status: u16, document: Writer) -> Response {
    Response::new(status)
        .header("Content-Type", "application/xml")
        .with_body(ResponseBody::Bytes(document.finish()))
}

/// Renders an outcome into a response that is ready to be framed.
pub fn render(outcome: Result<Response, S3Error>, frame: ResponseFrame<'_>) -> Response {
    let mut response = outcome.unwrap_or_else(|error| error_response(&error, frame));
    for (name, value) in &mut response.headers {
        if !encoded_words::is_plain(value) {
            *value = in_ascii(name, value);
        }
        if let Some(suffix) = name.strip_prefix("p-") {
            *name = Cow::Owned(format!("{}{suffix}", frame.dialect.header_prefix()));
        }
    }
    response = response.header("x-request-id", frame.id.as_str());
    if frame.dialect == Dialect::Aws {
        response = response.header("x-amz-request-id", frame.id.as_str());
    }
    if frame.head { without_body(response) } else { response }
}

/// The text of a header value as encoded words. Of headers with a grammar only the parts beyond
/// ASCII become words: a browser that finds no `attachment` would show the document.
fn in_ascii(name: &str, value: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(value);
    let encoded = match name.strip_prefix("p-").is_some_and(is_user_metadata) {
        true => encoded_words::encode(&text),
        false => encoded_words::encode_parts(&text),
    };
    encoded.into_owned().into_bytes()
}

/// The response to a HEAD has the headers of the response to the GET, `Content-Length` among them,
/// and no body (RFC 9110, section 9.3.2).
fn without_body(mut response: Response) -> Response {
    let named = response.get_header("Content-Length").is_some();
    // The `Content-Length` of a 304 would have to equal the 200's (RFC 9110, section 8.6).
    if !named
        && response.status != 304
        && let Some(length) = response.body.len()
    {
        response = response.header("Content-Length", length.to_string());
    }
    response.with_body(ResponseBody::Empty)
}

fn error_response(error: &S3Error, frame: ResponseFrame<'_>) -> Response {
    let mut response = match error.code {
        // A 304 has no body (RFC 9110, section 15.4.5).
        ErrorCode::NotModified => Response::new(error.status()),
        _ => xml(error.status(), error_document(error, frame)),
    };
    for (name, value) in &error.headers {
        response = response.header(*name, value.as_str());
    }
    response
}

/// The document of an error (S3 API reference, "REST error responses"). It has no namespace. Quoted
/// input is made legible, so that every parser can read the document.
fn error_document(error: &S3Error, frame: ResponseFrame<'_>) -> Writer {
    let mut document = Writer::new("Error", None);
    document.leaf("Code", error.code.as_str());
    document.leaf("Message", &legible(&error.message));
    for (name, text) in &error.elements {
        document.leaf(name, &legible(text));
    }
    document.leaf("Resource", &legible(frame.resource));
    document.leaf("RequestId", frame.id.as_str());
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeededEntropy;

    fn rendered(outcome: Result<Response, S3Error>, dialect: Dialect, head: bool) -> (String, Response) {
        let id = RequestId::new(&SeededEntropy::new(1));
        let frame = ResponseFrame { dialect, id: &id, resource: "/b/k&", head };
        (id.to_string(), render(outcome, frame))
    }

    fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
        response.get_header(name).map(|value| std::str::from_utf8(value).unwrap())
    }

    #[test]
    fn vendor_names_get_the_prefix_of_the_dialect() {
        for (dialect, name) in [(Dialect::Svc, "x-svc-version-id"), (Dialect::Aws, "x-amz-version-id")] {
            let answer = Response::new(200).header("p-version-id", "1").header("Pragma", "x");
            let (_, response) = rendered(Ok(answer), dialect, false);
            assert_eq!(header(&response, name), Some("1"));
            assert_eq!(header(&response, "Pragma"), Some("x"));
        }
    }

    #[test]
    fn header_values_go_out_as_ascii() {
        let answer = Response::new(200)
            .header("p-meta-a", "x=ü")
            .header("Content-Disposition", "attachment; filename=\"ü\"")
            .header("p-error-message", "\u{1}")
            .header("ETag", vec![0xff]);
        let error = S3Error::new(ErrorCode::NoSuchKey).header("Cache-Control", "max-age=1, ü");
        let (_, response) = rendered(Ok(answer), Dialect::Svc, false);
        assert_eq!(header(&response, "x-svc-meta-a"), Some("=?UTF-8?B?eD3DvA==?="));
        let named = "attachment; filename=\"=?UTF-8?B?w7w=?=\"";
        assert_eq!(header(&response, "Content-Disposition"), Some(named));
        assert_eq!(header(&response, "x-svc-error-message"), Some("=?UTF-8?B?AQ==?="));
        assert_eq!(header(&response, "ETag"), Some("=?UTF-8?B?77+9?="));
        let (_, response) = rendered(Err(error), Dialect::Svc, false);
        assert_eq!(header(&response, "Cache-Control"), Some("max-age=1, =?UTF-8?B?w7w=?="));
    }

    #[test]
    fn the_request_id_is_always_there_and_in_the_aws_dialect_twice() {
        let (id, response) = rendered(Ok(Response::new(200)), Dialect::Svc, false);
        assert_eq!(header(&response, "x-request-id"), Some(id.as_str()));
        assert_eq!(header(&response, "x-amz-request-id"), None);
        let (id, response) = rendered(Err(S3Error::new(ErrorCode::NoSuchKey)), Dialect::Aws, false);
        assert_eq!(header(&response, "x-request-id"), Some(id.as_str()));
        assert_eq!(header(&response, "x-amz-request-id"), Some(id.as_str()));
    }

    #[test]
    fn an_error_is_an_xml_document_with_its_elements_and_headers() {
        let error = S3Error::new(ErrorCode::NoSuchKey)
            .message("gone")
            .element("Key", "k&")
            .header("p-delete-marker", "true");
        let (id, response) = rendered(Err(error), Dialect::Svc, false);
        assert_eq!(response.status, 404);
        assert_eq!(header(&response, "Content-Type"), Some("application/xml"));
        assert_eq!(header(&response, "x-svc-delete-marker"), Some("true"));
        let ResponseBody::Bytes(body) = response.body else { panic!("an error has a body") };
        assert_eq!(
            String::from_utf8(body).unwrap(),
            format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>NoSuchKey</Code><Message>gone</Message>\
                 <Key>k&amp;</Key><Resource>/b/k&amp;</Resource><RequestId>{id}</RequestId></Error>"
            )
        );
    }

    #[test]
    fn a_head_has_the_headers_of_the_get_and_no_body() {
        for code in [ErrorCode::NoSuchKey, ErrorCode::AccessDenied, ErrorCode::InvalidRange] {
            let (_, get) = rendered(Err(S3Error::new(code)), Dialect::Svc, false);
            let (_, head) = rendered(Err(S3Error::new(code)), Dialect::Svc, true);
            assert_eq!(head.status, get.status);
            assert!(head.body.is_empty());
            assert_eq!(header(&head, "Content-Type"), header(&get, "Content-Type"));
            let length = get.body.len().map(|length| length.to_string());
            assert_eq!(header(&head, "Content-Length"), length.as_deref());
        }
    }

    #[test]
    fn a_head_that_names_its_length_keeps_it() {
        let (_, response) =
            rendered(Ok(Response::new(200).header("Content-Length", "7")), Dialect::Svc, true);
        assert_eq!(response.headers.iter().filter(|(name, _)| name == "Content-Length").count(), 1);
        assert_eq!(header(&response, "Content-Length"), Some("7"));
    }

    #[test]
    fn not_modified_has_neither_body_nor_length() {
        for head in [false, true] {
            let (_, response) = rendered(Err(S3Error::new(ErrorCode::NotModified)), Dialect::Svc, head);
            assert_eq!((response.status, response.body.is_empty()), (304, true));
            assert_eq!(header(&response, "Content-Type"), None);
            assert_eq!(header(&response, "Content-Length"), None);
        }
    }
}
