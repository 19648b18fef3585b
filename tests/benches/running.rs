//! A server as a process of its own, for whoever wants to load it.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use siltstone::base::limits::{MIB, PAGE_LEN_MAX};
use siltstone::store::StoreOptions;

use super::objects::put;
use super::opened::open_with;

/// Everybody may do everything, so that no signature has to be made.
const USERS: &str = "[[user]]\nname = \"anonymous\"\nallow = [{ actions = [\"*\"], resources = [\"*\"] }]\n";

/// A server and its directory; dropping it ends the one and removes the other.
pub(super) struct Running {
    process: Child,
    dir: PathBuf,
    /// Where it listens.
    pub(super) address: SocketAddr,
}

impl Running {
    /// Starts it as an operator would who sets nothing.
    pub(super) fn start() -> Self {
        let base = std::env::var_os("SILTSTONE_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let dir = base.join(format!("siltstone-bench-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("the directory can be made");
        let users = dir.join("users.toml");
        std::fs::write(&users, USERS).expect("there is room");
        fill(&dir.join("data"));
        let binary = std::env::var_os("SILTSTONE_BENCH_SERVER")
            .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_siltstone")), PathBuf::from);
        // A session of its own: Linux shares out the processors among sessions first (sched(7),
        // "The autogroup feature"), and a server with many busy threads would leave those that load
        // it next to nothing.
        let mut process = Command::new("setsid")
            .arg(binary)
            .args(["--listen", "127.0.0.1:0", "--data-dir"])
            .arg(dir.join("data"))
            .arg("--users")
            .arg(&users)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        let stdout = process.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("the server says where it listens");
        let address = line.trim().strip_prefix("listening on http://").expect("it listens");
        let address = address.parse().expect("it is an address");
        Self { process, dir, address }
    }

    /// A request without a body.
    pub(super) fn get(&self, target: &str) -> String {
        format!("GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address)
    }
}

/// A bucket with a page of keys and a large object.
fn fill(dir: &Path) {
    let store = open_with(dir, StoreOptions::default());
    store.create_bucket("shown", "bench").expect("the bucket is new");
    (0..PAGE_LEN_MAX).for_each(|number| put(&store, "shown", &format!("plain/{number:08}"), b"x"));
    put(&store, "shown", "large", &vec![7; 8 * MIB as usize]);
}

impl Drop for Running {
    fn drop(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it has ended");
        std::fs::remove_dir_all(&self.dir).expect("the directory was made above");
    }
}
