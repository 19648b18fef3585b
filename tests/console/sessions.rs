//! Signing in and out, and the ends of sessions.

use std::time::Duration;

use siltstone::console::ConsoleAccess;
use siltstone::s3::Method;

use super::harness::Site;
use crate::support::users::{access_key, secret_key};

#[test]
fn the_keys_of_a_user_open_its_pages_until_it_signs_out() {
    let site = Site::new();
    let mut browser = site.browser();
    let answer = browser.get("");
    assert_eq!(answer.status, 401);
    assert!(answer.text().contains("<h1>Sign in</h1>"), "{}", answer.text());
    let answer = browser.sign_in(&access_key("owner"), &secret_key("owner"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let set = answer.header("Set-Cookie").unwrap();
    assert!(set.ends_with("; Path=/-/console; HttpOnly; SameSite=Strict"), "{set}");
    let page = browser.get("");
    assert!(page.status == 200 && page.text().contains("<span>owner</span>"), "{}", page.text());
    let stolen = browser.cookie.clone();
    let answer = browser.post("sign-out", &[]);
    assert_eq!((answer.status, answer.header("Location")), (303, Some("/-/console/")));
    assert!(answer.header("Set-Cookie").unwrap().contains("Max-Age=0"));
    browser.cookie = stolen;
    assert_eq!(browser.get("").status, 401, "the session has ended on the server, too");
}

#[test]
fn over_tls_the_cookie_is_bound_to_the_host() {
    let site = Site::new();
    let mut browser = site.browser();
    (browser.secure, browser.peer) = (true, ([192, 0, 2, 7], 5).into());
    let answer = browser.sign_in(&access_key("owner"), &secret_key("owner"));
    let set = answer.header("Set-Cookie").unwrap();
    assert!(set.starts_with("__Host-siltstone=") && set.contains("; Path=/; Secure;"), "{set}");
    assert_eq!(browser.get("").status, 200);
    // Over plain HTTP this cookie is unknown.
    (browser.secure, browser.peer) = (false, ([127, 0, 0, 1], 5).into());
    assert_eq!(browser.get("").status, 401);
}

#[test]
fn wrong_keys_are_refused_and_after_five_of_them_right_ones_too() {
    let site = Site::new();
    let mut browser = site.browser();
    let owner = access_key("owner");
    for (key, secret) in [(&*owner, "wrong"), ("AK-nobody", "secret of owner"), (&owner, ""), ("", "")] {
        let answer = browser.sign_in(key, secret);
        assert_eq!((answer.status, answer.header("Set-Cookie")), (403, None));
        assert!(answer.text().contains("The access key or the secret key is wrong."));
    }
    browser.sign_in(&owner, "wrong");
    let answer = browser.sign_in(&owner, &secret_key("owner"));
    assert_eq!((answer.status, answer.header("Retry-After")), (429, Some("60")));
    browser.peer = ([127, 0, 0, 2], 5).into();
    assert_eq!(browser.sign_in(&access_key("reader"), &secret_key("reader")).status, 200);
    site.server.clock.advance(Duration::from_secs(60));
    assert_eq!(browser.sign_in(&owner, &secret_key("owner")).status, 200);
}

#[test]
fn a_session_ends_with_its_key() {
    let site = Site::new();
    for users in [Site::users("rotated-secret-key"), String::new()] {
        site.replace_users(&Site::users("secret of owner"));
        let mut browser = site.signed_in("owner");
        assert_eq!(browser.get("").status, 200);
        site.replace_users(&users);
        assert_eq!(browser.get("").status, 401);
        site.replace_users(&Site::users("secret of owner"));
        assert_eq!(browser.get("").status, 401, "it does not come back");
    }
}

#[test]
fn a_session_ends_when_it_is_idle() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    site.server.clock.advance(Duration::from_secs(59 * 60));
    assert_eq!(browser.get("").status, 200);
    site.server.clock.advance(Duration::from_secs(60 * 60));
    assert_eq!(browser.get("").status, 401);
}

#[test]
fn the_link_of_the_first_start_signs_in_once() {
    let site = Site::new();
    let link = site.console.first_link(&access_key("owner")).unwrap();
    assert_eq!(site.console.first_link("AK-nobody"), None);
    let mut browser = site.browser();
    let answer = browser.get(&link);
    assert!(answer.status == 200 && answer.text().contains("url=/-/console/"), "{}", answer.text());
    assert!(browser.get("").text().contains("<span>owner</span>"));
    let answer = site.browser().get(&link);
    assert!(answer.status == 401 && answer.text().contains("This link has been used"), "{}", answer.text());
    let late = site.console.first_link(&access_key("owner")).unwrap();
    site.server.clock.advance(Duration::from_secs(60 * 60));
    assert_eq!(site.browser().get(&late).status, 401);
}

#[test]
fn after_signing_in_the_page_leads_to_where_the_user_wanted() {
    let site = Site::new();
    let mut browser = site.browser();
    let answer = browser.get("bucket?name=b&prefix=a%2F");
    assert_eq!(answer.status, 401);
    let next = "/-/console/bucket?name=b&prefix=a%2F";
    assert_eq!(answer.links("/-/console/bucket"), [next]);
    let key = access_key("owner");
    let secret = secret_key("owner");
    let fields = [("access_key", &*key), ("secret_key", &*secret), ("next", next)];
    assert!(browser.post("sign-in", &fields).links("/-/console/bucket").contains(&next.to_owned()));
}

#[test]
fn a_link_from_another_site_opens_the_page_of_a_signed_in_user() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let cookie = browser.cookie.take();
    let other_site = [("sec-fetch-site", "cross-site")];
    // Browsers keep a strict cookie back when another site leads here.
    let answer = browser.send(Method::Get, "bucket?name=b&prefix=a%2F", &other_site, b"");
    assert_eq!(answer.status, 200);
    let next = "/-/console/bucket?name=b&prefix=a%2F";
    assert_eq!(answer.links("/-/console/bucket"), [next]);
    assert!(!answer.text().contains("secret_key"), "it is not the form to sign in");
    // The page leads on, and a request of this site has the cookie, if there is one.
    let own_site = [("sec-fetch-site", "same-origin")];
    assert_eq!(browser.send(Method::Get, next, &own_site, b"").status, 401);
    browser.cookie = cookie;
    assert_ne!(browser.send(Method::Get, next, &own_site, b"").status, 401);
    browser.cookie = Some("siltstone-console=ended".to_owned());
    assert_eq!(browser.send(Method::Get, next, &other_site, b"").status, 401, "only once");
}

