//! Permissions: actions, resources, and grants of actions on resources. There are no denials: an action without a
//! grant is refused.

use std::fmt;

/// The kind of resource that an action applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ActionLevel {
    /// The whole server.
    Service,
    /// A bucket itself.
    Bucket,
    /// The keys of a bucket: granted on the bucket or on a key prefix.
    Listing,
    /// One object.
    Object,
}

impl ActionLevel {
    /// The resources that an action of this level can be granted on.
    fn expected(self) -> &'static str {
        match self {
            Self::Service | Self::Bucket => "a bucket (`bucket`, `start*`)",
            Self::Listing => "a bucket or a key prefix (`bucket`, `bucket/prefix*`)",
            Self::Object => "objects (`bucket/*`, `bucket/prefix*`, `bucket/key`)",
        }
    }
}

macro_rules! actions {
    ($($(#[doc = $use:literal])+ $action:ident: $level:ident;)+) => {
        /// A permission. None includes another. The names are those of the S3 service authorization reference, without
        /// `s3:`.
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

            /// Whether it is granted on objects.
            pub(super) fn applies_to_objects(self) -> bool {
                self.level() == ActionLevel::Object
            }

            fn level(self) -> ActionLevel {
                match self { $(Self::$action => ActionLevel::$level),+ }
            }
        }
    };
}

actions! {
    /// ListBuckets: on the service to call it, on a bucket to see it in the list.
    ListAllMyBuckets: Service;
    /// CreateBucket; never anonymous.
    CreateBucket: Bucket;
    /// DeleteBucket.
    DeleteBucket: Bucket;
    /// HeadBucket and the listings of objects; its holder also learns that a key does not exist.
    ListBucket: Listing;
    /// ListObjectVersions.
    ListBucketVersions: Listing;
    /// ListMultipartUploads.
    ListBucketMultipartUploads: Listing;
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
    /// PutBucketWebsite.
    PutBucketWebsite: Bucket;
    /// GetBucketWebsite.
    GetBucketWebsite: Bucket;
    /// DeleteBucketWebsite.
    DeleteBucketWebsite: Bucket;
    /// GetObject, HeadObject and the source of a copy, for the current version.
    GetObject: Object;
    /// GetObject, HeadObject and the source of a copy, for a named version.
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
    /// DeleteObject and DeleteObjects with a version.
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

/// The resource that a request accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource<'a> {
    /// The server as a whole.
    Service,
    /// A bucket. For an action on objects it stands for any object of it, for a listing action for all of its keys.
    Bucket(&'a str),
    /// The keys of a bucket with a prefix, for listing actions.
    Prefix {
        /// The name of the bucket.
        bucket: &'a str,
        /// The prefix; empty for all keys.
        prefix: &'a str,
    },
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
            Self::Bucket(bucket) | Self::Prefix { bucket, .. } | Self::Object { bucket, .. } => Some(bucket),
        }
    }

    /// The common prefix of its keys.
    fn common_start(self) -> &'a str {
        match self {
            Self::Service | Self::Bucket(_) => "",
            Self::Prefix { prefix, .. } => prefix,
            Self::Object { key, .. } => key,
        }
    }
}

/// A full name or, with a `*` at its end, a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NamePattern {
    /// Without the `*`.
    text: String,
    /// Whether there was a `*`.
    open: bool,
}

impl NamePattern {
    /// `None` for a `*` elsewhere than at the end.
    fn parse(text: &str) -> Option<Self> {
        let stem = text.strip_suffix('*');
        let name = Self { text: stem.unwrap_or(text).to_owned(), open: stem.is_some() };
        (!name.text.contains('*')).then_some(name)
    }

    fn matches(&self, name: &str) -> bool {
        if self.open { name.starts_with(&self.text) } else { name == self.text }
    }
}

/// A resource in a users file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ResourcePattern {
    /// `*`: every bucket and every object.
    Everything,
    /// `bucket`, `start*`: buckets, none of their objects.
    Buckets(NamePattern),
    /// `bucket/key`, `bucket/prefix*`, `start*/key`, `start*/prefix*`: objects, not the buckets.
    Objects { bucket: NamePattern, key: NamePattern },
}

