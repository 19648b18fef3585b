//! Hostile input over raw sockets: named cases, each with the answer that it must get, to a server
//! on which anybody may do everything, so that nothing is refused for want of a signature. Behind
//! each group the server must be what it was.

mod aws_chunked;
mod bodies;
mod documents;
mod forms;
mod framing;
mod headers;
mod queries;
mod request_lines;
mod signatures;
mod victim;

use victim::{Case, Victim};

/// All cases, by group.
fn groups() -> Vec<(&'static str, Vec<Case>)> {
    vec![
        ("request lines", request_lines::cases()),
        ("header lines", headers::lines()),
        ("framing", framing::cases()),
        ("bodies in chunks", bodies::chunked()),
        ("bodies of a length", bodies::lengths()),
        ("aws-chunked bodies", aws_chunked::cases()),
        ("signatures in headers", signatures::in_headers()),
        ("signatures in queries", signatures::in_queries()),
        ("headers of the interface", headers::of_the_interface()),
        ("queries", queries::cases()),
        ("documents", documents::cases()),
        ("forms", forms::cases()),
    ]
}

fn run(group: &str) {
    let victim = Victim::new();
    let cases = groups().into_iter().find(|(name, _)| *name == group).unwrap().1;
    victim.check(&cases);
    victim.is_well();
}

#[test]
fn request_lines_are_answered_as_they_deserve() {
    run("request lines");
}

#[test]
fn header_lines_are_answered_as_they_deserve() {
    run("header lines");
}

#[test]
fn framing_has_one_reading_or_none() {
    run("framing");
}

#[test]
fn chunked_bodies_are_whole_or_refused() {
    run("bodies in chunks");
}

#[test]
fn bodies_have_the_length_they_announce_or_are_refused() {
    run("bodies of a length");
}

#[test]
fn aws_chunked_bodies_are_whole_or_refused() {
    run("aws-chunked bodies");
}

#[test]
fn signatures_in_headers_are_right_or_refused() {
    run("signatures in headers");
}

#[test]
fn signatures_in_queries_are_right_or_refused() {
    run("signatures in queries");
}

#[test]
fn every_header_of_the_interface_takes_garbage() {
    run("headers of the interface");
}

#[test]
fn every_query_parameter_takes_garbage() {
    run("queries");
}

#[test]
fn documents_are_sound_or_refused() {
    run("documents");
}

#[test]
fn forms_are_whole_or_refused() {
    run("forms");
}

#[test]
fn a_form_reset_at_any_byte_is_whole_or_not_there() {
    let victim = Victim::new();
    let (form, content) = forms::whole();
    // The whole form comes last: its put may run after the checks that follow it.
    for len in (0..form.len()).step_by(3).chain([form.len()]) {
        victim.reset_after(&form[..len]);
        victim.forget("reset", content, len == form.len());
    }
    victim.is_well();
}

#[test]
fn a_put_reset_at_any_byte_is_whole_or_not_there() {
    let victim = Victim::new();
    let put = b"PUT /b/reset HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 26\r\n\r\nabcdefghijklmnopqrstuvwxyz";
    for len in 0..=put.len() {
        victim.reset_after(&put[..len]);
        victim.forget("reset", b"abcdefghijklmnopqrstuvwxyz", len == put.len());
    }
    victim.is_well();
}

/// Descriptors, threads and memory are those of the process, so that nothing else may run in it.
#[test]
fn nothing_is_left_behind_by_any_of_it() {
    crate::support::process::alone("hostile::nothing_is_left_behind_by_any_of_it", "", || {
        let all: Vec<Case> = groups().into_iter().flat_map(|(_, cases)| cases).collect();
        assert!(all.len() >= 500, "{} cases", all.len());
        let names: std::collections::HashSet<_> = all.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names.len(), all.len(), "two cases have one name");
        let victim = Victim::new();
        victim.check(&all);
        let before = victim.footprint();
        for _ in 0..3 {
            victim.check(&all);
        }
        victim.is_well();
        victim.has_grown_no_more_than(&before);
    });
}
