//! The socket of a connection, which the crate does not show. It is found among the descriptors of
//! this process by the address of its peer, and duplicated, so that the connection can be examined
//! and ended.

use std::fs;
use std::net::SocketAddr;
use std::os::fd::{OwnedFd, RawFd};

use rustix::net::{RecvFlags, Shutdown};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// A second descriptor of a connection's socket.
#[derive(Debug)]
pub(super) struct RawSocket {
    socket: OwnedFd,
}

impl RawSocket {
    /// Finds the connection to `peer`. `None` if it is closed, or if the system does not let a
    /// process duplicate its descriptors in this way (Linux before 5.6, some sandboxes).
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

    /// Whether the peer will send no more bytes, and all that it sent have been read.
    pub(super) fn has_ended(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(&self.socket, &mut [0; 1], flags) {
            Ok((count, _)) => count == 0,
            Err(error) => error != rustix::io::Errno::AGAIN,
        }
    }

    /// Ends the receiving half: pending and later reads return the end.
    pub(super) fn stop_receiving(&self) {
        // It fails only when the connection is gone.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Read);
    }

    /// Ends the connection after the bytes that have been sent.
    pub(super) fn end(&self) {
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }
}

fn is_to(socket: &OwnedFd, peer: SocketAddr) -> bool {
    let address = rustix::net::getpeername(socket).ok().flatten();
    address.and_then(|address| SocketAddr::try_from(address).ok()) == Some(peer)
}
