//! Every rule again, over a real socket: this binary runs its own tests with another harness. An
//! ordinary run tries each engine and each dialect once, a long one each engine in each dialect.

use std::process::Command;

use siltstone::s3::Dialect;

use super::harness::{DIALECT, TRANSPORT};
use crate::support::is_long;

/// The rules that the engine tiny_http cannot keep, with the reasons.
const NOT_BY_TINY_HTTP: [&str; 11] = [
    // Its crate drops a connection on which a header line is not ASCII.
    "protocol::conditions::a_condition_that_cannot_be_read_is_not_ignored",
    "protocol::headers::text_beyond_ascii_comes_back_as_encoded_words_and_is_stored_as_text",
    "protocol::hostile::no_request_makes_the_service_panic_or_answer_with_nonsense",
    "protocol::put::metadata_and_standard_headers_come_back",
    "protocol::put::metadata_that_is_no_text_is_refused",
    // It can answer only after it has asked for the body, and a body above the limit it refuses by
    // itself.
    "protocol::bucket_policy::a_policy_above_a_mebibyte_is_refused_unread",
    "protocol::errors::every_error_is_raised_but_those_of_the_engines",
    "protocol::multipart::complete::a_list_of_ten_thousand_parts_with_checksums_is_read",
    "protocol::put::more_than_five_gibibytes_are_refused_unread",
    "protocol::sts::a_long_call_is_refused_unread",
    "protocol::versioning::a_configuration_above_a_mebibyte_is_refused_unread",
];

fn run_all(engine: &str, dialect: Dialect, skipped: &[&str]) {
    let name = dialect.header_prefix();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["protocol::", "--test-threads", "2", "--skip", "protocol::wire"])
        .args(skipped.iter().flat_map(|test| ["--skip", test]))
        .env(TRANSPORT, engine)
        .env(DIALECT, name)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "by {engine}, in the dialect of {name}:\n{text}");
    let passed =
        text.lines().find_map(|line| line.strip_prefix("test result: ok. ")?.split(' ').next()?.parse().ok());
    assert!(passed.is_some_and(|passed: u32| passed > 100), "tests ran:\n{text}");
}

#[test]
fn every_rule_holds_over_a_socket_in_the_services_own_dialect() {
    if is_long() {
        run_all("direct", Dialect::Svc, &[]);
    }
}

#[test]
fn every_rule_holds_over_a_socket_in_the_dialect_of_aws() {
    run_all("direct", Dialect::Aws, &[]);
}

#[test]
fn the_rules_hold_by_tiny_http_in_the_services_own_dialect() {
    run_all("tiny_http", Dialect::Svc, &NOT_BY_TINY_HTTP);
}

#[test]
fn the_rules_hold_by_tiny_http_in_the_dialect_of_aws() {
    if is_long() {
        run_all("tiny_http", Dialect::Aws, &NOT_BY_TINY_HTTP);
    }
}
