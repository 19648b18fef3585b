//! The body of an answer that is read while it comes.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::HttpConnection;
use crate::remote::s3::tries::RemoteLink;
use crate::remote::{PartBytes, RemoteCall, RemoteError};

/// A body, and the connection on which it comes. No try is repeated: the caller asks for the rest
/// anew.
pub(super) struct AnswerBytes {
    pub(super) link: Arc<RemoteLink>,
    /// `None` after the last byte, and after an error.
    pub(super) connection: Option<HttpConnection>,
}

impl PartBytes for AnswerBytes {
    fn read(&mut self, buffer: &mut [u8], within: Duration) -> Result<(), RemoteError> {
        let deadline = Instant::now() + within;
        let mut connection =
            // Taken, and put back only where all went well: after an error the rest of the body is
            // on the connection, and would pass for the next answer.
            self.connection.take().ok_or_else(|| RemoteError::Wrong("the bytes have ended".to_owned()))?;
        let read = match self.link.pace(deadline).wait_for(buffer.len()) {
            true => connection.read_body(buffer, deadline),
            false => {
                Err(io::Error::new(ErrorKind::TimedOut, "the rate limit takes longer than the call may"))
            }
        };
        let received = if read.is_ok() { buffer.len() as u64 } else { 0 };
        self.link.requests.add_received(RemoteCall::Get, read.is_err(), received);
        read.map_err(|error| self.link.cut(&error))?;
        match connection.has_left() {
            true => self.connection = Some(connection),
            false => self.link.keep(connection),
        }
        Ok(())
    }
}
