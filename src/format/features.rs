//! Critical features of files (data-format.md, section 3).

/// A set of critical features. A reader that does not know one of them must not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features(u64);

impl Features {
    /// No feature: every reader of version 1 knows the file.
    pub const NONE: Self = Self(0);
    /// Entries of the kind *bucket configuration*.
    pub const BUCKET_CONFIGURATIONS: Self = Self(1);
    /// Version and upload records with controls.
    pub const OBJECT_CONTROLS: Self = Self(1 << 1);
    /// Entries of the kind *owner quota*.
    pub const OWNER_QUOTAS: Self = Self(1 << 2);
    /// Version records with an extent that holds their controls.
    pub const AMENDED_CONTROLS: Self = Self(1 << 3);
    /// Entries of the kind *remote segment*.
    pub const REMOTE_SEGMENTS: Self = Self(1 << 4);
    /// Entries of the kind *follower*.
    pub const FOLLOWERS: Self = Self(1 << 5);
    /// Version and upload records with a storage class.
    pub const STORAGE_CLASSES: Self = Self(1 << 6);
    /// Version records with a stated time.
    pub const STATED_TIMES: Self = Self(1 << 7);
    /// Entries of the kind *follower* with refused keys.
    pub const REFUSED_KEYS: Self = Self(1 << 8);
    /// Entries of the kind *follower note*.
    pub const FOLLOWER_NOTES: Self = Self(1 << 9);
    /// Version, upload and part records with an encryption.
    pub const ENCRYPTED_OBJECTS: Self = Self(1 << 10);
    /// Controls that name users.
    pub const NAMED_USERS: Self = Self(1 << 11);
    /// The log is in the fast directory.
    pub const FAST_DIRECTORY: Self = Self(1 << 12);
    /// The directory is one of two with the same bytes.
    pub const MIRRORED: Self = Self(1 << 13);
    /// All that this version knows.
    const KNOWN: Self = Self::BUCKET_CONFIGURATIONS
        .with(Self::OBJECT_CONTROLS)
        .with(Self::OWNER_QUOTAS)
        .with(Self::AMENDED_CONTROLS)
        .with(Self::REMOTE_SEGMENTS)
        .with(Self::FOLLOWERS)
        .with(Self::STORAGE_CLASSES)
        .with(Self::STATED_TIMES)
        .with(Self::REFUSED_KEYS)
        .with(Self::FOLLOWER_NOTES)
        .with(Self::ENCRYPTED_OBJECTS)
        .with(Self::NAMED_USERS)
        .with(Self::FAST_DIRECTORY)
        .with(Self::MIRRORED);
    /// The known features, by their bits.
    pub const NAMES: [(Self, &str); 14] = [
        (Self::BUCKET_CONFIGURATIONS, "bucket configurations"),
        (Self::OBJECT_CONTROLS, "object controls"),
        (Self::OWNER_QUOTAS, "owner quotas"),
        (Self::AMENDED_CONTROLS, "amended controls"),
        (Self::REMOTE_SEGMENTS, "remote segments"),
        (Self::FOLLOWERS, "followers"),
        (Self::STORAGE_CLASSES, "storage classes"),
        (Self::STATED_TIMES, "stated times"),
        (Self::REFUSED_KEYS, "refused keys"),
        (Self::FOLLOWER_NOTES, "follower notes"),
        (Self::ENCRYPTED_OBJECTS, "encrypted objects"),
        (Self::NAMED_USERS, "named users"),
        (Self::FAST_DIRECTORY, "fast directory"),
        (Self::MIRRORED, "mirrored directories"),
    ];

    /// The features of a header field. The error holds the unknown bits.
    pub(super) fn from_bits(bits: u64) -> Result<Self, u64> {
        match bits & !Self::KNOWN.0 {
            0 => Ok(Self(bits)),
            unknown => Err(unknown),
        }
    }

    /// The bits of a header field.
    pub(super) fn bits(self) -> u64 {
        self.0
    }

    /// The union of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are among them.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names of the features, by ascending bits.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(feature, _)| self.contains(*feature)).map(|(_, name)| name)
    }
}
