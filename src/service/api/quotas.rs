//! Quotas at the API: the operations of the requests `?quota`, for the permissions of the API.

use crate::auth::{Action, Identity, Resource};
use crate::s3::{
    Arrival, Call, Dialect, Method, Operation, QueryParams, Request, Response, S3Error, TargetResource, uri,
};
use crate::service::Service;
use crate::service::access_log::RequestLogEntry;

/// The holder of a quota.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum QuotaHolder {
    /// All buckets and owners.
    All,
    Bucket(String),
    /// A user, for the sum of its buckets.
    Owner(String),
}

impl QuotaHolder {
    /// The operation of a request with `method`, its target and its query.
    fn operation(&self, method: &Method) -> Result<(Operation, TargetResource, QueryParams), S3Error> {
        let (operations, target, query) = match self {
            Self::Bucket(name) => (
                [Operation::GetBucketQuota, Operation::PutBucketQuota, Operation::DeleteBucketQuota],
                TargetResource::Bucket(name.clone()),
                "quota".to_owned(),
            ),
            Self::Owner(name) => (OF_OWNERS, TargetResource::Service, owner_query(name)),
            Self::All => (OF_OWNERS, TargetResource::Service, "quota".to_owned()),
        };
        let operation = match method {
            Method::Put => operations[1],
            Method::Delete => operations[2],
            _ => operations[0],
        };
        Ok((operation, target, QueryParams::parse(&query)?))
    }
}

/// An operation beside S3, with the action that permits it at the API.
pub(super) struct Extension {
    pub(super) operation: Operation,
    pub(super) target: TargetResource,
    pub(super) query: QueryParams,
    pub(super) action: Action,
}

/// The operations on the quotas of owners.
const OF_OWNERS: [Operation; 3] =
    [Operation::GetOwnerQuota, Operation::PutOwnerQuota, Operation::DeleteOwnerQuota];

fn owner_query(name: &str) -> String {
    format!("owner={}&quota", uri::encode_query(name))
}

impl Service {
    /// Shows, sets or removes a quota. A change is durable on return, and in the audit log as the
    /// operation beside S3 is.
    ///
    /// # Errors
    /// `AccessDenied`; the errors of the operation.
    pub(super) fn quota(
        &self,
        holder: &QuotaHolder,
        identity: &Identity,
        request: Request<'_>,
        entry: &mut RequestLogEntry,
    ) -> Result<Response, S3Error> {
        let (operation, target, query) = holder.operation(&request.method)?;
        let reads = request.method == Method::Get;
        let action = if reads { Action::AdminGetQuota } else { Action::AdminSetQuota };
        self.run_extension(Extension { operation, target, query, action }, identity, request, entry)
    }

    /// Runs an operation beside S3 for a user with the permission for an action of the API.
    ///
    /// # Errors
    /// `AccessDenied`; the errors of the operation.
    pub(super) fn run_extension(
        &self,
        Extension { operation, target, query, action }: Extension,
        identity: &Identity,
        request: Request<'_>,
        entry: &mut RequestLogEntry,
    ) -> Result<Response, S3Error> {
        self.begin_audit(entry, operation, &target, &query);
        let reads = request.method == Method::Get;
        let arrival = Arrival { dialect: Dialect::Aws, ..entry.arrival() };
        let mut call = Call::new(arrival, operation, target, request).with_query(query);
        let proof = self.context.authorize_for(identity, &call, &[action], Resource::Service)?;
        let response = self.run_operation(&proof, &mut call, entry)?;
        Ok(if reads { response.header("Cache-Control", "no-store") } else { Response::new(204) })
    }
}
