//! Request documents: malformed, oversized, of the wrong shape, and bombs.

use super::victim::{Case, request};

/// Whatever the operation: a name, and a document that none takes.
const OF_NO_USE: &[(&str, &str)] = &[
    ("nothing", ""),
    ("blanks", "  \r\n\t "),
    ("text", "hello"),
    ("JSON", "{\"Delete\": []}"),
    ("half a tag", "<Delete"),
    ("no end", "<Delete><Object><Key>k</Key></Object>"),
    ("another end", "<Delete></Object>"),
    ("two roots", "<Delete/><Delete/>"),
    ("a root that is none of ours", "<Nothing/>"),
    ("an attribute without a value", "<Delete a></Delete>"),
    ("an attribute twice", "<Delete a='1' a='2'></Delete>"),
    ("an entity that nobody declared", "<Delete>&nothing;</Delete>"),
    ("a character that is none", "<Delete>&#0;</Delete>"),
    ("a lone ampersand", "<Delete>&</Delete>"),
    ("a document type", "<!DOCTYPE Delete><Delete/>"),
    ("an entity of a file", "<!DOCTYPE d [<!ENTITY f SYSTEM \"file:///etc/passwd\">]><Delete>&f;</Delete>"),
    ("an entity of a host", "<!DOCTYPE d [<!ENTITY f SYSTEM \"http://127.0.0.1:9/\">]><Delete>&f;</Delete>"),
    ("a parameter entity", "<!DOCTYPE d [<!ENTITY % f SYSTEM \"x\"> %f;]><Delete/>"),
    (
        "a billion laughs",
        "<!DOCTYPE l [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;\"><!ENTITY c \
         \"&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;\"><!ENTITY d \"&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;\">]><Delete>&d;</Delete>",
    ),
    ("a NUL", "<Delete>\0</Delete>"),
    ("a control", "<Delete>\x07</Delete>"),
    ("a comment without end", "<Delete><!-- </Delete>"),
    ("text of characters without end", "<Delete><![CDATA[ </Delete>"),
    ("a declaration of another encoding", "<?xml version=\"1.0\" encoding=\"UTF-16\"?><Nothing/>"),
    ("a declaration behind the root", "<Nothing/><?xml version=\"1.0\"?>"),
    ("a prefix that nobody declared", "<x:Nothing/>"),
];

/// Where a document is sent, and what is more in its head.
const TAKERS: &[(&str, &str, &str)] = &[
    ("POST", "/b?delete", "Content-MD5: @\r\n"),
    ("PUT", "/b?versioning", ""),
    ("PUT", "/b/kept?tagging", "Content-MD5: @\r\n"),
    ("PUT", "/b?lifecycle", "Content-MD5: @\r\n"),
];

