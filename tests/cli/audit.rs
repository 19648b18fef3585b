//! The audit log of a running server, and of the commands for users.

use serde_json::Value;

use super::*;

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn field<'v>(line: &'v Value, name: &str) -> &'v str {
    line[name].as_str().unwrap_or_default()
}

#[test]
fn the_audit_log_is_rotated_by_sighup_and_tells_of_users_without_their_secrets() {
    let dir = TempDir::new().unwrap();
    let [path, rotated] = ["audit.jsonl", "audit.jsonl.1"].map(|name| dir.path().join(name));
    let users = write_users(dir.path(), &user("boss", &["*"], &["*"]));
    let mut command = on_a_free_port(dir.path());
    command.arg("--users").arg(&users).arg("--audit-log").arg(&path);
    let running = Running::start(command);
    assert!(running.get("/-/health").contains(" 200 "));
    assert_eq!(lines(&path), [] as [Value; 0]);
    assert!(request(&running, "PUT", "/photos").contains(" 403 "));
    let refused = lines(&path);
    assert_eq!((refused.len(), field(&refused[0], "action")), (1, "CreateBucket"));
    assert_eq!((field(&refused[0], "error"), &refused[0]["status"]), ("AccessDenied", &Value::from(403)));
    assert_eq!((field(&refused[0], "user"), field(&refused[0], "bucket")), ("anonymous", "photos"));

    fs::rename(&path, &rotated).unwrap();
    let granted = user("anonymous", &["DeleteBucket"], &["*"]);
    write_users(dir.path(), &(user("deputy", &["*"], &["*"]) + &granted));
    running.signal(Signal::HUP);
    running.wait_until("the reload", |it| it.said().contains("the users file was read again"));
    let told: Vec<_> = lines(&path)
        .iter()
        .map(|it| [field(it, "action"), field(it, "subject"), field(it, "peer")].join(" "))
        .collect();
    assert_eq!(told, ["DeleteUser boss SIGHUP", "CreateUser deputy SIGHUP", "CreateUser anonymous SIGHUP"]);
    assert!(request(&running, "DELETE", "/photos").contains(" 404 "));
    fs::write(&users, "broken").unwrap();
    running.signal(Signal::HUP);
    running.wait_until("the refusal", |it| it.said().contains("the users are unchanged"));
    let told = lines(&path);
    let last: Vec<_> = told[3..].iter().map(|it| (field(it, "action"), field(it, "error"))).collect();
    assert_eq!(last, [("DeleteBucket", "NoSuchBucket"), ("ReloadUsers", "Refused")]);
    assert_eq!(lines(&rotated).len(), 1);
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("secret") && !text.contains("AK-"), "{text}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
}

/// The status line of the answer to a request without a signature and a body.
fn request(running: &Running, method: &str, path: &str) -> String {
    use std::io::Write as _;
    let mut stream = std::net::TcpStream::connect(running.address()).unwrap();
    let host = running.address();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn commands_for_users_are_in_the_audit_log_that_they_are_given() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("audit.jsonl");
    let run = |arguments: &[&str]| {
        let mut command = siltstone(dir.path());
        command.args(["user", "--users", "users.toml", "--audit-log"]).arg(&path).args(arguments);
        finish(&mut command).status.code()
    };
    assert_eq!(run(&["add", "boss", "--admin"]), Some(0));
    assert_eq!(run(&["add", "boss", "--admin"]), Some(1));
    assert_eq!(run(&["rotate", "boss"]), Some(0));
    assert_eq!(run(&["list"]), Some(0));
    assert_eq!(run(&["remove", "boss", "--force"]), Some(0));
    let told = lines(&path);
    let shown: Vec<_> =
        told.iter().map(|it| (field(it, "action"), field(it, "subject"), field(it, "error"))).collect();
    let expected = [("CreateUser", ""), ("CreateUser", "Refused"), ("RotateKeys", ""), ("DeleteUser", "")];
    assert_eq!(shown, expected.map(|(action, error)| (action, "boss", error)));
    assert!(told.iter().all(|it| field(it, "peer") == "command" && field(it, "user").starts_with("uid ")));
    assert!(field(&told[0], "after").contains(r#""actions":["*"]"#));
    assert_eq!(run(&["--audit-log", "absent/audit", "add", "x", "--admin"]), Some(2));
}

#[test]
fn an_audit_log_that_cannot_be_opened_stops_the_start() {
    let dir = TempDir::new().unwrap();
    let output = finish(on_a_free_port(dir.path()).args(["--audit-log", "absent/audit"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr_of(&output).contains("cannot open the audit log absent/audit"), "{}", stderr_of(&output));
}

#[test]
fn a_full_audit_log_refuses_further_changes() {
    let dir = TempDir::new().unwrap();
    let users = write_users(dir.path(), &user("anonymous", &["*"], &["*"]));
    let mut command = on_a_free_port(dir.path());
    command.arg("--users").arg(&users).args(["--audit-log", "/dev/full"]);
    let running = Running::start(command);
    assert!(request(&running, "DELETE", "/absent").contains(" 404 "));
    assert!(running.said().contains("the audit log cannot be written"), "{}", running.said());
    assert!(request(&running, "DELETE", "/absent").contains(" 503 "));
}
