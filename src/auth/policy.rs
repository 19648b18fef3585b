//! What may be done to what: actions, resources and the grants that join them. There is no denial: what no grant
//! allows is refused.

use std::fmt;

/// What kind of resource an action is decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// The whole server.
    Service,
    /// A bucket itself.
    Bucket,
    /// The versions of all objects of a bucket: granted on the bucket or on all of its objects.
    Versions,
    /// One object.
    Object,
}

macro_rules! actions {
    ($($(#[doc = $use:literal])+ $action:ident: $level:ident;)+) => {
        /// A permission. Each stands by itself: none includes another. Names are those of the S3 service
        /// authorization reference, without `s3:`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Action {
            $($(#[doc = $use])+ $action,)+
        }

        impl Action {
            /// Every action.
            pub const ALL: &'static [Self] = &[$(Self::$action),+];

            /// The name in a users file.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$action => stringify!($action)),+ }
            }

            fn level(self) -> Level {
                match self { $(Self::$action => Level::$level),+ }
            }
        }
    };
}

actions! {
    /// ListBuckets: on the service to ask at all, on a bucket to see it among the others.
    ListAllMyBuckets: Service;
    /// CreateBucket; never anonymous.
    CreateBucket: Bucket;
    /// DeleteBucket.
    DeleteBucket: Bucket;
    /// HeadBucket and the listings of objects; whoever holds it also learns that a key does not exist.
    ListBucket: Bucket;
    /// ListObjectVersions; a grant on `bucket` or on `bucket/*` suffices.
    ListBucketVersions: Versions;
    /// ListMultipartUploads.
    ListBucketMultipartUploads: Bucket;
    /// GetBucketLocation.
    GetBucketLocation: Bucket;
    /// GetBucketVersioning.
    GetBucketVersioning: Bucket;
    /// PutBucketVersioning.
    PutBucketVersioning: Bucket;
    /// GetBucketCors.
    GetBucketCORS: Bucket;
    /// GetBucketEncryption.
    GetEncryptionConfiguration: Bucket;
    /// GetBucketLifecycleConfiguration.
    GetLifecycleConfiguration: Bucket;
    /// GetObjectLockConfiguration.
    GetBucketObjectLockConfiguration: Bucket;
    /// GetBucketOwnershipControls.
    GetBucketOwnershipControls: Bucket;
    /// GetBucketPolicy.
    GetBucketPolicy: Bucket;
    /// GetBucketReplication.
    GetReplicationConfiguration: Bucket;
    /// GetBucketTagging.
    GetBucketTagging: Bucket;
    /// GetBucketWebsite.
    GetBucketWebsite: Bucket;
    /// GetObject, HeadObject and the source of a copy, for the current version.
    GetObject: Object;
    /// The same for a named version.
    GetObjectVersion: Object;
    /// GetObjectAttributes of the current version.
    GetObjectAttributes: Object;
    /// GetObjectAttributes of a named version.
    GetObjectVersionAttributes: Object;
    /// PutObject, the target of a copy, and the creation, parts and completion of a multipart upload.
    PutObject: Object;
    /// AbortMultipartUpload.
    AbortMultipartUpload: Object;
    /// ListParts.
    ListMultipartUploadParts: Object;
    /// DeleteObject and DeleteObjects without a version.
    DeleteObject: Object;
    /// The same with a version.
    DeleteObjectVersion: Object;
    /// GetObjectTagging of the current version.
    GetObjectTagging: Object;
    /// GetObjectTagging of a named version.
    GetObjectVersionTagging: Object;
    /// PutObjectTagging of the current version, and tags that come with a put.
    PutObjectTagging: Object;
    /// PutObjectTagging of a named version.
    PutObjectVersionTagging: Object;
    /// DeleteObjectTagging of the current version.
    DeleteObjectTagging: Object;
    /// DeleteObjectTagging of a named version.
    DeleteObjectVersionTagging: Object;
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a request wants to touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource<'a> {
    /// The server as a whole.
    Service,
    /// A bucket. For an action on objects it stands for "at least some object of it".
    Bucket(&'a str),
    /// An object.
    Object {
        /// The name of its bucket.
        bucket: &'a str,
        /// Its key.
        key: &'a str,
    },
}

impl<'a> Resource<'a> {
    fn bucket(self) -> Option<&'a str> {
        match self {
            Self::Service => None,
            Self::Bucket(bucket) | Self::Object { bucket, .. } => Some(bucket),
        }
    }

    fn key(self) -> Option<&'a str> {
        match self {
            Self::Object { key, .. } => Some(key),
            Self::Service | Self::Bucket(_) => None,
        }
    }
}

/// What a grant covers, as a users file writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    /// `*`: every bucket and every object.
    Everything,
    /// `bucket`: the bucket itself, none of its objects.
    Bucket(String),
    /// `bucket/key`: one object.
    Key { bucket: String, key: String },
    /// `bucket/prefix*`: the objects whose keys start so; `bucket/*` is all of them. Not the bucket itself.
    Prefix { bucket: String, prefix: String },
}

