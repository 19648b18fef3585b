//! Documents that are taken and refused, and the locations that rules make.

use super::*;
use crate::s3::ErrorCode;
use crate::xml::Document;

const INDEX: &str = "<IndexDocument><Suffix>index.html</Suffix></IndexDocument>";

fn parse(inner: &str) -> Result<WebsiteConfiguration, S3Error> {
    let text = format!("<WebsiteConfiguration>{inner}</WebsiteConfiguration>");
    WebsiteConfiguration::parse(Document::parse(text.as_bytes()).unwrap().root())
}

fn pages(rules: &str) -> WebsitePages {
    match parse(&format!("{INDEX}<RoutingRules>{rules}</RoutingRules>")) {
        Ok(WebsiteConfiguration::Pages(pages)) => pages,
        other => panic!("{other:?}"),
    }
}

fn rule(condition: &str, redirect: &str) -> String {
    let condition = match condition {
        "" => String::new(),
        _ => format!("<Condition>{condition}</Condition>"),
    };
    format!("<RoutingRule>{condition}<Redirect>{redirect}</Redirect></RoutingRule>")
}

const ASKED: WebsiteAddress<'_> = WebsiteAddress { scheme: UrlScheme::Http, host: "site.example:9000" };

#[test]
fn a_configuration_is_written_as_it_was_read() {
    let whole = format!(
        "{INDEX}<ErrorDocument><Key>errors/404.html</Key></ErrorDocument><RoutingRules>{}{}{}</RoutingRules>",
        rule("<KeyPrefixEquals>docs/</KeyPrefixEquals>", "<ReplaceKeyPrefixWith></ReplaceKeyPrefixWith>"),
        rule(
            "<HttpErrorCodeReturnedEquals>404</HttpErrorCodeReturnedEquals><KeyPrefixEquals> a&amp;b</KeyPrefixEquals>",
            "<Protocol>https</Protocol><HostName>other.example</HostName><ReplaceKeyWith>x</ReplaceKeyWith>\
             <HttpRedirectCode>307</HttpRedirectCode>"
        ),
        rule("", ""),
    );
    let to = "<RedirectAllRequestsTo><HostName>other.example/below</HostName><Protocol>http</Protocol>\
              </RedirectAllRequestsTo>";
    for text in [INDEX, &whole, to] {
        let read = parse(text).unwrap();
        assert_eq!(WebsiteConfiguration::from_document(&read.to_document()), Some(read), "{text}");
    }
    let written = String::from_utf8(parse(&whole).unwrap().to_document()).unwrap();
    assert!(
        written.contains(
            &whole
                .replace("<ReplaceKeyPrefixWith></ReplaceKeyPrefixWith>", "<ReplaceKeyPrefixWith/>")
                .replace("<Redirect></Redirect>", "<Redirect/>")
        ),
        "{written}"
    );
    assert_eq!(WebsiteConfiguration::from_document(b"damaged"), None);
}

#[test]
fn a_new_redirect_must_change_something() {
    let docs = "<KeyPrefixEquals>docs/</KeyPrefixEquals>";
    let missing = "<HttpErrorCodeReturnedEquals>404</HttpErrorCodeReturnedEquals>";
    let check = |condition: &str, redirect: &str| {
        let good = rule("", "<HostName>other.example</HostName>");
        let rules = format!("<RoutingRules>{good}{}</RoutingRules>", rule(condition, redirect));
        parse(&format!("{INDEX}{rules}")).unwrap().check_new().map_err(|error| error.code)
    };
    for (condition, redirect) in [
        ("", ""),
        (docs, ""),
        (missing, ""),
        (missing, "<HttpRedirectCode>302</HttpRedirectCode>"),
        (docs, "<ReplaceKeyPrefixWith>docs/</ReplaceKeyPrefixWith>"),
        (missing, "<ReplaceKeyPrefixWith></ReplaceKeyPrefixWith>"),
    ] {
        assert_eq!(check(condition, redirect), Err(ErrorCode::InvalidRequest), "{condition} {redirect}");
    }
    for (condition, redirect) in [
        ("", "<Protocol>https</Protocol>"),
        (docs, "<ReplaceKeyPrefixWith></ReplaceKeyPrefixWith>"),
        (docs, "<ReplaceKeyPrefixWith>docs</ReplaceKeyPrefixWith>"),
        (missing, "<ReplaceKeyWith>missing.html</ReplaceKeyWith>"),
    ] {
        assert_eq!(check(condition, redirect), Ok(()), "{condition} {redirect}");
    }
}

