//! Every rule again, over a real socket, in each dialect: this binary runs its own tests with another harness.

use std::process::Command;

use siltstone::s3::Dialect;

use super::harness::{DIALECT, TRANSPORT};

fn run_all(dialect: Dialect) {
    let name = dialect.header_prefix();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["protocol::", "--skip", "protocol::wire", "--test-threads", "2"])
        .env(TRANSPORT, "socket")
        .env(DIALECT, name)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "over a socket, in the dialect of {name}:\n{text}");
    let passed =
        text.lines().find_map(|line| line.strip_prefix("test result: ok. ")?.split(' ').next()?.parse().ok());
    assert!(passed.is_some_and(|passed: u32| passed > 100), "tests ran:\n{text}");
}

#[test]
fn every_rule_holds_over_a_socket_in_the_services_own_dialect() {
    run_all(Dialect::Svc);
}

#[test]
fn every_rule_holds_over_a_socket_in_the_dialect_of_aws() {
    run_all(Dialect::Aws);
}
