//! Moves and tags of many selected objects.

use std::time::Duration;

use siltstone::s3::Method;

use super::harness::{Answer, Browser, Site};

/// The hidden fields of the form of a page that has this name.
fn hidden_fields(page: &Answer, form: &str) -> Vec<(String, String)> {
    let mark = format!("data-form=\"{form}\"");
    let form = page.text().split("<form ").find(|form| form.contains(&mark)).expect("the page has the form");
    let form = form.split("</form>").next().unwrap();
    let mut fields = Vec::new();
    for input in form.split("<input type=\"hidden\" name=\"").skip(1) {
        let (name, rest) = input.split_once("\" value=\"").unwrap();
        let value = rest.split('"').next().unwrap().replace("&#38;", "&").replace("&#60;", "<");
        // Those of rows come with their texts.
        if name != "was" {
            fields.push((name.to_owned(), value));
        }
    }
    fields
}

/// Confirms the question of a page, and follows the steps to their end.
fn confirm(browser: &mut Browser<'_>, page: &str, question: &Answer, entered: &[(&str, &str)]) -> Answer {
    assert_eq!(question.status, 200, "{}", question.text());
    let mut fields = hidden_fields(question, &format!("confirm-{page}"));
    let mut more = entered;
    loop {
        let sent = fields.iter().map(|(name, value)| (&**name, &**value)).chain(more.iter().copied());
        let answer = browser.post(page, &sent.collect::<Vec<_>>());
        if !answer.text().contains("data-form=\"further-step\"") {
            return answer;
        }
        // The next step has what was entered.
        fields = hidden_fields(&answer, "further-step");
        more = &[];
    }
}

fn keys(browser: &mut Browser<'_>, bucket: &str) -> Vec<String> {
    let listing =
        browser.s3(Method::Get, &format!("bucket={bucket}&list-type=2&encoding-type=url"), &[], b"");
    listing.text().split("<Key>").skip(1).map(|rest| rest.split('<').next().unwrap().to_owned()).collect()
}

fn tags(browser: &mut Browser<'_>, key: &str) -> Vec<(String, String)> {
    let tagging = browser.s3(Method::Get, &format!("bucket=b&key={key}&tagging="), &[], b"");
    let text = |tag: &str, name: &str| {
        let rest = tag.split_once(&format!("<{name}>")).map(|(_, rest)| rest);
        // An empty element has no text.
        rest.map_or_else(String::new, |rest| rest.split('<').next().unwrap().to_owned())
    };
    tagging.text().split("<Tag>").skip(1).map(|tag| (text(tag, "Key"), text(tag, "Value"))).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A bucket with some objects in the folder `at/`.
fn filled(browser: &mut Browser<'_>) {
    let properties =
        [("x-amz-meta-colour", "red"), ("x-amz-tagging", "a%3Db=c"), ("content-type", "text/x-own")];
    for key in ["at/one", "at/f/x", "at/f/y\r\n", "at/other"] {
        browser.put("b", key, &properties, key.as_bytes());
    }
}

const SELECTION: [(&str, &str); 4] =
    [("bucket", "b"), ("at", "at%2F"), ("object", "at%2Fone"), ("folder", "at%2Ff%2F")];

#[test]
fn objects_and_folders_are_moved_with_their_properties() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    filled(&mut browser);
    let question = browser.post("move", &SELECTION);
    assert!(question.text().contains("Move or copy 3 objects"), "{}", question.text());
    assert_eq!(keys(&mut browser, "b"), ["at/f/x", "at/f/y%0D%0A", "at/one", "at/other"]);
    let answer = confirm(&mut browser, "move", &question, &[("to_bucket", "b"), ("to_folder", "to/here")]);
    assert_eq!(answer.header("Location"), Some("/-/console/bucket?name=b&prefix=at%2F"), "{}", answer.text());
    assert_eq!(keys(&mut browser, "b"), ["at/other", "to/here/f/x", "to/here/f/y%0D%0A", "to/here/one"]);
    let moved = browser.s3(Method::Get, "bucket=b&key=to/here/one", &[], b"");
    assert_eq!(moved.body, b"at/one");
    let header = |name| moved.header(name);
    assert_eq!([header("x-amz-meta-colour"), header("Content-Type")], [Some("red"), Some("text/x-own")]);
    assert_eq!(tags(&mut browser, "to/here/one"), pairs(&[("a=b", "c")]));
}

