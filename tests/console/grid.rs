//! A folder with images as a grid of pictures, and the cookie that remembers it.

use siltstone::s3::Method;

use super::harness::{Answer, Site};
use crate::support::users::{access_key, secret_key};

fn is_grid(page: &Answer) -> bool {
    assert_eq!(page.status, 200, "{}", page.text());
    page.text().contains("<table class=\"files grid\">")
}

/// The keys of the objects that a page loads as pictures.
fn pictures(page: &Answer) -> Vec<&str> {
    let images = page.text().split("<img class=\"thumb\" src=\"").skip(1);
    images.map(|image| image.split('"').next().unwrap().rsplit("key=").next().unwrap()).collect()
}

#[test]
fn a_browser_remembers_that_images_are_shown_in_a_grid() {
    let site = Site::new();
    let mut browser = site.signed_in("owner");
    for (key, len) in [("small.png", 10), ("photo.JPG", 300 << 10), ("huge.png", (4 << 20) + 1)] {
        browser.put("b", key, &[], &vec![0; len]);
    }
    browser.put("b", "notes/a.txt", &[], b"x");
    let list = browser.get("bucket?name=b");
    assert!(!is_grid(&list) && list.header("Set-Cookie").is_none());
    assert_eq!(pictures(&list), ["small.png"]);
    let [as_grid] = &*list.links("/-/console/bucket?name=b&grid=") else { panic!("{}", list.text()) };
    let grid = browser.get(as_grid);
    assert!(is_grid(&grid));
    assert_eq!(pictures(&grid), ["photo.JPG", "small.png"]);
    let remembered = "siltstone-grid=1; Path=/-/console; HttpOnly; SameSite=Strict; Max-Age=31536000";
    assert_eq!(grid.header("Set-Cookie"), Some(remembered));
    let mut again = |page: &str| browser.send(Method::Get, page, &[("cookie", "siltstone-grid=1")], b"");
    let grid = again("bucket?name=b");
    assert!(is_grid(&grid) && grid.header("Set-Cookie").is_none());
    assert!(is_grid(&again("bucket?name=b&find=p")));
    for page in ["bucket?name=b&prefix=notes%2F", "bucket?name=b&versions=1", "bucket?name=b&deleted=1"] {
        let answer = again(page);
        assert!(!is_grid(&answer) && answer.links("/-/console/bucket?name=b&grid=").is_empty(), "{page}");
    }
    let [as_list] = &*grid.links("/-/console/bucket?name=b&grid=") else { panic!("{}", grid.text()) };
    let list = again(as_list);
    assert!(!is_grid(&list));
    assert!(list.header("Set-Cookie").unwrap().starts_with("siltstone-grid=0; "));
}

#[test]
fn over_tls_the_look_is_remembered_over_tls() {
    let site = Site::new();
    let mut browser = site.browser();
    browser.secure = true;
    assert_eq!(browser.sign_in(&access_key("owner"), &secret_key("owner")).status, 200);
    let answer = browser.get("bucket?name=b&grid=1");
    assert!(answer.header("Set-Cookie").unwrap().starts_with("siltstone-grid=1; Path=/; Secure; HttpOnly"));
}

#[test]
fn a_page_loads_so_many_bytes_of_pictures_without_scripts_and_the_rest_by_them() {
    let site = Site::with_quick_tags();
    let mut owner = site.signed_in("owner");
    for number in 0..11 {
        owner.put("b", &format!("{number:02}.jpg"), &[], &vec![0; 3 << 20]);
    }
    let page = owner.get("bucket?name=b&grid=1");
    let count = |text: &str| page.text().matches(text).count();
    // 32 MiB are ten of them.
    assert_eq!(
        (count("<img class=\"thumb\" src="), count("<img class=\"thumb scripted\" data-src=")),
        (10, 1)
    );
    assert_eq!(count("<svg class=\"i unscripted\""), 1);
}
