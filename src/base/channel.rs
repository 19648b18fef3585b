//! Receiving from a channel without yielding the processor first.
//!
//! The receivers of `crossbeam-channel` yield the processor a few times before they sleep. On a
//! machine with more runnable threads than processors, each yield queues the thread after all
//! others, even if its value arrives at once; a sleeping thread is woken when it arrives. A
//! `select!` over more than one receiver sleeps at once.

use std::time::Duration;

use crossbeam_channel::{Receiver, RecvError, RecvTimeoutError, never, select};

/// Blocks until the next value arrives.
///
/// # Errors
/// The channel is empty and all senders are gone.
pub fn receive<T>(from: &Receiver<T>) -> Result<T, RecvError> {
    let nothing = never();
    select! {
        recv(from) -> value => value,
        recv(nothing) -> value => value,
    }
}

/// Blocks until the next value arrives, at most for `timeout`.
///
/// # Errors
/// The time is over, or the channel is empty and all senders are gone.
pub fn receive_within<T>(from: &Receiver<T>, timeout: Duration) -> Result<T, RecvTimeoutError> {
    let nothing = never();
    select! {
        recv(from) -> value => Ok(value?),
        recv(nothing) -> value => Ok(value?),
        default(timeout) => Err(RecvTimeoutError::Timeout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::bounded;
    use std::thread;

    #[test]
    fn values_sent_before_and_during_the_wait_arrive_in_order() {
        let (sender, receiver) = bounded(1);
        thread::scope(|scope| {
            scope.spawn(move || (0..1000).for_each(|number| sender.send(number).unwrap()));
            for number in 0..1000 {
                let received = if number % 2 == 0 {
                    receive(&receiver).ok()
                } else {
                    receive_within(&receiver, Duration::from_secs(3600)).ok()
                };
                assert_eq!(received, Some(number));
            }
            assert_eq!(receive(&receiver), Err(RecvError), "the sender is gone");
        });
        assert_eq!(receive_within(&receiver, Duration::from_secs(3600)), Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn the_wait_ends_when_the_time_is_over() {
        let (_sender, receiver) = bounded::<()>(1);
        assert_eq!(receive_within(&receiver, Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
    }
}