#[test]
fn one_object_or_folder_is_renamed() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    filled(&mut browser);
    let place = [("bucket", "b"), ("at", "at%2F")];
    let question = browser.post("move", &[&place[..], &[("object", "at%2Fone")]].concat());
    assert!(question.text().contains("name=\"to_name\" value=\"one\""), "{}", question.text());
    let entered = [("to_bucket", "b"), ("to_folder", "at/"), ("to_name", "new name?")];
    assert_eq!(confirm(&mut browser, "move", &question, &entered).status, 303);
    let question = browser.post("move", &[&place[..], &[("folder", "at%2Ff%2F")]].concat());
    assert!(question.text().contains("name=\"to_name\" value=\"f\""), "{}", question.text());
    let entered = [("to_bucket", "b"), ("to_folder", ""), ("to_name", "g")];
    assert_eq!(confirm(&mut browser, "move", &question, &entered).status, 303);
    assert_eq!(keys(&mut browser, "b"), ["at/new%20name%3F", "at/other", "g/x", "g/y%0D%0A"]);
}

#[test]
fn a_move_to_another_bucket_takes_several_steps() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    browser.post("create-bucket", &[("name", "other")]);
    for n in 0..450 {
        browser.put("b", &format!("f/{n:03}"), &[], b"x");
    }
    let question = browser.post("move", &[("bucket", "b"), ("folder", "f%2F")]);
    let entered = [("to_bucket", "other"), ("to_folder", "in"), ("to_name", "f")];
    let answer = confirm(&mut browser, "move", &question, &entered);
    assert_eq!(answer.status, 303, "{}", answer.text());
    assert_eq!((keys(&mut browser, "b").len(), keys(&mut browser, "other").len()), (0, 450));
    assert_eq!(keys(&mut browser, "other")[0], "in/f/000");
}

#[test]
fn a_move_replaces_nothing_and_leaves_what_was_changed_since() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    filled(&mut browser);
    browser.put("b", "to/one", &[], b"was there");
    let question = browser.post("move", &SELECTION);
    site.server.clock.advance(Duration::from_millis(1));
    browser.put("b", "at/f/x", &[], b"newer");
    browser.put("b", "at/f/z", &[], b"came later");
    let answer = confirm(&mut browser, "move", &question, &[("to_bucket", "b"), ("to_folder", "to/")]);
    assert_eq!(answer.status, 409, "{}", answer.text());
    let text = answer.text();
    assert!(text.contains("1 moved.") && text.contains("3 objects were not moved"), "{text}");
    assert!(text.contains("at/one: There is an object of this name already"), "{text}");
    assert_eq!(keys(&mut browser, "b"), ["at/f/x", "at/f/z", "at/one", "at/other", "to/f/y%0D%0A", "to/one"]);
    assert_eq!(browser.get("content?bucket=b&key=to/one").body, b"was there");
    assert_eq!(browser.get("content?bucket=b&key=at/f/x").body, b"newer");
}

#[test]
fn a_move_that_makes_no_sense_is_refused_and_keeps_what_was_entered() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    filled(&mut browser);
    let question = browser.post("move", &SELECTION);
    let before = keys(&mut browser, "b");
    for (bucket, folder, told) in [
        ("b", "at/", "there already"),
        ("b", "at/f", "into itself"),
        ("b", "at/f/deep/er", "into itself"),
        ("", "to/", "to_bucket"),
    ] {
        let answer =
            confirm(&mut browser, "move", &question, &[("to_bucket", bucket), ("to_folder", folder)]);
        assert!(answer.status == 400 && answer.text().contains(told), "{folder}: {}", answer.text());
        assert!(
            answer.text().contains(&format!("name=\"to_folder\" value=\"{folder}\"")),
            "{}",
            answer.text()
        );
    }
    let answer = confirm(&mut browser, "move", &question, &[("to_bucket", "none"), ("to_folder", "to/")]);
    assert!(answer.status == 409 && answer.text().contains("3 objects were not moved"), "{}", answer.text());
    assert_eq!(keys(&mut browser, "b"), before);
    let versions = [("bucket", "b"), ("history", "")];
    assert_eq!(browser.post("move", &versions).status, 400);
    assert_eq!(browser.post("move", &[("bucket", "b")]).status, 303);
}

