//! The commands of the guide, run by a shell as they are printed. Only addresses and places outside
//! the directory of the test are replaced.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::{block, page};
use crate::support::process::{Running, on_a_free_port, siltstone};
use crate::support::users::write_users;
use crate::tools::Fixture;
use crate::tools::minio::writer::{MinioDrives, TIME, Written};

const ACCESS_KEY: &str = "AKMEASURESTHINGS";
const SECRET_KEY: &str = "a secret of the guide";

/// The commands below that heading of the page `tools`.
fn example(heading: &str) -> String {
    let page = page("tools");
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    block(section, "sh").to_owned()
}

/// A shell in that directory that finds the programs of this build.
fn shell(dir: &Path, script: &str) -> Command {
    let programs = Path::new(env!("CARGO_BIN_EXE_siltstone")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-euc", script]).current_dir(dir).stdin(Stdio::null()).env("PATH", path);
    command.env_remove("SILTSTONE_DATA_DIR");
    command
}

/// Runs what has to end well, and gives its standard output.
fn run(mut command: Command) -> String {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{command:?}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

/// A directory with the store `siltstone-data`.
fn with_a_store() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::rename(Fixture::new().keep(), root.path().join("siltstone-data")).unwrap();
    root
}

#[test]
fn a_store_is_checked_copied_and_shown_by_the_commands_of_the_guide() {
    let root = with_a_store();
    let run = |heading: &str| run(shell(root.path(), &example(heading)));
    assert!(run("verify").contains("contents: buckets 1"), "verify");
    assert!(run("dump").lines().count() > 10);
    assert!(run("stats").contains("objects"));
    assert!(run("undelete").contains("could be undeleted"));
    fs::write(root.path().join("rules.xml"), crate::tools::lifecycle::RULES).unwrap();
    assert!(run("lifecycle").contains("in all: "));
    let outside = example("backup and restore").replace("/mnt/usb/objects", "objects");
    self::run(shell(root.path(), &outside));
    assert!(root.path().join("new-data/meta").is_dir());
    run("compact");
    assert!(run("verify").contains("contents: buckets 1"), "after the others");
}

#[test]
fn a_lost_log_is_rebuilt_by_the_command_of_the_guide() {
    let root = with_a_store();
    fs::remove_dir_all(root.path().join("siltstone-data/meta")).unwrap();
    let told = run(shell(root.path(), &example("rebuild")));
    assert!(told.contains("photos"), "{told}");
}

#[test]
fn the_work_of_a_server_is_shown_by_the_command_of_the_guide() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::start(on_a_free_port(dir.path()));
    let brief = format!("--once --endpoint http://{}", server.address());
    let script = example("top").trim_end().replace("2s", "20ms");
    let told = run(shell(dir.path(), &format!("{script} {brief}")));
    assert!(told.contains("commits ") && told.contains("None "), "{told}");
}

#[test]
fn a_server_is_measured_by_the_command_of_the_guide() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = on_a_free_port(dir.path());
    server.env("SILTSTONE_ACCESS_KEY", ACCESS_KEY).env("SILTSTONE_SECRET_KEY", SECRET_KEY);
    let server = Running::start(server);
    let brief = format!("--duration 20ms --objects 20 --endpoint http://{}", server.address());
    let mut command = shell(dir.path(), &format!("{} {brief}", example("bench").trim_end()));
    command.env("SILTSTONE_ACCESS_KEY", ACCESS_KEY).env("SILTSTONE_SECRET_KEY", SECRET_KEY);
    let told = run(command);
    assert!(
        ["put", "get", "head", "list", "delete"].iter().all(|operation| told.contains(operation)),
        "{told}"
    );
    assert!(dir.path().join("bench.svg").is_file());
}

#[test]
fn a_server_is_checked_by_the_command_of_the_guide() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = on_a_free_port(dir.path());
    server.env("SILTSTONE_ACCESS_KEY", ACCESS_KEY).env("SILTSTONE_SECRET_KEY", SECRET_KEY);
    let server = Running::start(server);
    let script = example("cas-check").replace("127.0.0.1:9000", server.address());
    let mut command = shell(dir.path(), &format!("{} --rounds 1 --connections 2", script.trim_end()));
    command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
    assert!(run(command).contains("verdict: pass"));
}

#[test]
fn drives_of_minio_are_looked_at_and_imported_by_the_commands_of_the_guide() {
    let drives = MinioDrives::new(2, 2);
    drives.put("photos", "cat", &[Written::object(0, TIME, b"meow")]);
    let page = page("minio");
    let (_, section) = page.split_once("\n## From the drives\n").unwrap();
    let mut script = block(section, "sh").replace("/srv/siltstone", "siltstone-data");
    for (at, drive) in drives.paths.iter().enumerate() {
        script = script.replace(&format!("/mnt/disk{}", at + 1), drive.to_str().unwrap());
    }
    let (commands, server) = script.trim_end().rsplit_once('\n').unwrap();
    let dir = tempfile::tempdir().unwrap();
    assert!(run(shell(dir.path(), commands)).contains("photos"));
    let mut shell = shell(dir.path(), &format!("exec {server} --listen 127.0.0.1:0"));
    shell.env("SILTSTONE_ACCESS_KEY", ACCESS_KEY).env("SILTSTONE_SECRET_KEY", SECRET_KEY);
    let server = Running::start(shell);
    assert!(server.answer("/-/metrics").contains("\nsiltstone_store_buckets 1\n"));
}

#[test]
fn users_are_changed_by_the_commands_of_the_guide() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("siltstone-data");
    fs::create_dir(&data).unwrap();
    write_users(&data, block(&page("users"), "toml").split("\n[[user]]\nname = \"camera\"").next().unwrap());
    let told = run(shell(dir.path(), block(&page("users"), "text")));
    assert!(told.contains("export AWS_SECRET_ACCESS_KEY=") && told.contains("deputy"), "{told}");
    let left = fs::read_to_string(data.join("users.toml")).unwrap();
    assert!(left.contains("deputy") && !left.contains("camera"), "{left}");
}

#[test]
fn the_configuration_file_of_the_guide_is_one() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("siltstone.toml"), block(&page("configuration"), "toml")).unwrap();
    let mut command = siltstone(dir.path());
    command.args(["--config", "siltstone.toml", "--data-dir", "data", "--listen", "127.0.0.1:0"]);
    let server = Running::start(command);
    assert!(server.answer("/-/health").starts_with("HTTP/1.1 200"), "it serves");
}
