//! Records of the attempts to change what is kept and who has access.

use crate::auth::OidcPerson;
use crate::base::{Timestamp, beginning_of};

/// The longest value of `before` and `after` that is recorded whole, in bytes. A bucket policy of
/// the largest size fits.
const STATE_MAX_BYTES: usize = 32 * 1024;

/// One attempt at a change. It holds no secrets.
#[derive(Debug, Default)]
pub struct AuditRecord<'r> {
    /// The time of the attempt.
    pub time: Timestamp,
    /// The id of the request; `None` for a change that is not made by a request.
    pub id: Option<&'r str>,
    /// The user, if it is authenticated.
    pub user: Option<&'r str>,
    /// The person who acts as the user, where an OpenID provider vouched for it.
    pub person: Option<&'r OidcPerson>,
    /// The ARN of the session whose keys signed the request.
    pub session: Option<&'r str>,
    /// The access key that signed the request, or that a session of the console stands for.
    pub access_key: Option<&'r str>,
    /// The number of the session of the console, since the start of the server.
    pub console_session: Option<u64>,
    /// The address of the client.
    pub peer: Option<&'r str>,
    /// The operation.
    pub action: &'r str,
    pub bucket: Option<&'r str>,
    /// The key of the object.
    pub key: Option<&'r str>,
    /// The version, as clients name it.
    pub version: Option<&'r str>,
    /// The name of the user or owner that the change concerns.
    pub subject: Option<&'r str>,
    /// The value before the attempt.
    pub before: Option<&'r AuditedState>,
    /// The value after a change.
    pub after: Option<&'r AuditedState>,
    /// The status of the response; `None` for a change that is not made by a request.
    pub status: Option<u16>,
    /// The code of the error.
    pub error: Option<&'r str>,
}

/// A destination for audit records.
pub trait AuditLog: Send + Sync {
    /// Whether a line can be written. After a failure, an implementation tries again here.
    fn is_writable(&self) -> bool;

    /// Records attempts after their outcome and before the response. The records are durable on
    /// return, unless the implementation reports otherwise; `is_writable` is then false until a
    /// later record can be written.
    fn record(&self, records: &[AuditRecord<'_>]);
}

/// A recorded value, bounded in size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedState {
    /// The value, or the beginning of a long one.
    pub text: String,
    /// The length of the whole value in bytes, if `text` is only its beginning.
    pub cut_from: Option<usize>,
}

impl AuditedState {
    /// The value, cut if it is long.
    pub fn new(mut text: String) -> Self {
        let whole = text.len();
        if whole <= STATE_MAX_BYTES {
            return Self { text, cut_from: None };
        }
        text.truncate(beginning_of(&text, STATE_MAX_BYTES).len());
        Self { text, cut_from: Some(whole) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_value_is_cut_between_characters_and_says_so() {
        let whole = AuditedState::new("x".repeat(STATE_MAX_BYTES));
        assert_eq!((whole.text.len(), whole.cut_from), (STATE_MAX_BYTES, None));
        let long = format!("{}é", "x".repeat(STATE_MAX_BYTES - 1));
        let cut = AuditedState::new(long);
        assert_eq!((cut.text.len(), cut.cut_from), (STATE_MAX_BYTES - 1, Some(STATE_MAX_BYTES + 1)));
    }
}
