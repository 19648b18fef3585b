//! The page "My account": the sessions and access keys of whoever signed in, and no others.

use std::time::Duration;

use siltstone::base::Clock as _;
use siltstone::service::{NewServiceAccount, UserChange};

use super::harness::{Browser, Site};
use super::users;
use crate::support::users::{access_key, secret_key};

const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

/// A browser that says what it is, and is signed in.
fn browser_of<'s>(site: &'s Site, user: &str, agent: &str, address: [u8; 4]) -> Browser<'s> {
    let mut browser = site.browser();
    browser.peer = (address, 50_000).into();
    let access_key = access_key(user);
    let secret_key = secret_key(user);
    let fields = [("access_key", &*access_key), ("secret_key", &*secret_key)];
    let lines = [("sec-fetch-site", "same-origin"), ("user-agent", agent)];
    let answer = browser.post_with("sign-in", &fields, &lines);
    assert_eq!(answer.status, 200, "{}", answer.text());
    browser
}

/// The numbers of the sessions that a page offers to end.
fn offered(browser: &mut Browser<'_>) -> Vec<String> {
    let page = browser.get("account");
    assert_eq!(page.status, 200, "{}", page.text());
    let values = page.text().split("name=\"session\" value=\"").skip(1);
    values.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

fn end(browser: &mut Browser<'_>, session: &str) -> u16 {
    browser.post("account", &[("change", "end-session"), ("session", session)]).status
}

#[test]
fn everybody_sees_its_own_sessions_and_ends_them() {
    let site = Site::new();
    let mut here = browser_of(&site, "owner", FIREFOX, [127, 0, 0, 1]);
    let begun = site.server.clock.now().to_iso8601();
    site.server.clock.advance(Duration::from_secs(90));
    let mut there = browser_of(&site, "owner", "<script>alert(1)</script>\"\u{202e}", [127, 0, 0, 9]);
    let mut reader = browser_of(&site, "reader", "curl/8", [127, 0, 0, 7]);
    let page = here.get("account");
    let text = page.text();
    assert!(text.contains("<td>Firefox on Linux <em>this session</em>"), "{text}");
    assert!(text.contains("&#60;script&#62;alert(1)") && text.contains("⟨U+202E⟩"), "{text}");
    assert!(!text.contains("<script>alert") && !text.contains("curl/8") && !text.contains("127.0.0.7"));
    assert!(text.contains("<td class=\"wide\">127.0.0.9</td>"), "{text}");
    let at = site.server.clock.now().to_iso8601()[..19].replace('T', " ");
    let named = format!("⟨U+202E⟩ at 127.0.0.9, signed in {at} UTC\">End</button>");
    assert!(text.contains(&named), "{named} in {text}");
    assert!(text.contains(&format!("datetime=\"{begun}\"")), "{begun} in {text}");
    let [other] = &*offered(&mut here) else { panic!("{text}") };
    let own = offered(&mut there);
    assert_ne!(*other, own[0]);
    assert_eq!(offered(&mut reader), Vec::<String>::new());
    // Neither the sessions of others nor this one, which ends by signing out.
    for session in [&**other, &own[0], "77", "-1", "x", ""] {
        assert!(matches!(end(&mut reader, session), 400 | 404), "{session}");
    }
    assert_eq!(end(&mut here, &own[0]), 404);
    assert_eq!((here.get("account").status, there.get("account").status), (200, 200));
    assert_eq!(end(&mut here, other), 303);
    assert_eq!((here.get("account").status, there.get("account").status), (200, 401));
    assert_eq!(end(&mut here, other), 404, "it has ended already");
    let mut third = browser_of(&site, "owner", FIREFOX, [127, 0, 0, 1]);
    let mut fourth = browser_of(&site, "owner", FIREFOX, [127, 0, 0, 1]);
    assert_eq!(here.post("account", &[("change", "end-others")]).status, 303);
    assert!(here.get("account").text().contains("Ended 2 other sessions"));
    assert_eq!((third.get("account").status, fourth.get("account").status), (401, 401));
    assert_eq!((here.get("account").status, reader.get("account").status), (200, 200));
}

#[test]
fn other_origins_and_addresses_end_no_session_and_make_no_key() {
    let (site, directory) = users::site();
    let mut here = site.signed_in("owner");
    let mut there = site.signed_in("owner");
    for fields in [&[("change", "end-others")][..], &[("change", "create-key"), ("label", "evil")]] {
        for lines in [&[("sec-fetch-site", "same-site")][..], &[("sec-fetch-site", "cross-site")], &[]] {
            assert_eq!(here.post_with("account", fields, lines).status, 403);
        }
        assert_eq!(site.browser().post("account", fields).status, 401);
    }
    assert_eq!(here.get("account?change=end-others").status, 200);
    assert_eq!(here.post("account", &[("change", "burn")]).status, 400);
    assert_eq!(there.get("account").status, 200);
    assert!(!directory.has_changed());
}

#[test]
fn users_make_and_delete_keys_of_their_own() {
    let (site, directory) = users::site();
    let mut reader = site.signed_in("reader");
    let page = reader.get("account");
    let text = page.text();
    assert!(text.contains("<code>AK-laptop</code>") && text.contains("2030-01-01 00:00:00"), "{text}");
    assert!(
        text.contains("<td class=\"wide\">never</td>") && text.contains("ended <time datetime=\"2001-01-01"),
        "{text}"
    );
    assert!(text.contains("<div>Read the bucket photos</div>"), "{text}");
    assert!(!text.contains("AK-admin") && !text.contains("AK-before"), "keys of others: {text}");
    let fields =
        [("change", "create-key"), ("label", " phone "), ("expires", "2026-12-31"), ("read-only", "1")];
    let answer = reader.post("account", &fields);
    let address = answer.header("Location").unwrap_or_default().to_owned();
    assert!(answer.status == 303 && !address.contains("the-new-secret"), "{}", answer.text());
    assert_eq!(site.signed_in("reader").get(&address).status, 404, "another session");
    let shown = reader.get(&address);
    for line in [
        "<h1>Keys of phone</h1>",
        "export AWS_ENDPOINT_URL=http://127.0.0.1:9000\n",
        "export AWS_SECRET_ACCESS_KEY=the-new-secret</pre>",
        "[siltstone]\ntype = s3\n",
        "secret_access_key = the-new-secret</pre>",
        "href=\"/-/console/account\">Back to my account</a>",
    ] {
        assert!(shown.text().contains(line), "{line} in {}", shown.text());
    }
    let again = reader.get(&address);
    assert!(again.status == 404 && !again.text().contains("the-new-secret"), "{}", again.text());
    assert_eq!(reader.post("account", &[("change", "create-key"), ("label", "plain")]).status, 303);
    assert_eq!(reader.post("account", &[("change", "delete-key"), ("account", "laptop")]).status, 303);
    assert!(reader.get("account").text().contains("Deleted the access key laptop"));
    let user = || "reader".to_owned();
    let limited = NewServiceAccount {
        name: "phone".to_owned(),
        policy: Some("readonly".to_owned()),
        expires: Some("2026-12-31T23:59:59Z".to_owned()),
    };
    let plain = NewServiceAccount { name: "plain".to_owned(), policy: None, expires: None };
    let expected = [
        UserChange::CreateServiceAccount { user: user(), account: limited },
        UserChange::CreateServiceAccount { user: user(), account: plain },
        UserChange::DeleteServiceAccount { user: user(), account: "laptop".to_owned() },
    ];
    assert_eq!(directory.changes(), expected);
    let answer = reader.post("account", &[("change", "create-key"), ("label", "taken"), ("expires", "x")]);
    assert!(answer.status == 400 && answer.text().contains("value=\"taken\""), "{}", answer.text());
    assert_eq!(directory.changes().len(), 3);
}

#[test]
fn a_key_is_replaced_by_one_like_it_and_ended_from_the_page_of_the_new_one() {
    let (site, directory) = users::site();
    let mut reader = site.signed_in("reader");
    let page = reader.get("account");
    let offered = |name: &str| page.text().contains(&format!("aria-label=\"Replace the key {name}\""));
    assert!(offered("laptop") && offered("camera") && !offered("old"), "{}", page.text());
    let answer = reader.post("account", &[("change", "replace-key"), ("account", "camera")]);
    assert_eq!(answer.status, 303, "{}", answer.text());
    let address = answer.header("Location").unwrap().to_owned();
    let shown = reader.get(&address);
    for text in [
        "<h1>Keys of camera-2</h1>",
        "<input type=\"hidden\" name=\"change\" value=\"delete-key\"><input type=\"hidden\" name=\"account\" value=\"camera\">",
        "The key camera stays valid until it is deleted.",
    ] {
        assert!(shown.text().contains(text), "{text} in {}", shown.text());
    }
    let answer = reader.post("account", &[("change", "delete-key"), ("account", "camera")]);
    assert_eq!(answer.status, 303, "{}", answer.text());
    let user = || "reader".to_owned();
    let like = NewServiceAccount {
        name: "camera-2".to_owned(),
        policy: None,
        expires: Some("2030-01-01T00:00:00.000Z".to_owned()),
    };
    let expected = [
        UserChange::CreateServiceAccount { user: user(), account: like },
        UserChange::DeleteServiceAccount { user: user(), account: "camera".to_owned() },
    ];
    assert_eq!(directory.changes(), expected);
    // One that has ended must not come to life, and those of others are none.
    for (account, status) in [("old", 409), ("of-somebody-else", 404), ("", 400)] {
        let answer = reader.post("account", &[("change", "replace-key"), ("account", account)]);
        assert_eq!(answer.status, status, "{account}");
    }
    let fields = [("change", "replace-key"), ("account", "camera")];
    assert_eq!(reader.post_with("account", &fields, &[("sec-fetch-site", "same-site")]).status, 403);
    assert_eq!(site.signed_in("owner").post("account", &fields).status, 404, "it is the reader's");
    assert_eq!(directory.changes().len(), 2);
}

#[test]
fn without_a_users_file_the_page_has_the_sessions_alone() {
    let site = Site::new();
    let page = site.signed_in("reader").get("account");
    assert!(page.status == 200 && page.text().contains("<em>this session</em>"), "{}", page.text());
    assert!(!page.text().contains("create-key"), "{}", page.text());
}
