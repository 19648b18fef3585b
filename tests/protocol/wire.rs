//! Every rule again, over a real socket: this binary runs its own tests with another harness. A long
//! run tries each engine in each dialect; an ordinary one each engine in one, with a part of the
//! rules that it draws.

use std::process::Command;

use siltstone::s3::Dialect;

use super::harness::{DIALECT, TRANSPORT};
use crate::support::{every_nth, is_long};

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
    let rules = every_nth(&rules(skipped), 3);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--test-threads", "2"])
        .args(&rules)
        .env(TRANSPORT, engine)
        .env(DIALECT, name)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "by {engine}, in the dialect of {name}:\n{text}");
    let passed =
        text.lines().find_map(|line| line.strip_prefix("test result: ok. ")?.split(' ').next()?.parse().ok());
    assert_eq!(passed, Some(rules.len()), "tests ran:\n{text}");
    assert!(rules.len() > 100, "{} rules", rules.len());
}

/// The names of the tests of this binary that hold the rules.
fn rules(skipped: &[&str]) -> Vec<String> {
    let output =
        Command::new(std::env::current_exe().unwrap()).args(["protocol::", "--list"]).output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    names
        .filter(|name| !name.starts_with("protocol::wire::") && !skipped.contains(name))
        .map(str::to_owned)
        .collect()
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
