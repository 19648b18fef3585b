//! Forms that are refused: the page shows them again with what was entered, and says why.

use std::fs;
use std::path::Path;

use super::harness::{Answer, Browser, Site};
use super::users;
use crate::support::users::user;

/// A form that is refused.
struct RefusedForm {
    page: &'static str,
    /// Hidden fields, and what was chosen.
    sent: Vec<(&'static str, &'static str)>,
    /// Texts that were entered.
    entered: Vec<(&'static str, &'static str)>,
    status: u16,
}

/// Characters that must stay text.
const TEXT: &str = "<b>\"ü'&\u{202e} x";

fn plain(escaped: &str) -> String {
    [("&#60;", "<"), ("&#62;", ">"), ("&#34;", "\""), ("&#39;", "'"), ("&#38;", "&")]
        .iter()
        .fold(escaped.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

/// The texts in the fields of a name that a person can edit, in the order of the page.
fn texts(page: &str, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for tag in page.split('<').skip(1) {
        let (attributes, after) = tag.split_once('>').unwrap_or((tag, ""));
        if !attributes.contains(&format!(" name=\"{name}\"")) || attributes.contains("type=\"hidden\"") {
            continue;
        }
        if attributes.starts_with("textarea") {
            found.push(plain(after));
        } else if attributes.starts_with("input") {
            let value = attributes.split_once(" value=\"").and_then(|(_, rest)| rest.split('"').next());
            found.push(plain(value.unwrap_or_default()));
        }
    }
    found
}

/// The tags of the page that have a value and are chosen.
fn is_chosen(page: &str, value: &str) -> bool {
    let mut tags = page.split('<').filter(|tag| tag.contains(&format!(" value=\"{value}\"")));
    tags.any(|tag| {
        let attributes = tag.split('>').next().unwrap();
        attributes.ends_with(" checked") || attributes.ends_with(" selected")
    })
}

fn send(browser: &mut Browser<'_>, form: &RefusedForm) -> Answer {
    let fields: Vec<_> = form.sent.iter().chain(&form.entered).copied().collect();
    browser.post(form.page, &fields)
}

fn editor(kind: &'static str, entered: Vec<(&'static str, &'static str)>) -> RefusedForm {
    RefusedForm { page: "editor", sent: vec![("name", "b"), ("kind", kind)], entered, status: 400 }
}

fn document(setting: &'static str) -> RefusedForm {
    let sent = vec![("name", "b"), ("setting", setting)];
    RefusedForm { page: "set", sent, entered: vec![("text", "<no \"document\"> {")], status: 400 }
}

fn quota(bytes: &'static str, objects: &'static str) -> RefusedForm {
    let sent = vec![("name", "b"), ("setting", "quota")];
    RefusedForm { page: "set", sent, entered: vec![("bytes", bytes), ("objects", objects)], status: 400 }
}

fn default_encryption(algorithm: &'static str, key: &'static str) -> RefusedForm {
    let sent = vec![("name", "b"), ("setting", "default-encryption"), ("algorithm", algorithm)];
    RefusedForm { page: "set", sent, entered: vec![("key", key)], status: 400 }
}

fn user_form(
    sent: Vec<(&'static str, &'static str)>,
    entered: Vec<(&'static str, &'static str)>,
) -> RefusedForm {
    RefusedForm { page: "user", sent, entered, status: 400 }
}

fn change(
    sent: &[(&'static str, &'static str)],
    entered: Vec<(&'static str, &'static str)>,
    status: u16,
) -> RefusedForm {
    let of_object = [("bucket", "b"), ("key", "k%0D%0A")];
    RefusedForm { page: "change", sent: [&of_object, sent].concat(), entered, status }
}

fn refused_forms() -> Vec<RefusedForm> {
    let row_of = |change: &'static str| vec![("change", change), ("was", "")];
    let mut forms = vec![
        RefusedForm {
            page: "create-bucket",
            sent: vec![("versions", "1")],
            entered: vec![("name", TEXT)],
            status: 400,
        },
        quota("ten", "5"),
        quota("10GiB", TEXT),
        default_encryption("AES256", TEXT),
        default_encryption("rot13", ""),
        user_form(
            vec![("change", "create"), ("role", "write")],
            vec![("name", TEXT), ("bucket", ""), ("grants", TEXT)],
        ),
        user_form(
            vec![("change", "create"), ("role", "custom")],
            vec![("name", "x"), ("bucket", TEXT), ("grants", TEXT)],
        ),
        user_form(vec![("change", "grants"), ("name", "a\u{202e}b")], vec![("grants", TEXT)]),
        editor(
            "lifecycle",
            vec![
                ("id", TEXT),
                ("prefix", TEXT),
                ("days", "x"),
                ("noncurrent_days", "1"),
                ("abort_days", "2"),
            ],
        ),
        editor("lifecycle", vec![("text", "<Lifecycle")]),
        editor("cors", vec![("origins", TEXT), ("headers", "x-a"), ("exposed", "x-b"), ("max_age", "7")]),
        editor("policy", vec![("user", TEXT), ("prefix", "*")]),
        editor("object-lock", vec![("days", "x")]),
        editor("website", vec![("index", ""), ("error", TEXT)]),
        editor("notification", vec![("id", TEXT), ("prefix", TEXT), ("suffix", TEXT)]),
        change(
            &[row_of("metadata"), vec![("etag", "%22another%22")]].concat(),
            vec![("content_type", "text/x-new"), ("name", "colour"), ("value", "red & \"blue\"")],
            412,
        ),
        change(
            &[row_of("tags"), vec![("shown", "another")]].concat(),
            vec![("name", TEXT), ("value", TEXT)],
            409,
        ),
        change(&row_of("tags"), vec![("name", "aws:no"), ("value", TEXT)], 400),
    ];
    let documents =
        ["policy", "cors", "lifecycle", "object-lock", "encryption", "website", "tagging", "notification"];
    forms.extend(documents.map(document));
    forms
}

#[test]
fn a_refused_form_is_shown_again_with_what_was_entered() {
    let (site, _) = users::site();
    let mut browser = site.signed_in("owner");
    browser.put("b", "k\r\n", &[], b"x");
    for form in refused_forms() {
        let answer = send(&mut browser, &form);
        let told = format!("{} {:?} {:?}: {}", form.page, form.sent, form.entered, answer.text());
        assert_eq!(answer.status, form.status, "{told}");
        assert!(answer.text().contains("role=\"alert\""), "{told}");
        for (name, text) in &form.entered {
            assert!(texts(answer.text(), name).iter().any(|shown| shown == text), "{name}: {told}");
        }
    }
}

#[test]
fn a_refused_form_keeps_what_was_chosen() {
    let (site, _) = users::site();
    let mut browser = site.signed_in("owner");
    browser.put("b", "k", &[], b"x");
    let answer = browser.post("create-bucket", &[("name", "No"), ("versions", "1")]);
    assert!(is_chosen(answer.text(), "1"), "{}", answer.text());
    let answer = browser.post("user", &[("change", "create"), ("name", "x"), ("role", "create")]);
    assert!(is_chosen(answer.text(), "create") && !is_chosen(answer.text(), "read"), "{}", answer.text());
    let cors = [("name", "b"), ("kind", "cors"), ("method", "PUT"), ("method", "DELETE")];
    let answer = browser.post("editor", &cors);
    assert!(is_chosen(answer.text(), "PUT") && is_chosen(answer.text(), "DELETE"), "{}", answer.text());
    assert!(!is_chosen(answer.text(), "GET") && !is_chosen(answer.text(), "HEAD"), "{}", answer.text());
    let lock = [("name", "b"), ("kind", "object-lock"), ("mode", "COMPLIANCE"), ("days", "x")];
    assert!(is_chosen(browser.post("editor", &lock).text(), "COMPLIANCE"));
    let policy = [("name", "b"), ("kind", "policy"), ("template", "reader")];
    let answer = browser.post("editor", &policy);
    assert!(is_chosen(answer.text(), "reader") && !is_chosen(answer.text(), "public"), "{}", answer.text());
    let encryption =
        [("name", "b"), ("setting", "default-encryption"), ("algorithm", "AES256"), ("key", "x")];
    let answer = browser.post("set", &encryption);
    assert!(is_chosen(answer.text(), "AES256") && !is_chosen(answer.text(), "aws:kms"), "{}", answer.text());
    let share = [("bucket", "b"), ("key", "k"), ("expires", "604800"), ("version", "none")];
    let answer = browser.post("share", &share);
    assert!(answer.status >= 400, "{}", answer.text());
    // Without a refusal the defaults are chosen.
    let page = browser.get("editor?name=b&kind=cors");
    assert!(is_chosen(page.text(), "GET") && !is_chosen(page.text(), "PUT"), "{}", page.text());
    let page = browser.get("object?bucket=b&key=k");
    assert!(is_chosen(page.text(), "86400") && !page.text().contains("<details open>"), "{}", page.text());
}

#[test]
fn a_refused_change_of_a_rule_keeps_the_rule() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let rule = "<LifecycleConfiguration><Rule><ID>old</ID><Filter><Prefix>p</Prefix></Filter><Status>Enabled</Status>\
        <Expiration><Days>5</Days></Expiration></Rule></LifecycleConfiguration>";
    let saved = browser.post("set", &[("name", "b"), ("setting", "lifecycle"), ("text", rule)]);
    assert_eq!(saved.status, 303, "{}", saved.text());
    let fields = [("name", "b"), ("kind", "lifecycle"), ("id", "new"), ("days", "x"), ("status", "Disabled")];
    for (changed, is_there) in [("old", true), ("gone", false)] {
        let answer = browser.post("editor", &[&fields[..], &[("rule", changed)]].concat());
        assert!((400..=409).contains(&answer.status), "{}", answer.text());
        assert_eq!(answer.text().contains("name=\"rule\" value=\"old\""), is_there, "{}", answer.text());
        assert_eq!(texts(answer.text(), "id"), ["new"]);
        assert_eq!(texts(answer.text(), "days"), ["x"]);
        assert!(is_chosen(answer.text(), "Disabled"), "{}", answer.text());
    }
}

#[test]
fn the_time_of_a_rewind_and_the_access_key_stay() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.post("set", &[("name", "b"), ("setting", "versioning"), ("status", "Enabled")]);
    let answer = browser.get("rewind?bucket=b&time=yesterday%22");
    assert!(answer.status == 400 && answer.text().contains("A time is written as"), "{}", answer.text());
    assert_eq!(texts(answer.text(), "time"), ["yesterday\""]);
    let answer = site.browser().sign_in("who<", "wrong");
    assert_eq!((answer.status, texts(answer.text(), "access_key")), (403, vec!["who<".to_owned()]));
    assert_eq!(texts(answer.text(), "secret_key"), [""]);
}

