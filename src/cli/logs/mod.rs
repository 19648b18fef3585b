//! What the process writes: its log, the access log and the audit log.

pub(crate) mod access_log;
pub(crate) mod audit_log;
pub(crate) mod log_file;
pub(crate) mod logging;
