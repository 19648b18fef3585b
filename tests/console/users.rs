//! The page of users.

use std::sync::{Arc, Mutex};

use siltstone::auth::{KeyPair, Secret};
use siltstone::service::{
    ChangeSender, GrantEntry, GroupEntry, NewServiceAccount, PolicyEntry, ProviderEntry, RoleEntry,
    ServiceAccountEntry, UserChange, UserDirectory, UserEntry, UserError,
};

use super::harness::{Browser, Site};
use crate::support::users::{access_key, user};

const SCRIPT: &str = "<script>alert(1)</script>\"'";

/// Remembers what it was asked for.
#[derive(Default)]
pub(super) struct Directory {
    changes: Mutex<Vec<(UserChange, String)>>,
    denied: Mutex<Vec<(UserChange, String)>>,
}

impl Directory {
    pub(super) fn changes(&self) -> Vec<UserChange> {
        self.changes.lock().unwrap().iter().map(|(change, _)| change.clone()).collect()
    }

    pub(super) fn denials(&self) -> usize {
        self.denied.lock().unwrap().len()
    }

    pub(super) fn has_changed(&self) -> bool {
        !self.changes.lock().unwrap().is_empty()
    }
}

/// A user with access keys of its own.
fn reader() -> UserEntry {
    let grant = |actions: &[&str], resource: &str| {
        let actions = actions.iter().map(|&action| action.to_owned()).collect();
        GrantEntry { actions, resources: vec![resource.to_owned()] }
    };
    let account = |name: &str, expires: Option<&str>| ServiceAccountEntry {
        name: name.to_owned(),
        access_key: format!("AK-{name}"),
        expires: expires.map(str::to_owned),
        created: Some("2026-02-03T04:05:06.000Z".to_owned()),
        policies: None,
    };
    UserEntry {
        name: "reader".to_owned(),
        access_keys: vec!["AK-reader".to_owned()],
        allow: vec![
            grant(&["ListAllMyBuckets"], "*"),
            grant(&["ListBucket", "GetBucketLocation"], "photos"),
            grant(&["GetObject"], "photos/*"),
        ],
        keys_created: [("AK-reader".to_owned(), "2026-01-02T03:04:05.000Z".to_owned())].into(),
        service_accounts: vec![
            account("laptop", None),
            account("camera", Some("2030-01-01T00:00:00.000Z")),
            account("old", Some("2001-01-01T00:00:00.000Z")),
        ],
        ..UserEntry::default()
    }
}

impl UserDirectory for Directory {
    fn list(&self) -> Result<Vec<UserEntry>, UserError> {
        let user = |name: &str, from_environment| UserEntry {
            name: name.to_owned(),
            access_keys: vec![format!("AK-{name}"), "AK-before".to_owned()],
            allow: vec![GrantEntry { actions: vec![SCRIPT.to_owned()], resources: vec!["b/*".to_owned()] }],
            policies: vec![SCRIPT.to_owned()],
            groups: vec!["team".to_owned()],
            inactive_keys: vec!["AK-before".to_owned()],
            inline_policies: [("own".to_owned(), SCRIPT.to_owned())].into(),
            administrator: from_environment,
            from_environment,
            ..UserEntry::default()
        };
        Ok(vec![user("admin", true), user(SCRIPT, false), user("a\u{202e}b", false), reader()])
    }

    fn policies(&self) -> Result<Vec<PolicyEntry>, UserError> {
        let own =
            PolicyEntry { name: "lake".to_owned(), document: SCRIPT.to_owned(), ..PolicyEntry::default() };
        Ok([own].into_iter().chain(PolicyEntry::ready_made()).collect())
    }

    fn groups(&self) -> Result<Vec<GroupEntry>, UserError> {
        let members = vec![SCRIPT.to_owned(), "a\u{202e}b".to_owned()];
        let policies = vec!["lake".to_owned()];
        Ok(vec![GroupEntry { name: "team".to_owned(), members, policies, ..GroupEntry::default() }])
    }

    fn roles(&self) -> Result<Vec<RoleEntry>, UserError> {
        Ok(Vec::new())
    }

    fn providers(&self) -> Result<Vec<ProviderEntry>, UserError> {
        Ok(Vec::new())
    }

    fn change(&self, change: &UserChange, sender: ChangeSender<'_>) -> Result<Option<KeyPair>, UserError> {
        if change.name() == "unsound" {
            return Err(UserError::Invalid("no administrator would be left".to_owned()));
        }
        if let UserChange::CreateServiceAccount { account, .. } = change
            && account.name == "taken"
        {
            return Err(UserError::Taken { kind: "service account", name: account.name.clone() });
        }
        self.changes.lock().unwrap().push((change.clone(), format!("{} {}", sender.user, sender.peer)));
        let keys = KeyPair { access_key: "AKNEW".to_owned(), secret_key: Secret::new("the-new-secret") };
        Ok(change.makes_keys().then_some(keys))
    }