#[test]
fn configurations_that_s3_refuses_are_refused() {
    let rules = |rules: &str| format!("{INDEX}<RoutingRules>{rules}</RoutingRules>");
    let of_redirect = |redirect: &str| rules(&rule("", redirect));
    let of_condition = |condition: &str| rules(&rule(condition, ""));
    let to = |inner: &str| format!("<RedirectAllRequestsTo>{inner}</RedirectAllRequestsTo>");
    let malformed = ErrorCode::MalformedXML;
    let argument = ErrorCode::InvalidArgument;
    let request = ErrorCode::InvalidRequest;
    for (text, code, message) in [
        (String::new(), argument, "A value for IndexDocument Suffix must be provided"),
        ("<IndexDocument/>".to_owned(), argument, "The IndexDocument Suffix is not well formed"),
        ("<IndexDocument><Suffix/></IndexDocument>".to_owned(), argument, "The IndexDocument Suffix"),
        (INDEX.replace("index", "a/index"), argument, "The IndexDocument Suffix"),
        (INDEX.replace("index", &"a".repeat(1024)), argument, "The IndexDocument Suffix"),
        (format!("{INDEX}{INDEX}"), malformed, "more than one IndexDocument"),
        (format!("{INDEX}<Other/>"), malformed, "<Other> is unknown"),
        (format!("{INDEX}<ErrorDocument/>"), malformed, "there is no <Key>"),
        (format!("{INDEX}<ErrorDocument><Key/></ErrorDocument>"), argument, "The ErrorDocument Key"),
        (rules(""), malformed, "there is no <RoutingRule>"),
        (rules("<Rule/>"), malformed, "<Rule> is unknown"),
        (rules("<RoutingRule/>"), malformed, "there is no <Redirect>"),
        (rules(&rule("", "").repeat(51)), request, "51 routing rules provided"),
        (of_redirect("<Protocol>ftp</Protocol>"), request, "Invalid protocol"),
        (of_redirect("<HostName/>"), request, "host name"),
        (of_redirect("<HostName>a\nSet-Cookie: b</HostName>"), request, "host name"),
        (of_redirect("<HttpRedirectCode>300</HttpRedirectCode>"), request, "HTTP redirect code (300)"),
        (of_redirect("<HttpRedirectCode>314</HttpRedirectCode>"), request, "HTTP redirect code (314)"),
        (of_redirect("<HttpRedirectCode>+301</HttpRedirectCode>"), malformed, "a status is a number"),
        (of_redirect("<HttpRedirectCode>99999</HttpRedirectCode>"), malformed, "a status is a number"),
        (
            of_redirect("<ReplaceKeyWith>a</ReplaceKeyWith><ReplaceKeyPrefixWith>b</ReplaceKeyPrefixWith>"),
            request,
            "You can only define ReplaceKeyPrefix or ReplaceKey",
        ),
        (of_redirect("<Refresh/>"), malformed, "<Refresh> is unknown"),
        (of_redirect(&format!("<ReplaceKeyWith>{}</ReplaceKeyWith>", "a".repeat(1025))), request, "1024"),
        (rules(&rule(" ", "")), request, "Condition cannot be empty"),
        (
            of_condition("<HttpErrorCodeReturnedEquals>302</HttpErrorCodeReturnedEquals>"),
            request,
            "HTTP error code (302)",
        ),
        (
            of_condition("<HttpErrorCodeReturnedEquals>x</HttpErrorCodeReturnedEquals>"),
            malformed,
            "a status is a number",
        ),
        (of_condition("<Key/>"), malformed, "<Key> is unknown"),
        (to(""), malformed, "there is no <HostName>"),
        (to("<HostName/>"), request, "A host name must be provided"),
        (to("<HostName>a b</HostName>"), request, "host name"),
        (to("<HostName>ü.example</HostName>"), request, "host name"),
        (to("<HostName>a</HostName><Protocol>HTTP</Protocol>"), request, "Invalid protocol"),
        (to("<HostName>a</HostName><Path/>"), malformed, "<Path> is unknown"),
        (to("<HostName>a</HostName>") + INDEX, argument, "RedirectAllRequestsTo cannot be provided"),
    ] {
        let refused = parse(&text).unwrap_err();
        assert!(refused.code == code && refused.message.contains(message), "{text}: {refused:?}");
    }
    assert!(parse(&rules(&rule("", "").repeat(50))).is_ok());
}

