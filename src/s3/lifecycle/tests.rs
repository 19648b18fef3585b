use std::cell::Cell;

use proptest::prelude::*;

use super::*;
use crate::base::Timestamp;
use crate::s3::{ErrorCode, S3Error, XmlConfiguration as _};
use crate::xml::{Document, Writer};

const DAYS: &str = "<Expiration><Days>3</Days></Expiration>";

fn parse(rules: &str) -> Result<LifecycleConfiguration, S3Error> {
    let text = format!("<LifecycleConfiguration>{rules}</LifecycleConfiguration>");
    let document = Document::parse(text.as_bytes()).unwrap();
    LifecycleConfiguration::parse(document.root())
}

fn rule(id: &str, filter: &str, actions: &str) -> String {
    format!("<Rule><ID>{id}</ID>{filter}<Status>Enabled</Status>{actions}</Rule>")
}

/// The rules of a document as they are written.
fn shown(configuration: &LifecycleConfiguration) -> String {
    let mut document = Writer::new("R", None);
    configuration.render(&mut document);
    let text = String::from_utf8(document.finish()).unwrap();
    let text = text.split_once("<R>").unwrap().1;
    text.strip_suffix("</R>").unwrap().to_owned()
}

fn time(text: &str) -> Timestamp {
    Timestamp::parse_iso8601(text).unwrap()
}

fn no_tags() -> Vec<(String, String)> {
    Vec::new()
}

fn facts(key: &str, state: ExpiryState) -> ExpiryFacts<'_> {
    let modified = time("2014-01-15T10:30:00Z");
    ExpiryFacts { key: key.as_bytes(), size: 100, modified, state, tags: &no_tags }
}

/// The id of the rule that takes a version, and when.
fn taken(rules: &str, facts: &ExpiryFacts<'_>) -> Option<(String, String)> {
    let configuration = parse(rules).unwrap();
    let expiry = configuration.expiry(facts)?;
    Some((configuration.rule_id(expiry.rule).to_owned(), expiry.at.to_iso8601()))
}

fn pair(id: &str, at: &str) -> Option<(String, String)> {
    Some((id.to_owned(), format!("{at}T00:00:00.000Z")))
}

#[test]
fn every_form_of_a_rule_is_read_back_as_it_was_written() {
    let tag = "<Tag><Key>k</Key><Value>v</Value></Tag>";
    let sizes = "<ObjectSizeGreaterThan>0</ObjectSizeGreaterThan><ObjectSizeLessThan>9</ObjectSizeLessThan>";
    let filters = [
        "<Prefix>old</Prefix>".to_owned(),
        "<Prefix/>".to_owned(),
        "<Filter/>".to_owned(),
        "<Filter><Prefix/></Filter>".to_owned(),
        "<Filter><Prefix> a&amp;b/ </Prefix></Filter>".to_owned(),
        format!("<Filter>{tag}</Filter>"),
        "<Filter><ObjectSizeGreaterThan>5</ObjectSizeGreaterThan></Filter>".to_owned(),
        "<Filter><ObjectSizeLessThan>5</ObjectSizeLessThan></Filter>".to_owned(),
        format!("<Filter><And>{tag}</And></Filter>"),
        format!("<Filter><And><Prefix>p</Prefix>{tag}<Tag><Key>l</Key><Value/></Tag>{sizes}</And></Filter>"),
    ];
    let mut rules: Vec<_> =
        filters.iter().enumerate().map(|(at, filter)| rule(&at.to_string(), filter, DAYS)).collect();
    let actions = [
        "<Expiration><Date>2030-02-01T00:00:00.000Z</Date></Expiration>",
        "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>",
        "<Expiration><ExpiredObjectDeleteMarker>false</ExpiredObjectDeleteMarker></Expiration>",
        "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>",
        "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>\
         <NewerNoncurrentVersions>100</NewerNoncurrentVersions></NoncurrentVersionExpiration>",
        "<AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload>",
    ];
    rules.extend(
        actions.iter().enumerate().map(|(at, action)| rule(&format!("action {at}"), "<Filter/>", action)),
    );
    rules.push(
        rule("off", "<Filter/>", &[actions[2], actions[4], actions[5]].concat())
            .replace("Enabled", "Disabled"),
    );
    let rules = rules.concat();
    let configuration = parse(&rules).unwrap();
    assert_eq!(shown(&configuration), rules);
    assert_eq!(LifecycleConfiguration::from_document(&configuration.to_document()), Some(configuration));
}