#[test]
fn a_form_of_somebody_who_may_not_see_its_page_is_refused_as_before() {
    let (site, directory) = users::site();
    let mut reader = site.signed_in("reader");
    let answer = reader.post("user", &[("change", "create"), ("name", "x"), ("role", "administrator")]);
    assert!(answer.status == 403 && !answer.text().contains("AK-"), "{}", answer.text());
    assert!(!directory.has_changed());
    let answer = reader.post("set", &[("name", "other"), ("setting", "quota"), ("bytes", "1")]);
    assert!(answer.status >= 400 && answer.text().contains("That did not work"), "{}", answer.text());
    // A change by GET is no form of a page.
    let answer = site.signed_in("owner").get("set?name=b&setting=quota&bytes=1");
    assert!(answer.status == 405 && answer.text().contains("That did not work"), "{}", answer.text());
}

/// A field of a template that is not checked has a reason.
const SHOWN_OTHERWISE: [&str; 13] = [
    // The address has it.
    "home.html name",
    // `time_value` and the pairs of rows are what was entered.
    "rewind.html time",
    "object.html name",
    "object.html value",
    "tag.html name",
    "tag.html value",
    // Refused rows of tags are shown by `pair_rows`, a refused rule by the page of the editor.
    "settings.html name",
    "settings.html value",
    "settings.html prefix",
    "settings.html days",
    // A document has a page of its own, and a draft shows its text.
    "document.html text",
    "editor.html text",
    "sign_in.html access_key",
];

