//! Access control lists, under each ownership of objects.

use super::*;

const ALL_USERS: &str = "http://acs.amazonaws.com/groups/global/AllUsers";
const SIGNED_USERS: &str = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers";

fn set_ownership(server: &Server, bucket: &str, ownership: &str) -> Answer {
    let body = format!(
        "<OwnershipControls><Rule><ObjectOwnership>{ownership}</ObjectOwnership></Rule></OwnershipControls>"
    );
    server.request("PUT", &format!("/{bucket}?ownershipControls")).body(body.as_bytes()).send()
}

/// A server with ACLs in effect, where `guest` has no permission.
fn server_with_acls(ownership: &str) -> Server {
    let server = Server::with_grants(&[("guest", &[], &["*"]), ("writer", &["PutObject"], &["*"])]);
    assert_eq!(set_ownership(&server, "b", ownership).status, 200);
    server
}

fn put_as(server: &Server, target: &str, acl: &str) -> Answer {
    server.request("PUT", target).header("p-acl", acl).body(b"x").send()
}

/// The grants of an ACL: the grantee and the permission of each.
fn grants(server: &Server, target: &str) -> Vec<(String, String)> {
    let answer = server.get(target);
    assert_eq!(answer.status, 200, "{answer:?}");
    let document = roxmltree::Document::parse(answer.text()).unwrap();
    let text = |node: roxmltree::Node<'_, '_>, names: &[&str]| {
        let found = node.descendants().find(|child| names.contains(&child.tag_name().name()));
        found.and_then(|found| found.text()).unwrap_or_default().to_owned()
    };
    let listed = document.descendants().filter(|node| node.tag_name().name() == "Grant");
    listed.map(|grant| (text(grant, &["ID", "URI"]), text(grant, &["Permission"]))).collect()
}

/// The grants of an object or bucket of `owner` with these beside: those of groups come first.
fn granted(of: &[(&str, &str)]) -> Vec<(String, String)> {
    granted_beside("owner", of)
}

fn granted_beside(owner: &str, of: &[(&str, &str)]) -> Vec<(String, String)> {
    let is_group = |grant: &&(&str, &str)| grant.0.starts_with("http");
    let groups = of.iter().filter(is_group);
    let users = of.iter().filter(|grant| !is_group(grant));
    let own = (owner, "FULL_CONTROL");
    let all = groups.chain([&own]).chain(users);
    all.map(|(grantee, permission)| ((*grantee).to_owned(), (*permission).to_owned())).collect()
}

/// The grants of a list that says what the owner has.
fn listed(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(grantee, permission)| ((*grantee).to_owned(), (*permission).to_owned())).collect()
}

fn anonymous(server: &Server, method: &str, target: &str) -> u16 {
    server.request(method, target).anonymous().send().status
}

fn by_guest(server: &Server, method: &str, target: &str) -> u16 {
    server.request(method, target).by("guest").send().status
}

#[test]
fn where_acls_are_off_the_owner_has_everything_and_nothing_is_set() {
    let server = Server::new();
    server.put("/b/k", b"x");
    for target in ["/b?acl", "/b/k?acl"] {
        assert_eq!(grants(&server, target), granted(&[]));
        for (name, value) in [("p-acl", "bucket-owner-full-control"), ("p-grant-full-control", "id=owner")] {
            assert_eq!(server.request("PUT", target).header(name, value).send().status, 200);
        }
        for acl in ["private", "public-read", "authenticated-read", "bucket-owner-read", "aws-exec-read"] {
            let put = server.request("PUT", target).header("p-acl", acl).send();
            put.is_error(400, "AccessControlListNotSupported");
        }
        let own = server.get(target).body;
        assert_eq!(
            server.request("PUT", target).body(&own).send().status,
            200,
            "an ACL that changes nothing"
        );
        let own = String::from_utf8(own).unwrap();
        let (before, rest) = own.split_once("<AccessControlList>").unwrap();
        let (grants, after) = rest.split_once("</AccessControlList>").unwrap();
        let less = grants.replace("FULL_CONTROL", "READ");
        for grants in ["", &less, &format!("{grants}{less}")] {
            let other = format!("{before}<AccessControlList>{grants}</AccessControlList>{after}");
            let other = server.request("PUT", target).body(other.as_bytes()).send();
            other.is_error(400, "AccessControlListNotSupported");
        }
    }
    for target in ["/b/new", "/b/new?uploads"] {
        let method = if target.ends_with("uploads") { "POST" } else { "PUT" };
        let create = |name: &str, value: &str| server.request(method, target).header(name, value).send();
        create("p-acl", "public-read").is_error(400, "AccessControlListNotSupported");
        create("p-grant-read", "id=other").is_error(400, "AccessControlListNotSupported");
        create("p-acl", "public").is_error(400, "InvalidArgument");
        for acl in ["private", "bucket-owner-full-control"] {
            assert_eq!(create("p-acl", acl).status, 200);
            let by_other = server.request(method, target).by("other").header("p-acl", acl).send();
            assert_eq!(by_other.status, 200, "all users are of the account of the bucket");
        }
        assert_eq!(create("p-grant-full-control", "id=owner").status, 200);
    }
    let copy =
        server.request("PUT", "/b/copy").header("p-copy-source", "/b/k").header("p-acl", "public-read");
    copy.send().is_error(400, "AccessControlListNotSupported");
}