    fn add_sealing_key(&self) -> Result<(), UserError> {
        Err(UserError::Failed("there is no file".to_owned()))
    }

    fn record_denied(&self, change: &UserChange, sender: ChangeSender<'_>) {
        self.denied.lock().unwrap().push((change.clone(), sender.user.to_owned()));
    }
}

pub(super) fn site() -> (Site, Arc<Directory>) {
    let directory = Arc::<Directory>::default();
    (Site::with_directory(directory.clone()), directory)
}

fn change(browser: &mut Browser<'_>, change: &str, name: &str, more: &[(&str, &str)]) -> u16 {
    let mut fields = vec![("change", change), ("name", name)];
    fields.extend(more);
    browser.post("user", &fields).status
}

#[test]
fn administrators_see_users_and_change_them() {
    let (site, directory) = site();
    let mut browser = site.signed_in("owner");
    let page = browser.get("users");
    assert_eq!(page.status, 200, "{}", page.text());
    assert!(
        page.text().contains("<code>AK-admin</code>") && page.text().contains("comes from the environment")
    );
    assert!(
        !page.text().contains("<script>alert") && page.text().contains("<h2>a⟨U+202E⟩b</h2>"),
        "{}",
        page.text()
    );
    assert!(page.text().contains("<dt>Groups</dt><dd><code>team</code>"), "{}", page.text());
    for shown in
        ["<code>AK-before</code> (previous) (inactive)", "<dt>Policies of its own</dt><dd>own: <code>"]
    {
        assert!(page.text().contains(shown), "{shown} in {}", page.text());
    }
    assert!(page.text().contains("<h3>team</h3>") && page.text().contains("<code>a⟨U+202E⟩b</code>"));
    assert!(page.text().contains("<summary>lake</summary>") && !page.text().contains("readwrite"));
    let answer = browser
        .post("user", &[("change", "create"), ("name", "cam"), ("role", "create"), ("bucket", " photos ")]);
    assert_eq!(answer.status, 303, "{}", answer.text());
    let address = answer.header("Location").unwrap().to_owned();
    assert_eq!(site.signed_in("owner").get(&address).status, 404, "another session");
    let answer = browser.get(&address);
    assert!(answer.text().contains("the-new-secret") && answer.text().contains("AKNEW"), "{}", answer.text());
    assert_eq!(answer.header("Cache-Control"), Some("no-store"));
    let again = browser.get(&address);
    assert!(again.status == 404 && !again.text().contains("the-new-secret"), "{}", again.text());
    assert!(!browser.get("users").text().contains("the-new-secret"), "it is shown once");
    assert_eq!(
        change(&mut browser, "grants", "cam", &[("grants", "GetObject on b/*\r\nListBucket on b")]),
        303
    );
    assert_eq!(change(&mut browser, "rotate", "cam", &[]), 303);
    assert_eq!(change(&mut browser, "finish", "cam", &[]), 303);
    assert_eq!(change(&mut browser, "delete", "cam", &[("sure", "yes")]), 303);
    let grant = |actions: &[&str], resources: &[&str]| {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        GrantEntry { actions: texts(actions), resources: texts(resources) }
    };
    let name = || "cam".to_owned();
    let created = vec![
        grant(&["ListAllMyBuckets"], &["*"]),
        grant(&["ListBucket", "GetBucketLocation"], &["photos"]),
        grant(
            &["GetObject", "CreateObject", "AbortMultipartUpload", "ListMultipartUploadParts"],
            &["photos/*"],
        ),
    ];
    let set = vec![grant(&["GetObject"], &["b/*"]), grant(&["ListBucket"], &["b"])];
    let expected = [
        UserChange::Create { name: name(), allow: created },
        UserChange::SetGrants { name: name(), allow: set },
        UserChange::RotateKeys { name: name() },
        UserChange::RemovePreviousKeys { name: name() },
        UserChange::Delete { name: name() },
    ];
    let made = directory.changes.lock().unwrap();
    assert!(made.iter().map(|(change, _)| change).eq(&expected), "{made:?}");
    assert!(made.iter().all(|(_, sender)| sender == "owner 127.0.0.1"), "{made:?}");
}