#[test]
fn every_text_field_of_the_templates_shows_what_was_entered() {
    let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console/templates");
    let mut checked = 0;
    for entry in fs::read_dir(templates).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        for line in fs::read_to_string(&path).unwrap().lines() {
            for field in
                line.split('<').filter(|tag| tag.starts_with("input ") || tag.starts_with("textarea "))
            {
                let of_other_kind = ["hidden", "checkbox", "radio", "file", "search", "password"];
                let is_other = of_other_kind.iter().any(|kind| field.contains(&format!("type=\"{kind}\"")));
                let Some((_, rest)) = field.split_once(" name=\"").filter(|_| !is_other) else { continue };
                let name = rest.split('"').next().unwrap();
                checked += 1;
                let shows = field.contains(&format!(".text(\"{name}\", "));
                let is_known = SHOWN_OTHERWISE.contains(&&*format!("{file} {name}"));
                assert!(shows || is_known, "{file}: the field {name} loses what was entered");
            }
        }
    }
    assert!(checked > 30, "only {checked} fields were found");
}

/// The value of the field `shown` of the first form of a page that has this text.
fn shown(page: &Answer, text: &str) -> String {
    let form = page.text().split("<form ").find(|form| form.contains(text)).unwrap();
    let (_, rest) = form.split_once("name=\"shown\" value=\"").unwrap();
    rest.split('"').next().unwrap().to_owned()
}