#[test]
fn an_object_is_read_by_the_groups_that_its_acl_names() {
    for ownership in ["ObjectWriter", "BucketOwnerPreferred"] {
        let server = server_with_acls(ownership);
        for (acl, expected) in [
            ("private", [403, 403]),
            ("bucket-owner-full-control", [403, 403]),
            ("bucket-owner-read", [403, 403]),
            ("public-read", [200, 200]),
            ("authenticated-read", [403, 200]),
        ] {
            assert_eq!(put_as(&server, "/b/k", acl).status, 200);
            let read = [anonymous(&server, "GET", "/b/k"), by_guest(&server, "GET", "/b/k")];
            assert_eq!(read, expected, "{acl}");
            let head = [anonymous(&server, "HEAD", "/b/k"), by_guest(&server, "HEAD", "/b/k")];
            assert_eq!(head, expected, "{acl}");
        }
        // Nothing else follows from it.
        assert_eq!(put_as(&server, "/b/k", "public-read").status, 200);
        for (method, target) in [
            ("GET", "/b"),
            ("GET", "/b/absent"),
            ("GET", "/b/k?acl"),
            ("GET", "/b/k?tagging"),
            ("DELETE", "/b/k"),
            ("PUT", "/b/k"),
        ] {
            assert_eq!(anonymous(&server, method, target), 403, "{method} {target}");
        }
        assert_eq!(grants(&server, "/b/k?acl"), granted(&[(ALL_USERS, "READ")]));
        // A put without an ACL is private again.
        server.put("/b/k", b"y");
        assert_eq!(anonymous(&server, "GET", "/b/k"), 403);
        assert_eq!(grants(&server, "/b/k?acl"), granted(&[]));
    }
}

#[test]
fn an_acl_comes_with_copies_and_uploads() {
    let server = server_with_acls("ObjectWriter");
    assert_eq!(put_as(&server, "/b/k", "public-read").status, 200);
    let copy = |target: &str| server.request("PUT", target).header("p-copy-source", "/b/k");
    assert_eq!(copy("/b/copy").send().status, 200);
    assert_eq!(anonymous(&server, "GET", "/b/copy"), 403, "an ACL is not copied");
    assert_eq!(copy("/b/copy").header("p-acl", "public-read").send().status, 200);
    assert_eq!(anonymous(&server, "GET", "/b/copy"), 200);
    let created = server.request("POST", "/b/up?uploads").header("p-acl", "public-read").send();
    let id = created.one("UploadId").unwrap();
    let part = server.put(&format!("/b/up?partNumber=1&uploadId={id}"), b"x");
    let body = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part></CompleteMultipartUpload>",
        part.header("ETag").unwrap()
    );
    let completed = server.request("POST", &format!("/b/up?uploadId={id}")).body(body.as_bytes()).send();
    assert_eq!(completed.status, 200);
    assert_eq!(anonymous(&server, "GET", "/b/up"), 200);
}

#[test]
fn headers_and_documents_grant_alike() {
    let server = server_with_acls("ObjectWriter");
    server.put("/b/k", b"x");
    let header = format!("uri=\"{ALL_USERS}\", id=\"owner\"");
    for target in ["/b?acl", "/b/k?acl"] {
        let put = server.request("PUT", target).header("p-grant-read", &header);
        assert_eq!(put.header("p-grant-full-control", format!("uri={SIGNED_USERS}")).send().status, 200);
        let expected = listed(&[
            (ALL_USERS, "READ"),
            (SIGNED_USERS, "READ"),
            (SIGNED_USERS, "WRITE"),
            (SIGNED_USERS, "READ_ACP"),
            (SIGNED_USERS, "WRITE_ACP"),
            ("owner", "READ"),
        ]);
        assert_eq!(grants(&server, target), expected);
        let document = server.get(target).body;
        assert_eq!(server.request("PUT", target).header("p-acl", "private").send().status, 200);
        assert_eq!(grants(&server, target), granted(&[]));
        assert_eq!(server.request("PUT", target).body(&document).send().status, 200);
        assert_eq!(grants(&server, target), expected);
    }
    let typed = server.get("/b/k?acl");
    assert!(
        typed.text().contains("xsi:type=\"CanonicalUser\"") && typed.text().contains("xsi:type=\"Group\"")
    );
}

#[test]
fn acls_that_are_not_served_or_not_understood_change_nothing() {
    let server = server_with_acls("ObjectWriter");
    assert_eq!(put_as(&server, "/b/k", "public-read").status, 200);
    let own = String::from_utf8(server.get("/b/k?acl").body).unwrap();
    for target in ["/b?acl", "/b/k?acl"] {
        let put = |name: &str, value: &str| server.request("PUT", target).header(name, value).send();
        let named = put("p-grant-read", "id=bob");
        named.is_error(400, "InvalidArgument");
        assert_eq!(named.one("ArgumentValue").as_deref(), Some("bob"));
        put("p-grant-read", "id=anonymous").is_error(400, "InvalidArgument");
        let by_address = put("p-grant-read", "emailAddress=a@b.example");
        by_address.is_error(400, "UnresolvableGrantByEmailAddress");
        assert_eq!(by_address.one("EmailAddress").as_deref(), Some("a@b.example"));
        put("p-acl", "public").is_error(400, "InvalidArgument");
        put("p-grant-write", "everybody").is_error(400, "InvalidArgument");
        let both =
            server.request("PUT", target).header("p-acl", "private").header("p-grant-read", "id=owner");
        both.send().is_error(400, "InvalidRequest");
        let twice = server.request("PUT", target).header("p-acl", "private").body(own.as_bytes());
        twice.send().is_error(400, "InvalidRequest");
        let body = |text: &str| server.request("PUT", target).body(text.as_bytes()).send();
        body("").is_error(400, "MalformedXML");
        body("<AccessControlPolicy/>").is_error(400, "MalformedXML");
        body(&own.replace("READ<", "LOOK<")).is_error(400, "MalformedXML");
        let to_bob = own.replacen(
            "<Grant>",
            "<Grant><Grantee><ID>bob</ID></Grantee><Permission>READ</Permission></Grant><Grant>",
            1,
        );
        body(&to_bob).is_error(400, "InvalidArgument");
        let mailed = to_bob.replace("<ID>bob</ID>", "<EmailAddress>a@b.example</EmailAddress>");
        body(&mailed).is_error(400, "UnresolvableGrantByEmailAddress");
        body(&own.replacen("owner", "bob", 1)).is_error(403, "AccessDenied");
    }
    server.request("PUT", "/b/absent?acl").header("p-acl", "private").send().is_error(404, "NoSuchKey");
    server.request("PUT", "/absent?acl").header("p-acl", "private").send().is_error(404, "NoSuchBucket");
    server.get("/absent?acl").is_error(404, "NoSuchBucket");
    server.get("/b/absent?acl").is_error(404, "NoSuchKey");
    put_as(&server, "/absent/k", "public-read").is_error(404, "NoSuchBucket");
    assert_eq!(grants(&server, "/b/k?acl"), granted(&[(ALL_USERS, "READ")]));
    assert_eq!(grants(&server, "/b?acl"), granted(&[]));
}

