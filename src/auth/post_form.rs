//! Authentication of forms by their fields: a signature of version 4 or 2 covers the policy
//! document (S3 API reference, "Authenticating requests in browser-based uploads using POST").

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::auth::post_policy::PostPolicy;
use crate::auth::session::token::SealingKey;
use crate::auth::signature::is_same;
use crate::auth::signature_params::{ALGORITHM, Credential, is_served};
use crate::auth::signing_key::SERVICE;
use crate::auth::user::Signer;
use crate::auth::users::PresentedKey;
use crate::auth::{Identity, Users, header};
use crate::base::Timestamp;
use crate::base::digest::hex32;
use crate::s3::dialect::V2_ACCESS_KEY;
use crate::s3::form::{PostForm, missing_field};
use crate::s3::{Dialect, ErrorCode, Request, S3Error};

/// The authenticated sender of a form, and the lengths that its policy permits.
#[derive(Debug)]
pub struct FormGrant {
    /// The sender.
    pub identity: Identity,
    /// The lengths of the file in bytes.
    pub lengths: RangeInclusive<u64>,
}

/// The circumstances of a form.
pub(super) struct FormContext<'s> {
    pub(super) users: &'s Arc<Users>,
    /// The accepted regions; the first is named in errors.
    pub(super) regions: &'s [String],
    /// Opens tokens of sessions as the keys of the users file do.
    pub(super) spare_key: Option<&'s SealingKey>,
    /// Whether version 2 is accepted.
    pub(super) version_2: bool,
    pub(super) now: Timestamp,
    pub(super) dialect: Dialect,
    /// The bucket that the form was sent to.
    pub(super) bucket: &'s str,
    /// The request that sent it.
    pub(super) request: &'s Request<'s>,
}

impl FormContext<'_> {
    /// Authenticates `form` and checks its policy. A form without a signature is anonymous.
    ///
    /// # Errors
    /// As [`crate::auth::Authenticator::authenticate_form`].
    pub(super) fn authenticate(&self, form: &PostForm) -> Result<FormGrant, S3Error> {
        let names = self.names();
        let signed_by_4 = names.iter().any(|name| form.get(name).is_some());
        let signed_by_2 = [V2_ACCESS_KEY, "signature"].iter().any(|name| form.get(name).is_some());
        let (signer, exempt) = match (signed_by_4, signed_by_2) {
            (false, false) => {
                let identity = Identity::new(Arc::clone(self.users.anonymous()), Arc::clone(self.users));
                return Ok(FormGrant { identity, lengths: 0..=u64::MAX });
            }
            (true, _) => (self.verify_4(form, &names)?, vec!["policy", &names[0]]),
            (false, true) => (self.verify_2(form)?, vec!["policy", "signature", V2_ACCESS_KEY]),
        };
        let policy = PostPolicy::parse(required(form, "policy", "Policy")?)?;
        let lengths = policy.check(form, self.bucket, &exempt, self.now)?;
        let identity = Identity::of_signer(&signer, Arc::clone(self.users)).sent_by(self.request, self.now);
        Ok(FormGrant { identity, lengths })
    }

    /// The fields of version 4, the signature first, as clients spell them.
    fn names(&self) -> [String; 4] {
        ["Signature", "Algorithm", "Credential", "Date"]
            .map(|suffix| format!("{}{suffix}", self.dialect.query_prefix()))
    }

    fn verify_4(&self, form: &PostForm, names: &[String; 4]) -> Result<Arc<Signer>, S3Error> {
        let policy = required(form, "policy", "Policy")?;
        let [signature, algorithm, credential, date] = names;
        let sent = required(form, signature, signature)?;
        let claimed = required(form, algorithm, algorithm)?;
        let text = required(form, credential, credential)?;
        let time = required(form, date, date)?;
        if claimed != ALGORITHM {
            let message = format!("{algorithm} must be {ALGORITHM}");
            return Err(S3Error::invalid_argument(algorithm, claimed, message));
        }
        let scope = self.credential(credential, text)?;
        if Timestamp::parse_iso_basic(time).is_none() || time.get(..8) != Some(scope.date) {
            let message =
                format!("{date} must be formatted via ISO8601 Long format, on the day of the credential");
            return Err(S3Error::invalid_argument(date, time, message));
        }
        let token = form.get(&format!("{}Security-Token", self.dialect.query_prefix()));
        let presented = PresentedKey { access_key: scope.access_key, token };
        let signer = self.users.signer(presented, self.spare_key, self.now)?;
        let key = signer.signing_key(scope.date, scope.region, SERVICE);
        let computed = hex32(&key.sign(&[policy.as_bytes()]));
        verified(signer, &computed, scope.access_key, sent, policy)
    }

    /// Parses the credential `text` of the field `name`.
    fn credential<'f>(&self, name: &str, text: &'f str) -> Result<Credential<'f>, S3Error> {
        let Some(credential) = Credential::parse(text) else {
            let message =
                "the Credential is mal-formed; expecting \"<YOUR-AKID>/YYYYMMDD/REGION/s3/aws4_request\".";
            return Err(S3Error::invalid_argument(name, text, message));
        };
        if is_served(credential.region, self.regions) {
            return Ok(credential);
        }
        let expected = self.regions.first().map_or("", String::as_str);
        let message = format!("the region '{}' is wrong; expecting '{expected}'", credential.region);
        Err(S3Error::invalid_argument(name, text, message).element("Region", expected))
    }

    fn verify_2(&self, form: &PostForm) -> Result<Arc<Signer>, S3Error> {
        if !self.version_2 {
            return Err(header::other_scheme());
        }
        for dialect in Dialect::ALL {
            if form.get(&format!("{}Security-Token", dialect.query_prefix())).is_some() {
                return Err(header::sessions_sign_by_v4());
            }
        }
        let policy = required(form, "policy", "Policy")?;
        let sent = required(form, "signature", "Signature")?;
        let access_key = required(form, V2_ACCESS_KEY, V2_ACCESS_KEY)?;
        let signer = self.users.signer(PresentedKey { access_key, token: None }, None, self.now)?;
        let computed = signer.sign_v2(policy.as_bytes());
        verified(signer, computed.as_bytes(), access_key, sent, policy)
    }
}

/// The `signer`, if the signatures are the same.
fn verified(
    signer: Arc<Signer>,
    computed: &[u8],
    access_key: &str,
    sent: &str,
    policy: &str,
) -> Result<Arc<Signer>, S3Error> {
    if is_same(computed, sent.as_bytes()) {
        return Ok(signer);
    }
    Err(S3Error::new(ErrorCode::SignatureDoesNotMatch)
        .element("AWSAccessKeyId", access_key)
        .element("StringToSign", policy)
        .element("SignatureProvided", sent))
}

/// The field `name`, which errors call `shown`.
fn required<'f>(form: &'f PostForm, name: &str, shown: &str) -> Result<&'f str, S3Error> {
    form.get(name).ok_or_else(|| missing_field(shown))
}