#[test]
fn the_minimum_size_is_stored_with_the_rules() {
    let mut configuration = parse(&rule("a", "<Filter/>", DAYS)).unwrap();
    configuration.minimum = TransitionMinimumSize::named("varies_by_storage_class").unwrap();
    assert_eq!(LifecycleConfiguration::from_document(&configuration.to_document()), Some(configuration));
    assert_eq!(TransitionMinimumSize::named("small").unwrap_err().code, ErrorCode::InvalidArgument);
    // Clients send it as a header only.
    let sent =
        "<TransitionDefaultMinimumObjectSize>varies_by_storage_class</TransitionDefaultMinimumObjectSize>";
    assert_eq!(
        parse(&(sent.to_owned() + &rule("a", "<Filter/>", DAYS))).unwrap_err().code,
        ErrorCode::MalformedXML
    );
}

#[test]
fn rules_without_an_id_get_one_that_no_other_has() {
    let unnamed = rule("", "<Filter/>", DAYS).replace("<ID></ID>", "");
    let empty = rule("", "<Filter/>", DAYS);
    let configuration = parse(&[unnamed, rule("rule-3", "<Filter/>", DAYS), empty].concat()).unwrap();
    let ids = [0, 1, 2].map(|number| configuration.rule_id(number).to_owned());
    assert_eq!(ids, ["rule-1", "rule-3", "rule-3.1"]);
}

fn refused(cases: &[(&str, &str)], expected: ErrorCode) {
    for (filter, actions) in cases {
        let error = parse(&rule("id", filter, actions)).map(|read| shown(&read)).unwrap_err();
        assert_eq!(error.code, expected, "{filter} {actions}: {}", error.message);
    }
}

#[test]
fn malformed_rules_are_refused() {
    let all = "<Filter/>";
    refused(
        &[
            ("", DAYS),
            ("<Filter/><Prefix/>", DAYS),
            ("<Filter/><Filter/>", DAYS),
            ("<Filter><Prefix/><ObjectSizeLessThan>5</ObjectSizeLessThan></Filter>", DAYS),
            ("<Filter><And/></Filter>", DAYS),
            ("<Filter><And><Prefix/></And><Prefix/></Filter>", DAYS),
            ("<Filter><Suffix>a</Suffix></Filter>", DAYS),
            ("<Filter><Tag><Key>k</Key></Tag></Filter>", DAYS),
            ("<Filter><ObjectSizeLessThan>many</ObjectSizeLessThan></Filter>", DAYS),
            (all, "<Expiration/>"),
            (all, "<Expiration><Days>1</Days><Date>2030-02-01T00:00:00Z</Date></Expiration>"),
            (
                all,
                "<Expiration><Days>1</Days><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>",
            ),
            (all, "<Expiration><Days>soon</Days></Expiration>"),
            (all, "<Expiration><Date>2030</Date></Expiration>"),
            (all, "<Expiration><ExpiredObjectDeleteMarker>yes</ExpiredObjectDeleteMarker></Expiration>"),
            (all, "<Expiration><Days>1</Days></Expiration><Expiration><Days>1</Days></Expiration>"),
            (all, "<NoncurrentVersionExpiration/>"),
            (
                all,
                "<NoncurrentVersionExpiration><NewerNoncurrentVersions>1</NewerNoncurrentVersions></NoncurrentVersionExpiration>",
            ),
            (all, "<AbortIncompleteMultipartUpload/>"),
            (all, "<Transition><Days>1</Days></Transition>"),
            (all, "<Archive/>"),
            (all, "<Status>Enabled</Status><Expiration><Days>1</Days></Expiration>"),
        ],
        ErrorCode::MalformedXML,
    );
    for text in ["", "<Rules/>", "<Rule/>"] {
        assert_eq!(parse(text).unwrap_err().code, ErrorCode::MalformedXML, "{text}");
    }
    let status = rule("a", "<Filter/>", DAYS).replace("Enabled", "enabled");
    assert_eq!(parse(&status).unwrap_err().code, ErrorCode::MalformedXML);
}

