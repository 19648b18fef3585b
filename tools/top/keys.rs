//! Keys that are pressed in a terminal, one by one and without an echo.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// The bytes of Ctrl-C and Ctrl-D.
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;

/// A terminal whose keys are read as they are pressed, until this value is dropped.
pub(super) struct TerminalKeys {
    before: Termios,
}

impl TerminalKeys {
    /// Takes the terminal of the standard input; `None` if it is none.
    pub(super) fn take() -> Option<Self> {
        let input = io::stdin();
        if !input.is_terminal() {
            return None;
        }
        let before = tcgetattr(&input).ok()?;
        let mut modes = before.clone();
        // Ctrl-C comes as a key, too: a signal would leave the terminal without an echo.
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        tcsetattr(&input, OptionalActions::Now, &modes).ok()?;
        Some(Self { before })
    }

    /// Waits for `time`, or until a key asks for the end: `q`, Ctrl-C, Ctrl-D, or a terminal that
    /// is gone. Returns whether one did.
    pub(super) fn wait_for_end(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(timeout) = Timespec::try_from(left) else { return false };
            let input = io::stdin();
            let mut ready = [PollFd::new(&input, PollFlags::IN)];
            match poll(&mut ready, Some(&timeout)) {
                Ok(0) => return false,
                Ok(_) if is_end(&input) => return true,
                // Another key, or a signal.
                Ok(_) | Err(_) => {}
            }
            if left.is_zero() {
                return false;
            }
        }
    }
}

impl Drop for TerminalKeys {
    fn drop(&mut self) {
        // There is nobody to tell.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Whether a key at hand asks for the end.
fn is_end(input: &io::Stdin) -> bool {
    let mut keys = [0; 16];
    match rustix::io::read(input, &mut keys) {
        Ok(0) => true,
        Ok(count) => keys[..count].iter().any(|key| [b'q', b'Q', CTRL_C, CTRL_D].contains(key)),
        Err(_) => false,
    }
}
