//! The log on the remote as everyone sees it, and the right to change the remote (data-format.md,
//! section 17).
//!
//! The tier sends segments there, `ship` the log; both hold an epoch, and change objects by it
//! alone. Read `right` first, then `chain`.
//!
//! | File | Job |
//! |---|---|
//! | `right` | who may change the remote |
//! | `chain` | the newest cut, the newest root that it adopts, the parcels after it |
//! | `root_copies` | the copies of segments that a root names |
//! | `segment_copy` | the file of a segment whose bytes the remote has |
//! | `object`, `request` | single objects, bodies from files, the time that a request may take |
//! | `error` | [`ShipError`](error::ShipError) |

pub(crate) mod chain;
pub(crate) mod error;
pub(crate) mod object;
pub(crate) mod request;
pub(crate) mod right;
pub(crate) mod root_copies;
pub(crate) mod segment_copy;
