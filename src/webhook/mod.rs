//! Webhooks: the records of S3's events, sent by HTTP to the targets of the operator.
//!
//! Each target has a follower of the log of its own, and a thread. Its position moves only after it
//! has accepted everything before, so that it gets each event at least once, and the events of a
//! key in order. A target that fails holds up no other one and no commit: its changes wait in the
//! log.

mod courier;
mod delivery;
mod events;
mod figures;
mod record;
mod secret;
mod selection;
mod settings;
mod target;

pub use courier::{Courier, Delivered, Message};
pub use delivery::{DeliveryError, SIGNATURE_HEADER, WebhookSender};
pub use figures::{TargetFigures, TargetState, WebhookFigures, follower_name};
pub use record::{ObjectEventFacts, Sequencer, test_message};
pub use secret::WebhookSecret;
pub use settings::{ChosenEvents, WebhookSettings};
pub use target::Webhook;
