//! A clock that jumps: what the API, the ready page and the metrics tell of it, and who may say
//! that it is right.

use serde_json::Value;
use siltstone::base::Timestamp;

use super::*;

pub(super) const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const DAY: u64 = 24 * 60 * 60;

/// Ten years after `NOW`.
const AHEAD: (&str, &str) = ("2036-01-31T12:00:00.000Z", "20360131T120000Z");
/// Thirty days before it.
const BEHIND: (&str, &str) = ("2026-01-01T12:00:00.000Z", "20260101T120000Z");

/// A request to the API, whose status and document come back.
fn ask(server: &Server, user: &str, moment: &str, method: &str, path: &str) -> (u16, Value) {
    let asked = server.request(method, &format!("/-/api/1/{path}")).aws().by(user).at(moment);
    let answer = asked.header("p-content-sha256", EMPTY_SHA256).send();
    (answer.status, serde_json::from_slice(&answer.body).unwrap())
}

fn set(server: &Server, time: &str) {
    server.clock.set_wall(Timestamp::parse_iso8601(time).unwrap());
}

fn ready(server: &Server) -> (u16, String) {
    let answer = server.request("GET", "/-/ready").anonymous().send();
    (answer.status, answer.text().to_owned())
}

fn metric(server: &Server, name: &str) -> String {
    let page = server.request("GET", "/-/metrics").anonymous().send();
    let value = page.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name}")).to_owned()
}

#[test]
fn a_clock_ahead_is_told_everywhere_until_an_administrator_says_that_it_is_right() {
    let server =
        Server::with_grants(&[("reader", &["AdminGetState"], &["*"]), ("writer", &["PutObject"], &["b/*"])]);
    let (status, calm) = ask(&server, "owner", "20260131T120000Z", "GET", "clock");
    assert_eq!((status, &calm["held"], &calm["believed_in_seconds"]), (200, &false.into(), &Value::Null));
    assert_eq!(ready(&server), (200, "ready\n".to_owned()));
    let (time, moment) = AHEAD;
    set(&server, time);
    let (status, doubted) = ask(&server, "reader", moment, "GET", "clock");
    assert_eq!((status, &doubted["held"], &doubted["compliance_waits"]), (200, &true.into(), &true.into()));
    assert_eq!((doubted["time"].as_str(), doubted["lock_time"].as_str()), (Some(time), Some(NOW)));
    assert!(doubted["ahead_seconds"].as_u64().is_some_and(|ahead| ahead > 3_650 * DAY), "{doubted}");
    assert_eq!(doubted["believed_in_seconds"], DAY);
    let told =
        "ready\nThe clock jumped ahead, so that nothing expires by its age: see siltstone clock show.\n";
    assert_eq!(ready(&server), (200, told.to_owned()));
    assert_eq!(metric(&server, "siltstone_clock_held"), "1");
    for user in ["reader", "writer"] {
        let (status, refused) = ask(&server, user, moment, "POST", "clock/accept");
        assert_eq!((status, &refused["code"]), (403, &"AccessDenied".into()), "{user}");
    }
    assert_eq!(ask(&server, "writer", moment, "GET", "clock").0, 403);
    assert_eq!(ask(&server, "owner", moment, "GET", "clock/accept").0, 405);
    assert_eq!(metric(&server, "siltstone_clock_held"), "1", "no refusal ends the doubt");
    let (status, accepted) = ask(&server, "owner", moment, "POST", "clock/accept");
    assert_eq!((status, &accepted["held"], &accepted["ahead_seconds"]), (200, &false.into(), &0.into()));
    assert_eq!(accepted["compliance_waits"], true, "no retention in COMPLIANCE mode ends earlier by it");
    assert_eq!(ready(&server), (200, "ready\n".to_owned()));
    assert_eq!(metric(&server, "siltstone_clock_held"), "0");
}

#[test]
fn a_clock_set_back_is_told_and_accepted() {
    let server = Server::new();
    let (time, moment) = BEHIND;
    set(&server, time);
    let (_, told) = ask(&server, "owner", moment, "GET", "clock");
    assert_eq!((&told["held"], &told["behind_seconds"]), (&false.into(), &(30 * DAY).into()));
    assert_eq!(ready(&server), (200, "ready\n".to_owned()));
    let behind: f64 = metric(&server, "siltstone_clock_behind_seconds").parse().unwrap();
    assert_eq!(behind as u64, 30 * DAY);
    let (status, accepted) = ask(&server, "owner", moment, "POST", "clock/accept");
    assert_eq!((status, &accepted["behind_seconds"]), (200, &0.into()));
    assert_eq!(accepted["lock_time"], time);
}

#[test]
fn a_clock_is_not_accepted_where_that_cannot_be_kept() {
    let server = Server::new();
    let (time, moment) = AHEAD;
    set(&server, time);
    server.fs.fail_sync_at(server.fs.syncs() + 1);
    assert_eq!(server.request("PUT", "/b/k").at(moment).body(b"x").send().status, 500);
    let (status, refused) = ask(&server, "owner", moment, "POST", "clock/accept");
    assert_eq!((status, &refused["code"]), (500, &"InternalError".into()), "{refused}");
    assert_eq!(metric(&server, "siltstone_clock_held"), "1");
}
