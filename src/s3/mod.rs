//! The protocol's vocabulary: messages, dialects, errors. Nothing here touches a socket or the store.

pub mod dialect;
pub mod error;
pub mod message;

pub use dialect::{Dialect, VendorHeaders};
pub use error::{ErrorCode, S3Error};
pub use message::{Body, BodyRead, BodySource, Handler, Headers, Method, Request, Response, ResponseBody};
