//! Mirrors, webhooks and the remote, for administrators.

use super::Service;
use super::audited_act::AuditedAct;
use super::users::{UserError, check};
use crate::auth::{Action, Identity};
use crate::mirror::MirrorFigures;
use crate::ops::{CopyFindings, FollowerFigures, RepairFigures, ShipFigures, TierFigures};
use crate::s3::Request;
use crate::webhook::TargetState;

/// The state of everything that leaves the server by itself.
#[derive(Debug)]
pub struct OutboundStatus {
    pub mirrors: Vec<MirrorStatus>,
    pub webhooks: Vec<TargetState>,
    /// The segments on the remote; `None` without one.
    pub tier: Option<TierFigures>,
    /// What the comparisons of their copies have found.
    pub copies: CopyFindings,
    /// The local bytes of these segments that were found bad.
    pub repairs: RepairFigures,
    /// The log on the remote; `None` where it stays here.
    pub ship: Option<ShipFigures>,
}

/// A mirror, and its place in the log once it has one.
#[derive(Debug)]
pub struct MirrorStatus {
    /// The figures of the mirror.
    pub figures: MirrorFigures,
    /// Its follower's.
    pub follower: Option<FollowerFigures>,
}

impl MirrorStatus {
    fn new(figures: MirrorFigures, followers: &[FollowerFigures]) -> Self {
        let follower = followers.iter().find(|follower| follower.name == figures.name).cloned();
        Self { figures, follower }
    }
}

impl Service {
    /// Whether there are mirrors, webhooks or a remote.
    pub fn has_outbound(&self) -> bool {
        let store = &self.context.store;
        let has_targets = self.mirrors.iter().next().is_some() || !self.webhooks.is_empty();
        has_targets || store.tier_figures().is_some() || store.ship_figures().is_some()
    }

    /// The names of the webhooks, which notifications of buckets may name.
    pub fn webhook_names(&self) -> &[String] {
        &self.context.webhooks
    }

    /// The state of mirrors, webhooks and the remote.
    ///
    /// # Errors
    /// [`UserError::Denied`].
    pub fn outbound(&self, identity: &Identity) -> Result<OutboundStatus, UserError> {
        check(identity, Action::AdminGetState)?;
        let store = &self.context.store;
        let followers = store.follower_figures();
        Ok(OutboundStatus {
            mirrors: self
                .mirrors
                .iter()
                .map(|mirror| MirrorStatus::new(mirror.figures(), &followers))
                .collect(),
            webhooks: self.webhook_states(),
            tier: store.tier_figures(),
            copies: store.copy_findings().unwrap_or_default(),
            repairs: store.repair_figures().unwrap_or_default(),
            ship: store.ship_figures(),
        })
    }

    /// Lets a mirror start over, on behalf of `identity`, who sent `request`. The attempt is in the
    /// audit log on return, if there is one.
    ///
    /// # Errors
    /// [`UserError::Denied`]; [`UserError::Invalid`] for a name that no mirror has;
    /// [`UserError::Failed`] while the audit log cannot be written.
    pub fn start_mirror_over(
        &self,
        identity: &Identity,
        request: &Request<'_>,
        name: &str,
    ) -> Result<(), UserError> {
        let act = AuditedAct {
            identity,
            request,
            permission: Action::AdminResyncMirror,
            name: "ResyncMirror",
            subject: Some(name),
            status: 204,
            unknown: "NoSuchMirror",
        };
        self.do_audited(&act, || {
            let Some(mirror) = self.mirrors.get(name) else {
                return Err(UserError::Invalid(format!("there is no mirror `{name}`")));
            };
            log::info!("the mirror {name} starts over, as {:?} asks", identity.name());
            mirror.resync();
            Ok(())
        })
    }
}
