//! The thread that runs a program of the operator when the state of a disk changes (`--disk-hook`).
//!
//! It looks for changes by itself, so that nothing which changes a state waits for it. One program runs
//! at a time; meanwhile the mirror keeps a bounded number of changes, the latest ones.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use log::{error, info};
use rustix::process::{Pid, Signal, kill_process_group};
use siltstone::base::{Clock as _, SystemClock, Timestamp};
use siltstone::fs::{SideUse, absolute};
use siltstone::service::DiskHookFigures;
use siltstone::store::{ReadOnlyReason, Store};

use super::mirrored_sides::{NamedChange, RunningMirror};
use super::stoppable_thread::StoppableThread;
use crate::cli::config::options::ServerOptions;
use crate::cli::error::CliError;

/// The interval of looks at the states.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long the program may run.
const RUN_MAX: Duration = Duration::from_secs(60);
/// How long it may go on once the server stops.
const END_MAX: Duration = Duration::from_secs(3);
/// The interval of looks at a program that runs.
const POLL_EVERY: Duration = Duration::from_millis(50);
/// The variables of the server that the program gets: others may hold secrets.
const PASSED_ON: [&str; 5] = ["PATH", "HOME", "LANG", "LC_ALL", "TZ"];

/// The program of the operator.
pub(crate) struct DiskHook {
    program: PathBuf,
    figures: Arc<DiskHookFigures>,
}

impl DiskHook {
    /// The program that the options name.
    ///
    /// # Errors
    /// It cannot be run: an operator would learn that only once a disk has failed.
    pub(crate) fn open(options: &ServerOptions) -> Result<Option<Self>, CliError> {
        let Some(program) = &options.upkeep.disk_hook else { return Ok(None) };
        let refused = |why: &dyn std::fmt::Display| {
            CliError::start(format!("--disk-hook {}: {why}", program.display()))
        };
        let found = std::fs::metadata(program).map_err(|error| refused(&error))?;
        if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
            return Err(refused(&"it is no program, or not executable"));
        }
        let program = absolute(program).map_err(|error| refused(&error))?;
        Ok(Some(Self { program, figures: Arc::default() }))
    }

    /// How often it was run.
    pub(crate) fn figures(&self) -> Arc<DiskHookFigures> {
        Arc::clone(&self.figures)
    }

    /// Runs the program for an event, and waits until it ends, or is killed.
    fn run(&self, event: &DiskEvent, stopped: &Receiver<()>) {
        info!("--disk-hook is run: {}", event.text());
        self.figures.count_call();
        let outcome = start(&self.program, event).and_then(|child| wait(child, RUN_MAX, stopped));
        let problem = match outcome {
            Ok(RunOutcome::Ended(status)) if status.success() => return,
            Ok(RunOutcome::Ended(status)) => status.to_string(),
            Ok(RunOutcome::TookTooLong) => format!("it was killed after {} s", RUN_MAX.as_secs()),
            Ok(RunOutcome::ServerStops) => "it was killed, since the server stops".to_owned(),
            Err(problem) => problem.to_string(),
        };
        self.figures.count_failure();
        error!("--disk-hook {} failed on `{}`: {problem}", self.program.display(), event.name);
    }
}

/// A change that the program is told of.
struct DiskEvent {
    name: &'static str,
    /// The letter of the side of a mirror; empty for the whole store.
    side: String,
    dir: String,
    state: &'static str,
    since: Timestamp,
    reason: String,
}

impl DiskEvent {
    fn of_side(change: NamedChange) -> Self {
        let name = match (change.before, change.usage) {
            (_, SideUse::Whole) => "filled",
            (_, SideUse::Filled) => "filling",
            (SideUse::Filled, SideUse::Out) => "fill-failed",
            (_, SideUse::Out) => "dropped",
        };
        let side = change.side;
        Self {
            name,
            side: side.letter.to_string(),
            dir: side.dir,
            state: side.state,
            since: side.since,
            reason: on_one_line(&side.why),
        }
    }