#[test]
fn forms_that_are_not_sound_change_nothing_and_say_why() {
    let (site, directory) = site();
    let mut browser = site.signed_in("owner");
    for (fields, told) in [
        (&[("change", "create"), ("name", "x"), ("role", "read")][..], "Name the bucket"),
        (&[("change", "create"), ("name", "x"), ("role", "king")], "no such role"),
        (&[("change", "create"), ("name", "x"), ("role", "custom"), ("grants", "all of it")], "a line like"),
        (&[("change", "delete"), ("name", "x")], "Tick the box"),
        (&[("change", "burn"), ("name", "x")], "no such change"),
        (&[("change", "rotate"), ("name", "unsound")], "no administrator would be left"),
    ] {
        let answer = browser.post("user", fields);
        assert!(answer.status == 400 && answer.text().contains(told), "{fields:?} {}", answer.text());
    }
    assert_eq!(change(&mut browser, "rotate", "", &[]), 400);
    assert!(directory.changes.lock().unwrap().is_empty());
}

#[test]
fn others_see_no_users_and_change_none_and_neither_do_pages_of_other_origins() {
    let (site, directory) = site();
    let mut reader = site.signed_in("reader");
    assert!(!reader.get("").text().contains("/-/console/users"), "the page is hidden");
    assert_eq!(reader.get("users").status, 403);
    for (name, more) in [
        ("create", &[("role", "administrator")][..]),
        ("grants", &[("grants", "* on *")]),
        ("rotate", &[]),
        ("finish", &[]),
        ("delete", &[("sure", "yes")]),
    ] {
        assert_eq!(change(&mut reader, name, "reader", more), 403, "{name}");
        assert_eq!(change(&mut site.browser(), name, "reader", more), 401, "{name} without a session");
    }
    assert_eq!(directory.denied.lock().unwrap().len(), 5);
    let mut owner = site.signed_in("owner");
    let fields = [("change", "create"), ("name", "eve"), ("role", "administrator")];
    for lines in [&[("sec-fetch-site", "same-site")][..], &[("sec-fetch-site", "cross-site")], &[]] {
        assert_eq!(owner.post_with("user", &fields, lines).status, 403);
    }
    assert_eq!(owner.get("user?change=rotate&name=reader").status, 405);
    assert!(directory.changes.lock().unwrap().is_empty());
}

#[test]
fn the_table_tells_what_users_may_do_and_when_their_keys_were_used() {
    let (site, _) = site();
    let mut owner = site.signed_in("owner");
    let page = owner.get("users");
    let (_, table) = page.text().split_once("<tbody>").unwrap();
    let row = |name: &str| {
        let (_, rest) = table.split_once(&format!(">{name}</a>")).unwrap();
        rest.split("</tr>").next().unwrap().to_owned()
    };
    assert!(row("admin").contains(">Administrator<"), "{}", row("admin"));
    // Two of its own, and three service accounts.
    let reader = row("reader");
    assert!(reader.contains(">Read the bucket photos<") && reader.contains(">4</td>"), "{reader}");
    assert!(reader.contains("not since the start"), "{reader}");
    // The key of the user itself is the oldest one.
    assert!(reader.contains("datetime=\"2026-01-02T03:04:05.000Z\""), "{reader}");
    assert!(row("admin").contains(">unknown<"), "{}", row("admin"));
    let made = |key: &str| format!("<code>{key}</code> made <time datetime=\"2026-0");
    assert!(page.text().contains(&made("AK-reader")) && page.text().contains(&made("AK-laptop")));
    assert!(!page.text().contains(&made("AK-admin")), "of unknown age");
    let own = site.signed_in("reader").get("account");
    for key in ["AK-reader</code>, made <time datetime=\"2026-01-02", "<time datetime=\"2026-02-03"] {
        assert!(own.text().contains(key), "{key} in {}", own.text());
    }
}

