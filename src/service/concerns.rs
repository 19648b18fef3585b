//! What needs an administrator, and since when.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use super::Service;
use super::users::{UserError, check};
use crate::auth::{Action, Identity};
use crate::base::{NOT_POISONED, Timestamp};
use crate::mirror::MirrorState;

/// The time before its end from which a certificate is a concern.
const CERTIFICATE_ENDS_SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// The time before from which a disk that fills is one.
const DISK_FULL_SOON: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How far a remote may be behind.
const REMOTE_LAG_MAX: Duration = Duration::from_secs(60);

/// Something that needs an administrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concern {
    pub kind: ConcernKind,
    /// When it was seen first: within a minute of its beginning, or at the start of the server.
    pub since: Timestamp,
}

/// What it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConcernKind {
    /// No write succeeds, for this reason.
    ReadOnly(String),
    /// Puts are refused, since the disk is full.
    DiskFull,
    /// Puts are refused, since the index is full.
    IndexFull,
    /// A thread has panicked.
    StoppedThread(&'static str),
    /// So many extents are damaged.
    Damage(u64),
    /// Keys of encrypted objects are missing.
    MissingKeys,
    /// The wall clock jumped, so that nothing expires.
    ClockInDoubt,
    /// The certificate has ended, or will soon.
    CertificateEnds(Timestamp),
    /// That side of a mirror is not used, for this reason.
    SideOut(char, String),
    /// The disk will be full soon.
    DiskFills,
    /// The remote does not have the log of the last while.
    RemoteBehind,
    /// The target of a mirror does not answer.
    MirrorUnreachable(String),
    /// A mirror waits until it starts over.
    MirrorOccupied(String),
    /// A webhook does not accept.
    WebhookFails(String),
    /// The access logs of so many buckets cannot be delivered.
    BucketLogsFail(u64),
}

impl ConcernKind {
    /// Whether something is refused or lost already.
    pub fn is_serious(&self) -> bool {
        matches!(
            self,
            Self::ReadOnly(_)
                | Self::DiskFull
                | Self::IndexFull
                | Self::StoppedThread(_)
                | Self::Damage(_)
                | Self::MissingKeys
        )
    }

    /// The same without what changes while it lasts.
    fn subject(&self) -> Self {
        match self {
            Self::ReadOnly(_) => Self::ReadOnly(String::new()),
            Self::Damage(_) => Self::Damage(0),
            Self::SideOut(side, _) => Self::SideOut(*side, String::new()),
            Self::BucketLogsFail(_) => Self::BucketLogsFail(0),
            kind => kind.clone(),
        }
    }
}

/// When each of them was seen first.
#[derive(Default)]
pub(super) struct ConcernTimes(Mutex<BTreeMap<ConcernKind, Timestamp>>);

impl Service {
    /// What needs an administrator, what is worst first.
    ///
    /// # Errors
    /// [`UserError::Denied`].
    pub fn concerns(&self, identity: &Identity) -> Result<Vec<Concern>, UserError> {
        check(identity, Action::AdminGetState)?;
        Ok(self.note_concerns())
    }

    /// The concerns of this moment, with the times at which they were seen first.
    pub(super) fn note_concerns(&self) -> Vec<Concern> {
        let now = self.recorder.clock.now();
        let kinds = self.concern_kinds(now);
        let mut times = self.concern_times.0.lock().expect(NOT_POISONED);
        let mut concerns = Vec::with_capacity(kinds.len());
        let mut lasting = BTreeMap::new();
        for kind in kinds {
            let subject = kind.subject();
            let since = times.get(&subject).copied().unwrap_or(now);
            lasting.insert(subject, since);
            concerns.push(Concern { kind, since });
        }
        *times = lasting;
        concerns.sort_by(|one, other| one.kind.cmp(&other.kind));
        concerns
    }

    fn concern_kinds(&self, now: Timestamp) -> Vec<ConcernKind> {
        let store = &self.context.store;
        let health = self.context.health();
        let mut kinds = Vec::new();
        kinds.extend(health.read_only_reason.map(|reason| ConcernKind::ReadOnly(reason.to_string())));
        kinds.extend(health.disk_full.then_some(ConcernKind::DiskFull));
        kinds.extend(health.index_full.then_some(ConcernKind::IndexFull));
        kinds.extend(health.stopped_thread.map(ConcernKind::StoppedThread));
        kinds.extend((health.scrub.bad > 0).then_some(ConcernKind::Damage(health.scrub.bad)));
        kinds.extend(self.context.shown_ring().lack().map(|_| ConcernKind::MissingKeys));
        kinds.extend(store.clock_figures().is_held.then_some(ConcernKind::ClockInDoubt));
        let certificate = self.certificate_expires().filter(|end| *end <= now.plus(CERTIFICATE_ENDS_SOON));
        kinds.extend(certificate.map(ConcernKind::CertificateEnds));
        for side in self.mirror_sides().into_iter().flat_map(|mirror| mirror.sides) {
            if side.state == "out" {
                kinds.push(ConcernKind::SideOut(side.letter, side.why));
            }
        }
        let fills = self.disk_full_in().is_some_and(|left| left < DISK_FULL_SOON);
        kinds.extend(fills.then_some(ConcernKind::DiskFills));
        let is_behind = store.ship_figures().is_some_and(|figures| figures.lag > REMOTE_LAG_MAX);
        kinds.extend(is_behind.then_some(ConcernKind::RemoteBehind));
        for mirror in self.mirrors.iter().map(|mirror| mirror.figures()) {
            match mirror.state {
                MirrorState::Unreachable => kinds.push(ConcernKind::MirrorUnreachable(mirror.name)),
                MirrorState::Occupied => kinds.push(ConcernKind::MirrorOccupied(mirror.name)),
                MirrorState::Running | MirrorState::Paused => {}
            }
        }
        let webhooks = self.webhook_states().into_iter().filter(|target| target.failing_since.is_some());
        kinds.extend(webhooks.map(|target| ConcernKind::WebhookFails(target.name)));
        let failing_logs = self.recorder.bucket_logs.as_ref().map_or(0, |logs| logs.figures().failing);
        kinds.extend((failing_logs > 0).then_some(ConcernKind::BucketLogsFail(failing_logs)));
        kinds
    }
}
