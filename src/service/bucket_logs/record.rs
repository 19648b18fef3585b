//! The records in the logs of buckets (S3 user guide, "Amazon S3 server access log format"): one
//! line for a request, of fields that are separated by spaces.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::base::Timestamp;
use crate::ops::LoggedBucket;

/// What would end a field or a line, or could be taken for another field.
const OF_FIELDS: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'[').add(b']').add(b'\\').add(b'\'');
/// The same within quotes.
const OF_QUOTED: &AsciiSet = &CONTROLS.add(b'"').add(b'\\');

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// How a request was signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::service) struct SignedBy {
    /// `SigV4` or `SigV2`.
    pub(in crate::service) version: &'static str,
    /// `AuthHeader` or `QueryString`.
    pub(in crate::service) place: &'static str,
}

/// One line.
#[derive(Debug, Clone, Copy)]
pub(in crate::service) struct LogLine<'l> {
    pub(in crate::service) log: &'l LoggedBucket,
    pub(in crate::service) time: Timestamp,
    pub(in crate::service) peer: Option<SocketAddr>,
    pub(in crate::service) requester: Option<&'l str>,
    pub(in crate::service) id: &'l str,
    pub(in crate::service) operation: &'l str,
    pub(in crate::service) key: Option<&'l str>,
    /// Method, path and query.
    pub(in crate::service) request: Option<&'l str>,
    pub(in crate::service) status: u16,
    pub(in crate::service) error: Option<&'l str>,
    pub(in crate::service) sent: Option<u64>,
    pub(in crate::service) object_size: Option<u64>,
    pub(in crate::service) took: Option<Duration>,
    pub(in crate::service) referer: Option<&'l str>,
    pub(in crate::service) agent: Option<&'l str>,
    pub(in crate::service) version: Option<&'l str>,
    pub(in crate::service) signed_by: Option<SignedBy>,
    pub(in crate::service) host: Option<&'l str>,
    /// Whether nothing but an ACL permitted it. (`aclRequired`)
    pub(in crate::service) acl_required: bool,
}

impl LogLine<'_> {
    /// Writes the line. Fields that are not known are `-`.
    pub(super) fn write(&self, text: &mut String) {
        field(text, Some(&self.log.owner));
        field(text, Some(&self.log.name));
        let _ = write!(text, "[{}] ", time(self.time));
        field(text, self.peer.map(|peer| peer.ip().to_canonical().to_string()).as_deref());
        field(text, self.requester);
        field(text, Some(self.id));
        field(text, Some(self.operation));
        field(text, self.key);
        quoted(text, self.request);
        field(text, Some(&self.status.to_string()));
        field(text, self.error);
        field(text, self.sent.map(|sent| sent.to_string()).as_deref());
        field(text, self.object_size.map(|size| size.to_string()).as_deref());
        field(text, self.took.map(|took| took.as_millis().to_string()).as_deref());
        // The turn-around time.
        field(text, None);
        quoted(text, self.referer);
        quoted(text, self.agent);
        field(text, self.version);
        // The id of the host.
        field(text, None);
        field(text, self.signed_by.map(|signed| signed.version));
        // The cipher suite.
        field(text, None);
        field(text, self.signed_by.map(|signed| signed.place));
        field(text, self.host);
        // The version of TLS, and the access point.
        text.push_str("- - ");
        text.push_str(if self.acl_required { "Yes\n" } else { "-\n" });
    }
}

fn field(text: &mut String, value: Option<&str>) {
    match value.filter(|value| !value.is_empty()) {
        Some(value) => text.extend(utf8_percent_encode(value, OF_FIELDS)),
        None => text.push('-'),
    }
    text.push(' ');
}

fn quoted(text: &mut String, value: Option<&str>) {
    let value = value.filter(|value| !value.is_empty()).unwrap_or("-");
    text.push('"');
    text.extend(utf8_percent_encode(value, OF_QUOTED));
    text.push_str("\" ");
}

/// `31/Jan/2026:23:59:59 +0000`
fn time(time: Timestamp) -> String {
    let text = time.to_iso8601();
    let month = text[5..7].parse().ok().and_then(|month: usize| MONTHS.get(month.wrapping_sub(1)));
    format!("{}/{}/{}:{} +0000", &text[8..10], month.unwrap_or(&"-"), &text[..4], &text[11..19])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::logging::LogTarget;

    fn log() -> LoggedBucket {
        let target = LogTarget { bucket: "logs".into(), prefix: String::new(), format: None };
        LoggedBucket { name: "photos".into(), owner: "ann".into(), target }
    }

    #[test]
    fn a_line_has_the_fields_of_the_reference() {
        let log = log();
        let line = LogLine {
            log: &log,
            time: Timestamp::parse_iso8601("2026-01-31T23:59:59.123Z").unwrap(),
            peer: Some("192.0.2.3:4000".parse().unwrap()),
            requester: Some("arn:aws:iam::000000000000:user/ann"),
            id: "3E57",
            operation: "REST.GET.OBJECT",
            key: Some("a b/\"c\""),
            request: Some("GET /photos/a%20b?x HTTP/1.1"),
            status: 200,
            error: None,
            sent: Some(113),
            object_size: Some(200),
            took: Some(Duration::from_micros(7_900)),
            referer: None,
            agent: Some("S3 \"Console\"\\/0.4\u{7f}é"),
            version: Some("v1"),
            signed_by: Some(SignedBy { version: "SigV4", place: "AuthHeader" }),
            host: Some("photos.s3.example"),
            acl_required: false,
        };
        let mut text = String::new();
        LogLine { acl_required: true, ..line }.write(&mut text);
        assert!(text.ends_with(" photos.s3.example - - Yes\n"), "{text}");
        text.clear();
        line.write(&mut text);
        assert_eq!(
            text,
            "ann photos [31/Jan/2026:23:59:59 +0000] 192.0.2.3 arn:aws:iam::000000000000:user/ann 3E57 \
             REST.GET.OBJECT a%20b/%22c%22 \"GET /photos/a%20b?x HTTP/1.1\" 200 - 113 200 7 - \"-\" \
             \"S3 %22Console%22%5C/0.4%7F%C3%A9\" v1 - SigV4 - AuthHeader photos.s3.example - - -\n"
        );
    }
}