/// Documents of the right kind: a name, a method, a target, a document, and the answer.
const OF_A_KIND: &[(&str, &str, &str, &str, &str)] = &[
    ("no object", "POST", "/b?delete", "<Delete></Delete>", "400 MalformedXML"),
    (
        "an object without a key",
        "POST",
        "/b?delete",
        "<Delete><Object></Object></Delete>",
        "400 MalformedXML",
    ),
    (
        "an object with two keys",
        "POST",
        "/b?delete",
        "<Delete><Object><Key>a</Key><Key>b</Key></Object></Delete>",
        "400 MalformedXML",
    ),
    (
        "an empty key",
        "POST",
        "/b?delete",
        "<Delete><Object><Key></Key></Object></Delete>",
        "400 MalformedXML",
    ),
    ("an absent key", "POST", "/b?delete", "<Delete><Object><Key>absent</Key></Object></Delete>", "200"),
    (
        "a key of references",
        "POST",
        "/b?delete",
        "<Delete><Object><Key>&#x61;&amp;&#10;</Key></Object></Delete>",
        "200",
    ),
    (
        "a version that is none",
        "POST",
        "/b?delete",
        "<Delete><Object><Key>a</Key><VersionId>x</VersionId></Object></Delete>",
        "200 NoSuchVersion",
    ),
    (
        "quiet in other words",
        "POST",
        "/b?delete",
        "<Delete><Quiet>perhaps</Quiet><Object><Key>a</Key></Object></Delete>",
        "200",
    ),
    (
        "no status",
        "PUT",
        "/b?versioning",
        "<VersioningConfiguration/>",
        "400 IllegalVersioningConfigurationException",
    ),
    (
        "a status that is none",
        "PUT",
        "/b?versioning",
        "<VersioningConfiguration><Status>On</Status></VersioningConfiguration>",
        "400 MalformedXML",
    ),
    (
        "two statuses",
        "PUT",
        "/b?versioning",
        "<VersioningConfiguration><Status>Enabled</Status><Status>Suspended</Status></VersioningConfiguration>",
        "400 MalformedXML",
    ),
    (
        "an empty status",
        "PUT",
        "/b?versioning",
        "<VersioningConfiguration><Status/></VersioningConfiguration>",
        "400 MalformedXML",
    ),
    (
        "a status in lower case",
        "PUT",
        "/b?versioning",
        "<VersioningConfiguration><Status>enabled</Status></VersioningConfiguration>",
        "400 MalformedXML",
    ),
    (
        "deletion by a second factor",
        "PUT",
        "/b?versioning",
        "<VersioningConfiguration><Status>Enabled</Status><MfaDelete>Enabled</MfaDelete></VersioningConfiguration>",
        "501 NotImplemented",
    ),
    (
        "a tag without a key",
        "PUT",
        "/b/kept?tagging",
        "<Tagging><TagSet><Tag><Value>v</Value></Tag></TagSet></Tagging>",
        "400 MalformedXML",
    ),
    (
        "a tag without a value",
        "PUT",
        "/b/kept?tagging",
        "<Tagging><TagSet><Tag><Key>k</Key></Tag></TagSet></Tagging>",
        "400 MalformedXML",
    ),
    (
        "a tag twice",
        "PUT",
        "/b/kept?tagging",
        "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag><Tag><Key>k</Key><Value>w</Value></Tag></TagSet></Tagging>",
        "400 InvalidTag",
    ),
    (
        "an empty tag",
        "PUT",
        "/b/kept?tagging",
        "<Tagging><TagSet><Tag><Key></Key><Value></Value></Tag></TagSet></Tagging>",
        "400 InvalidTag",
    ),
    ("no tag set", "PUT", "/b/kept?tagging", "<Tagging/>", "400 MalformedXML"),
    ("two tag sets", "PUT", "/b/kept?tagging", "<Tagging><TagSet/><TagSet/></Tagging>", "400 MalformedXML"),
    ("no rule", "PUT", "/b?lifecycle", "<LifecycleConfiguration/>", "400 MalformedXML"),
    (
        "a rule of nothing",
        "PUT",
        "/b?lifecycle",
        "<LifecycleConfiguration><Rule/></LifecycleConfiguration>",
        "400 MalformedXML",
    ),
    (
        "a filter within a filter",
        "PUT",
        "/b?lifecycle",
        "<LifecycleConfiguration><Rule><Status>Enabled</Status><Filter><And><And><Prefix/></And></And></Filter>\
         <Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>",
        "400 MalformedXML",
    ),
    (
        "more days than there are",
        "PUT",
        "/b?lifecycle",
        "<LifecycleConfiguration><Rule><Status>Enabled</Status><Filter/><Expiration><Days>9223372036854775807</Days>\
         </Expiration></Rule></LifecycleConfiguration>",
        "400 InvalidArgument",
    ),
    (
        "a number that is too long",
        "PUT",
        "/b?lifecycle",
        "<LifecycleConfiguration><Rule><Status>Enabled</Status><Filter/><Expiration><Days>99999999999999999999</Days>\
         </Expiration></Rule></LifecycleConfiguration>",
        "400 MalformedXML",
    ),
    (
        "the end of time",
        "PUT",
        "/b?lifecycle",
        "<LifecycleConfiguration><Rule><Status>Enabled</Status><Filter/><Expiration>\
         <Date>99999-01-01T00:00:00Z</Date></Expiration></Rule></LifecycleConfiguration>",
        "400 MalformedXML",
    ),
    ("no location", "PUT", "/made", "<CreateBucketConfiguration/>", "403 AccessDenied"),
    (
        "a part of an upload that is none",
        "POST",
        "/b/k?uploadId=0000000000000001aaaaaaaaaaaaaaaa",
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>",
        "404 NoSuchUpload",
    ),
];