#[test]
fn forms_of_a_user_overwrite_nothing_that_another_hand_changed() {
    let (site, directory) = users::site();
    let mut browser = site.signed_in("owner");
    let page = browser.get("users");
    let seen = shown(&page, "data-form=\"grants\"><input type=\"hidden\" name=\"name\" value=\"a\u{202e}b\"");
    let fields = |change: &'static str, shown: &str| {
        let name = "a\u{202e}b".to_owned();
        [
            ("change", change.to_owned()),
            ("name", name),
            ("shown", shown.to_owned()),
            ("sure", "yes".to_owned()),
        ]
    };
    for change in ["grants", "rotate", "finish", "delete"] {
        let stale = fields(change, "another");
        let stale: Vec<_> = stale.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = browser.post("user", &stale);
        assert!(answer.status == 409 && answer.text().contains("somebody else"), "{}", answer.text());
        assert!(!directory.has_changed());
    }
    let sound = fields("finish", &seen);
    let sound: Vec<_> = sound.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(browser.post("user", &sound).status, 303);
    assert!(directory.has_changed());
}

#[test]
fn quotas_websites_and_rules_overwrite_nothing_that_another_hand_changed() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let stored = |browser: &mut Browser<'_>, setting: &str, text: &str| {
        let answer = browser.post("set", &[("name", "b"), ("setting", setting), ("text", text)]);
        assert_eq!(answer.status, 303, "{}", answer.text());
    };
    let rule = |days: u32| {
        format!(
            "<LifecycleConfiguration><Rule><ID>one</ID><Filter><Prefix></Prefix></Filter><Status>Enabled</Status>\
             <Expiration><Days>{days}</Days></Expiration></Rule></LifecycleConfiguration>"
        )
    };
    let site_of = |index: &str| {
        format!(
            "<WebsiteConfiguration><IndexDocument><Suffix>{index}</Suffix></IndexDocument></WebsiteConfiguration>"
        )
    };
    stored(&mut browser, "lifecycle", &rule(5));
    stored(&mut browser, "website", &site_of("a.html"));
    let quota = shown(&browser.get("settings?name=b"), "value=\"quota\"");
    let lifecycle = shown(&browser.get("editor?name=b&kind=lifecycle&rule=one"), "name=\"rule\"");
    let website = shown(&browser.get("editor?name=b&kind=website"), "name=\"index\"");
    let set_quota = [("name", "b"), ("setting", "quota"), ("objects", "7")];
    let change_rule = [("name", "b"), ("kind", "lifecycle"), ("rule", "one"), ("id", "one"), ("days", "7")];
    let change_site = [("name", "b"), ("kind", "website"), ("index", "i.html")];
    let post = |browser: &mut Browser<'_>, page: &str, fields: &[(&str, &str)], shown: &str| {
        browser.post(page, &[fields, &[("shown", shown)]].concat()).status
    };
    assert_eq!(post(&mut browser, "editor", &change_rule, &lifecycle), 200);
    assert_eq!(post(&mut browser, "editor", &change_site, &website), 200);
    assert_eq!(post(&mut browser, "set", &set_quota, &quota), 303);
    stored(&mut browser, "lifecycle", &rule(6));
    stored(&mut browser, "website", &site_of("b.html"));
    assert_eq!(post(&mut browser, "editor", &change_rule, &lifecycle), 409);
    assert_eq!(post(&mut browser, "editor", &change_site, &website), 409);
    assert_eq!(post(&mut browser, "set", &set_quota, &quota), 409);
}

