//! Messages to the service manager that started the process, by the protocol of sd_notify(3): a
//! datagram to the socket that `NOTIFY_SOCKET` names.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use log::warn;

/// The environment variable with the address of the socket.
pub(crate) const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// The service manager, if the process has one that waits for messages.
#[derive(Debug, Clone)]
pub(crate) struct ServiceManager {
    socket: Option<OsString>,
}

impl ServiceManager {
    /// The manager at the value of [`SOCKET_VARIABLE`].
    pub(crate) fn at(socket: Option<&OsStr>) -> Self {
        Self { socket: socket.map(OsStr::to_owned) }
    }

    /// Reports that the server accepts connections.
    pub(crate) fn ready(&self) {
        self.tell("READY=1");
    }

    /// Reports that the server has begun to stop.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// A manager that cannot be reached does not stop the server.
    fn tell(&self, message: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(error) = send(socket, message) {
            warn!("cannot send {message} to the service manager at {}: {error}", socket.display());
        }
    }
}

fn send(socket: &OsStr, message: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut message = [0; 64];
        let len = socket.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..len]).into_owned()
    }

    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn messages_reach_sockets_with_a_path_and_abstract_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        ServiceManager::at(Some(path.as_ref())).ready();
        assert_eq!(received(&socket), "READY=1");

        let name = format!("siltstone-test-{}", std::process::id());
        let socket =
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name.as_bytes()).unwrap()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        ServiceManager::at(Some(format!("@{name}").as_ref())).stopping();
        assert_eq!(received(&socket), "STOPPING=1");
    }

    #[test]
    fn an_address_that_is_none_is_survived() {
        for socket in ["/no/such/socket", "@", "relative", &"/x".repeat(200)] {
            ServiceManager::at(Some(socket.as_ref())).ready();
        }
        ServiceManager::at(None).ready();
    }
}