#[test]
fn made_up_keys_and_wrong_secrets_keep_nobody_else_out() {
    let site = Site::new();
    let mut attacker = site.browser();
    attacker.peer = ([127, 0, 0, 9], 5).into();
    for n in 0..4_200 {
        attacker.sign_in(&format!("AK{n}"), "wrong");
        attacker.sign_in(&access_key("owner"), "wrong");
    }
    assert_eq!(attacker.sign_in(&access_key("owner"), &secret_key("owner")).status, 429);
    assert_eq!(site.browser().sign_in(&access_key("owner"), &secret_key("owner")).status, 200);
}

#[test]
fn many_sessions_of_one_user_end_none_of_others() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    site.server.clock.advance(Duration::from_secs(1));
    for _ in 0..1_030 {
        site.signed_in("reader");
    }
    assert_eq!(owner.get("").status, 200);
}

#[test]
fn without_a_console_its_paths_are_not_there() {
    let site = Site::with_access(ConsoleAccess::Off);
    let answer = site.browser().get("");
    assert_eq!(answer.status, 404);
}

#[test]
fn cookies_that_another_port_has_set_keep_nobody_out_and_let_nobody_in() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    let mut reader = site.signed_in("reader");
    let own = owner.cookie.clone().unwrap();
    // A cookie of a longer path comes first.
    owner.cookie = Some(format!("siltstone-console=planted; {own}; siltstone-console="));
    assert_eq!(owner.get("state").status, 200);
    owner.cookie = Some(format!("{own}; {own}"));
    assert_eq!(owner.get("state").status, 200);
    // With the session of somebody else beside it, nobody knows who acts.
    let other = reader.cookie.clone().unwrap();
    for cookies in [format!("{other}; {own}"), format!("{own}; {other}")] {
        owner.cookie = Some(cookies);
        assert_eq!(owner.get("connect").status, 401);
    }
    owner.cookie = Some(own);
    assert_eq!((owner.get("state").status, reader.get("connect").status), (200, 200));
}
