//! Cross-origin rules of buckets (S3 API reference, PutBucketCors; S3 user guide, "How CORS
//! works").

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::base::encoded_words;
use crate::base::limits::{CORS_REQUEST_HEADERS_MAX, CORS_RULES_MAX};
use crate::s3::{Dialect, ErrorCode, Headers, S3Error, XmlConfiguration};
use crate::xml::{Element, Writer, XmlError};

/// The longest id of a rule, in characters.
const ID_LEN_MAX_CHARS: usize = 255;
/// The methods that rules may allow.
const METHODS: [&str; 5] = ["GET", "PUT", "POST", "DELETE", "HEAD"];
/// The request headers that decide about the headers of the response.
const VARY: &str = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method";
/// The response headers that the rules of a server expose. The `*` covers the others, user metadata
/// among them, where the page sends no credentials (Fetch, "CORS protocol and credentials").
const EXPOSED: [&str; 9] = [
    "ETag",
    "Accept-Ranges",
    "Content-Encoding",
    "Content-Range",
    "Date",
    "Location",
    "Retry-After",
    "x-request-id",
    "*",
];
/// Vendor headers that they expose, without the prefix.
const EXPOSED_VENDOR: [&str; 13] = [
    "bucket-region",
    "checksum-crc32",
    "checksum-crc32c",
    "checksum-crc64nvme",
    "checksum-sha1",
    "checksum-sha256",
    "checksum-type",
    "copy-source-version-id",
    "delete-marker",
    "mp-parts-count",
    "request-id",
    "tagging-count",
    "version-id",
];

/// The rules of a bucket, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CorsConfiguration {
    rules: Vec<CorsRule>,
}

/// A rule: the origins, methods and headers that it allows together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CorsRule {
    /// A name for people.
    pub id: Option<String>,
    /// Origins, each with at most one `*`.
    pub origins: Vec<String>,
    /// The methods of these origins.
    pub methods: Vec<String>,
    /// Names of request headers, each with at most one `*`.
    pub headers: Vec<String>,
    /// The response headers that pages of these origins may read.
    pub expose_headers: Vec<String>,
    /// How long a browser may keep the answer to a preflight.
    pub max_age_secs: Option<u32>,
}

/// A request of a browser that asks before the actual request.
#[derive(Debug, Clone, Copy)]
pub struct Preflight<'r> {
    /// The header `Origin`.
    pub origin: &'r str,
    /// The header `Access-Control-Request-Method`.
    pub method: &'r str,
    /// The header `Access-Control-Request-Headers`: names, separated by commas; empty without it.
    pub headers: &'r str,
}

