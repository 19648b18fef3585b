//! Messages to the service manager that started the process (sd_notify(3)): that it is ready, how
//! it is, and signs of life. A disk that hangs ends these signs, so that the manager ends and
//! restarts the process.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use log::warn;
use sd_notify::NotifyState;
use siltstone::base::NOT_POISONED;

use crate::cli::config::environment::Environment;

/// The environment variable with the address of the socket.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";
/// The longest time between two messages on the state of the server.
const INTERVAL_MAX: Duration = Duration::from_secs(60);
/// Messages in the time that the manager waits for one.
const SIGNS_PER_WATCHDOG: u32 = 4;
/// A commit that waits for the disk for so long is told.
const WAIT_TOLD: Duration = Duration::from_secs(10);

/// What is told of the server.
pub(crate) trait ServerProgress: Send + Sync {
    /// How long a commit has been waiting for the disk; `None` without one.
    fn disk_wait(&self) -> Option<Duration>;

    /// A line for people.
    fn status(&self) -> String;
}

/// The service manager, if the process has one that waits for messages.
#[derive(Clone)]
pub(crate) struct ServiceManager(Option<Arc<ManagerLink>>);

struct ManagerLink {
    socket: OsString,
    /// The time without a sign of life after which the manager ends the process.
    watchdog: Option<Duration>,
    progress: Mutex<ProgressSource>,
}

/// What the signs of life are made of.
#[derive(Clone)]
enum ProgressSource {
    /// The server is not ready yet.
    Starting,
    Running(Arc<dyn ServerProgress>),
    /// There are no more signs.
    Stopping,
}

impl ServiceManager {
    /// The manager of this process.
    pub(crate) fn of_process(environment: &Environment) -> Self {
        let mut micros = 0;
        let is_watched = sd_notify::watchdog_enabled(false, &mut micros);
        let watchdog = is_watched.then(|| Duration::from_micros(micros));
        Self::at(environment.get(SOCKET_VARIABLE), watchdog)
    }

    fn at(socket: Option<&OsStr>, watchdog: Option<Duration>) -> Self {
        let Some(socket) = socket.map(OsStr::to_owned) else { return Self(None) };
        let progress = Mutex::new(ProgressSource::Starting);
        Self(Some(Arc::new(ManagerLink { socket, watchdog, progress })))
    }

    /// Reports that the server accepts connections, and from now on how it is. A standby that has
    /// taken over reports it again, with the progress of its store.
    pub(crate) fn ready(&self, progress: Arc<dyn ServerProgress>) {
        let Some(link) = &self.0 else { return };
        let status = progress.status();
        let before = std::mem::replace(&mut *link.progress(), ProgressSource::Running(progress));
        link.tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
        if matches!(before, ProgressSource::Starting) {
            link.begin_signs();
        }
    }

    /// Reports that the server reads its files again.
    pub(crate) fn reloading(&self) {
        let Some(link) = &self.0 else { return };
        match NotifyState::monotonic_usec_now() {
            Ok(now) => link.tell(&[NotifyState::Reloading, now]),
            Err(error) => warn!("the service manager is not told of the reload: {error}"),
        }
    }

    /// Reports that the server has read its files again.
    pub(crate) fn reloaded(&self) {
        if let Some(link) = &self.0 {
            link.tell(&[NotifyState::Ready]);
        }
    }

    /// Reports that the server has begun to stop.
    pub(crate) fn stopping(&self) {
        let Some(link) = &self.0 else { return };
        // Before the message: a sign of life after it would contradict it.
        *link.progress() = ProgressSource::Stopping;
        link.tell(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
    }
}

impl ManagerLink {
    fn progress(&self) -> MutexGuard<'_, ProgressSource> {
        self.progress.lock().expect(NOT_POISONED)
    }

