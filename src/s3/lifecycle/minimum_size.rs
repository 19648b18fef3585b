//! The size below which objects are not moved to another storage class.

use crate::s3::S3Error;

/// The size below which objects are not moved to another storage class by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransitionMinimumSize {
    /// 128 KiB.
    #[default]
    AllStorageClasses128K,
    /// Another size for each storage class: none for COLD.
    VariesByStorageClass,
}

impl TransitionMinimumSize {
    /// The element of the stored document with the minimum size, which clients send as a header.
    pub(super) const ELEMENT: &'static str = "TransitionDefaultMinimumObjectSize";

    /// The name in headers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllStorageClasses128K => "all_storage_classes_128K",
            Self::VariesByStorageClass => "varies_by_storage_class",
        }
    }

    /// The value with this name.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn named(name: &str) -> Result<Self, S3Error> {
        let known = [Self::AllStorageClasses128K, Self::VariesByStorageClass];
        known.into_iter().find(|value| value.as_str() == name).ok_or_else(|| {
            let element = Self::ELEMENT;
            S3Error::invalid_argument(element, name, format!("Invalid value for {element}: {name}"))
        })
    }
}