impl Pattern {
    /// Reads the text of a resource; the error says what is wrong with it.
    fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Everything);
        }
        let (bucket, object) = match text.split_once('/') {
            Some((bucket, object)) => (bucket, Some(object)),
            None => (text, None),
        };
        let stem = object.map(|object| object.strip_suffix('*').unwrap_or(object));
        if bucket.is_empty() || object == Some("") {
            return Err(format!("`{text}` is not `*`, `bucket`, `bucket/key` or `bucket/prefix*`"));
        }
        if bucket.contains('*') || stem.is_some_and(|stem| stem.contains('*')) {
            return Err(format!("`{text}` has a `*` elsewhere than at the end of a key prefix"));
        }
        let bucket = bucket.to_owned();
        Ok(match (object, stem) {
            (Some(object), Some(stem)) if object.len() > stem.len() => {
                Self::Prefix { bucket, prefix: stem.to_owned() }
            }
            (Some(object), _) => Self::Key { bucket, key: object.to_owned() },
            (None, _) => Self::Bucket(bucket),
        })
    }

    fn covers(&self, level: Level, resource: Resource<'_>) -> bool {
        let is_its = |bucket: &str| resource.bucket() == Some(bucket);
        let key = resource.key();
        match (self, level) {
            (Self::Everything, _) => true,
            (Self::Bucket(bucket), Level::Bucket | Level::Versions) => is_its(bucket),
            (Self::Bucket(bucket), Level::Service) => resource == Resource::Service || is_its(bucket),
            (Self::Key { .. } | Self::Prefix { .. }, Level::Service) => resource == Resource::Service,
            (Self::Prefix { bucket, prefix }, Level::Versions) => prefix.is_empty() && is_its(bucket),
            (Self::Prefix { bucket, prefix }, Level::Object) => {
                is_its(bucket) && key.is_none_or(|key| key.starts_with(prefix.as_str()))
            }
            (Self::Key { bucket, key: only }, Level::Object) => {
                is_its(bucket) && key.is_none_or(|key| key == only)
            }
            (Self::Bucket(_), Level::Object)
            | (Self::Prefix { .. }, Level::Bucket)
            | (Self::Key { .. }, Level::Bucket | Level::Versions) => false,
        }
    }
}

/// Some actions, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ActionSet(u64);

const _: () = assert!(Action::ALL.len() <= u64::BITS as usize);

impl ActionSet {
    const EVERY: Self = Self(u64::MAX);

    fn bit(action: Action) -> u64 {
        1 << action as u32
    }

    /// Adds what a users file names; the error says what is wrong with it.
    fn add(&mut self, name: &str) -> Result<(), String> {
        if name == "*" {
            *self = Self::EVERY;
            return Ok(());
        }
        let action = Action::ALL.iter().find(|action| action.as_str() == name);
        let action = action.ok_or_else(|| format!("there is no action `{name}`"))?;
        self.0 |= Self::bit(*action);
        Ok(())
    }

    fn contains(self, action: Action) -> bool {
        self.0 & Self::bit(action) != 0
    }
}

/// Actions allowed on resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Grant {
    actions: ActionSet,
    resources: Vec<Pattern>,
}

impl Grant {
    /// Every action on every resource.
    pub(super) fn of_everything() -> Self {
        Self { actions: ActionSet::EVERY, resources: vec![Pattern::Everything] }
    }

    /// Adds the action of that name, or all for `*`; the error says what is wrong with it.
    pub(super) fn add_action(&mut self, name: &str) -> Result<(), String> {
        self.actions.add(name)
    }

    /// Adds a resource; the error says what is wrong with it.
    pub(super) fn add_resource(&mut self, text: &str) -> Result<(), String> {
        self.resources.push(Pattern::parse(text)?);
        Ok(())
    }

