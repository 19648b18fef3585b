//! The users file, and the users of a running server.

pub(crate) mod iam_text;
pub(crate) mod issuers_text;
pub(crate) mod policies_text;
pub(crate) mod running_users;
pub(crate) mod service_accounts_text;
pub(crate) mod tables_text;
pub(crate) mod user_changes;
pub(crate) mod user_checks;
pub(crate) mod users_file;
pub(crate) mod users_text;
