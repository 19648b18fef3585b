//! A console with a listener of its own.

use siltstone::s3::Method;

use super::harness::Site;

#[test]
fn a_listener_of_its_own_has_the_console_alone() {
    let site = Site::new().on_own_listener(9000);
    let mut owner = site.signed_in("owner");
    owner.put("b", "page.html", &[], b"<script>alert(1)</script>");
    assert_eq!(owner.get("bucket?name=b").status, 200);
    for path in [
        "/b/page.html",
        "/b",
        "/-/health",
        "/-/metrics",
        "/-/api/1/users",
        "/minio/health/live",
        "/-/consoles",
    ] {
        let answer = owner.get(path);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (404, Some("text/plain; charset=utf-8")),
            "{path}"
        );
        assert!(answer.header("content-security-policy").is_some(), "{path}");
    }
    let put = owner.send(Method::Put, "/public/key", &[], b"x");
    assert_eq!(put.status, 404);
    let at_root = owner.get("/");
    assert_eq!((at_root.status, at_root.header("location")), (303, Some("/-/console/")));
    assert_eq!(owner.send(Method::Post, "/", &[], b"").status, 404);
}

#[test]
fn links_and_lines_to_paste_name_the_port_of_s3_requests() {
    let share = |site: &Site, secure: bool, host: &str| {
        let mut owner = site.browser();
        owner.secure = secure;
        let keys = [("access_key", "AK-owner"), ("secret_key", "secret of owner")];
        let lines = [("sec-fetch-site", "same-origin"), ("host", host)];
        owner.post_with("sign-in", &keys, &lines);
        owner.put("b", "k", &[], b"x");
        let connect = owner.send(Method::Get, "connect", &[("host", host)], b"").text().to_owned();
        let shared = owner.post_with("share", &[("bucket", "b"), ("key", "k"), ("expires", "60")], &lines);
        let [link] = &shared.links("http")[..] else { panic!("{}", shared.text()) };
        let origin = link.split_once("/b/k?").unwrap().0.to_owned();
        assert!(
            connect.contains(&format!("{origin}\n")) || connect.contains(&format!("{origin}<")),
            "{connect}"
        );
        // A phone would look for that on itself.
        let is_for_phones = !host.starts_with("[::1]");
        for page in [&*connect, shared.text()] {
            assert_eq!(page.contains("aria-label=\"QR code of the address\""), is_for_phones, "{host}");
        }
        origin
    };
    let own = Site::new().on_own_listener(9000);
    assert_eq!(share(&own, false, "box.example:9001"), "http://box.example:9000");
    assert_eq!(share(&own, false, "[::1]:9001"), "http://[::1]:9000");
    assert_eq!(share(&own, true, "[::1]"), "https://[::1]:9000");
    assert_eq!(share(&own, true, "box.example"), "https://box.example:9000");
    let usual = Site::new().on_own_listener(443);
    assert_eq!(share(&usual, true, "box.example:9001"), "https://box.example");
    assert_eq!(share(&usual, false, "box.example:9001"), "http://box.example:443");
    assert_eq!(share(&Site::new(), false, "box.example:9001"), "http://box.example:9001", "without its own");
}
