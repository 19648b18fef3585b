//! The keys of encrypted objects: wrapping keys anew, and the end of a master key.

use super::Service;
use super::audited_act::AuditedAct;
use super::users::{UserError, check};
use crate::auth::{Action, Identity};
use crate::base::NOT_POISONED;
use crate::ops::{KeyRefusal, RewrapFigures, RewrapRun};
use crate::s3::Request;

impl Service {
    /// Takes the rewrap one step further, on behalf of `identity`, who sent `request`. A new one
    /// begins where `begins`, or none is under way; its beginning is in the audit log.
    ///
    /// # Errors
    /// [`UserError::Denied`]; [`UserError::Refused`] without a current key; [`UserError::Failed`]
    /// while the audit log cannot be written, or the store takes no writes.
    pub(super) fn rewrap_keys(
        &self,
        identity: &Identity,
        request: &Request<'_>,
        begins: bool,
    ) -> Result<RewrapFigures, UserError> {
        let mut under_way = self.rewrap.lock().expect(NOT_POISONED);
        if begins || under_way.is_none() {
            let act = self.act(identity, request, "RewrapKeys", None);
            self.do_audited(&act, || Ok(()))?;
            log::info!("the keys of encrypted objects are wrapped anew, as {:?} asks", identity.name());
            *under_way = Some(RewrapRun::default());
        } else {
            check(identity, Action::AdminChangeKeys)?;
        }
        let run = under_way.get_or_insert_default();
        let stepped = self.context.rewrap(run);
        let figures = stepped.map_err(|error| match self.context.keys.get().current() {
            None => UserError::Refused("the ring has no current key".to_owned()),
            Some(_) => UserError::Failed(error.to_string()),
        })?;
        if !figures.more {
            log::info!("keys wrapped anew: {}, not opened: {}", figures.rewrapped, figures.unavailable);
            *under_way = None;
        }
        Ok(figures)
    }

    /// Takes a retired key that no record needs out of the ring in effect.
    ///
    /// # Errors
    /// [`UserError::Denied`]; [`UserError::Refused`]; [`UserError::Failed`].
    pub(super) fn destroy_key(
        &self,
        identity: &Identity,
        request: &Request<'_>,
        id: &str,
    ) -> Result<(), UserError> {
        let act = self.act(identity, request, "DestroyKey", Some(id));
        self.do_audited(&act, || {
            self.context.destroy_key(id).map_err(|refusal| match refusal {
                KeyRefusal::Failed(why) => UserError::Failed(why),
                other => UserError::Refused(other.to_string()),
            })?;
            log::warn!("the key {id} of encrypted objects is destroyed, as {:?} asks", identity.name());
            Ok(())
        })
    }

    fn act<'a>(
        &self,
        identity: &'a Identity,
        request: &'a Request<'a>,
        name: &'static str,
        subject: Option<&'a str>,
    ) -> AuditedAct<'a> {
        AuditedAct {
            identity,
            request,
            permission: Action::AdminChangeKeys,
            name,
            subject,
            status: 200,
            unknown: "InternalError",
        }
    }
}