#[test]
fn numbers_dates_and_ids_that_s3_refuses_are_invalid_arguments() {
    let all = "<Filter/>";
    refused(
        &[
            (all, "<Expiration><Days>0</Days></Expiration>"),
            (all, "<Expiration><Days>-1</Days></Expiration>"),
            (all, "<Expiration><Days>2147483648</Days></Expiration>"),
            (all, "<Expiration><Date>2030-02-01T00:00:01Z</Date></Expiration>"),
            (
                all,
                "<NoncurrentVersionExpiration><NoncurrentDays>0</NoncurrentDays></NoncurrentVersionExpiration>",
            ),
            (
                all,
                "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>0</NewerNoncurrentVersions></NoncurrentVersionExpiration>",
            ),
            (
                all,
                "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>101</NewerNoncurrentVersions></NoncurrentVersionExpiration>",
            ),
            (
                all,
                "<AbortIncompleteMultipartUpload><DaysAfterInitiation>0</DaysAfterInitiation></AbortIncompleteMultipartUpload>",
            ),
        ],
        ErrorCode::InvalidArgument,
    );
    let long = |length| parse(&rule(&"ü".repeat(length), "<Filter/>", DAYS));
    assert!(long(255).is_ok());
    assert_eq!(long(256).unwrap_err().code, ErrorCode::InvalidArgument);
    let twice = rule("a", "<Filter/>", DAYS).repeat(2);
    assert_eq!(parse(&twice).unwrap_err().code, ErrorCode::InvalidArgument);
}

#[test]
fn combinations_that_s3_refuses_are_invalid_requests() {
    let tag = "<Filter><Tag><Key>k</Key><Value>v</Value></Tag></Filter>";
    let abort = "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>";
    let marker = "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>";
    let keeping = "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>1</NewerNoncurrentVersions></NoncurrentVersionExpiration>";
    let bounds = |more: u64, less: u64| {
        format!(
            "<Filter><And><ObjectSizeGreaterThan>{more}</ObjectSizeGreaterThan><ObjectSizeLessThan>{less}</ObjectSizeLessThan></And></Filter>"
        )
    };
    let twice = "<Filter><And><Tag><Key>k</Key><Value>1</Value></Tag><Tag><Key>k</Key><Value>2</Value></Tag></And></Filter>";
    refused(
        &[
            ("<Filter/>", ""),
            (tag, abort),
            (tag, marker),
            ("<Filter><ObjectSizeLessThan>5</ObjectSizeLessThan></Filter>", abort),
            ("<Prefix>a</Prefix>", keeping),
            (&bounds(5, 5), DAYS),
            (&bounds(6, 5), DAYS),
            ("<Filter><ObjectSizeLessThan>0</ObjectSizeLessThan></Filter>", DAYS),
            ("<Filter><ObjectSizeGreaterThan>-1</ObjectSizeGreaterThan></Filter>", DAYS),
            (twice, DAYS),
            (&format!("<Filter><Prefix>{}</Prefix></Filter>", "p".repeat(1025)), DAYS),
        ],
        ErrorCode::InvalidRequest,
    );
    refused(&[("<Filter><Tag><Key>aws:k</Key><Value/></Tag></Filter>", DAYS)], ErrorCode::InvalidTag);
    let many = |count| (0..count).map(|at| rule(&format!("{at}"), "<Filter/>", DAYS)).collect::<String>();
    assert!(parse(&many(1000)).is_ok());
    assert_eq!(parse(&many(1001)).unwrap_err().code, ErrorCode::InvalidRequest);
}

#[test]
fn transitions_are_refused_by_the_name_of_their_class() {
    for name in ["Transition", "NoncurrentVersionTransition"] {
        let action = format!("{DAYS}<{name}><Days>1</Days><StorageClass>GLACIER</StorageClass></{name}>");
        let error = parse(&rule("a", "<Filter/>", &action)).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidStorageClass);
        assert!(error.message.contains("'GLACIER'") && error.message.contains(name), "{}", error.message);
    }
}

#[test]
fn days_end_at_the_next_midnight() {
    // The example of the S3 user guide: three days after 10:30 are rounded to the next midnight.
    let rules = rule("three", "<Filter/>", DAYS);
    assert_eq!(taken(&rules, &facts("k", ExpiryState::Current)), pair("three", "2014-01-19"));
    let at_midnight =
        ExpiryFacts { modified: time("2014-01-15T00:00:00Z"), ..facts("k", ExpiryState::Current) };
    assert_eq!(taken(&rules, &at_midnight), pair("three", "2014-01-18"));
    let after = ExpiryFacts { modified: time("2014-01-15T00:00:00.001Z"), ..at_midnight };
    assert_eq!(taken(&rules, &after), pair("three", "2014-01-19"));
    let endless = rule("e", "<Filter/>", "<Expiration><Days>2147483647</Days></Expiration>");
    assert_eq!(taken(&endless, &after).unwrap().1, "9999-12-31T23:59:59.999Z");
}

