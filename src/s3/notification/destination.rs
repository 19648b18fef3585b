//! Destinations: ARNs that name webhooks of the operator.

use super::invalid;
use crate::s3::S3Error;

/// The partitions of ARNs: this server's, and those in use at servers whose clients come here.
const PARTITIONS: [&str; 2] = ["siltstone", "minio"];
/// The last part of ARNs.
const RESOURCE: &str = "webhook";

/// The kind of a destination. All kinds are webhooks; the kind is kept, so that it is read back as
/// it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DestinationKind {
    Topic,
    Queue,
    Function,
}

/// A destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    pub kind: DestinationKind,
    /// Its ARN as it was written.
    pub arn: String,
    /// The name of the webhook.
    pub name: String,
}

impl DestinationKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Topic, Self::Queue, Self::Function];

    /// The name of the element with the notifications to destinations of this kind.
    pub fn element(self) -> &'static str {
        match self {
            Self::Topic => "TopicConfiguration",
            Self::Queue => "QueueConfiguration",
            Self::Function => "CloudFunctionConfiguration",
        }
    }

    pub(super) fn of_element(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.element() == name)
    }

    /// The name of the element with the ARN.
    pub(super) fn arn_element(self) -> &'static str {
        match self {
            Self::Topic => "Topic",
            Self::Queue => "Queue",
            Self::Function => "CloudFunction",
        }
    }

    fn service(self) -> &'static str {
        match self {
            Self::Topic => "sns",
            Self::Queue => "sqs",
            Self::Function => "lambda",
        }
    }
}

impl Destination {
    /// Reads an ARN: `arn:siltstone:sqs:REGION:NAME:webhook`, with any region or none.
    pub(super) fn parse(kind: DestinationKind, arn: &str) -> Result<Self, S3Error> {
        let parts: Vec<_> = arn.split(':').collect();
        match parts.as_slice() {
            ["arn", partition, service, _, name, RESOURCE]
                if PARTITIONS.contains(partition) && *service == kind.service() && !name.is_empty() =>
            {
                Ok(Self { kind, arn: arn.to_owned(), name: (*name).to_owned() })
            }
            _ => Err(invalid(
                kind.arn_element(),
                arn,
                "A specified destination ARN does not exist or is not well-formed. Verify the destination ARN.",
            )),
        }
    }

    /// The webhook `name` as the destination of a queue.
    pub(super) fn queue(name: &str) -> Self {
        Self { kind: DestinationKind::Queue, arn: Self::queue_arn(name), name: name.to_owned() }
    }

    /// The ARN of the webhook `name` as the destination of a queue.
    pub fn queue_arn(name: &str) -> String {
        format!("arn:{}:sqs::{name}:{RESOURCE}", PARTITIONS[0])
    }

    /// The error for a destination that the operator has not configured.
    pub fn unknown(&self) -> S3Error {
        invalid(&self.arn, "null", "Unable to validate the following destination configurations")
    }
}
