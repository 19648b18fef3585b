//! The values of `--bucket`: buckets that a server makes at its start.

use std::str::FromStr;

use serde_json::{Value, json};
use siltstone::auth::Users;
use siltstone::s3::object_lock::LockConfiguration;
use siltstone::s3::{BucketName, XmlConfiguration as _};
use siltstone::store::{BucketConfigurationKind, NewBucket, Versioning};

use crate::cli::error::CliError;

/// Buckets in the form `NAME[:MODIFIER[+MODIFIER]...]`, separated by commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BucketSpecs(pub(crate) Vec<BucketSpec>);

/// A bucket and its properties if it has to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BucketSpec {
    pub(crate) name: String,
    pub(crate) versioned: bool,
    /// With object lock, which needs versions.
    locked: bool,
    access: AnonymousAccess,
}

/// The rights of requests without a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnonymousAccess {
    /// None.
    Private,
    /// Reading objects, not listing them.
    Get,
    /// As `mc anonymous set download`: listing and reading.
    McDownload,
    /// As `mc anonymous set upload`: writing and deleting.
    McUpload,
    /// As `mc anonymous set public`: both.
    McPublic,
}

impl FromStr for BucketSpecs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let specs = text.split(',').map(str::trim).filter(|spec| !spec.is_empty());
        specs.map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl BucketSpecs {
    /// Whether one of them is for the bucket `name`.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.0.iter().any(|spec| spec.name == name)
    }
}

impl FromStr for BucketSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, modifiers) = text.split_once(':').unwrap_or((text, ""));
        BucketName::new(name).map_err(|_| format!("`{name}` is not a valid name of a bucket"))?;
        let mut spec = Self::plain(name);
        for modifier in modifiers.split('+').filter(|_| text.contains(':')) {
            spec.modify(modifier).map_err(|problem| format!("`{text}`: {problem}"))?;
        }
        Ok(spec)
    }
}

impl BucketSpec {
    /// A bucket without versions, that nobody may use without a signature. `name` is valid.
    pub(crate) fn plain(name: &str) -> Self {
        let access = AnonymousAccess::Private;
        Self { name: name.to_owned(), versioned: false, locked: false, access }
    }

    fn modify(&mut self, modifier: &str) -> Result<(), String> {
        let access = match modifier {
            "versioned" => {
                self.versioned = true;
                return Ok(());
            }
            "locked" => {
                self.versioned = true;
                self.locked = true;
                return Ok(());
            }
            "public" => AnonymousAccess::Get,
            "mc-download" => AnonymousAccess::McDownload,
            "mc-upload" => AnonymousAccess::McUpload,
            "mc-public" => AnonymousAccess::McPublic,
            other => return Err(format!("`{other}` is none of versioned, locked and public")),
        };
        if self.access != AnonymousAccess::Private {
            return Err("it says twice who may use it without a signature".to_owned());
        }
        self.access = access;
        Ok(())
    }

    /// What the store is asked for. `namespace` is as stored documents have it; empty for none.
    pub(crate) fn new_bucket(&self, namespace: &str) -> NewBucket {
        let mut configurations = Vec::new();
        if let Some(policy) = self.access.policy(&self.name) {
            configurations.push((BucketConfigurationKind::Policy, policy.to_string().into_bytes()));
        }
        if self.locked {
            let namespace = (!namespace.is_empty()).then_some(namespace);
            let document = LockConfiguration::default().to_document_in(namespace);
            configurations.push((BucketConfigurationKind::ObjectLock, document));
        }
        NewBucket {
            name: self.name.clone(),
            owner: Users::ADMINISTRATOR.to_owned(),
            versioning: if self.versioned { Versioning::Enabled } else { Versioning::Unset },
            configurations,
        }
    }
}

impl AnonymousAccess {
    /// The actions on the bucket and on its objects. `mc`'s are the ones that it puts
    /// (minio-go, `policy.SetPolicy`).
    fn actions(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Private => (&[], &[]),
            Self::Get => (&[], &["s3:GetObject"]),
            Self::McDownload => (&["s3:GetBucketLocation", "s3:ListBucket"], &["s3:GetObject"]),
            Self::McUpload => (
                &["s3:GetBucketLocation", "s3:ListBucketMultipartUploads"],
                &[
                    "s3:AbortMultipartUpload",
                    "s3:DeleteObject",
                    "s3:ListMultipartUploadParts",
                    "s3:PutObject",
                ],
            ),
            Self::McPublic => (
                &["s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads"],
                &[
                    "s3:AbortMultipartUpload",
                    "s3:DeleteObject",
                    "s3:GetObject",
                    "s3:ListMultipartUploadParts",
                    "s3:PutObject",
                ],
            ),
        }
    }

    /// The bucket policy; `None` for a bucket that needs none.
    fn policy(self, bucket: &str) -> Option<Value> {
        let (on_bucket, on_objects) = self.actions();
        let of_bucket = format!("arn:aws:s3:::{bucket}");
        let of_objects = format!("{of_bucket}/*");
        let statements: Vec<_> = [(on_bucket, of_bucket), (on_objects, of_objects)]
            .into_iter()
            .filter(|(actions, _)| !actions.is_empty())
            .map(|(actions, resource)| {
                json!({ "Effect": "Allow", "Principal": { "AWS": ["*"] }, "Action": actions, "Resource": [resource] })
            })
            .collect();
        (!statements.is_empty()).then(|| json!({ "Version": "2012-10-17", "Statement": statements }))
    }
}

