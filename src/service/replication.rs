//! The mirrors, as the targets of replication.

use crate::mirror::{CopyProgress, Mirror, Mirrors};
use crate::ops::{ReplicatedVersion, ReplicationProgress, ReplicationTargets};

impl ReplicationTargets for Mirrors {
    fn is_target(&self, mirror: &str) -> bool {
        self.get(mirror).is_some_and(Mirror::follows_rules)
    }

    fn progress(&self, mirror: &str, version: ReplicatedVersion<'_>) -> ReplicationProgress {
        // Of a mirror that is not configured any more nothing is known.
        let Some(mirror) = self.get(mirror) else { return ReplicationProgress::Pending };
        match mirror.progress(version.bucket, version.key, version.id, version.last_group) {
            CopyProgress::Done => ReplicationProgress::Completed,
            CopyProgress::Due => ReplicationProgress::Pending,
            CopyProgress::Refused => ReplicationProgress::Failed,
        }
    }
}