#[test]
fn rules_with_line_ends_in_their_names_are_changed_and_removed() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let rule = "<LifecycleConfiguration><Rule><ID>two\nlines</ID><Filter><Prefix>p\nq/</Prefix></Filter><Status>Enabled</Status>\
        <Expiration><Days>5</Days></Expiration></Rule></LifecycleConfiguration>";
    let saved = browser.post("set", &[("name", "b"), ("setting", "lifecycle"), ("text", rule)]);
    assert_eq!(saved.status, 303, "{}", saved.text());
    let page = browser.get("editor?name=b&kind=lifecycle");
    assert!(page.text().contains("name=\"remove\" value=\"two%0Alines\""), "{}", page.text());
    let link = page.links("/-/console/editor?name=b&kind=lifecycle&rule=")[0].clone();
    let form = browser.get(&link);
    // A field of one line would lose the line end of the prefix.
    assert!(form.text().contains("name=\"rule_text\"") && !form.text().contains("name=\"prefix\""));
    assert!(form.text().contains("name=\"rule\" value=\"two%0Alines\""), "{}", form.text());
    let removed = browser.post("editor", &[("name", "b"), ("kind", "lifecycle"), ("remove", "two%0Alines")]);
    assert!(removed.status == 200 && removed.text().contains("No rule would be left"), "{}", removed.text());
}

#[test]
fn a_form_of_very_many_fields_is_refused() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let rows = vec![("name", "a"); 3_000];
    for page in ["change", "delete", "move", "tag", "archive", "editor", "set", "user"] {
        let answer = browser.post(page, &[&[("bucket", "b"), ("key", "k")], &*rows].concat());
        assert!(answer.status == 400 && answer.text().len() < 10_000, "{page}: {}", answer.text());
        assert!(answer.text().contains("2000 fields"), "{page}: {}", answer.text());
    }
}

#[test]
fn settings_offer_what_the_user_may_set() {
    let site = Site::new();
    site.replace_users(&format!(
        "{}{}",
        Site::users("secret of owner"),
        user(
            "looker",
            &["ListBucket", "GetBucketQuota", "GetBucketVersioning", "GetBucketPolicy", "GetBucketTagging"],
            &["b"]
        )
    ));
    let mut owner = site.signed_in("owner");
    let tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>shown</Value></Tag></TagSet></Tagging>";
    for (setting, field, value) in [("tagging", "text", tags), ("quota", "objects", "777")] {
        let answer = owner.post("set", &[("name", "b"), ("setting", setting), (field, value)]);
        assert_eq!(answer.status, 303, "{}", answer.text());
    }
    let page = site.signed_in("looker").get("settings?name=b");
    assert!(page.text().contains("777 objects") && page.text().contains("shown"), "{}", page.text());
    assert!(page.text().contains("Only users with a permission can read objects."), "{}", page.text());
    for greyed in ["Turn versioning on", "Make public"] {
        let greyed = format!("<span>{greyed}</span><span class=\"why\"> needs PutBucket");
        assert!(page.text().contains(&greyed), "{greyed}: {}", page.text());
        assert!(!owner.get("settings?name=b").text().contains(&greyed), "{greyed}");
    }
    let versioning = "value=\"Enabled\"><button class=\"primary\">Turn versioning on";
    for offered in
        ["Set the quota", versioning, ">Make public</button>", "Save tags", "Edit as text", "Add a rule"]
    {
        assert!(!page.text().contains(offered), "{offered}: {}", page.text());
        assert!(owner.get("settings?name=b").text().contains(offered), "{offered}");
    }
}
