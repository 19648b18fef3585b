//! Ready-made roles of users.

use super::super::text::visible;
use crate::service::GrantEntry;

/// A ready-made set of grants.
pub(super) struct OfferedRole {
    /// The value in the form.
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    /// Actions, and the resources in which `BUCKET` stands for the name in the form.
    grants: &'static [(&'static [&'static str], &'static [&'static str])],
}

impl OfferedRole {
    /// Whether the form has to name a bucket.
    pub(super) fn needs_bucket(&self) -> bool {
        self.grants.iter().any(|(_, on)| on.iter().any(|text| text.contains("BUCKET")))
    }
}

const LISTING: &[&str] = &["ListBucket", "GetBucketLocation"];

/// The first page of the console, and of most clients. It lists the buckets that the user may
/// list.
const BUCKETS: (&[&str], &[&str]) = (&["ListAllMyBuckets"], &["*"]);

/// The roles that the page of the users offers.
pub(super) const ROLES: [OfferedRole; 5] = [
    OfferedRole {
        name: "read",
        label: "Read the bucket",
        grants: &[BUCKETS, (LISTING, &["BUCKET"]), (&["GetObject"], &["BUCKET/*"])],
    },
    OfferedRole {
        name: "write",
        label: "Read, write and delete in the bucket",
        grants: &[
            BUCKETS,
            (&["ListBucket", "GetBucketLocation", "ListBucketMultipartUploads"], &["BUCKET"]),
            (
                &[
                    "GetObject",
                    "PutObject",
                    "DeleteObject",
                    "AbortMultipartUpload",
                    "ListMultipartUploadParts",
                ],
                &["BUCKET/*"],
            ),
        ],
    },
    OfferedRole {
        name: "create",
        label: "Read the bucket and add objects, but replace and delete none (backups)",
        grants: &[
            BUCKETS,
            (LISTING, &["BUCKET"]),
            (
                &["GetObject", "CreateObject", "AbortMultipartUpload", "ListMultipartUploadParts"],
                &["BUCKET/*"],
            ),
        ],
    },
    OfferedRole {
        name: "own",
        label: "Make buckets, and do everything in these",
        grants: &[(&["CreateBucket"], &["*"]), (&["*"], &["@owned"])],
    },
    OfferedRole { name: "administrator", label: "Everything: an administrator", grants: &[(&["*"], &["*"])] },
];

/// The grants of a role for one bucket.
pub(super) fn grants_of(role: &OfferedRole, bucket: &str) -> Vec<GrantEntry> {
    let entries = role.grants.iter().map(|(actions, on)| GrantEntry {
        actions: for_bucket(actions, bucket),
        resources: for_bucket(on, bucket),
    });
    entries.collect()
}

/// The ready-made role that has these grants, with its bucket.
pub(super) fn role_in_words(allow: &[GrantEntry]) -> Option<String> {
    let resources = allow.iter().flat_map(|entry| &entry.resources);
    let bucket = resources.into_iter().find(|name| !name.contains(['*', '/', '@']));
    let bucket = bucket.map(String::as_str).unwrap_or_default();
    let role = ROLES.iter().find(|role| grants_of(role, bucket) == allow)?;
    Some(role.label.replace("the bucket", &format!("the bucket {}", visible(bucket))))
}

fn for_bucket(texts: &[&str], bucket: &str) -> Vec<String> {
    texts.iter().map(|text| text.replace("BUCKET", bucket)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Users;

    #[test]
    fn the_grants_of_a_role_are_told_by_its_label() {
        let words = |name: &str| {
            let role = ROLES.iter().find(|role| role.name == name).unwrap();
            role_in_words(&grants_of(role, "photos"))
        };
        assert_eq!(words("read").as_deref(), Some("Read the bucket photos"));
        assert_eq!(words("own").as_deref(), Some("Make buckets, and do everything in these"));
        assert_eq!(words("administrator").as_deref(), Some("Everything: an administrator"));
        let mut more = grants_of(&ROLES[0], "photos");
        more.push(GrantEntry::everything());
        assert_eq!((role_in_words(&more), role_in_words(&[])), (None, None));
    }

    #[test]
    fn every_role_is_accepted_in_a_users_file() {
        for role in &ROLES {
            let allow: String = role
                .grants
                .iter()
                .map(|(actions, on)| {
                    format!(
                        "[[user.allow]]\nactions = {actions:?}\nresources = {:?}\n",
                        on.iter().map(|on| on.replace("BUCKET", "photos")).collect::<Vec<_>>()
                    )
                })
                .collect();
            let text =
                format!("[[user]]\nname = \"u\"\naccess_key = \"A\"\nsecret_key = \"secret\"\n{allow}");
            assert!(Users::parse(&text).is_ok(), "{}: {:?}", role.name, Users::parse(&text));
        }
    }
}
