//! Waiting for what another thread hands over.
//!
//! The receivers of `crossbeam-channel` give their turn of the processor up a few times before they go to sleep. Where more
//! threads want to run than there are processors, that puts them behind all others, also if what they wait for comes at
//! once; whoever sleeps is woken for it. A `select!` of more than one receiver goes to sleep at once.

use std::time::Duration;

use crossbeam_channel::{Receiver, RecvError, RecvTimeoutError, never, select};

/// The next value, as soon as there is one.
///
/// # Errors
/// When there is none and nobody can send any more.
pub fn receive<T>(from: &Receiver<T>) -> Result<T, RecvError> {
    let nothing = never();
    select! {
        recv(from) -> value => value,
        recv(nothing) -> value => value,
    }
}

/// The next value, if there is one within that time.
///
/// # Errors
/// When there is none, either by then or because nobody can send any more.
pub fn receive_within<T>(from: &Receiver<T>, within: Duration) -> Result<T, RecvTimeoutError> {
    let nothing = never();
    select! {
        recv(from) -> value => Ok(value?),
        recv(nothing) -> value => Ok(value?),
        default(within) => Err(RecvTimeoutError::Timeout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::bounded;
    use std::thread;

    #[test]
    fn what_is_sent_before_or_meanwhile_arrives_in_order() {
        let (sender, receiver) = bounded(1);
        thread::scope(|scope| {
            scope.spawn(move || (0..1000).for_each(|number| sender.send(number).unwrap()));
            for number in 0..1000 {
                let come = if number % 2 == 0 {
                    receive(&receiver).ok()
                } else {
                    receive_within(&receiver, Duration::from_secs(3600)).ok()
                };
                assert_eq!(come, Some(number));
            }
            assert_eq!(receive(&receiver), Err(RecvError), "the sender is gone");
        });
        assert_eq!(receive_within(&receiver, Duration::from_secs(3600)), Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn the_wait_ends_where_nothing_comes() {
        let (_sender, receiver) = bounded::<()>(1);
        assert_eq!(receive_within(&receiver, Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
    }
}