#[test]
fn a_bucket_is_listed_and_written_by_the_groups_that_its_acl_names() {
    let server = server_with_acls("ObjectWriter");
    server.put("/b/k", b"x");
    let set = |acl: &str| assert_eq!(server.request("PUT", "/b?acl").header("p-acl", acl).send().status, 200);
    set("public-read");
    assert_eq!([anonymous(&server, "GET", "/b"), anonymous(&server, "GET", "/b?versions")], [200, 200]);
    assert_eq!([anonymous(&server, "GET", "/b/k"), anonymous(&server, "GET", "/b/absent")], [403, 404]);
    assert_eq!([anonymous(&server, "PUT", "/b/new"), anonymous(&server, "GET", "/b?acl")], [403, 403]);
    set("public-read-write");
    assert_eq!([anonymous(&server, "PUT", "/b/new"), anonymous(&server, "DELETE", "/b/new")], [200, 403]);
    assert_eq!(server.get("/b").all("Key"), ["k", "new"]);
    set("authenticated-read");
    assert_eq!([anonymous(&server, "GET", "/b"), by_guest(&server, "GET", "/b")], [403, 200]);
    let put = server.request("PUT", "/b?acl").header("p-grant-write-acp", format!("uri={ALL_USERS}"));
    assert_eq!(put.send().status, 200);
    let open = server.request("PUT", "/b?acl").anonymous().header("p-acl", "public-read").send();
    assert_eq!((open.status, anonymous(&server, "GET", "/b")), (200, 200));
}

