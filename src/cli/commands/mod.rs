//! The commands beside the server. Most ask a running one.

pub(crate) mod api_client;
pub(crate) mod clock;
pub(crate) mod config;
pub(crate) mod health;
pub(crate) mod key;
pub(crate) mod mirror;
pub(crate) mod mirror_verify;
pub(crate) mod pages;
pub(crate) mod placement;
pub(crate) mod policy;
pub(crate) mod promote;
pub(crate) mod quota;
pub(crate) mod service_account;
pub(crate) mod user;
pub(crate) mod user_api;
pub(crate) mod user_edits;
pub(crate) mod webhook;
