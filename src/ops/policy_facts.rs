//! What policies judge by, and only the body or the source of a call says.

use super::{Context, access, body, copy_directives, lookup, object_lock, tagging};
use crate::auth::Identity;
use crate::s3::{Call, Operation, S3Error};

impl Context {
    /// Reads these facts before the permission of a call is checked. Without a policy that depends
    /// on them nothing is read, so that a sender without permission sends no body in vain.
    ///
    /// # Errors
    /// Errors of PutObjectTagging, PutObjectRetention and PutObjectLegalHold for their bodies;
    /// `InvalidArgument` for an unknown directive of a copy.
    pub fn read_facts_for_policy(&self, identity: &Identity, call: &mut Call<'_>) -> Result<(), S3Error> {
        match call.operation {
            Operation::PutObjectTagging if access::policy_reads_tags(self, call.bucket()) => {
                body::announced_length(&call.request.body)?;
                call.body_tags = Some(tagging::read_tags(self, call)?);
            }
            Operation::CopyObject if access::policy_reads_tags(self, call.bucket()) => {
                let keeps_tags = copy_directives::keeps_tags(call)?;
                call.body_tags = keeps_tags.then(|| lookup::tags_of_source(self, call));
            }
            Operation::PutObjectRetention | Operation::PutObjectLegalHold if identity.has_policies() => {
                body::announced_length(&call.request.body)?;
                call.body_lock = Some(object_lock::read_stated(self, call)?);
            }
            _ => {}
        }
        Ok(())
    }
}
