//! The server as a process of its own, and tests that need a process of their own.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The environment variable with another server to test, such as a release build.
const SERVER: &str = "SILTSTONE_TEST_SERVER";

/// The command without anything set for it from outside, in a directory of its own.
pub(crate) fn siltstone(dir: &Path) -> Command {
    let named = std::env::var_os(SERVER).map(|path| fs::canonicalize(path).unwrap().into_os_string());
    let mut command = Command::new(named.unwrap_or_else(|| env!("CARGO_BIN_EXE_siltstone").into()));
    let is_read = |name: &std::ffi::OsString| {
        let name = name.to_string_lossy();
        ["SILTSTONE_", "MINIO_", "RUSTFS_"].iter().any(|prefix| name.starts_with(prefix))
    };
    for name in std::env::vars_os().map(|(name, _)| name).filter(is_read) {
        command.env_remove(name);
    }
    command.current_dir(dir).stdin(Stdio::null());
    command
}

/// The same, on a free port.
pub(crate) fn on_a_free_port(dir: &Path) -> Command {
    let mut command = siltstone(dir);
    command.env("SILTSTONE_LISTEN", "127.0.0.1:0");
    command
}

pub(crate) fn finish(command: &mut Command) -> Output {
    loop {
        match command.output() {
            // A program that was just copied is open for writing in the children that other threads
            // forked meanwhile, until they start programs of their own.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
                sleep(Duration::from_millis(1));
            }
            output => return output.unwrap(),
        }
    }
}

pub(crate) fn stderr_of(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A server that accepts connections. What it says on standard error goes to a file.
pub(crate) struct Running {
    child: Child,
    address: String,
    said: PathBuf,
}

impl Running {
    pub(crate) fn start(command: Command) -> Self {
        Self::start_by("http", command)
    }

    /// A server with a certificate.
    pub(crate) fn start_tls(command: Command) -> Self {
        Self::start_by("https", command)
    }

    fn start_by(scheme: &str, mut command: Command) -> Self {
        let dir = command.get_current_dir().unwrap().to_owned();
        let said = (0..).map(|n| dir.join(format!("said-{n}"))).find(|path| !path.exists()).unwrap();
        let stderr = fs::File::create_new(&said).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix(&format!("listening on {scheme}://")).map(str::to_owned);
        let address = address.unwrap_or_else(|| panic!("{line:?} {}", fs::read_to_string(&said).unwrap()));
        Self { child, address, said }
    }

    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends the signal; gives the exit status and what was said on standard error.
    pub(crate) fn end(mut self, signal: Signal) -> (Option<i32>, String) {
        self.signal(signal);
        (self.exit_code(), self.said())
    }

    /// Waits for the end, which a server that does not heed its signals never comes to.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        for _ in 0..3000 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            sleep(Duration::from_millis(10));
        }
        panic!("the server did not end: {}", self.said());
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The number of its threads.
    pub(crate) fn threads(&self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().count()
    }

    /// Threads whose name begins so.
    pub(crate) fn threads_named(&self, beginning: &str) -> usize {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
        names.filter(|name| name.starts_with(beginning)).count()
    }

    /// The most resident memory so far, in MiB.
    pub(crate) fn peak_mib(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<usize>().unwrap() / 1024
    }

    /// Standard output after the line with the address, once the process has ended.
    pub(crate) fn further_output(&mut self) -> String {
        let mut output = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        output
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The status line of the answer to an unsigned GET.
    pub(crate) fn get(&self, path: &str) -> String {
        self.answer(path).lines().next().unwrap_or_default().to_owned()
    }

    /// The answer to an unsigned GET.
    pub(crate) fn answer(&self, path: &str) -> String {
        self.answer_to(path, "")
    }

    /// The answer to an unsigned GET with further header lines.
    pub(crate) fn answer_to(&self, path: &str, headers: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let host = &self.address;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    pub(crate) fn wait_until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..1000 {
            if holds(self) {
                return;
            }
            sleep(Duration::from_millis(10));
        }
        panic!("{what} did not come about: {}", self.said());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A shell prefix for `alone`: as many descriptors as the system grants.
pub(crate) const MANY_DESCRIPTORS: &str = "ulimit -n $(ulimit -Hn);";

/// Runs `test` in a process of its own, where nothing else opens descriptors. `name` is the path of
/// the calling test; `wrapper` is a shell prefix such as `ulimit -n 64;`.
pub(crate) fn alone(name: &str, wrapper: &str, test: impl FnOnce()) {
    const MARK: &str = "SILTSTONE_TEST_ALONE";
    if std::env::var(MARK).is_ok_and(|marked| marked == name) {
        return test();
    }
    let output = Command::new("sh")
        .args(["-c", &format!("{wrapper} exec \"$0\" --exact {name} --nocapture")])
        .arg(std::env::current_exe().unwrap())
        .env(MARK, name)
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    print!("{said}");
}

/// Whether a process may write a core file of any size.
pub(crate) fn may_leave_core(pid: u32) -> bool {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
    core.split_whitespace().take(2).any(|limit| limit != "0")
}

/// Descriptors that this process has open.
pub(crate) fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}