impl ResourcePattern {
    /// Parses a resource. The error describes the problem.
    fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Everything);
        }
        let (bucket, key) = match text.split_once('/') {
            Some((bucket, key)) => (bucket, Some(key)),
            None => (text, None),
        };
        if bucket.is_empty() || key == Some("") {
            return Err(format!("`{text}` is not `*`, `bucket`, `bucket/key` or `bucket/prefix*`"));
        }
        let name = |part| {
            NamePattern::parse(part).ok_or_else(|| {
                format!("`{text}` has a `*` elsewhere than at the end of a bucket's name or of a key prefix")
            })
        };
        Ok(match key {
            None => Self::Buckets(name(bucket)?),
            Some(key) => Self::Objects { bucket: name(bucket)?, key: name(key)? },
        })
    }

    fn covers(&self, level: ActionLevel, resource: Resource<'_>) -> bool {
        let is_in = |name: &NamePattern| resource.bucket().is_some_and(|bucket| name.matches(bucket));
        match (self, level) {
            (Self::Everything, _) => true,
            (Self::Buckets(name), ActionLevel::Bucket | ActionLevel::Listing) => is_in(name),
            (Self::Buckets(name), ActionLevel::Service) => resource == Resource::Service || is_in(name),
            (Self::Objects { .. }, ActionLevel::Service) => resource == Resource::Service,
            (Self::Objects { bucket, key }, ActionLevel::Listing) => {
                is_in(bucket) && key.open && key.matches(resource.common_start())
            }
            (Self::Objects { bucket, key }, ActionLevel::Object) => {
                let some = matches!(resource, Resource::Bucket(_));
                is_in(bucket) && (some || key.matches(resource.common_start()))
            }
            (Self::Buckets(_), ActionLevel::Object) | (Self::Objects { .. }, ActionLevel::Bucket) => false,
        }
    }

    /// The pattern of the bucket names.
    fn bucket(&self) -> Option<&NamePattern> {
        match self {
            Self::Everything => None,
            Self::Buckets(name) | Self::Objects { bucket: name, .. } => Some(name),
        }
    }

    /// Whether an action of `level` can apply to a resource of this pattern.
    fn fits(&self, level: ActionLevel) -> bool {
        match (self, level) {
            (Self::Everything, _) => true,
            (Self::Buckets(_), level) => level != ActionLevel::Object,
            (Self::Objects { .. }, ActionLevel::Object) => true,
            // A single key cannot be listed: a listing also shows the keys that begin with it.
            (Self::Objects { key, .. }, ActionLevel::Listing) => key.open,
            (Self::Objects { .. }, ActionLevel::Service | ActionLevel::Bucket) => false,
        }
    }
}

/// A set of actions, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ActionSet(u64);

const _: () = assert!(Action::ALL.len() <= u64::BITS as usize);

impl ActionSet {
    const EVERY: Self = Self(u64::MAX);

    fn bit(action: Action) -> u64 {
        1 << action as u32
    }

    /// The actions of a name in a users file. The error describes the problem.
    fn named(name: &str) -> Result<Self, String> {
        if name == "*" {
            return Ok(Self::EVERY);
        }
        let action = Action::ALL.iter().find(|action| action.as_str() == name);
        action.map(|&action| Self(Self::bit(action))).ok_or_else(|| format!("there is no action `{name}`"))
    }

    fn levels(self) -> impl Iterator<Item = ActionLevel> {
        Action::ALL.iter().filter(move |&&action| self.contains(action)).map(|action| action.level())
    }

    /// Adds an action.
    pub(super) fn insert(&mut self, action: Action) {
        self.0 |= Self::bit(action);
    }

    /// Whether the action is among them.
    pub(super) fn contains(self, action: Action) -> bool {
        self.0 & Self::bit(action) != 0
    }
}

/// Actions allowed on resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Grant {
    actions: ActionSet,
    resources: Vec<ResourcePattern>,
}

