//! The table of the users, and what a user may do in each bucket.

use super::super::shown_time::ShownTime;
use super::super::text::visible;
use super::View;
use super::roles::role_in_words;
use crate::service::{AccessExtent, BucketAccess, UserEntry};

/// A user in the table.
pub(super) struct UserLine {
    pub(super) shown_name: String,
    /// The card of the user on the page.
    pub(super) anchor: String,
    pub(super) role: String,
    /// How many keys it has, service accounts included.
    pub(super) keys: usize,
    /// When the oldest of them was made, if that is known of each.
    pub(super) oldest: Option<ShownTime>,
    /// When one of them, or of the keys of its sessions, was used last since the start.
    pub(super) used: Option<ShownTime>,
}

/// What one user may do in one bucket.
pub(super) struct AccessRow {
    /// The bucket, or the user.
    pub(super) name: String,
    pub(super) cells: [AccessCell; 5],
}

/// A cell of it, in words and as a sign.
pub(super) struct AccessCell {
    pub(super) sign: &'static str,
    pub(super) words: &'static str,
}

/// The table, in the order of the users.
pub(super) fn table(view: &View<'_>, users: &[UserEntry]) -> Vec<UserLine> {
    let mut rows = Vec::with_capacity(users.len());
    for (at, user) in users.iter().enumerate() {
        let accounts = user.service_accounts.iter().map(|account| &account.access_key);
        let keys: Vec<_> = user.access_keys.iter().chain(accounts).collect();
        let authenticator = &view.console.authenticator;
        let of_keys = keys.iter().filter_map(|key| authenticator.last_used(key)).max();
        let used = of_keys.max(authenticator.sessions_last_used(&user.name));
        rows.push(UserLine {
            shown_name: visible(&user.name).into_owned(),
            anchor: anchor(at),
            role: role(user),
            keys: keys.len(),
            oldest: oldest_key(user).map(|time| ShownTime::age(time)),
            used: used.map(|time| ShownTime::age(&time.to_iso8601())),
        });
    }
    rows
}

/// When the oldest key of a user was made, if that is known of each.
fn oldest_key(user: &UserEntry) -> Option<&String> {
    let mut oldest = None;
    for access_key in &user.access_keys {
        oldest = earlier(oldest, user.keys_created.get(access_key)?);
    }
    for account in &user.service_accounts {
        oldest = earlier(oldest, account.created.as_ref()?);
    }
    oldest
}

/// The earlier one of two times, which have one form.
fn earlier<'t>(time: Option<&'t String>, other: &'t String) -> Option<&'t String> {
    Some(time.map_or(other, |time| time.min(other)))
}

/// The card of the user at this place of the list.
pub(super) fn anchor(at: usize) -> String {
    format!("user-{}", at + 1)
}

/// The rights of a user in a few words.
fn role(user: &UserEntry) -> String {
    if user.administrator {
        return "Administrator".to_owned();
    }
    let beside = user.policies.len() + user.inline_policies.len() + user.groups.len();
    let role = role_in_words(&user.allow);
    match (role, user.allow.is_empty(), beside) {
        (Some(role), _, 0) => role,
        (Some(role), _, _) => format!("{role}, and more by policies"),
        (None, true, 0) => "Nothing".to_owned(),
        (None, true, _) => "By policies".to_owned(),
        (None, false, 0) => "Permissions of its own".to_owned(),
        (None, false, _) => "Permissions of its own, and policies".to_owned(),
    }
}

/// The rows of the buckets, or of the users, by their names.
pub(super) fn access_rows(names: &[String], access: &[BucketAccess]) -> Vec<AccessRow> {
    let rows = names.iter().zip(access).map(|(name, access)| AccessRow {
        name: visible(name).into_owned(),
        cells: [access.list, access.read, access.add, access.replace, access.delete].map(cell),
    });
    rows.collect()
}

fn cell(extent: AccessExtent) -> AccessCell {
    match extent {
        AccessExtent::Whole => AccessCell { sign: "✓", words: "yes" },
        AccessExtent::Part => AccessCell { sign: "(✓)", words: "for some keys" },
        AccessExtent::Nothing => AccessCell { sign: "–", words: "no" },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{GrantEntry, ServiceAccountEntry};

    #[test]
    fn the_oldest_key_is_known_if_the_age_of_each_is() {
        let account = |created: Option<&str>| ServiceAccountEntry {
            name: "laptop".to_owned(),
            access_key: "AK3".to_owned(),
            expires: None,
            created: created.map(str::to_owned),
            policies: None,
        };
        let made = |key: &str, time: &str| (key.to_owned(), time.to_owned());
        let mut user = UserEntry {
            access_keys: vec!["AK1".to_owned(), "AK2".to_owned()],
            keys_created: [made("AK1", "2026-03-01T00:00:00.000Z"), made("AK2", "2026-02-01T00:00:00.000Z")]
                .into(),
            ..UserEntry::default()
        };
        assert_eq!(oldest_key(&user).unwrap(), "2026-02-01T00:00:00.000Z");
        user.service_accounts = vec![account(Some("2026-01-01T00:00:00.000Z"))];
        assert_eq!(oldest_key(&user).unwrap(), "2026-01-01T00:00:00.000Z");
        user.service_accounts.push(account(None));
        assert_eq!(oldest_key(&user), None);
        assert_eq!(oldest_key(&UserEntry::default()), None);
    }

    #[test]
    fn rights_are_told_in_a_few_words() {
        let everything = vec![GrantEntry::everything()];
        let user = |allow: Vec<GrantEntry>, policies: &[&str]| UserEntry {
            allow,
            policies: policies.iter().map(|&name| name.to_owned()).collect(),
            ..UserEntry::default()
        };
        assert_eq!(role(&UserEntry { administrator: true, ..user(everything, &[]) }), "Administrator");
        assert_eq!(role(&user(Vec::new(), &[])), "Nothing");
        assert_eq!(role(&user(Vec::new(), &["readonly"])), "By policies");
        let grant = GrantEntry { actions: vec!["GetObject".to_owned()], resources: vec!["b/*".to_owned()] };
        assert_eq!(role(&user(vec![grant.clone()], &[])), "Permissions of its own");
        assert_eq!(role(&user(vec![grant], &["readonly"])), "Permissions of its own, and policies");
    }
}
