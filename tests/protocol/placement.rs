//! Pins of buckets, beside S3.

use super::*;

#[test]
fn a_pin_is_set_shown_and_removed_and_others_are_refused() {
    let server = Server::new();
    assert_eq!(server.get("/b?placement").text(), r#"{"placement":null}"#);
    for placement in ["local", "remote"] {
        let document = format!(r#"{{"placement":"{placement}"}}"#);
        let put = || server.request("PUT", "/b?placement").body(document.as_bytes()).send();
        assert_eq!(put().status, 200, "{:?}", put());
        assert_eq!(server.get("/b?placement").text(), document);
    }
    for refused in ["", "{}", r#"{"placement":"there"}"#, r#"{"placement":null}"#] {
        let put = server.request("PUT", "/b?placement").body(refused.as_bytes()).send();
        put.is_error(400, "InvalidArgument");
    }
    server.get("/absent?placement").is_error(404, "NoSuchBucket");
    assert_eq!(server.request("DELETE", "/b?placement").send().status, 204);
    assert_eq!(server.get("/b?placement").text(), r#"{"placement":null}"#);
}