impl Grant {
    /// Every action on every resource.
    pub(super) fn of_everything() -> Self {
        Self { actions: ActionSet::EVERY, resources: vec![ResourcePattern::Everything] }
    }

    /// Adds the action `name`, or all for `*`. The error describes the problem.
    pub(super) fn add_action(&mut self, name: &str) -> Result<(), String> {
        self.actions.0 |= ActionSet::named(name)?.0;
        Ok(())
    }

    /// Adds a resource. The error describes the problem.
    pub(super) fn add_resource(&mut self, text: &str) -> Result<(), String> {
        self.resources.push(ResourcePattern::parse(text)?);
        Ok(())
    }

    /// Checks that the action `name` can apply to a resource of this grant.
    ///
    /// # Errors
    /// The action cannot take effect; a text for the author of the file.
    pub(super) fn check_action(&self, name: &str) -> Result<(), String> {
        let actions = ActionSet::named(name)?;
        let is_of_use = |level| self.resources.iter().any(|pattern| pattern.fits(level));
        match actions.levels().next() {
            Some(level) if !actions.levels().any(is_of_use) => Err(format!(
                "`{name}` does nothing here, since it takes {}, which no resource beside it is",
                level.expected()
            )),
            _ => Ok(()),
        }
    }

    /// Checks that an action of this grant can apply to a resource. A bucket together with its objects passes: both
    /// are commonly written together.
    ///
    /// # Errors
    /// The resource cannot take effect; a text for the author of the file.
    pub(super) fn check_resource(&self, text: &str) -> Result<(), String> {
        let pattern = ResourcePattern::parse(text)?;
        let is_of_use = |pattern: &ResourcePattern| self.actions.levels().any(|level| pattern.fits(level));
        let beside = |other: &&ResourcePattern| other.bucket() == pattern.bucket();
        if self.resources.iter().filter(beside).any(is_of_use) {
            return Ok(());
        }
        Err(match pattern {
            ResourcePattern::Objects { .. } => {
                format!("`{text}` names objects, which no action beside it is done to")
            }
            _ => format!(
                "`{text}` names buckets, which no action beside it is done to; their objects are `{text}/*`"
            ),
        })
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
        assert!(bucket.allows(Action::DeleteBucket, Resource::Bucket("photos")));
        assert!(!bucket.allows(Action::DeleteBucket, Resource::Bucket("photos2")));
        assert!(!bucket.allows(Action::GetObject, object("photos", "k")));
        let objects = grant(&["*"], &["photos/*"]);
        assert!(!objects.allows(Action::DeleteBucket, Resource::Bucket("photos")));
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

    const LISTING: [Action; 3] =
        [Action::ListBucket, Action::ListBucketVersions, Action::ListBucketMultipartUploads];

    #[test]
    fn a_grant_of_a_bucket_or_of_all_its_keys_permits_listing_it() {
        for action in LISTING {
            let may = |resource| grant(&[action.as_str()], &[resource]).allows(action, Resource::Bucket("b"));
            assert!(may("b") && may("b/*") && may("*") && may("b*") && may("*/*"));
            assert!(!may("b/p*") && !may("b/k") && !may("c") && !may("c/*") && !may("bb*"));
        }
    }

    #[test]
    fn a_grant_of_a_prefix_permits_listing_it_and_longer_ones() {
        for action in LISTING {
            let grant = grant(&[action.as_str()], &["b/p/*", "c/key", "t-*/in/*"]);
            let may = |bucket, prefix| grant.allows(action, Resource::Prefix { bucket, prefix });
            assert!(may("b", "p/") && may("b", "p/q") && may("t-1", "in/x"));
            for (bucket, prefix) in
                [("b", ""), ("b", "p"), ("b", "q/"), ("b", "/p/"), ("c", "key"), ("c", "key/"), ("t", "in/")]
            {
                assert!(!may(bucket, prefix), "{action} {bucket} {prefix}");
            }
            assert!(grant.allows(action, object("b", "p/k")) && !grant.allows(action, object("b", "k")));
        }
    }

    #[test]
    fn a_pattern_of_buckets_covers_those_whose_names_start_so_and_their_objects_apart() {
        let buckets = grant(&["*"], &["alt-*"]);
        assert!(buckets.allows(Action::CreateBucket, Resource::Bucket("alt-1")));
        assert!(buckets.allows(Action::ListAllMyBuckets, Resource::Bucket("alt-1")));
        assert!(buckets.allows(Action::ListBucket, Resource::Bucket("alt-")));
        for other in ["alt", "Alt-1", "x-alt-1"] {
            assert!(!buckets.allows(Action::CreateBucket, Resource::Bucket(other)), "{other}");
        }
        assert!(!buckets.allows(Action::GetObject, object("alt-1", "k")));
        let objects = grant(&["*"], &["alt-*/pub/*", "alt-*/one"]);
        assert!(objects.allows(Action::GetObject, object("alt-1", "pub/k")));
        assert!(objects.allows(Action::GetObject, object("alt-2", "one")));
        assert!(!objects.allows(Action::GetObject, object("alt-1", "k")));
        assert!(!objects.allows(Action::GetObject, object("other", "pub/k")));
        assert!(!objects.allows(Action::DeleteBucket, Resource::Bucket("alt-1")));
    }

    #[test]
    fn grants_without_effect_are_found() {
        let action = |name: &str, resources: &[&str]| grant(&[name], resources).check_action(name);
        for (name, resources) in [
            ("GetObject", &["b", "c*"][..]),
            ("CreateBucket", &["b/*", "b/k"]),
            ("ListBucket", &["b/k"]),
            ("ListAllMyBuckets", &["b/*"]),
        ] {
            assert!(action(name, resources).unwrap_err().contains(name));
            for fit in ["*", if name == "GetObject" { "x/k" } else { "x" }] {
                assert_eq!(action(name, &[resources, &[fit]].concat()), Ok(()), "{name} {fit}");
            }
        }
        for resource in ["*", "b", "b*", "b/k", "b/*"] {
            assert_eq!(action("*", &[resource]), Ok(()));
        }
        let resource = |text: &str, names: &[&str]| grant(names, &[text]).check_resource(text);
        assert!(resource("b", &["GetObject", "PutObject"]).unwrap_err().contains("`b/*`"));
        assert!(resource("b/k", &["ListBucket"]).is_err());
        let beside = grant(&["GetObject"], &["b", "c", "b/*"]);
        assert!(beside.check_resource("b").is_ok() && beside.check_resource("c").is_err());
        assert_eq!(resource("b/k", &["ListBucket", "GetObject"]), Ok(()));
        assert_eq!(resource("*", &["GetObject"]), Ok(()));
    }

    #[test]
    fn an_object_action_asked_of_a_bucket_means_some_object_of_it() {
        let some = grant(&["DeleteObject"], &["b/p*", "c"]);
        assert!(some.allows(Action::DeleteObject, Resource::Bucket("b")));
        assert!(!some.allows(Action::DeleteObject, Resource::Bucket("c")));
        assert!(!some.allows(Action::DeleteObject, Resource::Service));
    }

    #[test]
    fn listing_buckets_shows_the_granted_ones() {
        let some = grant(&["ListAllMyBuckets"], &["a", "b/*"]);
        assert!(some.allows(Action::ListAllMyBuckets, Resource::Service));
        assert!(some.allows(Action::ListAllMyBuckets, Resource::Bucket("a")));
        assert!(!some.allows(Action::ListAllMyBuckets, Resource::Bucket("b")));
        assert!(!grant(&["ListBucket"], &["*"]).allows(Action::ListAllMyBuckets, Resource::Service));
    }

    #[test]
    fn resources_that_would_be_misread_are_refused() {
        for text in ["", "/", "/k", "b/", "b*/", "*b", "a*b", "**", "b**", "a*b/k", "b/*x", "b/a*b", "b/a**"]
        {
            assert!(ResourcePattern::parse(text).is_err(), "{text}");
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
