//! Refusals of changes of users, and of looks at what is for administrators.

use super::super::s3_client::Refusal;
use crate::service::UserError;

/// The refusal that a page shows.
pub(super) fn refusal(error: &UserError) -> Refusal {
    let status = match error {
        UserError::Denied(_) => 403,
        UserError::Unknown { .. } => 404,
        UserError::Invalid(_)
        | UserError::Taken { .. }
        | UserError::Missing(_)
        | UserError::InUse(_)
        | UserError::TooMany(_) => 400,
        UserError::Refused(_) => 409,
        UserError::Failed(_) => 500,
    };
    Refusal::new(status, error.to_string())
}
