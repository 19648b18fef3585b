//! The resources of requests, and those that a users file names.

use crate::auth::Action;
use crate::auth::action::ActionLevel;

/// The resource that a request accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource<'a> {
    /// The server as a whole.
    Service,
    /// A bucket. For an action on objects it stands for any object of it, for a listing action for
    /// all of its keys.
    Bucket(&'a str),
    /// The keys of a bucket with a prefix, for listing actions.
    Prefix {
        /// The name of the bucket.
        bucket: &'a str,
        /// The prefix; empty for all keys.
        prefix: &'a str,
    },
    Object {
        /// The name of its bucket.
        bucket: &'a str,
        key: &'a str,
    },
}

impl<'a> Resource<'a> {
    /// The name of its bucket.
    pub fn bucket(self) -> Option<&'a str> {
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
pub(super) struct NamePattern {
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

    fn matches_bucket_of(&self, resource: Resource<'_>) -> bool {
        resource.bucket().is_some_and(|bucket| self.matches(bucket))
    }
}

/// The buckets that the user created, in a users file.
const OWNED: &str = "@owned";

/// Says whether the user of a grant owns the bucket of a resource. Only a pattern with `@owned`
/// asks.
pub(super) type Ownership<'f> = &'f dyn Fn() -> bool;

/// The buckets of a resource in a users file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BucketPattern {
    /// Buckets by name.
    Named(NamePattern),
    /// The buckets that the user created.
    Owned,
}

impl BucketPattern {
    fn covers(&self, resource: Resource<'_>, owned: Ownership<'_>) -> bool {
        match (self, resource.bucket()) {
            (_, None) => false,
            (Self::Named(name), Some(bucket)) => name.matches(bucket),
            (Self::Owned, Some(_)) => owned(),
        }
    }
}

/// A resource in a users file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ResourcePattern {
    /// `*`: every bucket and every object.
    Everything,
    /// `@owned`: the buckets that the user created, and all their objects.
    Owned,
    /// `bucket`, `start*`: buckets, none of their objects.
    Buckets(NamePattern),
    /// `bucket/key`, `bucket/prefix*`, `start*/key`, `start*/prefix*`, `@owned/prefix*`: objects,
    /// not the buckets.
    Objects { bucket: BucketPattern, key: NamePattern },
}

impl ResourcePattern {
    /// Parses a resource. The error describes the problem.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "*" => return Ok(Self::Everything),
            OWNED => return Ok(Self::Owned),
            _ => {}
        }
        let (bucket, key) = match text.split_once('/') {
            Some((bucket, key)) => (bucket, Some(key)),
            None => (text, None),
        };
        if bucket.is_empty() || key == Some("") {
            return Err(format!("`{text}` is not `*`, `@owned`, `bucket`, `bucket/key` or `bucket/prefix*`"));
        }

        if bucket.starts_with('@') && bucket != OWNED {
            return Err(format!("`{text}` begins with `@` and is neither `{OWNED}` nor `{OWNED}/prefix*`"));
        }
        Ok(match key {
            None => Self::Buckets(pattern(bucket, text)?),
            Some(key) if bucket == OWNED => {
                Self::Objects { bucket: BucketPattern::Owned, key: pattern(key, text)? }
            }
            Some(key) => Self::Objects {
                bucket: BucketPattern::Named(pattern(bucket, text)?),
                key: pattern(key, text)?,
            },
        })
    }

    /// A name that it has for a bucket; `None` for a pattern of objects, or of buckets that exist.
    pub(super) fn name_of_bucket(&self) -> Option<&str> {
        match self {
            Self::Everything => Some(""),
            Self::Buckets(name) => Some(&name.text),
            Self::Owned | Self::Objects { .. } => None,
        }
    }

    /// Whether it covers a resource, for an action of `level`.
    pub(super) fn covers(&self, level: ActionLevel, resource: Resource<'_>, owned: Ownership<'_>) -> bool {
        match (self, level) {
            (Self::Everything, _) => true,
            (_, ActionLevel::Administration) => false,
            (Self::Owned, ActionLevel::Service) if resource == Resource::Service => true,
            (Self::Owned, _) => resource.bucket().is_some() && owned(),
            (Self::Buckets(name), ActionLevel::Bucket | ActionLevel::Listing) => {
                name.matches_bucket_of(resource)
            }
            (Self::Buckets(name), ActionLevel::Service) => {
                resource == Resource::Service || name.matches_bucket_of(resource)
            }
            (Self::Objects { .. }, ActionLevel::Service) => resource == Resource::Service,
            (Self::Objects { bucket, key }, ActionLevel::Listing) => {
                key.open && key.matches(resource.common_start()) && bucket.covers(resource, owned)
            }
            (Self::Objects { bucket, key }, ActionLevel::Object) => {
                let some = matches!(resource, Resource::Bucket(_));
                (some || key.matches(resource.common_start())) && bucket.covers(resource, owned)
            }
            (Self::Buckets(_), ActionLevel::Object) | (Self::Objects { .. }, ActionLevel::Bucket) => false,
        }
    }

    /// The buckets that it names.
    pub(super) fn bucket(&self) -> Option<BucketPattern> {
        match self {
            Self::Everything => None,
            Self::Owned => Some(BucketPattern::Owned),
            Self::Buckets(name) => Some(BucketPattern::Named(name.clone())),
            Self::Objects { bucket, .. } => Some(bucket.clone()),
        }
    }

    /// Whether an action can apply to a resource of this pattern.
    pub(super) fn fits(&self, action: Action) -> bool {
        match (self, action.level()) {
            (Self::Everything, _) => true,
            (_, ActionLevel::Administration) => false,
            // A bucket that is to be created has no owner yet.
            (Self::Owned, _) => action != Action::CreateBucket,
            (Self::Buckets(_), level) => level != ActionLevel::Object,
            (Self::Objects { .. }, ActionLevel::Object) => true,
            // A single key cannot be listed: a listing also shows the keys that begin with it.
            (Self::Objects { key, .. }, ActionLevel::Listing) => key.open,
            (Self::Objects { .. }, ActionLevel::Service | ActionLevel::Bucket) => false,
        }
    }
}

fn pattern(part: &str, resource: &str) -> Result<NamePattern, String> {
    NamePattern::parse(part).ok_or_else(|| {
        format!("`{resource}` has a `*` elsewhere than at the end of a bucket's name or of a key prefix")
    })
}
