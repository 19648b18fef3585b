//! The grants of the users file: actions on resources. A grant denies nothing: an action without a
//! grant is refused.

use crate::auth::action::ActionSet;
use crate::auth::resource::{Ownership, ResourcePattern};
use crate::auth::{Action, Resource};

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
        self.actions.extend(ActionSet::named(name)?);
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
        let mut all = actions.iter();
        let is_of_use = all.any(|action| self.resources.iter().any(|pattern| pattern.fits(action)));
        match actions.iter().next().map(Action::level) {
            Some(level) if !is_of_use => Err(format!(
                "`{name}` does nothing here, since it takes {}, which no resource beside it is",
                level.expected()
            )),
            _ => Ok(()),
        }
    }

    /// Checks that an action of this grant can apply to a resource. A bucket together with its
    /// objects passes: both are commonly written together.
    ///
    /// # Errors
    /// The resource cannot take effect; a text for the author of the file.
    pub(super) fn check_resource(&self, text: &str) -> Result<(), String> {
        let pattern = ResourcePattern::parse(text)?;
        let bucket = pattern.bucket();
        let mut beside = self.resources.iter().filter(|other| other.bucket() == bucket);
        if beside.any(|pattern| self.actions.iter().any(|action| pattern.fits(action))) {
            return Ok(());
        }
        Err(match pattern {
            ResourcePattern::Owned => {
                format!("`{text}` names buckets that exist, which no action beside it is done to")
            }
            ResourcePattern::Objects { .. } => {
                format!("`{text}` names objects, which no action beside it is done to")
            }
            _ => format!(
                "`{text}` names buckets, which no action beside it is done to; their objects are `{text}/*`"
            ),
        })
    }

    /// Whether this grant allows `action` on `resource`. `owned` says whether the user owns the
    /// bucket of the resource.
    pub(super) fn allows(&self, action: Action, resource: Resource<'_>, owned: Ownership<'_>) -> bool {
        self.actions.contains(action)
            && self.resources.iter().any(|pattern| pattern.covers(action.level(), resource, owned))
    }

    /// A name for each of its patterns of buckets. A grant that allows an action on some bucket
    /// allows it on one of these.
    pub(super) fn names_of_buckets(&self) -> impl Iterator<Item = &str> {
        self.resources.iter().filter_map(ResourcePattern::name_of_bucket)
    }

    /// Whether it grants every action on every resource.
    pub(super) fn is_of_everything(&self) -> bool {
        self.actions == ActionSet::EVERY && self.resources.contains(&ResourcePattern::Everything)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::action::ActionLevel;

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

    impl Grant {
        /// Whether it allows an action to a user who owns no bucket.
        fn permits(&self, action: Action, resource: Resource<'_>) -> bool {
            self.allows(action, resource, &|| false)
        }
    }

    fn object<'a>(bucket: &'a str, key: &'a str) -> Resource<'a> {
        Resource::Object { bucket, key }
    }

    #[test]
    fn no_action_includes_another() {
        for &held in Action::ALL {
            let grant = grant(&[held.as_str()], &["*"]);
            for &asked in Action::ALL {
                assert_eq!(grant.permits(asked, object("b", "k")), asked == held, "{held} and {asked}");
            }
        }
    }

    #[test]
    fn a_star_stands_for_every_action_and_every_resource() {
        let all = grant(&["*"], &["*"]);
        for &action in Action::ALL {
            for resource in [Resource::Service, Resource::Bucket("b"), object("b", "k")] {
                assert!(all.permits(action, resource), "{action} on {resource:?}");
            }
        }
    }

    #[test]
    fn a_bucket_does_not_cover_its_objects_nor_they_the_bucket() {
        let bucket = grant(&["*"], &["photos"]);
        assert!(bucket.permits(Action::DeleteBucket, Resource::Bucket("photos")));
        assert!(!bucket.permits(Action::DeleteBucket, Resource::Bucket("photos2")));
        assert!(!bucket.permits(Action::GetObject, object("photos", "k")));
        let objects = grant(&["*"], &["photos/*"]);
        assert!(!objects.permits(Action::DeleteBucket, Resource::Bucket("photos")));
        assert!(objects.permits(Action::GetObject, object("photos", "k")));
        assert!(!objects.permits(Action::GetObject, object("photos2", "k")));
    }

    #[test]
    fn a_prefix_covers_the_keys_that_start_so_and_a_key_only_itself() {
        let prefix = grant(&["PutObject"], &["b/in/*"]);
        assert!(prefix.permits(Action::PutObject, object("b", "in/")));
        assert!(prefix.permits(Action::PutObject, object("b", "in/a*b")));
        assert!(!prefix.permits(Action::PutObject, object("b", "in")));
        assert!(!prefix.permits(Action::PutObject, object("b", "out/in/")));
        let key = grant(&["PutObject"], &["b/in"]);
        assert!(key.permits(Action::PutObject, object("b", "in")));
        assert!(!key.permits(Action::PutObject, object("b", "in/x")));
    }

    const LISTING: [Action; 3] =
        [Action::ListBucket, Action::ListBucketVersions, Action::ListBucketMultipartUploads];

    #[test]
    fn a_grant_of_a_bucket_or_of_all_its_keys_permits_listing_it() {
        for action in LISTING {
            let may =
                |resource| grant(&[action.as_str()], &[resource]).permits(action, Resource::Bucket("b"));
            assert!(may("b") && may("b/*") && may("*") && may("b*") && may("*/*"));
            assert!(!may("b/p*") && !may("b/k") && !may("c") && !may("c/*") && !may("bb*"));
        }
    }

    #[test]
    fn a_grant_of_a_prefix_permits_listing_it_and_longer_ones() {
        for action in LISTING {
            let grant = grant(&[action.as_str()], &["b/p/*", "c/key", "t-*/in/*"]);
            let may = |bucket, prefix| grant.permits(action, Resource::Prefix { bucket, prefix });
            assert!(may("b", "p/") && may("b", "p/q") && may("t-1", "in/x"));
            for (bucket, prefix) in
                [("b", ""), ("b", "p"), ("b", "q/"), ("b", "/p/"), ("c", "key"), ("c", "key/"), ("t", "in/")]
            {
                assert!(!may(bucket, prefix), "{action} {bucket} {prefix}");
            }
            assert!(grant.permits(action, object("b", "p/k")) && !grant.permits(action, object("b", "k")));
        }
    }

    #[test]
    fn a_pattern_of_buckets_covers_those_whose_names_start_so_and_their_objects_apart() {
        let buckets = grant(&["*"], &["alt-*"]);
        assert!(buckets.permits(Action::CreateBucket, Resource::Bucket("alt-1")));
        assert!(buckets.permits(Action::ListAllMyBuckets, Resource::Bucket("alt-1")));
        assert!(buckets.permits(Action::ListBucket, Resource::Bucket("alt-")));
        for other in ["alt", "Alt-1", "x-alt-1"] {
            assert!(!buckets.permits(Action::CreateBucket, Resource::Bucket(other)), "{other}");
        }
        assert!(!buckets.permits(Action::GetObject, object("alt-1", "k")));
        let objects = grant(&["*"], &["alt-*/pub/*", "alt-*/one"]);
        assert!(objects.permits(Action::GetObject, object("alt-1", "pub/k")));
        assert!(objects.permits(Action::GetObject, object("alt-2", "one")));
        assert!(!objects.permits(Action::GetObject, object("alt-1", "k")));
        assert!(!objects.permits(Action::GetObject, object("other", "pub/k")));
        assert!(!objects.permits(Action::DeleteBucket, Resource::Bucket("alt-1")));
    }

    #[test]
    fn owned_buckets_are_covered_with_their_objects_and_no_others() {
        let all = grant(&["*"], &["@owned"]);
        let objects = grant(&["GetObject", "ListBucket"], &["@owned/in/*"]);
        for owned in [true, false] {
            let may = |grant: &Grant, action, resource| grant.allows(action, resource, &|| owned);
            for &action in Action::ALL {
                for resource in
                    [Resource::Bucket("b"), object("b", "k"), Resource::Prefix { bucket: "b", prefix: "" }]
                {
                    let covered = owned && action.level() != ActionLevel::Administration;
                    assert_eq!(may(&all, action, resource), covered, "{action} on {resource:?}");
                }
            }
            assert!(may(&all, Action::ListAllMyBuckets, Resource::Service));
            assert_eq!(may(&objects, Action::GetObject, object("b", "in/k")), owned);
            assert!(!may(&objects, Action::GetObject, object("b", "k")));
            assert_eq!(
                may(&objects, Action::ListBucket, Resource::Prefix { bucket: "b", prefix: "in/" }),
                owned
            );
            assert!(!may(&objects, Action::ListBucket, Resource::Bucket("b")));
        }
        let never = || unreachable!("only a pattern with `@owned` asks for the owner");
        assert!(grant(&["*"], &["*", "@owned"]).allows(Action::GetObject, object("b", "k"), &never));
        assert!(!objects.allows(Action::GetObject, object("b", "k"), &never));
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
        assert!(action("CreateBucket", &["@owned"]).unwrap_err().contains("CreateBucket"));
        for resource in ["*", "b", "b*", "b/k", "b/*", "@owned", "@owned/*"] {
            assert_eq!(action("*", &[resource]), Ok(()));
        }
        let resource = |text: &str, names: &[&str]| grant(names, &[text]).check_resource(text);
        assert!(resource("b", &["GetObject", "PutObject"]).unwrap_err().contains("`b/*`"));
        assert!(resource("b/k", &["ListBucket"]).is_err());
        let beside = grant(&["GetObject"], &["b", "c", "b/*"]);
        assert!(beside.check_resource("b").is_ok() && beside.check_resource("c").is_err());
        assert_eq!(resource("b/k", &["ListBucket", "GetObject"]), Ok(()));
        assert!(resource("@owned", &["CreateBucket"]).unwrap_err().contains("`@owned`"));
        assert_eq!(resource("*", &["GetObject"]), Ok(()));
    }

    #[test]
    fn an_object_action_asked_of_a_bucket_means_some_object_of_it() {
        let some = grant(&["DeleteObject"], &["b/p*", "c"]);
        assert!(some.permits(Action::DeleteObject, Resource::Bucket("b")));
        assert!(!some.permits(Action::DeleteObject, Resource::Bucket("c")));
        assert!(!some.permits(Action::DeleteObject, Resource::Service));
    }

    #[test]
    fn listing_buckets_shows_the_granted_ones() {
        let some = grant(&["ListAllMyBuckets"], &["a", "b/*"]);
        assert!(some.permits(Action::ListAllMyBuckets, Resource::Service));
        assert!(some.permits(Action::ListAllMyBuckets, Resource::Bucket("a")));
        assert!(!some.permits(Action::ListAllMyBuckets, Resource::Bucket("b")));
        assert!(!grant(&["ListBucket"], &["*"]).permits(Action::ListAllMyBuckets, Resource::Service));
    }

    #[test]
    fn resources_that_would_be_misread_are_refused() {
        for text in [
            "",
            "/",
            "/k",
            "b/",
            "b*/",
            "*b",
            "a*b",
            "**",
            "b**",
            "a*b/k",
            "b/*x",
            "b/a*b",
            "b/a**",
            "@owned*",
            "@owner",
            "@owned/",
            "@owned*/k",
        ] {
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
