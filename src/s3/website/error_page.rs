//! Errors on website hosts: pages of HTML instead of XML (S3 user guide, "Website endpoints").

use crate::s3::status::reason;
use crate::s3::{ErrorCode, RequestId, Response, ResponseBody, S3Error};
use crate::xml::HtmlPage;

const OF_ERROR_DOCUMENT: &str = "An Error Occurred While Attempting to Retrieve a Custom Error Document";

/// The response to a request that failed with `error`. `document` is the error of the error
/// document.
pub fn error_page(error: &S3Error, document: Option<&S3Error>, id: &RequestId) -> Response {
    let status = error.status();
    let mut page = HtmlPage::new(&format!("{status} {}", reason(status)));
    page.list(items(error).chain([("RequestId", id.as_str())]));
    if let Some(document) = document {
        page.heading(OF_ERROR_DOCUMENT);
        page.list(items(document));
    }
    let response = Response::new(status).header("Content-Type", "text/html; charset=utf-8");
    let response = name_error(response, error);
    let response =
        error.headers.iter().fold(response, |response, (name, value)| response.header(*name, value.as_str()));
    response.with_body(ResponseBody::Bytes(page.finish()))
}

fn items(error: &S3Error) -> impl Iterator<Item = (&str, &str)> {
    let more = error.elements.iter().map(|(name, text)| (*name, text.as_str()));
    [("Code", error.code.as_str()), ("Message", error.message.as_str())].into_iter().chain(more)
}

/// Names an error in the headers of the page that is sent for it.
pub fn name_error(response: Response, error: &S3Error) -> Response {
    response.header("p-error-code", error.code.as_str()).header("p-error-message", error.message.as_str())
}

/// Whether the error document is sent for an error (S3 API reference, ErrorDocument).
pub fn is_for_error_document(error: &S3Error) -> bool {
    (400..500).contains(&error.status())
}

/// Whether a request for a key that failed may mean the folder of that name. The anonymous user may
/// not learn of every bucket that a key is missing there.
pub fn may_be_folder(error: &S3Error) -> bool {
    matches!(error.code, ErrorCode::NoSuchKey | ErrorCode::AccessDenied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeededEntropy;

    #[test]
    fn a_page_lists_the_error_and_that_of_the_error_document() {
        let id = RequestId::new(&SeededEntropy::new(1));
        let error =
            S3Error::new(ErrorCode::NoSuchKey).element("Key", "<a>").header("p-delete-marker", "true");
        let document = S3Error::new(ErrorCode::AccessDenied);
        let response = error_page(&error, Some(&document), &id);
        assert_eq!(response.get_header("Content-Type"), Some(&b"text/html; charset=utf-8"[..]));
        assert_eq!(response.get_header("p-error-code"), Some(&b"NoSuchKey"[..]));
        assert_eq!(response.get_header("p-delete-marker"), Some(&b"true"[..]));
        let ResponseBody::Bytes(body) = response.body else { panic!("a page has a body") };
        assert_eq!(
            String::from_utf8(body).unwrap(),
            format!(
                "<html>\n<head><title>404 Not Found</title></head>\n<body>\n<h1>404 Not Found</h1>\n<ul>\n\
                 <li>Code: NoSuchKey</li>\n<li>Message: The specified key does not exist.</li>\n<li>Key: &lt;a&gt;</li>\n\
                 <li>RequestId: {id}</li>\n</ul>\n<h3>{OF_ERROR_DOCUMENT}</h3>\n<ul>\n<li>Code: AccessDenied</li>\n\
                 <li>Message: Access Denied</li>\n</ul>\n<hr/>\n</body>\n</html>\n"
            )
        );
    }

    #[test]
    fn every_error_has_a_title() {
        assert!(ErrorCode::ALL.iter().all(|code| !reason(code.status()).is_empty()));
    }
}