    /// Whether this grant allows `action` on `resource`.
    pub(super) fn allows(&self, action: Action, resource: Resource<'_>) -> bool {
        self.actions.contains(action)
            && self.resources.iter().any(|pattern| pattern.covers(action.level(), resource))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(actions: &[&str], resources: &[&str]) -> Grant {
        let mut grant = Grant::default();
        for action in actions {
            grant.add_action(action).unwrap();
        }
        for resource in resources {
            grant.add_resource(resource).unwrap();
        }
        grant
    }

    fn object<'a>(bucket: &'a str, key: &'a str) -> Resource<'a> {
        Resource::Object { bucket, key }
    }

    #[test]
    fn no_action_includes_another() {
        for &held in Action::ALL {
            let grant = grant(&[held.as_str()], &["*"]);
            for &asked in Action::ALL {
                assert_eq!(grant.allows(asked, object("b", "k")), asked == held, "{held} and {asked}");
            }
        }
    }

    #[test]
    fn a_star_stands_for_every_action_and_every_resource() {
        let all = grant(&["*"], &["*"]);
        for &action in Action::ALL {
            for resource in [Resource::Service, Resource::Bucket("b"), object("b", "k")] {
                assert!(all.allows(action, resource), "{action} on {resource:?}");
            }
        }
    }

    #[test]
    fn a_bucket_does_not_cover_its_objects_nor_they_the_bucket() {
        let bucket = grant(&["*"], &["photos"]);
        assert!(bucket.allows(Action::ListBucket, Resource::Bucket("photos")));
        assert!(!bucket.allows(Action::ListBucket, Resource::Bucket("photos2")));
        assert!(!bucket.allows(Action::GetObject, object("photos", "k")));
        let objects = grant(&["*"], &["photos/*"]);
        assert!(!objects.allows(Action::ListBucket, Resource::Bucket("photos")));
        assert!(objects.allows(Action::GetObject, object("photos", "k")));
        assert!(!objects.allows(Action::GetObject, object("photos2", "k")));
    }

    #[test]
    fn a_prefix_covers_the_keys_that_start_so_and_a_key_only_itself() {
        let prefix = grant(&["PutObject"], &["b/in/*"]);
        assert!(prefix.allows(Action::PutObject, object("b", "in/")));
        assert!(prefix.allows(Action::PutObject, object("b", "in/a*b")));
        assert!(!prefix.allows(Action::PutObject, object("b", "in")));
        assert!(!prefix.allows(Action::PutObject, object("b", "out/in/")));
        let key = grant(&["PutObject"], &["b/in"]);
        assert!(key.allows(Action::PutObject, object("b", "in")));
        assert!(!key.allows(Action::PutObject, object("b", "in/x")));
    }

    #[test]
    fn versions_are_listed_by_whoever_holds_the_bucket_or_all_of_its_objects() {
        let may = |resource| {
            grant(&["ListBucketVersions"], &[resource])
                .allows(Action::ListBucketVersions, Resource::Bucket("b"))
        };
        assert!(may("b") && may("b/*") && may("*"));
        assert!(!may("b/p*") && !may("b/k") && !may("c") && !may("c/*"));
    }

    #[test]
    fn an_object_action_asked_of_a_bucket_means_some_object_of_it() {
        let some = grant(&["DeleteObject"], &["b/p*", "c"]);
        assert!(some.allows(Action::DeleteObject, Resource::Bucket("b")));
        assert!(!some.allows(Action::DeleteObject, Resource::Bucket("c")));
        assert!(!some.allows(Action::DeleteObject, Resource::Service));
    }

    #[test]
    fn buckets_are_listed_by_whoever_may_anywhere_and_seen_where_granted() {
        let some = grant(&["ListAllMyBuckets"], &["a", "b/*"]);
        assert!(some.allows(Action::ListAllMyBuckets, Resource::Service));
        assert!(some.allows(Action::ListAllMyBuckets, Resource::Bucket("a")));
        assert!(!some.allows(Action::ListAllMyBuckets, Resource::Bucket("b")));
        assert!(!grant(&["ListBucket"], &["*"]).allows(Action::ListAllMyBuckets, Resource::Service));
    }

    #[test]
    fn resources_that_would_be_misread_are_refused() {
        for text in ["", "/", "/k", "b/", "b*", "*b", "*/k", "**", "b/*x", "b/a*b", "b/a**"] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn unknown_actions_are_refused() {
        let mut grant = Grant::default();
        for name in ["", "getobject", "s3:GetObject", "Get*"] {
            assert!(grant.add_action(name).unwrap_err().contains(name));
        }
        assert_eq!(grant, Grant::default());
    }
}