#[test]
fn the_root_and_folders_are_served_by_their_index() {
    let pages = pages(&rule("<KeyPrefixEquals>x</KeyPrefixEquals>", ""));
    assert_eq!(pages.page_key(""), "index.html");
    assert_eq!(pages.page_key("a/b/"), "a/b/index.html");
    assert_eq!(pages.page_key("a/b"), "a/b");
    assert_eq!(pages.index_below("a/b").as_deref(), Some("a/b/index.html"));
    assert_eq!((pages.index_below("a/"), pages.index_below("")), (None, None));
}

#[test]
fn the_first_rule_whose_conditions_hold_is_taken() {
    let on = |prefix: &str, status: &str| {
        let prefix = if prefix.is_empty() {
            String::new()
        } else {
            format!("<KeyPrefixEquals>{prefix}</KeyPrefixEquals>")
        };
        let status = match status {
            "" => String::new(),
            _ => format!("<HttpErrorCodeReturnedEquals>{status}</HttpErrorCodeReturnedEquals>"),
        };
        prefix + &status
    };
    let name = |name: &str| format!("<ReplaceKeyWith>{name}</ReplaceKeyWith>");
    let pages = pages(
        &[
            rule(&on("docs/", "404"), &name("lost")),
            rule(&on("docs/old/", ""), &name("old")),
            rule(&on("docs/old/x", ""), &name("never")),
            rule(&on("", "403"), &name("closed")),
        ]
        .concat(),
    );
    let to = |rule: Option<&RoutingRule>| rule.map(|rule| rule.location(ASKED, "k"));
    let path = |name: &str| Some(format!("http://site.example:9000/{name}"));
    assert_eq!(to(pages.rule_before("docs/new")), None);
    assert_eq!(to(pages.rule_before("docs/old/x")), path("old"));
    assert_eq!(to(pages.rule_after("docs/new", 404)), path("lost"));
    assert_eq!(to(pages.rule_after("docs/new", 403)), path("closed"));
    assert_eq!(to(pages.rule_after("other", 404)), None);
}

#[test]
fn a_location_has_the_replaced_key_on_the_chosen_host() {
    let location = |condition: &str, redirect: &str, key: &str| {
        let pages = pages(&rule(condition, redirect));
        let rule = pages.rule_before(key).unwrap();
        (rule.status(), rule.location(ASKED, key))
    };
    let docs = "<KeyPrefixEquals>docs/</KeyPrefixEquals>";
    for (condition, redirect, key, status, expected) in [
        (docs, "", "docs/a b", 301, "http://site.example:9000/docs/a%20b"),
        (
            docs,
            "<ReplaceKeyPrefixWith>documents/</ReplaceKeyPrefixWith>",
            "docs/x/docs/",
            301,
            "http://site.example:9000/documents/x/docs/",
        ),
        (docs, "<ReplaceKeyPrefixWith/>", "docs/x", 301, "http://site.example:9000/x"),
        (
            "",
            "<ReplaceKeyPrefixWith>#!/</ReplaceKeyPrefixWith>",
            "a?b",
            301,
            "http://site.example:9000/#!/a%3Fb",
        ),
        (
            docs,
            "<ReplaceKeyWith>gone.html?from=docs</ReplaceKeyWith><HttpRedirectCode>303</HttpRedirectCode>",
            "docs/x",
            303,
            "http://site.example:9000/gone.html?from=docs",
        ),
        (
            docs,
            "<Protocol>https</Protocol><HostName>other.example</HostName>",
            "docs/",
            301,
            "https://other.example/docs/",
        ),
        (
            docs,
            "<ReplaceKeyWith>a\r\nSet-Cookie: b</ReplaceKeyWith>",
            "docs/x",
            301,
            "http://site.example:9000/a%0ASet-Cookie:%20b",
        ),
        (
            "",
            "<HostName>other.example</HostName>",
            "a\r\nSet-Cookie: b\\ü",
            301,
            "http://other.example/a%0D%0ASet-Cookie:%20b%5C%C3%BC",
        ),
    ] {
        assert_eq!(location(condition, redirect, key), (status, expected.to_owned()), "{redirect}");
    }
}

#[test]
fn other_locations_stay_on_their_host() {
    assert_eq!(
        ASKED.moved_to("other.example", None, "/a//b%20c", "x=1"),
        "http://other.example/a//b%20c?x=1"
    );
    assert_eq!(ASKED.moved_to("o", Some(UrlScheme::Https), "//evil", ""), "https://o//evil");
    assert_eq!(folder_location("docs/a b"), "/docs/a%20b/");
    assert_eq!(folder_location("/evil.example"), "/%2Fevil.example/");
    assert_eq!(folder_location("\\evil.example"), "/%5Cevil.example/");
}