#[test]
fn others_move_and_tag_nothing() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    filled(&mut owner);
    let mut reader = site.signed_in("reader");
    let question = reader.post("move", &SELECTION);
    let answer = confirm(&mut reader, "move", &question, &[("to_bucket", "b"), ("to_folder", "to/")]);
    assert!(answer.status == 409 && answer.text().contains("3 objects were not moved"), "{}", answer.text());
    let question = reader.post("tag", &SELECTION);
    let entered = [("mode", "add"), ("name", "x"), ("value", "y"), ("was", "")];
    let answer = confirm(&mut reader, "tag", &question, &entered);
    assert!(answer.status == 409 && answer.text().contains("3 objects were not tagged"), "{}", answer.text());
    assert_eq!(keys(&mut owner, "b"), ["at/f/x", "at/f/y%0D%0A", "at/one", "at/other"]);
    assert_eq!(tags(&mut owner, "at/one"), pairs(&[("a=b", "c")]));
    let listing = reader.get("bucket?name=b&prefix=at%2F");
    assert!(!listing.text().contains("move-selection") && !listing.text().contains("tag-selection"));
    let listing = owner.get("bucket?name=b&prefix=at%2F");
    assert!(listing.text().contains("move-selection") && listing.text().contains("tag-selection"));
}

#[test]
fn many_objects_are_tagged() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    filled(&mut browser);
    let question = browser.post("tag", &SELECTION);
    assert!(question.text().contains("Tag 3 objects"), "{}", question.text());
    let added = [("mode", "add"), ("name", "x+"), ("value", "1"), ("was", "")];
    assert_eq!(confirm(&mut browser, "tag", &question, &added).status, 303);
    for key in ["at/one", "at/f/x", "at/f/y%0D%0A"] {
        assert_eq!(tags(&mut browser, key), pairs(&[("a=b", "c"), ("x+", "1")]), "{key}");
    }
    assert_eq!(tags(&mut browser, "at/other"), pairs(&[("a=b", "c")]));
    let again = [("mode", "add"), ("name", "a=b"), ("value", "2"), ("was", "")];
    assert_eq!(confirm(&mut browser, "tag", &question, &again).status, 303);
    assert!(tags(&mut browser, "at/one").contains(&pairs(&[("a=b", "2")])[0]));
    let replaced = [("mode", "replace"), ("name", "only"), ("value", ""), ("was", "")];
    assert_eq!(confirm(&mut browser, "tag", &question, &replaced).status, 303);
    assert_eq!(tags(&mut browser, "at/f/x"), pairs(&[("only", "")]));
}

#[test]
fn tags_go_to_what_was_listed_and_refused_ones_stay_in_the_form() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    filled(&mut browser);
    let question = browser.post("tag", &SELECTION);
    site.server.clock.advance(Duration::from_millis(1));
    for key in ["at/one", "at/f/x"] {
        browser.put("b", key, &[], b"replaced");
    }
    let added = [("mode", "add"), ("name", "x"), ("value", "1"), ("was", "")];
    let answer = confirm(&mut browser, "tag", &question, &added);
    assert!(answer.status == 409 && answer.text().contains("1 tagged."), "{}", answer.text());
    assert!(tags(&mut browser, "at/one").is_empty() && tags(&mut browser, "at/f/x").is_empty());
    let answer = confirm(
        &mut browser,
        "tag",
        &question,
        &[("mode", "add"), ("name", ""), ("value", "kept"), ("was", "")],
    );
    assert!(answer.status == 400 && answer.text().contains("value=\"kept\""), "{}", answer.text());
    let answer = confirm(
        &mut browser,
        "tag",
        &question,
        &[("mode", "both"), ("name", "n"), ("value", "kept"), ("was", "")],
    );
    assert!(answer.status == 400 && answer.text().contains("value=\"kept\""), "{}", answer.text());
}