    /// A manager that cannot be reached does not stop the server.
    fn tell(&self, states: &[NotifyState<'_>]) {
        if let Err(error) = send(&self.socket, states) {
            warn!("cannot send a message to the service manager at {}: {error}", self.socket.display());
        }
    }

    /// Starts the thread of the signs. It ends when the server stops, or with the process.
    fn begin_signs(self: &Arc<Self>) {
        let interval =
            self.watchdog.map_or(INTERVAL_MAX, |time| (time / SIGNS_PER_WATCHDOG).min(INTERVAL_MAX));
        let link = Arc::clone(self);
        let thread = thread::Builder::new().name("service-manager".to_owned()).spawn(move || {
            thread::sleep(interval);
            while link.sign() {
                thread::sleep(interval);
            }
        });
        if let Err(error) = thread {
            warn!("the service manager gets no signs of life: {error}");
        }
    }

    /// Reports how the server is. It is a sign of life as long as no commit has been waiting for
    /// the disk for more than half of the time that the manager waits. Returns whether there are
    /// more signs.
    fn sign(&self) -> bool {
        let progress = match &*self.progress() {
            ProgressSource::Running(progress) => Arc::clone(progress),
            ProgressSource::Starting => return true,
            ProgressSource::Stopping => return false,
        };
        // The rest of the status may ask the disk, which may not answer.
        let wait = progress.disk_wait().unwrap_or_default();
        let status = if wait >= WAIT_TOLD {
            format!("a commit has been waiting for the disk for {} s", wait.as_secs())
        } else {
            progress.status()
        };
        let status = NotifyState::Status(&status);
        match self.watchdog {
            Some(time) if wait <= time / 2 => self.tell(&[status, NotifyState::Watchdog]),
            _ => self.tell(&[status]),
        }
        true
    }
}

/// Sends a message. The crate knows no abstract sockets.
fn send(socket: &OsStr, states: &[NotifyState<'_>]) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let mut message = String::new();
    for state in states {
        // Writing to a string does not fail.
        let _ = writeln!(message, "{state}");
    }
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use siltstone::base::{Clock, ManualClock, SeededEntropy, Timestamp};
    use siltstone::fs::sim::SimFs;
    use siltstone::store::{Store, StoreOptions};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn received(socket: &UnixDatagram) -> String {
        let mut message = [0; 512];
        let len = socket.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..len]).into_owned()
    }

    #[test]
    fn messages_reach_sockets_with_a_path_and_abstract_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        ServiceManager::at(Some(path.as_ref()), None).reloaded();
        assert_eq!(received(&socket), "READY=1\n");

        let name = format!("siltstone-test-{}", std::process::id());
        let socket =
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name.as_bytes()).unwrap()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        ServiceManager::at(Some(format!("@{name}").as_ref()), None).stopping();
        assert_eq!(received(&socket), "STOPPING=1\nSTATUS=stopping\n");
    }

    #[test]
    fn an_address_that_is_none_is_survived() {
        for socket in ["/no/such/socket", "@", "relative", &"/x".repeat(200)] {
            ServiceManager::at(Some(socket.as_ref()), None).reloading();
        }
        ServiceManager::at(None, None).reloaded();
    }

    /// The progress of a store.
    struct Watched(Arc<Store>);

    impl ServerProgress for Watched {
        fn disk_wait(&self) -> Option<Duration> {
            self.0.disk_wait()
        }

        fn status(&self) -> String {
            format!("{} buckets", self.0.health().buckets)
        }
    }

    #[test]
    fn a_sync_that_does_not_return_ends_the_signs_of_life_until_it_does() {
        let dir = tempfile::tempdir().unwrap();
        let hour = Duration::from_secs(3600);
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let manager = ServiceManager::at(Some(path.as_ref()), Some(hour));
        let fs = SimFs::new();
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
        let options = StoreOptions { idle_group_after: None, ..StoreOptions::default() };
        let time = Arc::clone(&clock) as Arc<dyn Clock>;
        let store = Store::open(Arc::new(fs.clone()), time, &SeededEntropy::new(1), options).unwrap();
        let store = Arc::new(store);
        manager.ready(Arc::new(Watched(Arc::clone(&store))));
        assert_eq!(received(&socket), "READY=1\nSTATUS=0 buckets\n");
        let link = manager.0.as_ref().unwrap();
        assert!(link.sign());
        assert_eq!(received(&socket), "STATUS=0 buckets\nWATCHDOG=1\n");

        let gate = fs.hold_syncs("meta/");
        let waiting = Arc::clone(&store);
        let made = thread::spawn(move || waiting.create_bucket("b", "admin"));
        assert!(gate.wait_until_held(1));
        clock.advance(hour / 2);
        link.sign();
        assert_eq!(
            received(&socket),
            "STATUS=a commit has been waiting for the disk for 1800 s\nWATCHDOG=1\n"
        );
        clock.advance(Duration::from_secs(1));
        link.sign();
        assert_eq!(received(&socket), "STATUS=a commit has been waiting for the disk for 1801 s\n");

        drop(gate);
        made.join().unwrap().unwrap();
        link.sign();
        assert_eq!(received(&socket), "STATUS=1 buckets\nWATCHDOG=1\n");
        manager.stopping();
        assert_eq!(received(&socket), "STOPPING=1\nSTATUS=stopping\n");
        assert!(!link.sign());
    }
}
