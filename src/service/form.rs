//! Requests that are signed in their body: forms. Their fields are read before the sender is known.

use super::{RequestLogEntry, Service};
use crate::auth::Identity;
use crate::s3::form::{PostForm, SizeLimitedBody};
use crate::s3::{Call, Dialect, Operation, QueryParams, Request, S3Error, TargetResource, VendorHeaders};

impl Service {
    /// Reads and authenticates a form that was sent to `bucket`. The call is a put's: the
    /// fields are its headers, and the file is its body. What becomes known is added to `entry`.
    ///
    /// # Errors
    /// As [`PostForm::open`], [`PostForm::key`] and [`PostForm::restore_headers`], and of
    /// [`crate::auth::Authenticator::authenticate_form`].
    pub(super) fn admit_form<'c>(
        &self,
        mut request: Request<'c>,
        query: QueryParams,
        bucket: String,
        entry: &mut RequestLogEntry,
    ) -> Result<(Identity, Call<'c>), S3Error> {
        // Two signatures would name two senders.
        self.authenticator.check_unsigned(&request.headers, &query)?;
        let form = PostForm::open(&mut request)?;
        let names = query.names().chain(form.iter().map(|(name, _)| name));
        let dialect = Dialect::detect(&request.headers, names, self.settings.default_dialect)?;
        entry.dialect = dialect;
        let key = form.key()?;
        let grant = self
            .authenticator
            .authenticate_form(&form, &request, &bucket, dialect)
            .inspect_err(|error| self.log_failed_signature(error, &request, entry))?;
        entry.user = Some(grant.identity.name().to_owned());
        entry.session = grant.identity.session().cloned();
        // From here on the request is a put's: what its fields say holds as headers do.
        form.restore_headers(&mut request.headers, dialect)?;
        VendorHeaders::new(&request.headers, dialect).check()?;
        SizeLimitedBody::wrap(&mut request.body, grant.lengths);
        let target = TargetResource::Object { bucket, key };
        let call = Call::new(entry.arrival(), Operation::PostObject, target, request);
        Ok((grant.identity, call.with_query(query).with_form(form)))
    }
}