/// Checks that no bucket is named twice with different properties.
///
/// # Errors
/// Names the bucket.
pub(crate) fn check(specs: &[BucketSpecs]) -> Result<(), CliError> {
    let all: Vec<_> = specs.iter().flat_map(|specs| &specs.0).collect();
    for spec in &all {
        if all.iter().any(|other| other.name == spec.name && other != spec) {
            return Err(CliError::usage(format!(
                "--bucket: {} is there twice, with different modifiers",
                spec.name
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use siltstone::auth::BucketPolicy;

    use super::*;

    fn spec(text: &str) -> Result<BucketSpec, String> {
        text.parse()
    }

    #[test]
    fn a_bucket_has_modifiers_or_none() {
        let private = |name: &str, versioned| {
            let access = AnonymousAccess::Private;
            Ok(BucketSpec { name: name.to_owned(), versioned, locked: false, access })
        };
        assert_eq!(spec("photos"), private("photos", false));
        assert_eq!(spec("logs:versioned"), private("logs", true));
        let site = spec("site:versioned+public").unwrap();
        assert_eq!((site.versioned, site.access), (true, AnonymousAccess::Get));
        let locked = spec("backup:locked").unwrap();
        assert_eq!(Ok(locked.clone()), spec("backup:versioned+locked"));
        assert_eq!(locked.new_bucket("").versioning, Versioning::Enabled);
        for (wrong, problem) in [
            ("b1", "not a valid name"),
            ("Photos", "not a valid name"),
            ("photos:", "none of"),
            ("photos:secret", "`secret` is none of"),
            ("photos:public+mc-upload", "twice"),
        ] {
            let refused = spec(wrong).unwrap_err();
            assert!(refused.contains(problem), "{wrong}: {refused}");
        }
    }

    #[test]
    fn a_list_may_have_gaps_and_not_two_meanings() {
        let list = |text: &str| text.parse::<BucketSpecs>().unwrap();
        assert_eq!(list(" one, two:public ,,").0.len(), 2);
        assert_eq!(list("").0, []);
        assert!(check(&[list("one,two"), list("one")]).is_ok());
        assert!(check(&[list("one,two"), list("one:versioned")]).is_err());
    }

    #[test]
    fn every_policy_is_understood_and_public_never_means_listing() {
        for (modifier, statements, lists) in
            [("public", 1, false), ("mc-download", 2, true), ("mc-upload", 2, false), ("mc-public", 2, true)]
        {
            let bucket = spec(&format!("site:{modifier}")).unwrap().new_bucket("");
            let (_, policy) = &bucket.configurations[0];
            BucketPolicy::parse(policy, "site").unwrap();
            let json: Value = serde_json::from_slice(policy).unwrap();
            assert_eq!(json["Statement"].as_array().unwrap().len(), statements);
            assert_eq!(json.to_string().contains("ListBucket\""), lists, "{modifier}");
        }
        assert!(spec("site:versioned").unwrap().new_bucket("").configurations.is_empty());
    }

    #[test]
    fn the_policies_are_those_that_mc_puts() {
        // As minio-go marshals them.
        let of_mc = |on_bucket: &str, on_objects: &str| {
            let statement = |actions: &str, resource: &str| {
                format!(
                    r#"{{"Action":[{actions}],"Effect":"Allow","Principal":{{"AWS":["*"]}},"Resource":["arn:aws:s3:::{resource}"],"Sid":""}}"#
                )
            };
            let statements = [statement(on_bucket, "b.b"), statement(on_objects, "b.b/*")].join(",");
            format!(r#"{{"Version":"2012-10-17","Statement":[{statements}]}}"#)
        };
        let put =
            r#""s3:AbortMultipartUpload","s3:DeleteObject","s3:ListMultipartUploadParts","s3:PutObject""#;
        for (modifier, on_bucket, on_objects) in [
            ("mc-download", r#""s3:GetBucketLocation","s3:ListBucket""#, r#""s3:GetObject""#),
            ("mc-upload", r#""s3:GetBucketLocation","s3:ListBucketMultipartUploads""#, put),
        ] {
            let text = of_mc(on_bucket, on_objects);
            BucketPolicy::parse(text.as_bytes(), "b.b").unwrap();
            let mut theirs: Value = serde_json::from_str(&text).unwrap();
            for statement in theirs["Statement"].as_array_mut().unwrap() {
                statement.as_object_mut().unwrap().remove("Sid");
            }
            let ours = spec(&format!("b.b:{modifier}")).unwrap().access.policy("b.b");
            assert_eq!(ours, Some(theirs), "{modifier}");
        }
    }
}