/// Headers of a response, by name.
pub type CorsHeaders = Vec<(&'static str, String)>;

impl CorsConfiguration {
    /// Rules that allow every method and header to these origins, and expose all response headers
    /// of `dialect`.
    pub fn allowing(origins: &[String], dialect: Dialect) -> Self {
        let vendor = EXPOSED_VENDOR.map(|suffix| format!("{}{suffix}", dialect.header_prefix()));
        let rule = CorsRule {
            origins: origins.to_vec(),
            methods: METHODS.map(str::to_owned).to_vec(),
            headers: vec!["*".to_owned()],
            expose_headers: EXPOSED.map(str::to_owned).into_iter().chain(vendor).collect(),
            ..CorsRule::default()
        };
        Self { rules: vec![rule] }
    }

    /// The same with another rule at the end.
    ///
    /// # Errors
    /// As of [`XmlConfiguration::parse`].
    pub fn with(mut self, rule: CorsRule) -> Result<Self, S3Error> {
        self.rules.push(rule);
        self.checked()
    }

    /// The rules, in order.
    pub fn rules(&self) -> &[CorsRule] {
        &self.rules
    }

    /// Whether rules may allow `method`.
    pub fn knows_method(method: &str) -> bool {
        METHODS.contains(&method)
    }

    /// The headers of the response to a preflight; `None` where no rule allows the request.
    pub fn preflight(&self, request: Preflight<'_>) -> Option<CorsHeaders> {
        let wanted: Vec<_> =
            request.headers.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        if wanted.len() > CORS_REQUEST_HEADERS_MAX || !wanted.iter().all(|name| Headers::is_name(name)) {
            return None;
        }
        let (rule, origin) =
            self.find(request.origin, request.method, |rule| rule.allows_headers(&wanted))?;
        let mut headers = rule.response_headers(origin, request.origin);
        if !wanted.is_empty() {
            headers.push(("Access-Control-Allow-Headers", wanted.join(", ").to_ascii_lowercase()));
        }
        Some(headers)
    }

    /// The headers of the response to an actual request with this `Origin`; `None` where no rule
    /// allows the request.
    pub fn response(&self, origin: &str, method: &str) -> Option<CorsHeaders> {
        let (rule, pattern) = self.find(origin, method, |_| true)?;
        Some(rule.response_headers(pattern, origin))
    }

    /// The first rule that allows the request, and the pattern that the origin matched.
    fn find(
        &self,
        origin: &str,
        method: &str,
        accepts: impl Fn(&CorsRule) -> bool,
    ) -> Option<(&CorsRule, &str)> {
        // An origin is ASCII (RFC 6454, section 6.2), and may become a header of the response.
        if !encoded_words::is_plain(origin.as_bytes()) {
            return None;
        }
        for rule in &self.rules {
            if !rule.methods.iter().any(|allowed| allowed == method) || !accepts(rule) {
                continue;
            }
            if let Some(pattern) = rule.origins.iter().find(|pattern| matches(pattern, origin)) {
                return Some((rule, pattern.as_str()));
            }
        }
        None
    }
}

impl XmlConfiguration for CorsConfiguration {
    const ROOT: &'static str = "CORSConfiguration";

    /// Reads the element `CORSConfiguration`.
    ///
    /// # Errors
    /// `MalformedXML` for a missing, repeated or unknown element and for more than 100 rules;
    /// `InvalidRequest` for a method, wildcard or number that S3 refuses.
    fn parse(root: Element<'_>) -> Result<Self, S3Error> {
        if let Some(unknown) = root.children().find(|element| element.name() != "CORSRule") {
            return Err(S3Error::malformed_xml(&format!("<{}> is unknown", unknown.name())));
        }
        let rules = root.all("CORSRule").map(CorsRule::parse).collect::<Result<Vec<_>, _>>()?;
        match rules.len() {
            0 => Err(S3Error::malformed_xml("there is no <CORSRule>")),
            1..=CORS_RULES_MAX => Ok(Self { rules }),
            _ => Err(invalid(format!(
                "The number of CORS rules should not exceed allowed limit of {CORS_RULES_MAX} rules."
            ))),
        }
    }

    fn render(&self, document: &mut Writer) {
        for rule in &self.rules {
            document.element("CORSRule", |document| rule.render(document));
        }
    }
}

impl CorsRule {
    fn parse(element: Element<'_>) -> Result<Self, S3Error> {
        let known =
            ["ID", "AllowedOrigin", "AllowedMethod", "AllowedHeader", "ExposeHeader", "MaxAgeSeconds"];
        if let Some(unknown) = element.children().find(|child| !known.contains(&child.name())) {
            return Err(S3Error::malformed_xml(&format!("<{}> is unknown", unknown.name())));
        }
        let id = element.child_text("ID").map_err(|error| repeated(&error))?;
        let max_age_secs = element.child_text("MaxAgeSeconds").map_err(|error| repeated(&error))?;
        let rule = Self {
            id: id.map(Cow::into_owned),
            origins: texts(element, "AllowedOrigin"),
            methods: texts(element, "AllowedMethod"),
            headers: texts(element, "AllowedHeader"),
            expose_headers: texts(element, "ExposeHeader"),
            max_age_secs: max_age_secs.map(|text| max_age(&text)).transpose()?,
        };
        rule.check()?;
        Ok(rule)
    }

    fn check(&self) -> Result<(), S3Error> {
        if self.origins.is_empty() || self.methods.is_empty() {
            return Err(S3Error::malformed_xml("a rule needs <AllowedOrigin> and <AllowedMethod>"));
        }
        if self.id.as_ref().is_some_and(|id| id.chars().count() > ID_LEN_MAX_CHARS) {
            return Err(invalid(format!(
                "The ID of a CORS rule is longer than {ID_LEN_MAX_CHARS} characters."
            )));
        }
        if let Some(method) = self.methods.iter().find(|method| !METHODS.contains(&method.as_str())) {
            return Err(invalid(format!(
                "Found unsupported HTTP method in CORS config. Unsupported method is {method}"
            )));
        }
        check_wildcards("AllowedOrigin", &self.origins, 1)?;
        check_wildcards("AllowedHeader", &self.headers, 1)?;
        check_wildcards("ExposeHeader", &self.expose_headers, 0)?;
        check_characters("AllowedOrigin", &self.origins, |origin| !origin.chars().any(char::is_control))?;
        check_characters("AllowedHeader", &self.headers, Headers::is_name)?;
        check_characters("ExposeHeader", &self.expose_headers, Headers::is_name)
    }

    fn render(&self, document: &mut Writer) {
        let lists = [
            ("AllowedOrigin", &self.origins),
            ("AllowedMethod", &self.methods),
            ("AllowedHeader", &self.headers),
            ("ExposeHeader", &self.expose_headers),
        ];
        if let Some(id) = &self.id {
            document.leaf("ID", id);
        }
        for (name, values) in lists {
            for value in values {
                document.leaf(name, value);
            }
        }
        if let Some(seconds) = self.max_age_secs {
            document.plain("MaxAgeSeconds", seconds);
        }
    }

    fn allows_headers(&self, wanted: &[&str]) -> bool {
        let lower: Vec<_> = self.headers.iter().map(|pattern| pattern.to_ascii_lowercase()).collect();
        wanted.iter().all(|name| {
            let name = name.to_ascii_lowercase();
            lower.iter().any(|pattern| matches(pattern, &name))
        })
    }

    /// `pattern` is the one that the origin matched. An origin that is allowed by name may send
    /// credentials.
    fn response_headers(&self, pattern: &str, origin: &str) -> CorsHeaders {
        let mut headers = match pattern {
            "*" => vec![("Access-Control-Allow-Origin", "*".to_owned())],
            _ => vec![
                ("Access-Control-Allow-Origin", origin.to_owned()),
                ("Access-Control-Allow-Credentials", "true".to_owned()),
            ],
        };
        headers.push(("Access-Control-Allow-Methods", self.methods.join(", ")));
        if !self.expose_headers.is_empty() {
            headers.push(("Access-Control-Expose-Headers", self.expose_headers.join(", ")));
        }
        if let Some(seconds) = self.max_age_secs {
            headers.push(("Access-Control-Max-Age", seconds.to_string()));
        }
        headers.push(("Vary", VARY.to_owned()));
        headers
    }
}

fn texts(element: Element<'_>, name: &str) -> Vec<String> {
    element.all(name).map(|child| child.text().trim().to_owned()).collect()
}

fn repeated(error: &XmlError) -> S3Error {
    S3Error::malformed_xml(&error.to_string())
}

/// Whether `text` matches a pattern with at most one `*`.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, end)) => {
            text.len() >= start.len() + end.len() && text.starts_with(start) && text.ends_with(end)
        }
    }
}