#[test]
fn the_earliest_rule_takes_and_of_equal_ones_the_first() {
    let days = |days: u32| format!("<Expiration><Days>{days}</Days></Expiration>");
    let logs = "<Filter><Prefix>logs/</Prefix></Filter>";
    let rules =
        [rule("all", "<Filter/>", &days(9)), rule("logs", logs, &days(1)), rule("same", logs, &days(1))];
    let rules = rules.concat();
    assert_eq!(taken(&rules, &facts("logs/a", ExpiryState::Current)), pair("logs", "2014-01-17"));
    assert_eq!(taken(&rules, &facts("log", ExpiryState::Current)), pair("all", "2014-01-25"));
    let off = rules.replacen("Enabled", "Disabled", 2);
    assert_eq!(taken(&off, &facts("logs/a", ExpiryState::Current)), pair("same", "2014-01-17"));
    assert_eq!(taken(&off, &facts("log", ExpiryState::Current)), None);
    assert!(!parse(&rules.replace("Enabled", "Disabled")).unwrap().concerns_versions());
}

#[test]
fn sizes_are_exclusive_and_tags_are_loaded_once_where_a_rule_has_them() {
    let bounds = "<Filter><And><ObjectSizeGreaterThan>100</ObjectSizeGreaterThan><ObjectSizeLessThan>102</ObjectSizeLessThan></And></Filter>";
    let sized = |size| ExpiryFacts { size, ..facts("k", ExpiryState::Current) };
    let taken_sizes: Vec<_> =
        (99..104).filter(|size| taken(&rule("s", bounds, DAYS), &sized(*size)).is_some()).collect();
    assert_eq!(taken_sizes, [101]);

    let loads = Cell::new(0);
    let load = || {
        loads.set(loads.get() + 1);
        vec![("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]
    };
    let tagged = ExpiryFacts { tags: &load, ..facts("k", ExpiryState::Current) };
    let both = "<Filter><And><Tag><Key>b</Key><Value>2</Value></Tag><Tag><Key>a</Key><Value>1</Value></Tag></And></Filter>";
    let other = "<Filter><Tag><Key>b</Key><Value>1</Value></Tag></Filter>";
    assert_eq!(taken(&rule("x", other, DAYS), &tagged), None);
    assert_eq!(loads.replace(0), 1);
    let rules = [rule("x", other, DAYS), rule("both", both, DAYS)].concat();
    assert_eq!(taken(&rules, &tagged), pair("both", "2014-01-19"));
    assert_eq!(loads.replace(0), 1);
    taken(&rule("s", bounds, DAYS), &tagged);
    taken(
        &rule(
            "x",
            &other.replace("<Tag>", "<And><Prefix>z</Prefix><Tag>").replace("</Tag>", "</Tag></And>"),
            DAYS,
        ),
        &tagged,
    );
    assert_eq!(loads.get(), 0);
}

#[test]
fn lone_delete_markers_go_by_their_own_rule_and_by_days_and_dates() {
    let lone = facts("k", ExpiryState::LoneDeleteMarker);
    let marker = |flag| {
        let text =
            format!("<Expiration><ExpiredObjectDeleteMarker>{flag}</ExpiredObjectDeleteMarker></Expiration>");
        rule("m", "<Filter/>", &text)
    };
    let configuration = parse(&marker(true)).unwrap();
    let expiry = configuration.expiry(&lone).unwrap();
    assert_eq!((expiry.at, expiry.kind), (lone.modified, ExpiryKind::DeleteMarker));
    assert_eq!(configuration.expiry(&facts("k", ExpiryState::Current)), None);
    assert_eq!(taken(&marker(false), &lone), None);
    assert_eq!(taken(&rule("d", "<Filter/>", DAYS), &lone), pair("d", "2014-01-19"));
    let date = rule("date", "<Filter/>", "<Expiration><Date>2020-01-01T00:00:00Z</Date></Expiration>");
    assert_eq!(taken(&date, &lone), pair("date", "2020-01-01"));
    assert_eq!(taken(&date, &facts("k", ExpiryState::Current)), pair("date", "2020-01-01"));
}

#[test]
fn noncurrent_versions_go_by_the_time_since_which_they_are_noncurrent() {
    let noncurrent = |newer_noncurrent| {
        let since = time("2014-02-01T12:00:00Z");
        facts("k", ExpiryState::Noncurrent { since, newer_noncurrent })
    };
    let action =
        "<NoncurrentVersionExpiration><NoncurrentDays>2</NoncurrentDays></NoncurrentVersionExpiration>";
    assert_eq!(taken(&rule("n", "<Filter/>", action), &noncurrent(0)), pair("n", "2014-02-04"));
    assert_eq!(taken(&rule("n", "<Filter/>", DAYS), &noncurrent(0)), None);
    assert_eq!(taken(&rule("n", "<Filter/>", action), &facts("k", ExpiryState::Current)), None);
    let keeping = action.replace(
        "</NoncurrentDays>",
        "</NoncurrentDays><NewerNoncurrentVersions>2</NewerNoncurrentVersions>",
    );
    let gone: Vec<_> = (0..4)
        .filter(|newer| taken(&rule("n", "<Filter/>", &keeping), &noncurrent(*newer)).is_some())
        .collect();
    assert_eq!(gone, [2, 3]);
}

#[test]
fn uploads_are_aborted_days_after_their_initiation() {
    let abort = "<AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload>";
    let configuration = parse(&rule("u", "<Filter><Prefix>a/</Prefix></Filter>", abort)).unwrap();
    let initiated = time("2014-01-15T10:30:00Z");
    let found = configuration.abort_at(b"a/b", initiated).unwrap();
    assert_eq!((found.at, found.kind), (time("2014-01-23T00:00:00Z"), ExpiryKind::Upload));
    assert_eq!(configuration.abort_at(b"b", initiated), None);
    assert!(configuration.aborts_uploads());
    assert!(!parse(&rule("d", "<Filter/>", DAYS)).unwrap().aborts_uploads());
}

/// Elements of a rule, right and wrong ones.
const PARTS: [&str; 16] = [
    "<ID>a</ID>",
    "<ID> &#13;&amp;ü</ID>",
    "<Status>Enabled</Status>",
    "<Status>Disabled</Status>",
    "<Prefix>p</Prefix>",
    "<Filter/>",
    "<Filter><Prefix>a&#10;</Prefix></Filter>",
    "<Filter><And><Prefix>a</Prefix><Tag><Key>k</Key><Value/></Tag></And></Filter>",
    "<Filter><ObjectSizeLessThan>18446744073709551615</ObjectSizeLessThan></Filter>",
    "<Filter><ObjectSizeGreaterThan>9223372036854775807</ObjectSizeGreaterThan></Filter>",
    "<Expiration><Days>2147483647</Days></Expiration>",
    "<Expiration><Date>9999-12-31T00:00:00Z</Date></Expiration>",
    "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>",
    "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>",
    "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>",
    "<Archive/>",
];

proptest! {
    #[test]
    fn documents_are_refused_or_read_back(
        rules in proptest::collection::vec(proptest::sample::subsequence(&PARTS[..], 0..6), 1..4),
    ) {
        let rules: String = rules.iter().map(|parts| format!("<Rule>{}</Rule>", parts.concat())).collect();
        if let Ok(configuration) = parse(&rules) {
            configuration.expiry(&facts("a", ExpiryState::Current));
            prop_assert_eq!(LifecycleConfiguration::from_document(&configuration.to_document()), Some(configuration));
        }
    }
}

fn moved_after(days: u32) -> String {
    format!("<Transition><Days>{days}</Days><StorageClass>COLD</StorageClass></Transition>")
}

fn noncurrent_moved_after(days: u32) -> String {
    format!(
        "<NoncurrentVersionTransition><NoncurrentDays>{days}</NoncurrentDays>\
         <NewerNoncurrentVersions>2</NewerNoncurrentVersions><StorageClass>COLD</StorageClass></NoncurrentVersionTransition>"
    )
}

/// The moment at which a large version is moved.
fn moved(rules: &str, facts: &ExpiryFacts<'_>) -> Option<String> {
    let large = ExpiryFacts { size: 128 << 10, ..*facts };
    parse(rules).unwrap().transition(&large).map(|found| found.at.to_iso8601())
}

fn midnight(day: &str) -> Option<String> {
    Some(format!("{day}T00:00:00.000Z"))
}

#[test]
fn transitions_to_cold_are_read_back_and_have_moments_of_their_own() {
    let dated =
        "<Transition><Date>2014-02-01T00:00:00.000Z</Date><StorageClass>COLD</StorageClass></Transition>";
    for actions in [
        moved_after(0),
        dated.to_owned(),
        noncurrent_moved_after(0),
        moved_after(5) + &noncurrent_moved_after(5),
    ] {
        let rules = rule("a", "<Filter><Prefix>p</Prefix></Filter>", &actions);
        assert_eq!(shown(&parse(&rules).unwrap()), rules);
    }
    let current = facts("k", ExpiryState::Current);
    assert_eq!(moved(&rule("a", "<Filter/>", &moved_after(2)), &current), midnight("2014-01-18"));
    assert_eq!(moved(&rule("a", "<Filter/>", &moved_after(0)), &current), midnight("2014-01-16"));
    assert_eq!(moved(&rule("a", "<Filter/>", dated), &current), midnight("2014-02-01"));
    assert_eq!(moved(&rule("a", "<Filter/>", &noncurrent_moved_after(1)), &current), None);
    let noncurrent = |newer_noncurrent| {
        facts("k", ExpiryState::Noncurrent { since: time("2014-01-20T01:00:00Z"), newer_noncurrent })
    };
    let rules = rule("a", "<Filter/>", &noncurrent_moved_after(1));
    assert_eq!(moved(&rules, &noncurrent(2)), midnight("2014-01-22"));
    assert_eq!(moved(&rules, &noncurrent(1)), None, "one of the newest");
    assert_eq!(moved(&rules, &facts("k", ExpiryState::LoneDeleteMarker)), None);
    let off = rule("a", "<Filter/>", &moved_after(2)).replace("Enabled", "Disabled");
    assert_eq!(moved(&off, &current), None);
    assert!(parse(&rule("a", "<Filter/>", &moved_after(2))).unwrap().expiry(&current).is_none());
}

/// S3 user guide, "Transitioning objects using Amazon S3 Lifecycle", on objects smaller than 128
/// KB.
#[test]
fn small_objects_are_moved_where_the_rule_or_the_bucket_says_so() {
    let small = |size| ExpiryFacts { size, ..facts("k", ExpiryState::Current) };
    let transition = |rules: &str, minimum, size| {
        let mut configuration = parse(rules).unwrap();
        configuration.minimum = minimum;
        configuration.transition(&small(size)).is_some()
    };
    let usual = TransitionMinimumSize::AllStorageClasses128K;
    let plain = rule("a", "<Filter/>", &moved_after(1));
    assert!(!transition(&plain, usual, (128 << 10) - 1) && transition(&plain, usual, 128 << 10));
    assert!(transition(&plain, TransitionMinimumSize::VariesByStorageClass, 0));
    let sized = "<Filter><ObjectSizeGreaterThan>10</ObjectSizeGreaterThan></Filter>";
    let sized = rule("a", sized, &moved_after(1));
    assert!(transition(&sized, usual, 11) && !transition(&sized, usual, 10));
}

#[test]
fn transitions_that_s3_refuses_are_refused() {
    let refusal = |actions: &str| parse(&rule("a", "<Filter/>", actions)).unwrap_err();
    let days = |days: u32| format!("<Expiration><Days>{days}</Days></Expiration>");
    let noncurrent =
        "<NoncurrentVersionExpiration><NoncurrentDays>3</NoncurrentDays></NoncurrentVersionExpiration>";
    for (actions, code) in [
        (days(3) + &moved_after(3), ErrorCode::InvalidArgument),
        (noncurrent.to_owned() + &noncurrent_moved_after(3), ErrorCode::InvalidArgument),
        (moved_after(1) + &moved_after(2), ErrorCode::InvalidRequest),
        (moved_after(1).replace("COLD", "STANDARD"), ErrorCode::InvalidStorageClass),
        (moved_after(1).replace("<StorageClass>COLD</StorageClass>", ""), ErrorCode::MalformedXML),
        (moved_after(1).replace("<Days>1</Days>", ""), ErrorCode::MalformedXML),
        (moved_after(1).replace("<Days>1</Days>", "<Days>-1</Days>"), ErrorCode::InvalidArgument),
    ] {
        assert_eq!(refusal(&actions).code, code, "{actions}");
    }
    let dated = "<Expiration><Date>2030-01-01T00:00:00Z</Date></Expiration>".to_owned();
    assert_eq!(refusal(&(dated + &moved_after(1))).code, ErrorCode::InvalidRequest);
    assert!(parse(&rule("a", "<Filter/>", &(days(3) + &moved_after(2)))).is_ok());
    let newer = noncurrent_moved_after(1);
    assert_eq!(parse(&rule("a", "<Prefix>p</Prefix>", &newer)).unwrap_err().code, ErrorCode::InvalidRequest);
}