    /// Files of a mirror were written anew.
    fn repaired(files: u64) -> Self {
        let reason = match files {
            1 => "1 file had bad bytes on one side".to_owned(),
            _ => format!("{files} files had bad bytes on one side"),
        };
        Self { name: "repaired", reason, ..Self::of_store("whole") }
    }

    /// The store takes no writes any more.
    fn read_only(why: &str) -> Self {
        Self { name: "read-only", reason: on_one_line(why), ..Self::of_store("read-only") }
    }

    fn of_store(state: &'static str) -> Self {
        let since = SystemClock.now();
        Self { name: "", side: String::new(), dir: String::new(), state, since, reason: String::new() }
    }

    /// The event as a sentence.
    fn text(&self) -> String {
        let Self { side, dir, reason, .. } = self;
        match self.name {
            "filled" => format!("Side {side} of the mirror ({dir}) has all bytes again."),
            "filling" => format!("Side {side} of the mirror ({dir}) is being filled."),
            "fill-failed" => format!("Side {side} of the mirror ({dir}) is not filled any more: {reason}"),
            "dropped" => format!("Side {side} of the mirror ({dir}) is not in the mirror: {reason}"),
            "repaired" => format!("Repaired with the bytes of the other side: {reason}."),
            _ => format!("The store takes no writes: {reason}"),
        }
    }

    fn variables(&self) -> [(&'static str, String); 7] {
        [
            ("SILTSTONE_DISK_EVENT", self.name.to_owned()),
            ("SILTSTONE_DISK_SIDE", self.side.clone()),
            ("SILTSTONE_DISK_PATH", self.dir.clone()),
            ("SILTSTONE_DISK_STATE", self.state.to_owned()),
            ("SILTSTONE_DISK_SINCE", self.since.to_iso8601()),
            ("SILTSTONE_DISK_REASON", self.reason.clone()),
            ("SILTSTONE_DISK_TEXT", self.text()),
        ]
    }
}

/// A text without characters that would end a line of a mail, or a variable.
fn on_one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// What came of a run.
#[derive(Debug)]
enum RunOutcome {
    Ended(ExitStatus),
    TookTooLong,
    ServerStops,
}

/// Starts the program. It has a process group of its own, which is killed as a whole.
fn start(program: &Path, event: &DiskEvent) -> io::Result<Child> {
    let passed_on = PASSED_ON.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
    let passed_on: Vec<(&str, OsString)> = passed_on.collect();
    Command::new(program)
        .env_clear()
        .envs(passed_on)
        .envs(event.variables())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
}

/// Waits for the program, and kills it once it has run for too long, or the server stops.
fn wait(mut child: Child, run_max: Duration, stopped: &Receiver<()>) -> io::Result<RunOutcome> {
    let mut end = Instant::now() + run_max;
    let mut is_stopping = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(RunOutcome::Ended(status));
        }
        if Instant::now() >= end {
            end_for_good(child);
            return Ok(if is_stopping { RunOutcome::ServerStops } else { RunOutcome::TookTooLong });
        }
        if is_stopping {
            std::thread::sleep(POLL_EVERY);
        } else if stopped.recv_timeout(POLL_EVERY) != Err(RecvTimeoutError::Timeout) {
            is_stopping = true;
            end = end.min(Instant::now() + END_MAX);
        }
    }
}

/// Kills a program with its process group.
fn end_for_good(mut child: Child) {
    // Only a child that nobody has waited for has this id for sure. A program that has left its group is
    // killed alone.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let _ = child.kill();
    let end = Instant::now() + END_MAX;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() >= end {
            // It waits for a disk that does not answer, and must not keep the next event waiting.
            std::thread::spawn(move || child.wait());
            return;
        }
        std::thread::sleep(POLL_EVERY);
    }
}

/// What the program was told of.
struct DiskWatch {
    hook: DiskHook,
    mirror: Option<Arc<RunningMirror>>,
    repaired_files: u64,
    is_read_only: bool,
}

