//! The storage classes of versions.

/// The class of a version, which says where its bytes should lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum StorageClass {
    /// On the disk of the store, as long as there is room.
    #[default]
    Standard,
    /// On the remote alone, once it has them.
    Cold,
}

impl StorageClass {
    /// The name in headers and documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "STANDARD",
            Self::Cold => "COLD",
        }
    }

    /// The class with that name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Standard, Self::Cold].into_iter().find(|class| class.as_str() == name)
    }
}
