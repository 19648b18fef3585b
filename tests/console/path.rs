//! A console below another path.

use std::collections::BTreeSet;

use siltstone::s3::Method;

use super::harness::{Browser, Site};
use crate::support::users::access_key;

const ROOT: &str = "/box/ui/";

/// The values of an attribute of a page.
fn values(page: &str, name: &str) -> Vec<String> {
    let start = format!(" {name}=\"");
    let starts = page.split(&start).skip(1);
    let values =
        starts.map(|rest| rest.split('"').next().unwrap().replace("&#38;", "&").replace("&amp;", "&"));
    values.filter(|value| value.starts_with('/')).collect()
}

/// Opens every page and every file to which links lead from the first one. Gives their addresses,
/// and those of forms.
fn crawl(browser: &mut Browser<'_>, first: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut found = BTreeSet::from([first.to_owned()]);
    let mut forms = BTreeSet::new();
    let mut open = vec![first.to_owned()];
    while let Some(address) = open.pop() {
        let answer = browser.get(&address);
        // This server has no users file to show.
        assert_eq!(answer.status, if address == format!("{ROOT}users") { 500 } else { 200 }, "{address}");
        if answer.header("content-type") != Some("text/html; charset=utf-8") {
            continue;
        }
        assert!(answer.text().contains(&format!("data-root=\"{ROOT}\"")), "{address}");
        assert!(!answer.text().contains("/-/console"), "{address}: {}", answer.text());
        let mut ids = BTreeSet::new();
        let again = answer.text().split(" id=\"").skip(1).find(|rest| !ids.insert(rest.split('"').next()));
        assert_eq!(again, None, "{address} has an id twice");
        forms.extend(values(answer.text(), "action").into_iter().chain(values(answer.text(), "formaction")));
        let links = values(answer.text(), "href").into_iter().chain(values(answer.text(), "src"));
        // Browsers keep the fragment for themselves.
        let links = links.map(|link| link.split('#').next().unwrap().to_owned());
        open.extend(links.filter(|link| found.insert(link.clone())));
    }
    (found, forms)
}

#[test]
fn every_page_and_file_is_below_it() {
    let site = Site::new().below(ROOT).on_own_listener(9000);
    let mut owner = site.signed_in("owner");
    for key in ["folder/text", "folder/sub/image", "other"] {
        owner.put("b", key, &[("content-type", "text/plain")], b"some text");
    }
    owner.post("set", &[("bucket", "b"), ("name", "b"), ("versioning", "Enabled")]);
    let (pages, forms) = crawl(&mut owner, ROOT);
    for address in pages.iter().chain(&forms) {
        assert!(address.starts_with(ROOT), "{address}");
    }
    for page in [
        "bucket?",
        "object?",
        "settings?",
        "editor?",
        "document?",
        "rewind?",
        "connect",
        "users",
        "state",
        "content?",
        "assets/",
    ] {
        assert!(
            pages.iter().any(|address| address.starts_with(&format!("{ROOT}{page}"))),
            "{page}: {pages:?}"
        );
    }
    for form in ["create-bucket", "set", "delete", "sign-out"] {
        assert!(forms.contains(&format!("{ROOT}{form}")), "{form}: {forms:?}");
    }
    assert_eq!(owner.get("/-/console/").status, 404);
}

#[test]
fn sessions_redirects_and_uploads_have_it() {
    let site = Site::new().below(ROOT).on_own_listener(9000);
    let mut browser = site.browser();
    let form = browser.get("bucket?name=b");
    assert_eq!(form.status, 401);
    assert!(form.text().contains("name=\"next\" value=\"/box/ui/bucket?name=b\""), "{}", form.text());
    let keys = [("access_key", "AK-owner"), ("secret_key", "secret of owner")];
    for (next, leads_to) in [
        ("/box/ui/state", "/box/ui/state"),
        ("/-/console/state", ROOT),
        ("/box/uix/", ROOT),
        ("//evil.example/box/ui/", ROOT),
    ] {
        let signed_in = site.browser().post("sign-in", &[&keys[..], &[("next", next)]].concat());
        assert!(signed_in.text().contains(&format!("\"{leads_to}\"")), "{next}: {}", signed_in.text());
        let cookie = signed_in.header("Set-Cookie").unwrap();
        assert!(cookie.contains("; Path=/box/ui; HttpOnly; SameSite=Strict"), "{cookie}");
    }
    let link = site.console.first_link(&access_key("owner")).unwrap();
    assert!(link.starts_with("/box/ui/?token="), "{link}");
    assert_eq!(browser.get(&link).status, 200);
    browser.put("b", "k", &[], b"x");
    let changed = browser.post("create-bucket", &[("name", "second")]);
    assert_eq!((changed.status, changed.header("location")), (303, Some("/box/ui/bucket?name=second")));
    assert_eq!(browser.get("/box/ui").status, 200, "without the last slash");
    assert_eq!(browser.get("/").header("location"), Some(ROOT));
    let ended = browser.post("sign-out", &[]);
    assert_eq!((ended.status, ended.header("location")), (303, Some(ROOT)));
    assert!(ended.header("Set-Cookie").unwrap().contains("; Path=/box/ui; "));
    assert_eq!(browser.s3(Method::Put, "bucket=b&key=k", &[], b"x").status, 401);
}

#[test]
fn a_root_of_one_slash_is_one() {
    let site = Site::new().below("/").on_own_listener(9000);
    let mut owner = site.browser();
    let signed_in = owner.sign_in("AK-owner", "secret of owner");
    assert!(
        signed_in.header("Set-Cookie").unwrap().contains("; Path=/; HttpOnly"),
        "{:?}",
        signed_in.header("Set-Cookie")
    );
    assert_eq!(
        (owner.get("/").status, owner.get("/state").status, owner.get("/b/k").status),
        (200, 200, 404)
    );
}
