//! The socket of a connection, which the crate keeps to itself: found among the descriptors of this process by the address
//! of its peer, and held by a duplicate, so that its connection can be looked at and ended.

use std::fs;
use std::net::SocketAddr;
use std::os::fd::{OwnedFd, RawFd};

use rustix::net::{RecvFlags, Shutdown};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// A second descriptor of the socket of a connection.
#[derive(Debug)]
pub(super) struct RawSocket {
    socket: OwnedFd,
}

impl RawSocket {
    /// The connection to `peer`; `None` where there is none any more, or the system lets no process look at its own
    /// descriptors so (Linux before 5.6, some sandboxes).
    pub(super) fn find(peer: SocketAddr) -> Option<Self> {
        let this = pidfd_open(getpid(), PidfdFlags::empty()).ok()?;
        let numbers = fs::read_dir("/proc/self/fd").ok()?.filter_map(|entry| {
            let number: RawFd = entry.ok()?.file_name().to_str()?.parse().ok()?;
            Some(number)
        });
        numbers
            .filter_map(|number| pidfd_getfd(&this, number, PidfdGetfdFlags::empty()).ok())
            .find(|socket| is_to(socket, peer))
            .map(|socket| Self { socket })
    }

    /// Whether the peer has ended its sending, or the connection is gone, and nothing that it sent waits.
    pub(super) fn has_ended(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(&self.socket, &mut [0; 1], flags) {
            Ok((count, _)) => count == 0,
            Err(error) => error != rustix::io::Errno::AGAIN,
        }
    }

    /// Has whoever reads from the connection wait for nothing more.
    pub(super) fn stop_receiving(&self) {
        // It fails only where the connection is gone.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Read);
    }

    /// Ends the connection behind what has been sent.
    pub(super) fn end(&self) {
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }
}

fn is_to(socket: &OwnedFd, peer: SocketAddr) -> bool {
    let address = rustix::net::getpeername(socket).ok().flatten();
    address.and_then(|address| SocketAddr::try_from(address).ok()) == Some(peer)
}