#[test]
fn a_copy_leaves_the_objects_where_they_are() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    filled(&mut browser);
    let question = browser.post("move", &SELECTION);
    let entered = [("to_bucket", "b"), ("to_folder", "to/here"), ("how", "copy")];
    assert_eq!(confirm(&mut browser, "move", &question, &entered).status, 303);
    assert_eq!(
        keys(&mut browser, "b"),
        ["at/f/x", "at/f/y%0D%0A", "at/one", "at/other", "to/here/f/x", "to/here/f/y%0D%0A", "to/here/one"]
    );
    assert_eq!(tags(&mut browser, "to/here/one"), pairs(&[("a=b", "c")]));
    assert!(browser.get("bucket?name=b").text().contains("role=\"status\""), "the outcome is told");
    let answer = confirm(&mut browser, "move", &question, &entered);
    assert!(answer.status == 409 && answer.text().contains("3 objects were not copied"), "{}", answer.text());
    let unknown = [("to_bucket", "b"), ("to_folder", "x/"), ("how", "both")];
    assert_eq!(confirm(&mut browser, "move", &question, &unknown).status, 400);
}

#[test]
fn who_may_read_and_not_delete_copies_alone() {
    use crate::support::users::user;

    let site = Site::new();
    site.replace_users(
        &(user("owner", &["*"], &["*"])
            + &user("some", &["ListBucket", "GetObject", "PutObject", "GetObjectTagging"], &["b", "b/*"])),
    );
    filled(&mut site.signed_in("owner"));
    let mut some = site.signed_in("some");
    let question = some.post("move", &SELECTION);
    assert!(
        question.text().contains("value=\"copy\"") && !question.text().contains("value=\"move\""),
        "{}",
        question.text()
    );
    let entered = [("to_bucket", "b"), ("to_folder", "to/"), ("how", "move")];
    let answer = confirm(&mut some, "move", &question, &entered);
    assert!(answer.status == 409 && answer.text().contains("3 objects were not moved"), "{}", answer.text());
    let mut owner = site.signed_in("owner");
    for key in ["at/one", "at/f/x"] {
        assert!(keys(&mut owner, "b").contains(&key.to_owned()), "{key} is still there");
    }
}

#[test]
fn a_folder_is_made_once_and_shown_empty() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    let fields = [("name", "b"), ("at", "at%2F"), ("folder", "ü ?/")];
    let answer = browser.post("new-folder", &fields);
    assert_eq!(
        answer.header("Location"),
        Some("/-/console/bucket?name=b&prefix=at%2F%C3%BC%20%3F%2F"),
        "{}",
        answer.text()
    );
    assert_eq!(keys(&mut browser, "b"), ["at/%C3%BC%20%3F/"]);
    let page = browser.get(answer.header("Location").unwrap());
    assert!(page.text().contains("Created the folder ü ?") && page.text().contains("There is nothing here."));
    let again = browser.post("new-folder", &fields);
    assert!(again.status == 412 && again.text().contains("value=\"ü ?/\""), "{}", again.text());
    for nothing in ["", "/", "//"] {
        let fields = [("name", "b"), ("at", ""), ("folder", nothing)];
        assert_eq!(browser.post("new-folder", &fields).status, 400, "{nothing}");
    }
    let mut reader = site.signed_in("reader");
    assert_eq!(reader.post("new-folder", &[("name", "b"), ("at", ""), ("folder", "x")]).status, 403);
    assert!(!reader.get("bucket?name=b").text().contains("data-form=\"new-folder\""));
}

#[test]
fn newest_first_is_for_folders_with_few_names() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    for key in ["c", "a", "b", "d/x"] {
        browser.put("b", key, &[], b"1");
        site.server.clock.advance(Duration::from_secs(1));
    }
    let names = |page: &Answer| {
        let links = page.links("/-/console/object?");
        links.iter().map(|link| link.rsplit('=').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let page = browser.get("bucket?name=b&sort=new");
    assert_eq!(names(&page), ["b", "a", "c"]);
    assert!(page.text().contains("aria-sort=\"descending\""), "{}", page.text());
    assert_eq!(names(&browser.get("bucket?name=b")), ["a", "b", "c"]);
    for n in 0..9_999 {
        browser.put("b", &format!("n{n:05}"), &[], b"1");
    }
    let page = browser.get("bucket?name=b&sort=new");
    assert!(page.text().contains("Newest first is for folders"), "{}", page.text());
    assert_eq!(names(&page)[0], "a");
}
