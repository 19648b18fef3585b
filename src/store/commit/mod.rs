//! A change from its request to the disk.
//!
//! In the order in which a change passes them:
//!
//! | File | Job |
//! |---|---|
//! | `requests`, `expiring` | the values of callers |
//! | `mutation` | what is submitted to the committer, and the bounds of its entries |
//! | `committer` | groups: who leads a commit, and who waits; `committer/group_writer.rs` makes them durable |
//! | `plan` | the decision of a group against the index, with the rules of object lock from `retention` |
//! | `checkpointer` | checkpoints, and the removal of the log that they cover |

pub(crate) mod checkpointer;
pub(super) mod committer;
pub(super) mod expiring;
pub(super) mod mutation;
pub(super) mod plan;
pub(super) mod requests;
mod retention;
