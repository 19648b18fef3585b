//! Pins of buckets at the API: the operations of the requests `?placement`.

use super::quotas::Extension;
use crate::auth::{Action, Identity};
use crate::s3::{Method, Operation, QueryParams, Request, Response, S3Error, TargetResource};
use crate::service::Service;
use crate::service::access_log::RequestLogEntry;

impl Service {
    /// Shows, sets or removes the placement of a bucket. A change is durable on return.
    ///
    /// # Errors
    /// `AccessDenied`; the errors of the operation.
    pub(super) fn placement(
        &self,
        bucket: &str,
        identity: &Identity,
        request: Request<'_>,
        entry: &mut RequestLogEntry,
    ) -> Result<Response, S3Error> {
        let (operation, action) = match request.method {
            Method::Put => (Operation::PutBucketPlacement, Action::PutBucketPlacement),
            Method::Delete => (Operation::DeleteBucketPlacement, Action::PutBucketPlacement),
            _ => (Operation::GetBucketPlacement, Action::GetBucketPlacement),
        };
        let target = TargetResource::Bucket(bucket.to_owned());
        let query = QueryParams::one("placement", "");
        self.run_extension(Extension { operation, target, query, action }, identity, request, entry)
    }
}