#[test]
fn administrators_set_the_quotas_of_users() {
    let (site, directory) = site();
    let mut owner = site.signed_in("owner");
    let shown_of = |page: &str, user: &str| {
        let forms = page.split("data-form=\"user-quota\">").skip(1);
        let mut of_user = forms.filter(|form| {
            form.starts_with(&format!("<input type=\"hidden\" name=\"name\" value=\"{user}\">"))
        });
        let form = of_user.next().unwrap_or_else(|| panic!("no form of {user} in {page}"));
        form.split("name=\"shown\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    let before = shown_of(owner.get("users").text(), "reader");
    let fields = [("bytes", "2MiB"), ("buckets", "3"), ("shown", &*before)];
    assert_eq!(change(&mut owner, "quota", "reader", &fields), 303);
    let page = owner.get("users");
    for text in [
        "Saved the quota of reader",
        "Quota: 0 B of 2.0 MiB",
        "Quota: 0 of 3 buckets",
        "name=\"bytes\" value=\"2097152\"",
    ] {
        assert!(page.text().contains(text), "{text} in {}", page.text());
    }
    assert_eq!(change(&mut owner, "quota", "reader", &fields), 409, "it is another meanwhile");
    let after = shown_of(page.text(), "reader");
    let wrong = [("bytes", "much"), ("shown", &*after)];
    let answer = owner.post("user", &[&[("change", "quota"), ("name", "reader")][..], &wrong].concat());
    assert!(
        answer.status == 400 && answer.text().contains("name=\"bytes\" value=\"much\""),
        "{}",
        answer.text()
    );
    assert_eq!(change(&mut owner, "quota", "reader", &[("shown", &*after)]), 303);
    assert!(!owner.get("users").text().contains("Quota: "));
    assert!(!directory.has_changed(), "the users file has no part in it");
    // Others may neither see the page nor set anything.
    let mut reader = site.signed_in("reader");
    assert_eq!(change(&mut reader, "quota", "reader", &[("bytes", "1GiB"), ("shown", &*after)]), 403);
    let fields = [("change", "quota"), ("name", "reader"), ("bytes", "1GiB"), ("shown", &*after)];
    for lines in [&[("sec-fetch-site", "same-site")][..], &[]] {
        assert_eq!(owner.post_with("user", &fields, lines).status, 403);
    }
    assert!(!owner.get("users").text().contains("Quota: "));
}

#[test]
fn the_last_use_of_a_key_outlives_a_change_of_the_users() {
    let site = Site::new();
    let authenticator = &site.server.authenticator;
    let key = access_key("reader");
    assert_eq!(authenticator.last_used(&key), None);
    site.signed_in("reader").get("");
    let used = authenticator.last_used(&key).expect("it was used");
    site.server.clock.advance(std::time::Duration::from_secs(60));
    site.replace_users(&Site::users("another secret"));
    assert_eq!(authenticator.last_used(&key), Some(used));
    assert_eq!(authenticator.last_used("AKUNKNOWN"), None);
}

#[test]
fn a_matrix_tells_what_a_user_may_do_in_each_bucket() {
    let (site, _) = site();
    site.replace_users(
        &(user("owner", &["*"], &["*"])
            + &user("reader", &["ListBucket", "GetObject"], &["photos", "photos/*"])),
    );
    let mut owner = site.signed_in("owner");
    owner.post("create-bucket", &[("name", "photos")]);
    let page = owner.get("users?access=reader");
    assert_eq!(page.text().matches("<table class=\"matrix\">").count(), 1, "{}", page.text());
    let (_, matrix) = page.text().split_once("<table class=\"matrix\">").unwrap();
    let words = |bucket: &str| -> Vec<String> {
        let (_, rest) = matrix.split_once(&format!("<th scope=\"row\">{bucket}</th>")).unwrap();
        let row = rest.split("</tr>").next().unwrap();
        row.split("<span class=\"hidden\">")
            .skip(1)
            .map(|it| it.split('<').next().unwrap().to_owned())
            .collect()
    };
    assert_eq!(words("photos"), ["yes", "yes", "no", "no", "no"]);
    assert_eq!(words("b"), ["no", "no", "no", "no", "no"]);
    // Users of the file alone have a matrix; this one is not in effect.
    assert_eq!(owner.get("users?access=admin").status, 404);
    assert_eq!(site.signed_in("reader").get("users?access=owner").status, 403);
}

#[test]
fn administrators_make_and_delete_further_keys_of_users() {
    let (site, directory) = site();
    let mut owner = site.signed_in("owner");
    let made = owner.post(
        "user",
        &[
            ("change", "create-key"),
            ("name", "cam"),
            ("label", " cam-tablet "),
            ("expires", "2030-01-31"),
            ("read-only", "1"),
        ],
    );
    assert_eq!(made.status, 303, "{}", made.text());
    let address = made.header("Location").unwrap().to_owned();
    assert!(owner.get(&address).text().contains("<h1>Keys of cam-tablet</h1>"));
    assert_eq!(change(&mut owner, "delete-key", "cam", &[("account", "cam-tablet")]), 303);
    assert_eq!(change(&mut owner, "create-key", "cam", &[]), 400, "it has no label");
    let account = NewServiceAccount {
        name: "cam-tablet".to_owned(),
        policy: Some("readonly".to_owned()),
        expires: Some("2030-01-31T23:59:59Z".to_owned()),
    };
    let user = || "cam".to_owned();
    let expected = [
        UserChange::CreateServiceAccount { user: user(), account },
        UserChange::DeleteServiceAccount { user: user(), account: "cam-tablet".to_owned() },
    ];
    assert_eq!(directory.changes(), expected);
    assert_eq!(change(&mut site.signed_in("reader"), "create-key", "owner", &[("label", "x")]), 403);
}