impl DiskWatch {
    fn run(mut self, store: &Store, stopped: &Receiver<()>) {
        loop {
            for event in self.take_events(store) {
                self.hook.run(&event, stopped);
                if stopped.try_recv() == Err(crossbeam_channel::TryRecvError::Disconnected) {
                    return;
                }
            }
            if stopped.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    /// The events since the last look.
    fn take_events(&mut self, store: &Store) -> Vec<DiskEvent> {
        let mut events = Vec::new();
        if let Some(mirror) = &self.mirror {
            events.extend(mirror.take_changes().into_iter().map(DiskEvent::of_side));
            let repaired_files = mirror.figures().repaired_files;
            if repaired_files > self.repaired_files {
                events.push(DiskEvent::repaired(repaired_files - self.repaired_files));
            }
            self.repaired_files = repaired_files;
        }
        let reason = store.read_only_reason().filter(|reason| is_of_disk(*reason));
        if let Some(reason) = reason.filter(|_| !self.is_read_only) {
            events.push(DiskEvent::read_only(&reason.to_string()));
        }
        self.is_read_only = reason.is_some();
        events
    }
}

/// Whether a store takes no writes for the sake of its disk.
fn is_of_disk(reason: ReadOnlyReason) -> bool {
    matches!(
        reason,
        ReadOnlyReason::SyncFailed
            | ReadOnlyReason::WriteFailed
            | ReadOnlyReason::LogDamaged
            | ReadOnlyReason::SegmentLost
    )
}

/// The thread.
pub(crate) struct DiskHookThread(StoppableThread);

impl DiskHookThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(
        store: &Arc<Store>,
        hook: DiskHook,
        mirror: Option<Arc<RunningMirror>>,
    ) -> Result<Self, CliError> {
        let watch = DiskWatch { hook, mirror, repaired_files: 0, is_read_only: false };
        let thread = StoppableThread::of_store("disk hook", Arc::clone(store), move |store, stopped| {
            watch.run(store, stopped);
        })?;
        Ok(Self(thread))
    }

    /// Ends the thread. A program that still runs is killed soon; one whose disk does not even let it start
    /// is left alone.
    pub(crate) fn end(self) {
        self.0.end_within(2 * END_MAX, "the program of --disk-hook");
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::{Sender, bounded};

    use super::*;

    fn child(program: &str) -> Child {
        start(Path::new(program), &DiskEvent::read_only("a sync\nfailed")).unwrap()
    }

    fn is_gone(id: u32) -> bool {
        let id = Pid::from_raw(id.try_into().unwrap()).unwrap();
        rustix::process::test_kill_process(id).is_err()
    }

    #[test]
    fn a_program_is_waited_for_and_killed_once_it_has_run_for_too_long() {
        let (_stop, stopped) = bounded::<()>(0);
        let ended = |program| wait(child(program), RUN_MAX, &stopped).unwrap();
        assert!(matches!(ended("true"), RunOutcome::Ended(status) if status.success()));
        assert!(matches!(ended("false"), RunOutcome::Ended(status) if !status.success()));
        let endless = child("yes");
        let id = endless.id();
        assert!(matches!(
            wait(endless, Duration::from_millis(20), &stopped).unwrap(),
            RunOutcome::TookTooLong
        ));
        assert!(is_gone(id));
        assert!(start(Path::new("/no/such/program"), &DiskEvent::repaired(1)).is_err());
    }

    #[test]
    fn a_program_does_not_outlast_the_server() {
        let (stop, stopped) = bounded(0);
        drop::<Sender<()>>(stop);
        let endless = child("yes");
        let id = endless.id();
        assert!(matches!(wait(endless, RUN_MAX, &stopped).unwrap(), RunOutcome::ServerStops));
        assert!(is_gone(id));
    }

    #[test]
    fn an_event_is_a_line_and_variables() {
        let event = DiskEvent::read_only("a sync\nfailed\0");
        assert_eq!(event.text(), "The store takes no writes: a sync failed ");
        let variables = event.variables();
        assert_eq!(variables[0], ("SILTSTONE_DISK_EVENT", "read-only".to_owned()));
        assert_eq!(variables[5], ("SILTSTONE_DISK_REASON", "a sync failed ".to_owned()));
    }
}