fn check_wildcards(name: &str, values: &[String], most: usize) -> Result<(), S3Error> {
    let Some(value) = values.iter().find(|value| value.matches('*').count() > most) else { return Ok(()) };
    let mut message = format!("{name} \"{value}\" ");
    // Writing to a `String` does not fail.
    let _ = match most {
        0 => write!(message, "contains wildcard. We currently do not support wildcard for {name}."),
        _ => write!(message, "can not have more than one wildcard."),
    };
    Err(invalid(message))
}

/// Values become parts of header lines.
fn check_characters(name: &str, values: &[String], is_valid: impl Fn(&str) -> bool) -> Result<(), S3Error> {
    match values.iter().find(|value| !is_valid(value)) {
        Some(value) => Err(invalid(format!("{name} \"{value}\" contains invalid character."))),
        None => Ok(()),
    }
}

fn max_age(text: &str) -> Result<u32, S3Error> {
    text.trim().parse().map_err(|_| S3Error::malformed_xml("<MaxAgeSeconds> is not a number of seconds"))
}

fn invalid(message: String) -> S3Error {
    S3Error::new(ErrorCode::InvalidRequest).message(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::Document;

    const SITE: &str = "<CORSRule><ID>site</ID><AllowedOrigin>https://*.site.example</AllowedOrigin>\
        <AllowedMethod>GET</AllowedMethod><AllowedMethod>PUT</AllowedMethod><AllowedHeader>x-amz-*</AllowedHeader>\
        <AllowedHeader>Content-Type</AllowedHeader><ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>600</MaxAgeSeconds>\
        </CORSRule><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>";

    fn parse(rules: &str) -> Result<CorsConfiguration, S3Error> {
        let text = format!("<CORSConfiguration>{rules}</CORSConfiguration>");
        CorsConfiguration::parse(Document::parse(text.as_bytes()).unwrap().root())
    }

    fn header<'h>(headers: &'h CorsHeaders, name: &str) -> Option<&'h str> {
        headers.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn a_preflight_gets_the_first_rule_that_allows_origin_method_and_headers() {
        let cors = parse(SITE).unwrap();
        let preflight = |origin, method, headers| cors.preflight(Preflight { origin, method, headers });
        let put = preflight("https://www.site.example", "PUT", "X-Amz-Date, content-type").unwrap();
        assert_eq!(header(&put, "Access-Control-Allow-Origin"), Some("https://www.site.example"));
        assert_eq!(header(&put, "Access-Control-Allow-Credentials"), Some("true"));
        assert_eq!(header(&put, "Access-Control-Allow-Methods"), Some("GET, PUT"));
        assert_eq!(header(&put, "Access-Control-Allow-Headers"), Some("x-amz-date, content-type"));
        assert_eq!(header(&put, "Access-Control-Expose-Headers"), Some("ETag"));
        assert_eq!(header(&put, "Access-Control-Max-Age"), Some("600"));
        assert_eq!(header(&put, "Vary"), Some(VARY));

        assert_eq!(preflight("https://www.site.example", "PUT", "authorization"), None);
        assert_eq!(preflight("https://other.example", "PUT", ""), None);
        assert_eq!(preflight("https://www.site.example", "DELETE", ""), None);
        let anyone = preflight("https://other.example", "GET", "").unwrap();
        assert_eq!(header(&anyone, "Access-Control-Allow-Origin"), Some("*"));
        assert_eq!(header(&anyone, "Access-Control-Allow-Credentials"), None);
        assert_eq!(preflight("https://other.example", "GET", "x-amz-date"), None, "it allows no header");
        assert_eq!(preflight("https://www.site.example", "PUT", "x-amz-ü"), None, "no name of a header");
        assert_eq!(preflight("https://ü.site.example", "PUT", ""), None, "no origin");
    }

    #[test]
    fn a_response_needs_origin_and_method_alone() {
        let cors = parse(SITE).unwrap();
        let named = cors.response("https://a.site.example", "GET").unwrap();
        assert_eq!(header(&named, "Access-Control-Allow-Origin"), Some("https://a.site.example"));
        assert!(cors.response("https://other.example", "GET").is_some());
        assert_eq!(cors.response("https://other.example", "PUT"), None);
    }

    #[test]
    fn the_rules_of_a_server_allow_all_methods_and_expose_the_headers_of_the_dialect() {
        for dialect in Dialect::ALL {
            let open = CorsConfiguration::allowing(&["*".to_owned()], dialect);
            for method in METHODS {
                let asked = Preflight { origin: "null", method, headers: "a, b" };
                let allowed = open.preflight(asked).unwrap();
                assert_eq!(header(&allowed, "Access-Control-Allow-Headers"), Some("a, b"));
                let exposed = header(&allowed, "Access-Control-Expose-Headers").unwrap();
                assert!(exposed.contains(&format!("{}version-id", dialect.header_prefix())), "{exposed}");
            }
        }
    }

    #[test]
    fn the_rules_are_written_as_they_were_read() {
        let cors = parse(SITE).unwrap();
        let mut document = Writer::new("CORSConfiguration", None);
        cors.render(&mut document);
        let bytes = document.finish();
        assert_eq!(CorsConfiguration::parse(Document::parse(&bytes).unwrap().root()), Ok(cors));
    }

    #[test]
    fn one_wildcard_stands_for_any_run_and_never_for_overlapping_ends() {
        assert!(matches("https://*.a", "https://x.y.a") && matches("*", "") && matches("a*a", "aa"));
        assert!(!matches("a*a", "a") && !matches("https://*.a", "https://a") && !matches("b", "B"));
    }

    #[test]
    fn rules_that_s3_refuses_are_refused() {
        let rule = |inner: &str| {
            format!(
                "<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>{inner}</CORSRule>"
            )
        };
        let malformed = ErrorCode::MalformedXML;
        let invalid = ErrorCode::InvalidRequest;
        for (rules, code) in [
            (String::new(), malformed),
            ("<Rule/>".to_owned(), malformed),
            ("<CORSRule><AllowedMethod>GET</AllowedMethod></CORSRule>".to_owned(), malformed),
            ("<CORSRule><AllowedOrigin>*</AllowedOrigin></CORSRule>".to_owned(), malformed),
            (rule("<Nonsense/>"), malformed),
            (rule("<ID>a</ID><ID>b</ID>"), malformed),
            (rule("<MaxAgeSeconds>soon</MaxAgeSeconds>"), malformed),
            (rule("<MaxAgeSeconds>-1</MaxAgeSeconds>"), malformed),
            (rule("<AllowedMethod>OPTIONS</AllowedMethod>"), invalid),
            (rule("<AllowedMethod>get</AllowedMethod>"), invalid),
            (rule("<AllowedOrigin>https://*.*</AllowedOrigin>"), invalid),
            (rule("<AllowedHeader>*-*</AllowedHeader>"), invalid),
            (rule("<ExposeHeader>*</ExposeHeader>"), invalid),
            (rule("<ExposeHeader>x-amz-meta-*</ExposeHeader>"), invalid),
            (rule("<ExposeHeader>a&#10;b</ExposeHeader>"), invalid),
            (rule("<AllowedHeader>a, b</AllowedHeader>"), invalid),
            (rule("<AllowedOrigin>https://a&#13;&#10;X: y</AllowedOrigin>"), invalid),
            (rule(&format!("<ID>{}</ID>", "i".repeat(256))), invalid),
            (rule("").repeat(101), invalid),
        ] {
            assert_eq!(parse(&rules).unwrap_err().code, code, "{rules}");
        }
        assert!(parse(&rule("").repeat(100)).is_ok());
    }
}
