//! The configurations of buckets, which come after the objects.

use super::super::import::counts;
use super::writer::{ENABLED, MinioDrives, TIME, Written};
use super::{imported, names, served};

#[test]
fn configurations_come_along_and_what_is_refused_is_named() {
    let drives = MinioDrives::new(1, 0);
    let lock = "<ObjectLockConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><ObjectLockEnabled>Enabled</ObjectLockEnabled>\
        <Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>7</Days></DefaultRetention></Rule></ObjectLockConfiguration>";
    let policy = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":["*"]},"Action":["s3:GetObject"],"Resource":["arn:aws:s3:::legal/*"]}]}"#;
    let rules = "<LifecycleConfiguration><Rule><ID>old</ID><Status>Enabled</Status><Filter></Filter><Expiration><Days>9000</Days></Expiration></Rule>\
        <Rule><ID>cold</ID><Status>Enabled</Status><Filter></Filter><Transition><Days>1</Days><StorageClass>COLD</StorageClass></Transition></Rule>\
        <ExpiryUpdatedAt>2023-01-01T00:00:00Z</ExpiryUpdatedAt></LifecycleConfiguration>";
    drives.configure(
        "legal",
        &[
            ("VersioningConfigXML", ENABLED),
            ("ObjectLockConfigXML", lock),
            ("PolicyConfigJSON", policy),
            ("LifecycleConfigXML", rules),
            (
                "TaggingConfigXML",
                "<Tagging><TagSet><Tag><Key>team</Key><Value>storage</Value></Tag></TagSet></Tagging>",
            ),
            ("QuotaConfigJSON", r#"{"quota":10737418240,"quotatype":"hard"}"#),
            ("NotificationConfigXML", "<NotificationConfiguration/>"),
        ],
    );
    drives.configure("odd", &[("PolicyConfigJSON", r#"{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":"s3:NoSuchAction","Resource":"arn:aws:s3:::odd/*"}]}"#),
        ("VersioningConfigXML", "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>")]);
    drives.put("legal", "paper", &[Written::object(1, TIME, b"paper")]);
    drives.put("odd", "a", &[Written::object(0, TIME, b"a")]);
    let data = tempfile::tempdir().unwrap();
    for stored in [2, 0] {
        let (status, report) = imported(&drives, data.path(), &[]);
        assert_eq!((status, counts(&report)[0]), (1, stored), "{report}");
        let refused = names(&report, "configurations_refused");
        assert!(
            refused.iter().any(|line| line.starts_with("legal, lifecycle: the rule <Rule><ID>cold")),
            "{refused:?}"
        );
        assert!(
            refused.iter().any(|line| line.starts_with("odd, policy: it denies something")),
            "{refused:?}"
        );
        assert_eq!(refused.len(), 3, "{refused:?}");
        assert_eq!(names(&report, "configurations_not_kept").len(), 1, "{report}");
    }
    let (server, mut client) = served(&data, "legal");
    let mut told = |name: &str| client.ask("GET", "", &[(name, "")], "", b"").text();
    assert!(told("object-lock").contains("<Days>7</Days>"));
    assert!(told("policy").contains("s3:GetObject"));
    assert!(told("lifecycle").contains("<Days>9000</Days>"));
    assert!(told("tagging").contains("<Key>team</Key><Value>storage</Value>"));
    assert!(told("quota").contains("10737418240"));
    // The default retention does not hold for what came before it.
    let head = client.ask("HEAD", "paper", &[], "", b"");
    assert_eq!(head.header("x-amz-object-lock-mode"), None);
    let mut odd = super::Client::of_bucket(&server, "odd");
    assert!(odd.ask("GET", "", &[("versioning", "")], "", b"").text().contains("Suspended"));
}
