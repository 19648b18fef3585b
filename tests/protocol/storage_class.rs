//! The storage classes STANDARD and COLD, as clients state and see them.

use super::*;

const CLASS: &str = "p-storage-class";

fn class_of(answer: &Answer, dialect: Dialect) -> Option<String> {
    answer.header(&format!("{}storage-class", dialect.header_prefix())).map(str::to_owned)
}

fn seen(server: &Server, target: &str) -> (Option<String>, Option<String>) {
    let dialect = usual_dialect();
    (class_of(&server.get(target), dialect), class_of(&server.head(target), dialect))
}

#[test]
fn an_object_has_the_class_that_it_was_put_with_wherever_it_is_shown() {
    for dialect in Dialect::ALL {
        let server = Server::new();
        let put = server.request("PUT", "/b/k").dialect(dialect).header(CLASS, "COLD").body(b"x");
        assert_eq!(put.send().status, 200);
        for method in ["GET", "HEAD"] {
            let answer = server.request(method, "/b/k").dialect(dialect).send();
            assert_eq!(class_of(&answer, dialect).as_deref(), Some("COLD"), "{method}");
        }
        server.put("/b/usual", b"x");
        for query in ["list-type=2", "max-keys=9", "versions"] {
            assert_eq!(
                server.get(&format!("/b?{query}")).all("StorageClass"),
                ["COLD", "STANDARD"],
                "{query}"
            );
        }
        let attributes = server.request("GET", "/b/k?attributes").dialect(dialect);
        let attributes = attributes.header("p-object-attributes", "StorageClass").send();
        assert_eq!(attributes.one("StorageClass").as_deref(), Some("COLD"));
    }
}

/// S3 sends no header for the usual class. A class that the store does not have means the usual
/// one.
#[test]
fn other_objects_are_of_the_usual_class_which_no_header_tells() {
    let server = Server::new();
    for class in ["STANDARD", "STANDARD_IA", "REDUCED_REDUNDANCY", "GLACIER", "cold", ""] {
        let put = server.request("PUT", "/b/k").header(CLASS, class).body(b"x").send();
        assert_eq!(put.status, 200, "{class}");
        assert_eq!(seen(&server, "/b/k"), (None, None), "{class}");
        assert_eq!(server.get("/b?list-type=2").all("StorageClass"), ["STANDARD"], "{class}");
    }
}

#[test]
fn a_copy_has_the_class_of_its_request_and_onto_itself_changes_it() {
    let server = Server::new();
    server.request("PUT", "/b/k").header(CLASS, "COLD").header("p-meta-a", "1").body(b"x").send();
    let copy = |target: &str| server.request("PUT", target).header("p-copy-source", "/b/k");
    assert_eq!(copy("/b/copy").send().status, 200);
    assert_eq!(seen(&server, "/b/copy").0, None, "as in S3, the class is not copied");
    assert_eq!(copy("/b/k").send().status, 400, "nothing would change");
    assert_eq!(copy("/b/k").header(CLASS, "STANDARD").send().status, 200);
    assert_eq!(seen(&server, "/b/k"), (None, None));
    assert_eq!(copy("/b/k").header(CLASS, "COLD").send().status, 200);
    assert_eq!(seen(&server, "/b/k").0.as_deref(), Some("COLD"));
    let meta = format!("{}meta-a", usual_dialect().header_prefix());
    assert_eq!(server.get("/b/k").header(&meta), Some("1"));
}

#[test]
fn an_upload_gives_its_class_to_the_object() {
    let server = Server::new();
    let begun = server.request("POST", "/b/k?uploads").header(CLASS, "COLD").send();
    let id = begun.one("UploadId").unwrap();
    let part = server.put(&format!("/b/k?partNumber=1&uploadId={id}"), b"x");
    assert_eq!(server.get("/b?uploads").all("StorageClass"), ["COLD"]);
    assert_eq!(server.get(&format!("/b/k?uploadId={id}")).all("StorageClass"), ["COLD"]);
    let body = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part></CompleteMultipartUpload>",
        part.header("ETag").unwrap()
    );
    let done = server.request("POST", &format!("/b/k?uploadId={id}")).body(body.as_bytes()).send();
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(seen(&server, "/b/k").0.as_deref(), Some("COLD"));
}