#[test]
fn who_begins_an_upload_may_see_its_parts_and_give_it_up() {
    let server = server_with_acls("ObjectWriter");
    let open = server.request("PUT", "/b?acl").header("p-acl", "public-read-write").send();
    assert_eq!(open.status, 200);
    let begin = |asked: Asked<'_>| asked.send().one("UploadId").unwrap();
    let asked = || server.request("POST", "/b/up?uploads");
    let of_guest = format!("/b/up?uploadId={}", begin(asked().by("guest")));
    let of_owner = format!("/b/up?uploadId={}", begin(asked()));
    let of_all = format!("/b/up?uploadId={}", begin(asked().anonymous()));
    assert_eq!(by_guest(&server, "GET", &of_guest), 200);
    for method in ["GET", "DELETE"] {
        assert_eq!([by_guest(&server, method, &of_owner), by_guest(&server, method, &of_all)], [403, 403]);
        assert_eq!([anonymous(&server, method, &of_guest), anonymous(&server, method, &of_all)], [403, 403]);
    }
    let elsewhere = of_guest.replace("/b/up", "/b/other");
    assert_eq!(
        [by_guest(&server, "DELETE", &elsewhere), by_guest(&server, "DELETE", "/b/up?uploadId=x")],
        [403, 403]
    );
    // A denial wins.
    let deny = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":"s3:AbortMultipartUpload","Resource":"arn:aws:s3:::b/*"}]}"#;
    let policy =
        |method: &str, body: &str| server.request(method, "/b?policy").body(body.as_bytes()).send().status;
    assert_eq!(policy("PUT", deny), 204);
    assert_eq!(by_guest(&server, "DELETE", &of_guest), 403);
    assert_eq!(policy("DELETE", ""), 204);
    assert_eq!(by_guest(&server, "DELETE", &of_guest), 204);
    assert_eq!(server.request("DELETE", &of_all).send().status, 204);
}

#[test]
fn anonymous_senders_say_who_reads_what_they_put_where_anybody_may_write() {
    let server = server_with_acls("ObjectWriter");
    let put = |key: &str, acl: &str| {
        let asked = server.request("PUT", &format!("/b/{key}")).anonymous();
        asked.header("p-acl", acl).body(b"x").send().status
    };
    assert_eq!(put("k", "public-read"), 403);
    set_acl(&server, "/b?acl", "p-acl", "authenticated-read");
    assert_eq!(put("k", "public-read"), 403);
    set_acl(&server, "/b?acl", "p-acl", "public-read-write");
    assert_eq!([put("k", "public-read"), put("private", "private")], [200, 200]);
    assert_eq!([anonymous(&server, "GET", "/b/k"), anonymous(&server, "GET", "/b/private")], [200, 403]);
    // Of an object that is there nobody but its owner changes the ACL.
    let change = server.request("PUT", "/b/private?acl").anonymous().header("p-acl", "public-read").send();
    assert_eq!(change.status, 403);
    let block = b"<PublicAccessBlockConfiguration><IgnorePublicAcls>true</IgnorePublicAcls>\
        </PublicAccessBlockConfiguration>";
    assert_eq!(server.request("PUT", "/b?publicAccessBlock").body(block).send().status, 200);
    assert_eq!(put("k", "public-read"), 403);
    assert_eq!(server.delete("/b?publicAccessBlock").status, 204);
    // Where objects belong to the owner of the bucket, he says who reads them.
    assert_eq!(set_ownership(&server, "b", "BucketOwnerPreferred").status, 200);
    assert_eq!([put("k", "public-read"), put("k", "bucket-owner-full-control")], [200, 200]);
}

#[test]
fn an_acl_takes_a_permission_of_its_own() {
    let server = server_with_acls("ObjectWriter");
    let put =
        |acl: &str| server.request("PUT", "/b/k").by("writer").header("p-acl", acl).body(b"x").send().status;
    assert_eq!([put("private"), put("public-read")], [200, 403]);
    let create = |name: &str, value: &str| {
        let server = Server::with_grants(&[
            ("maker", &["CreateBucket"], &["*"]),
            ("own", &["CreateBucket"], &["*"]),
            ("own", &["*"], &["@owned"]),
        ]);
        ["maker", "own"].map(|user| server.request("PUT", "/made").by(user).header(name, value).send().status)
    };
    assert_eq!(create("p-object-ownership", "ObjectWriter"), [403, 200]);
    assert_eq!(create("p-acl", "private"), [200, 409]);
}

#[test]
fn a_bucket_is_created_with_its_ownership_and_its_acl() {
    let server = Server::new();
    let create = |ownership: &str, acl: &str| {
        let asked = server.request("PUT", "/made").header("p-object-ownership", ownership);
        asked.header("p-acl", acl).send()
    };
    create("BucketOwnerEnforced", "public-read").is_error(400, "InvalidBucketAclWithObjectOwnership");
    server.get("/made").is_error(404, "NoSuchBucket");
    assert_eq!(create("ObjectWriter", "public-read").status, 200);
    assert_eq!(server.get("/made?ownershipControls").one("ObjectOwnership").as_deref(), Some("ObjectWriter"));
    assert_eq!(grants(&server, "/made?acl"), granted(&[(ALL_USERS, "READ")]));
    assert_eq!(anonymous(&server, "GET", "/made"), 200);
    set_ownership(&server, "made", "BucketOwnerEnforced")
        .is_error(400, "InvalidBucketAclWithObjectOwnership");
    assert_eq!(server.request("PUT", "/made?acl").header("p-acl", "private").send().status, 200);
    assert_eq!(set_ownership(&server, "made", "BucketOwnerEnforced").status, 200);
}

#[test]
fn without_acls_in_effect_those_that_were_set_are_idle() {
    let server = server_with_acls("ObjectWriter");
    assert_eq!(put_as(&server, "/b/k", "public-read").status, 200);
    assert_eq!(anonymous(&server, "GET", "/b/k"), 200);
    assert_eq!(set_ownership(&server, "b", "BucketOwnerEnforced").status, 200);
    assert_eq!(anonymous(&server, "GET", "/b/k"), 403);
    assert_eq!(grants(&server, "/b/k?acl"), granted(&[]));
    assert_eq!(set_ownership(&server, "b", "BucketOwnerPreferred").status, 200);
    assert_eq!(anonymous(&server, "GET", "/b/k"), 200);
}

#[test]
fn a_block_refuses_public_acls_and_ignores_those_that_are_there() {
    let server = server_with_acls("ObjectWriter");
    assert_eq!(put_as(&server, "/b/k", "public-read").status, 200);
    let block = |setting: &str| {
        let body = format!(
            "<PublicAccessBlockConfiguration><{setting}>true</{setting}></PublicAccessBlockConfiguration>"
        );
        assert_eq!(server.request("PUT", "/b?publicAccessBlock").body(body.as_bytes()).send().status, 200);
    };
    block("IgnorePublicAcls");
    assert_eq!([anonymous(&server, "GET", "/b/k"), by_guest(&server, "GET", "/b/k")], [403, 403]);
    assert_eq!(put_as(&server, "/b/other", "public-read").status, 200);
    block("BlockPublicAcls");
    assert_eq!(anonymous(&server, "GET", "/b/k"), 200);
    put_as(&server, "/b/k", "public-read").is_error(403, "AccessDenied");
    put_as(&server, "/b/k", "authenticated-read").is_error(403, "AccessDenied");
    for target in ["/b?acl", "/b/k?acl"] {
        let put = |acl: &str| server.request("PUT", target).header("p-acl", acl).send();
        put("public-read").is_error(403, "AccessDenied");
        assert_eq!(put("private").status, 200);
    }
}

#[test]
fn an_acl_is_of_a_version_and_may_be_changed_later() {
    let server = server_with_acls("ObjectWriter");
    server.set_versioning("Enabled");
    assert_eq!(put_as(&server, "/b/k", "private").status, 200);
    assert_eq!(put_as(&server, "/b/k", "private").status, 200);
    let old = server.get("/b?versions").all("VersionId").pop().unwrap();
    let version = format!("/b/k?acl&versionId={old}");
    assert_eq!(server.request("PUT", &version).header("p-acl", "public-read").send().status, 200);
    assert_eq!(anonymous(&server, "GET", "/b/k"), 403);
    assert_eq!(anonymous(&server, "GET", &format!("/b/k?versionId={old}")), 200);
    assert_eq!(grants(&server, &version), granted(&[(ALL_USERS, "READ")]));
    assert_eq!(server.delete("/b/k").status, 204);
    assert_eq!(anonymous(&server, "GET", "/b/k"), 403);
    server.get("/b/k?acl").is_error(404, "NoSuchKey");
}

#[test]
fn a_policy_denies_what_an_acl_grants_and_may_demand_a_canned_acl() {
    let server = server_with_acls("ObjectWriter");
    assert_eq!(put_as(&server, "/b/k", "public-read").status, 200);
    let set = |statement: &str| {
        let text =
            format!(r#"{{"Statement": {{{statement}, "Principal": "*", "Resource": "arn:aws:s3:::b/*"}}}}"#);
        assert_eq!(server.request("PUT", "/b?policy").body(text.as_bytes()).send().status, 204);
    };
    set(r#""Effect": "Deny", "Action": "s3:GetObject""#);
    assert_eq!(anonymous(&server, "GET", "/b/k"), 403);
    set(
        r#""Effect": "Deny", "Action": "s3:PutObject", "Condition": {"StringNotEquals": {"s3:x-amz-acl": "bucket-owner-full-control"}}"#,
    );
    assert_eq!(put_as(&server, "/b/k", "bucket-owner-full-control").status, 200);
    assert_eq!(
        [put_as(&server, "/b/k", "private").status, server.request("PUT", "/b/k").send().status],
        [403, 403]
    );
}

#[test]
fn a_missing_key_is_404_for_those_whom_the_acl_lets_list() {
    let server = server_with_acls("ObjectWriter");
    server.put("/b/k", b"x");
    server.put("/b/source", b"x");
    for target in ["/b/absent", "/b/absent?versionId=null"] {
        assert_eq!(anonymous(&server, "GET", target), 403, "{target}");
    }
    for (acl, of_all) in [("public-read", 404), ("public-read-write", 404), ("authenticated-read", 403)] {
        assert_eq!(server.request("PUT", "/b?acl").header("p-acl", acl).send().status, 200);
        for method in ["GET", "HEAD"] {
            assert_eq!(anonymous(&server, method, "/b/absent"), of_all, "{acl}");
            assert_eq!(by_guest(&server, method, "/b/absent"), 404, "{acl}");
            assert_eq!(anonymous(&server, method, "/b/k"), 403, "an object without a grant, {acl}");
            assert_eq!(by_guest(&server, method, "/b/k"), 403, "{acl}");
        }
        assert_eq!(anonymous(&server, "GET", "/b/absent?acl"), 403, "its ACL is not its content");
        assert_eq!(anonymous(&server, "GET", "/b/absent?tagging"), 403);
    }
    server.request("GET", "/b/absent").by("guest").send().is_error(404, "NoSuchKey");
    server.set_versioning("Enabled");
    server.delete("/b/k");
    let gone = server.request("GET", "/b/k").by("guest").send();
    gone.is_error(404, "NoSuchKey");
    assert_eq!(gone.header("p-delete-marker"), Some("true"));
    let copy =
        |source: &str| server.request("PUT", "/b/copy").by("writer").header("p-copy-source", source).send();
    copy("b/absent").is_error(404, "NoSuchKey");
    copy("b/source").is_error(403, "AccessDenied");

    let deny = r#"{"Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*"}}"#;
    assert_eq!(server.request("PUT", "/b?policy").body(deny.as_bytes()).send().status, 204);
    assert_eq!(by_guest(&server, "GET", "/b/absent"), 403, "a denial wins");
    server.delete("/b?policy");
    let block = "<PublicAccessBlockConfiguration><IgnorePublicAcls>true</IgnorePublicAcls></PublicAccessBlockConfiguration>";
    assert_eq!(server.request("PUT", "/b?publicAccessBlock").body(block.as_bytes()).send().status, 200);
    assert_eq!(by_guest(&server, "GET", "/b/absent"), 403, "ACLs are ignored");
    server.delete("/b?publicAccessBlock");
    assert_eq!(by_guest(&server, "GET", "/b/absent"), 404);
    assert_eq!(set_ownership(&server, "b", "BucketOwnerEnforced").status, 400, "the ACL is public");
}

#[test]
fn a_list_of_grants_says_what_the_owner_has_by_the_acl() {
    let server = server_with_acls("ObjectWriter");
    server.put("/b/k", b"x");
    let grantee = format!(
        "<Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"Group\"><URI>{ALL_USERS}</URI></Grantee>"
    );
    let to_all = format!("<Grant>{grantee}<Permission>READ</Permission></Grant>");
    let to_owner = |permission: &str| {
        format!("<Grant><Grantee><ID>owner</ID></Grantee><Permission>{permission}</Permission></Grant>")
    };
    let read_acp = to_owner("READ_ACP");
    let full = to_owner("FULL_CONTROL");
    for (grants_of, shown) in [
        (to_all.clone(), listed(&[(ALL_USERS, "READ")])),
        (format!("{read_acp}{to_all}"), listed(&[(ALL_USERS, "READ"), ("owner", "READ_ACP")])),
        (read_acp.clone(), listed(&[("owner", "READ_ACP")])),
        (String::new(), vec![]),
        (format!("{full}{read_acp}"), granted(&[])),
        (full, granted(&[])),
    ] {
        let document = format!(
            "<AccessControlPolicy><Owner><ID>owner</ID></Owner><AccessControlList>{grants_of}</AccessControlList></AccessControlPolicy>"
        );
        for target in ["/b?acl", "/b/k?acl"] {
            let put = server.request("PUT", target).body(document.as_bytes()).send();
            assert_eq!(put.status, 200, "{target} {document}: {put:?}");
            assert_eq!(grants(&server, target), shown, "{target} {document}");
            // What is read can be put back.
            let read = server.get(target).body;
            assert_eq!(server.request("PUT", target).body(&read).send().status, 200);
            assert_eq!(grants(&server, target), shown, "{target} {document}");
        }
        // The users file stands above ACLs.
        assert_eq!(server.get("/b/k").status, 200);
    }
}

#[test]
fn the_owner_of_an_object_may_always_mend_its_acl() {
    let server = server_of_users();
    set_acl(&server, "/b?acl", "p-grant-write", "id=bob");
    assert_eq!(status(&server, "bob", "PUT", "/b/k"), 200);
    let set_by_bob = |name: &str, value: &str| {
        let put = server.request("PUT", "/b/k?acl").by("bob").header(name, value).send();
        assert_eq!(put.status, 200, "{name}: {value}: {put:?}");
    };
    set_by_bob("p-grant-read", "id=eve");
    assert_eq!(grants(&server, "/b/k?acl"), listed(&[("eve", "READ")]));
    let of = |user: &str| [status(&server, user, "GET", "/b/k"), status(&server, user, "GET", "/b/k?acl")];
    assert_eq!([of("bob"), of("eve")], [[403, 200], [200, 403]]);
    set_by_bob("p-grant-read", "id=bob");
    assert_eq!([of("bob"), of("eve")], [[200, 200], [403, 403]]);
    set_by_bob("p-acl", "private");
    assert_eq!((grants(&server, "/b/k?acl"), of("bob")), (granted_beside("bob", &[]), [200, 200]));
    let users: Vec<_> = (0..100).map(|nth| (format!("user-{nth}"), &[][..], &["*"][..])).collect();
    let users: Vec<_> = users.iter().map(|(name, actions, on)| (name.as_str(), *actions, *on)).collect();
    let crowded = Server::with_grants(&users);
    assert_eq!(set_ownership(&crowded, "b", "ObjectWriter").status, 200);
    crowded.put("/b/k", b"x");
    let ids: Vec<_> = (0..100).map(|nth| format!("id=user-{nth}")).collect();
    let all = crowded.request("PUT", "/b/k?acl").header("p-grant-read", ids.join(",")).send();
    all.is_error(400, "MalformedACLError");
    set_acl(&crowded, "/b/k?acl", "p-grant-read", &ids[1..].join(","));
    assert_eq!(grants(&crowded, "/b/k?acl").len(), 99);
    // Nobody gets the mark of such a list by its name.
    let mark = server.request("PUT", "/b/k?acl").header("p-grant-read", "id=urn:siltstone:acl:lists-owner");
    mark.send().is_error(400, "InvalidArgument");
}

fn status(server: &Server, user: &str, method: &str, target: &str) -> u16 {
    server.request(method, target).by(user).body(if method == "PUT" { b"x" } else { b"" }).send().status
}

fn set_acl(server: &Server, target: &str, name: &str, value: &str) {
    let put = server.request("PUT", target).header(name, value).send();
    assert_eq!(put.status, 200, "{target} {name}: {value}: {put:?}");
}

/// A server with ACLs in effect, where bob and eve have no permission.
fn server_of_users() -> Server {
    let server = Server::with_grants(&[("bob", &[], &["*"]), ("eve", &[], &["*"])]);
    assert_eq!(set_ownership(&server, "b", "ObjectWriter").status, 200);
    server
}

#[test]
fn each_permission_of_a_user_lets_him_do_its_own_and_nothing_else() {
    let server = server_of_users();
    server.put("/b/k", b"x");
    let of_bob = |target: &str, method: &str| status(&server, "bob", method, target);
    for (header, on_bucket, on_object) in [
        ("p-grant-read", [200, 403, 403], [200, 403]),
        ("p-grant-write", [403, 200, 403], [403, 403]),
        ("p-grant-read-acp", [403, 403, 200], [403, 200]),
        ("p-grant-full-control", [200, 200, 200], [200, 200]),
    ] {
        set_acl(&server, "/b?acl", header, "id=bob");
        set_acl(&server, "/b/k?acl", "p-acl", "private");
        let found = [of_bob("/b", "GET"), of_bob("/b/new", "PUT"), of_bob("/b?acl", "GET")];
        assert_eq!(found, on_bucket, "{header}");
        assert_eq!([of_bob("/b/k", "GET"), of_bob("/b/k?acl", "GET")], [403, 403], "{header}");
        set_acl(&server, "/b?acl", "p-acl", "private");
        set_acl(&server, "/b/k?acl", header, "id=bob");
        assert_eq!([of_bob("/b/k", "GET"), of_bob("/b/k?acl", "GET")], on_object, "{header}");
        assert_eq!([of_bob("/b/k", "PUT"), of_bob("/b", "GET")], [403, 403], "{header}");
        for user in ["eve", "bob"] {
            assert_eq!(status(&server, user, "DELETE", "/b/k"), 403, "{header}");
        }
        assert_eq!([status(&server, "eve", "GET", "/b/k"), anonymous(&server, "GET", "/b/k")], [403, 403]);
    }
    let give = |user: &str, target: &str| {
        server.request("PUT", target).by(user).header("p-acl", "public-read").send().status
    };
    set_acl(&server, "/b?acl", "p-grant-write-acp", "id=bob");
    set_acl(&server, "/b/k?acl", "p-grant-write-acp", "id=bob");
    for target in ["/b?acl", "/b/k?acl"] {
        assert_eq!([give("eve", target), give("bob", target)], [403, 200], "{target}");
        assert_eq!(give("bob", target), 403, "he gave away his own permission");
    }
    assert_eq!(anonymous(&server, "GET", "/b/k"), 200);
}

#[test]
fn grants_of_users_come_back_and_can_be_put_again() {
    let server = server_of_users();
    server.put("/b/k", b"x");
    for target in ["/b?acl", "/b/k?acl"] {
        let put = server
            .request("PUT", target)
            .header("p-grant-read", format!("id=bob, uri={ALL_USERS}, id=\"eve\""));
        assert_eq!(
            put.header("p-grant-full-control", "id=bob").header("p-grant-write-acp", "id=eve").send().status,
            200
        );
        let expected = listed(&[
            (ALL_USERS, "READ"),
            ("bob", "READ"),
            ("eve", "READ"),
            ("eve", "WRITE_ACP"),
            ("bob", "FULL_CONTROL"),
        ]);
        assert_eq!(grants(&server, target), expected);
        let document = server.get(target).body;
        set_acl(&server, target, "p-acl", "private");
        assert_eq!(grants(&server, target), granted(&[]));
        assert_eq!(server.request("PUT", target).body(&document).send().status, 200);
        assert_eq!(grants(&server, target), expected);
        let four = ["read", "write", "read-acp", "write-acp"];
        let put = four.iter().fold(server.request("PUT", target), |put, name| {
            put.header(&format!("p-grant-{name}"), "id=bob")
        });
        assert_eq!(put.send().status, 200);
        let each = [("bob", "READ"), ("bob", "WRITE"), ("bob", "READ_ACP"), ("bob", "WRITE_ACP")];
        assert_eq!(grants(&server, target), listed(&each), "and not FULL_CONTROL, which nobody granted");
    }
    let many: Vec<_> = (0..101).map(|nth| format!("id=user-{nth}")).collect();
    let put = server.request("PUT", "/b/k?acl").header("p-grant-read", many.join(",")).send();
    put.is_error(400, "MalformedACLError");
    set_acl(&server, "/b?acl", "p-acl", "log-delivery-write");
    let logs = "http://acs.amazonaws.com/groups/s3/LogDelivery";
    let shown = grants(&server, "/b?acl");
    assert_eq!(shown[1..], [(logs.to_owned(), "WRITE".to_owned()), (logs.to_owned(), "READ_ACP".to_owned())]);
    assert!(server.get("/b?acl").text().contains("xsi:type=\"Group\""));
    set_acl(&server, "/b/k?acl", "p-acl", "aws-exec-read");
    assert_eq!(grants(&server, "/b/k?acl"), granted(&[]), "that service is not here");
}

#[test]
fn an_object_belongs_to_its_writer_unless_the_bucket_keeps_all() {
    let server = server_of_users();
    set_acl(&server, "/b?acl", "p-grant-write", "id=bob");
    let owner_of = |user: &str, target: &str| {
        let answer = server.request("GET", target).by(user).send();
        assert_eq!(answer.status, 200, "{target}: {answer:?}");
        answer.all("ID").remove(0)
    };
    let put =
        |acl: &str| server.request("PUT", "/b/k").by("bob").header("p-acl", acl).body(b"x").send().status;
    for (ownership, acl, owner, beside) in [
        ("ObjectWriter", "private", "bob", &[][..]),
        ("ObjectWriter", "bucket-owner-read", "bob", &[("owner", "READ")]),
        ("ObjectWriter", "bucket-owner-full-control", "bob", &[("owner", "FULL_CONTROL")]),
        ("ObjectWriter", "public-read", "bob", &[(ALL_USERS, "READ")]),
        ("BucketOwnerPreferred", "private", "bob", &[]),
        ("BucketOwnerPreferred", "bucket-owner-full-control", "owner", &[]),
    ] {
        assert_eq!(set_ownership(&server, "b", ownership).status, 200);
        assert_eq!(put(acl), 200, "{ownership} {acl}");
        assert_eq!(grants(&server, "/b/k?acl"), granted_beside(owner, beside), "{ownership} {acl}");
        let by_bob = if owner == "bob" { 200 } else { 403 };
        assert_eq!(status(&server, "bob", "GET", "/b/k"), by_bob, "{ownership} {acl}");
        assert_eq!(status(&server, "bob", "GET", "/b/k?acl"), by_bob, "{ownership} {acl}");
        assert_eq!(status(&server, "eve", "GET", "/b/k?acl"), 403);
    }
    // The list changes, and the owner stays: also where another has the permission to change it.
    assert_eq!(set_ownership(&server, "b", "ObjectWriter").status, 200);
    assert_eq!(put("private"), 200);
    let give = server.request("PUT", "/b/k?acl").by("bob").header("p-grant-full-control", "id=eve").send();
    assert_eq!(give.status, 200);
    let own = server.request("GET", "/b/k?acl").by("eve").send();
    assert_eq!((own.status, own.all("ID")[0].as_str()), (200, "bob"));
    let again = server.request("PUT", "/b/k?acl").by("eve").body(&own.body).send();
    assert_eq!(again.status, 200);
    let taken = own.text().replacen("bob", "eve", 1);
    let taken = server.request("PUT", "/b/k?acl").by("eve").body(taken.as_bytes()).send();
    taken.is_error(403, "AccessDenied");
    assert_eq!(owner_of("bob", "/b/k?acl"), "bob");
    // He may delete it while he may write to the bucket; nobody else may.
    assert_eq!(
        [status(&server, "eve", "DELETE", "/b/k"), status(&server, "bob", "DELETE", "/b/k")],
        [403, 204]
    );
    server.put("/b/k", b"x");
    assert_eq!(status(&server, "bob", "DELETE", "/b/k"), 403, "the owner of the bucket has put it");
    // Without ACLs everything is the bucket owner's.
    assert_eq!(put("private"), 200);
    set_acl(&server, "/b?acl", "p-acl", "private");
    assert_eq!(set_ownership(&server, "b", "BucketOwnerEnforced").status, 200);
    assert_eq!(status(&server, "bob", "GET", "/b/k"), 403);
    assert_eq!(owner_of("owner", "/b/k?acl"), "owner");
}

#[test]
fn the_owner_of_copies_and_uploads_is_who_makes_them() {
    let server = server_of_users();
    set_acl(&server, "/b?acl", "p-grant-write", "id=bob");
    server.put("/b/source", b"x");
    set_acl(&server, "/b/source?acl", "p-grant-read", "id=bob");
    let copy = server.request("PUT", "/b/copy").by("bob").header("p-copy-source", "/b/source");
    assert_eq!(copy.header("p-grant-read", "id=eve").send().status, 200);
    assert_eq!(grants(&server, "/b/copy?acl"), listed(&[("eve", "READ")]));
    let created = server.request("POST", "/b/up?uploads").by("bob").header("p-grant-read", "id=eve").send();
    let id = created.one("UploadId").unwrap();
    let target = format!("/b/up?partNumber=1&uploadId={id}");
    let part = server.request("PUT", &target).by("bob").body(b"x").send();
    let body = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part></CompleteMultipartUpload>",
        part.header("ETag").unwrap()
    );
    let parts = server.request("GET", &format!("/b/up?uploadId={id}")).by("bob").send();
    assert_eq!(parts.all("ID"), ["bob", "bob"], "initiator and owner");
    let completed =
        server.request("POST", &format!("/b/up?uploadId={id}")).by("bob").body(body.as_bytes()).send();
    assert_eq!(completed.status, 200);
    assert_eq!(grants(&server, "/b/up?acl"), listed(&[("eve", "READ")]));
    assert_eq!(status(&server, "eve", "GET", "/b/up"), 200);
}

#[test]
fn listings_show_the_owner_of_each_object() {
    let server = server_of_users();
    set_acl(&server, "/b?acl", "p-grant-write", "id=bob");
    server.put("/b/a", b"x");
    assert_eq!(server.request("PUT", "/b/z").by("bob").body(b"x").send().status, 200);
    let of_both = ["/b", "/b?list-type=2&fetch-owner=true", "/b?versions"];
    for target in of_both {
        assert_eq!(server.get(target).all("ID"), ["owner", "bob"], "{target}");
    }
    assert_eq!(server.get("/b?list-type=2").all("ID"), [""; 0]);
    assert_eq!(server.request("POST", "/b/up?uploads").by("bob").send().status, 200);
    assert_eq!(server.get("/b?uploads").all("ID"), ["bob", "bob"], "initiator and owner");
    // Without ACLs everything is the bucket owner's.
    set_acl(&server, "/b?acl", "p-acl", "private");
    assert_eq!(set_ownership(&server, "b", "BucketOwnerEnforced").status, 200);
    for target in of_both {
        assert_eq!(server.get(target).all("ID"), ["owner", "owner"], "{target}");
    }
    assert_eq!(server.get("/b?uploads").all("ID"), ["bob", "owner"]);
}

#[test]
fn a_block_of_public_access_leaves_grants_of_users_and_a_policy_denies_them() {
    let server = server_of_users();
    server.put("/b/k", b"x");
    let block = "<PublicAccessBlockConfiguration><IgnorePublicAcls>true</IgnorePublicAcls><BlockPublicAcls>true</BlockPublicAcls></PublicAccessBlockConfiguration>";
    assert_eq!(server.request("PUT", "/b?publicAccessBlock").body(block.as_bytes()).send().status, 200);
    set_acl(&server, "/b/k?acl", "p-grant-read", "id=bob");
    assert_eq!([status(&server, "bob", "GET", "/b/k"), status(&server, "eve", "GET", "/b/k")], [200, 403]);
    let public = format!("id=bob, uri={ALL_USERS}");
    let refused = server.request("PUT", "/b/k?acl").header("p-grant-read", public).send();
    refused.is_error(403, "AccessDenied");
    let deny = r#"{"Statement": {"Effect": "Deny", "Principal": {"AWS": "bob"}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*"}}"#;
    assert_eq!(server.request("PUT", "/b?policy").body(deny.as_bytes()).send().status, 204);
    assert_eq!(status(&server, "bob", "GET", "/b/k"), 403);
    server.delete("/b?policy");
    assert_eq!(set_ownership(&server, "b", "BucketOwnerEnforced").status, 200);
    assert_eq!(status(&server, "bob", "GET", "/b/k"), 403);
}

#[test]
fn the_owner_of_an_object_is_checked_again_where_it_is_deleted() {
    let server = server_of_users();
    set_acl(&server, "/b?acl", "p-grant-write", "id=bob");
    server.set_versioning("Enabled");
    assert_eq!(status(&server, "bob", "PUT", "/b/k"), 200);
    // Both deletions are permitted before the first is made. The second finds no object of bob's.
    let twice = "<Delete><Object><Key>k</Key></Object><Object><Key>k</Key></Object></Delete>";
    let asked = server.request("POST", "/b?delete").by("bob").body(twice.as_bytes());
    let answer = asked.header("Content-MD5", delete::content_md5(twice)).send();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.all("DeleteMarker"), ["true"]);
    let versions = server.get("/b?versions").text().matches("<DeleteMarker>").count();
    assert_eq!(versions, 1, "a marker of his own, and none on a marker");
    // The key of another in the list is refused by itself.
    server.put("/b/other", b"x");
    let of_other = "<Delete><Object><Key>other</Key></Object></Delete>";
    let asked = server.request("POST", "/b?delete").by("bob").body(of_other.as_bytes());
    let answer = asked.header("Content-MD5", delete::content_md5(of_other)).send();
    assert_eq!((answer.status, answer.all("Code")), (200, vec!["AccessDenied".to_owned()]));
    assert_eq!(server.get("/b/other").status, 200);
    let eve = server.request("POST", "/b?delete").by("eve").body(of_other.as_bytes());
    eve.header("Content-MD5", delete::content_md5(of_other)).send().is_error(403, "AccessDenied");
    // Whom the users file lets delete adds one on each call, as ever.
    let answer = server.request("POST", "/b?delete").body(twice.as_bytes());
    let answer = answer.header("Content-MD5", delete::content_md5(twice)).send();
    assert_eq!(answer.all("DeleteMarker"), ["true", "true"]);
    server.put("/b/k", b"x");
    assert_eq!(status(&server, "bob", "DELETE", "/b/k"), 403);
    assert_eq!(server.get("/b/k").status, 200);
}

/// The status of bob's deletion of `/b/k`, which is decided before `change` is made and committed
/// after it: the group of the change is being written meanwhile.
fn deleted_after(server: &Server, change: impl FnOnce() + Send) -> u16 {
    let gate = server.fs.hold_syncs("");
    std::thread::scope(|scope| {
        let changing = scope.spawn(change);
        assert!(gate.wait_until_held(1));
        let deleting = scope.spawn(|| status(server, "bob", "DELETE", "/b/k"));
        while server.store.queued_changes() == 0 {
            assert!(!deleting.is_finished(), "it was not permitted, or did not wait");
            std::thread::yield_now();
        }
        drop(gate);
        changing.join().unwrap();
        deleting.join().unwrap()
    })
}

#[test]
fn a_deletion_is_of_the_object_that_it_was_permitted_for() {
    let server = server_of_users();
    set_acl(&server, "/b?acl", "p-grant-write", "id=bob");
    let put_by_bob = || assert_eq!(status(&server, "bob", "PUT", "/b/k"), 200);
    // Another user's object is spared, in whatever state the bucket is.
    for versioning in [None, Some("Enabled"), Some("Suspended")] {
        if let Some(status) = versioning {
            server.set_versioning(status);
        }
        put_by_bob();
        assert_eq!(
            deleted_after(&server, || drop(server.put("/b/k", b"of the owner"))),
            403,
            "{versioning:?}"
        );
        assert_eq!(server.get("/b/k").text(), "of the owner");
    }
    // Rights are those of the moment of the decision: the requests overlap, so that either order
    // is right. The next deletion is refused.
    let deny = r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": "*",
        "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::b/*"}]}"#;
    let set_policy = || {
        let answer = server.request("PUT", "/b?policy").body(deny.as_bytes()).send();
        assert_eq!(answer.status, 204, "{answer:?}");
    };
    put_by_bob();
    assert_eq!(deleted_after(&server, set_policy), 204);
    assert_eq!(server.get("/b/k").status, 404);
    put_by_bob();
    assert_eq!(status(&server, "bob", "DELETE", "/b/k"), 403);
    assert_eq!(server.delete("/b?policy").status, 204);
    let close = || set_acl(&server, "/b?acl", "p-acl", "private");
    assert_eq!(deleted_after(&server, close), 204);
    assert_eq!(server.get("/b/k").status, 404);
    assert_eq!(status(&server, "bob", "PUT", "/b/k"), 403);
}
