//! The rules of replication, of a server without and with versions. Mirrors are tested with clients.

use super::*;

const RULES: &[u8] =
    b"<ReplicationConfiguration><Role>r</Role><Rule><ID>a</ID><Priority>1</Priority><Filter/>\
    <Status>Enabled</Status><DeleteMarkerReplication><Status>Enabled</Status></DeleteMarkerReplication>\
    <Destination><Bucket>arn:aws:s3:::away</Bucket></Destination></Rule></ReplicationConfiguration>";

#[test]
fn rules_need_versions_and_a_mirror_that_the_operator_named() {
    let server = Server::new();
    let put = |body: &[u8]| server.request("PUT", "/b?replication").body(body).send();
    put(b"<ReplicationConfiguration/>").is_error(400, "MalformedXML");
    let refused = put(RULES);
    refused.is_error(400, "InvalidRequest");
    assert!(refused.one("Message").unwrap().contains("Versioning"));
    let enabled = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    assert_eq!(server.request("PUT", "/b?versioning").body(enabled).send().status, 200);
    let refused = put(RULES);
    refused.is_error(400, "InvalidRequest");
    assert_eq!(refused.one("ArgumentValue").as_deref(), Some("away"));
    server.get("/b?replication").is_error(404, "ReplicationConfigurationNotFoundError");
    server.request("PUT", "/absent?replication").body(RULES).send().is_error(404, "NoSuchBucket");
}
