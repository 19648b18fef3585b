//! The tabs over the pages about the server.

use super::View;
use crate::auth::Action;

/// Those that the user may see.
pub(super) struct StateTabs(pub(super) Vec<StateTab>);

pub(super) struct StateTab {
    pub(super) name: &'static str,
    pub(super) link: String,
    pub(super) is_shown: bool,
}

impl StateTabs {
    /// The tabs over the page of this name.
    pub(super) fn of(view: &View<'_>, shown: &str) -> Self {
        let identity = &view.visitor.identity;
        let sees_state = identity.may_administer(Action::AdminGetState);
        let sees_activity = identity.may_administer(Action::AdminGetActivity);
        let has_outbound = sees_state && view.console.service.has_outbound();
        let all = [
            ("State", "state", sees_state),
            ("Activity", "activity", sees_activity),
            ("Audit", "audit", sees_activity),
            ("Replication", "outbound", has_outbound || shown == "outbound"),
        ];
        let seen = all.into_iter().filter(|(_, _, is_seen)| *is_seen);
        let tabs = seen.map(|(name, page, _)| StateTab {
            name,
            link: view.link(page, &[]),
            is_shown: page == shown,
        });
        Self(tabs.collect())
    }
}