fn with_md5(method: &str, target: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    use base64::Engine as _;
    use md5::Digest as _;
    let md5 = base64::engine::general_purpose::STANDARD.encode(md5::Md5::digest(body));
    request(method, target, &headers.replace('@', &md5), body)
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (method, target, headers) in TAKERS {
        for (name, document) in OF_NO_USE {
            let sent = with_md5(method, target, headers, document.as_bytes());
            cases.push(Case::new(format!("{method} {target}: {name}"), sent, "400 MalformedXML"));
        }
        for (name, document, expected) in large() {
            let sent = with_md5(method, target, headers, document.as_bytes());
            cases.push(Case::new(format!("{method} {target}: {name}"), sent, expected));
        }
        let sent = with_md5(method, target, headers, b"\xff\xfe<\0D\0/\0>\0");
        cases.push(Case::new(format!("{method} {target}: UTF-16"), sent, "400 MalformedXML"));
    }
    cases.extend(OF_A_KIND.iter().map(|(name, method, target, document, expected)| {
        let sent = with_md5(method, target, "Content-MD5: @\r\n", document.as_bytes());
        Case::new(format!("{method} {target}: {name}"), sent, expected)
    }));
    let many = format!("<Delete>{}</Delete>", "<Object><Key>absent</Key></Object>".repeat(1001));
    let sent = with_md5("POST", "/b?delete", "Content-MD5: @\r\n", many.as_bytes());
    cases.push(Case::new("1,001 objects to delete", sent, "400 MalformedXML"));
    let sent = request("POST", "/b?delete", "", "<Delete><Object><Key>absent</Key></Object></Delete>");
    cases.push(Case::new("a deletion without a digest", sent, "400 InvalidRequest"));
    let sent = request("POST", "/b?delete", "Content-MD5: AAAAAAAAAAAAAAAAAAAAAA==\r\n", "<Delete/>");
    cases.push(Case::new("a deletion with a wrong digest", sent, "400 BadDigest"));
    cases
}

/// Documents that would take more time or memory than a request is worth.
fn large() -> Vec<(&'static str, String, &'static str)> {
    vec![
        ("tags within tags", "<a>".repeat(300_000), "400 MalformedXML"),
        ("tags within tags, closed", "<a>".repeat(100_000) + &"</a>".repeat(100_000), "400 MalformedXML"),
        ("attributes without end", format!("<a {}/>", "b='c' ".repeat(100_000)), "400 MalformedXML"),
        ("different attributes without end", format!("<a {}/>", numbered(60_000)), "400 MalformedXML"),
        ("empty elements without end", format!("<a>{}</a>", "<b/>".repeat(250_000)), "400 MalformedXML"),
        ("comments without end", format!("<a>{}</a>", "<!---->".repeat(140_000)), "400 MalformedXML"),
        ("one byte more than allowed", "x".repeat((1 << 20) + 1), "400 MaxMessageLengthExceeded"),
        ("as long as allowed", "x".repeat(1 << 20), "400 MalformedXML"),
    ]
}

fn numbered(count: usize) -> String {
    (0..count).map(|at| format!("a{at}='' ")).collect()
}
