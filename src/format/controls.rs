//! Controls of objects (data-format.md, section 7): who besides the owner may use a version, and
//! until when it stays.

use std::ops::BitOr;

use crate::base::Timestamp;
use crate::format::{ByteDecoder, DecodeError, Decoded, Encode, Features};

const ACL: u8 = 1;
const GOVERNANCE: u8 = 2;
const COMPLIANCE: u8 = 4;
const LEGAL_HOLD: u8 = 8;
const NO_LEGAL_HOLD: u8 = 16;

/// The controls of a version, or of an upload for the version that it will make. By default none is
/// set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObjectControls {
    /// The grants of its access control list.
    pub acl: AclGrants,
    /// Its retention.
    pub retention: Option<Retention>,
    /// Whether a legal hold keeps it; `None` if nobody ever said so.
    pub legal_hold: Option<bool>,
}

/// The grants of an access control list beside the full control of the owner: a set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct AclGrants(u8);

/// The period in which a version cannot be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Who may end it early.
    pub mode: RetentionMode,
    /// Its end.
    pub until: Timestamp,
}

/// The modes of a retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionMode {
    /// Users with a special permission may shorten it.
    Governance,
    /// Nobody may shorten it.
    Compliance,
}

impl AclGrants {
    /// No grant: the canned ACL `private`.
    pub const NONE: Self = Self(0);
    /// Everybody may read.
    pub const ALL_READ: Self = Self(1);
    /// Everybody may write.
    pub const ALL_WRITE: Self = Self(1 << 1);
    /// Everybody may read the access control list.
    pub const ALL_READ_ACP: Self = Self(1 << 2);
    /// Everybody may write the access control list.
    pub const ALL_WRITE_ACP: Self = Self(1 << 3);
    /// Every authenticated user may read.
    pub const AUTHENTICATED_READ: Self = Self(1 << 4);
    /// Every authenticated user may write.
    pub const AUTHENTICATED_WRITE: Self = Self(1 << 5);
    /// Every authenticated user may read the access control list.
    pub const AUTHENTICATED_READ_ACP: Self = Self(1 << 6);
    /// Every authenticated user may write the access control list.
    pub const AUTHENTICATED_WRITE_ACP: Self = Self(1 << 7);

    /// The grants of a stored byte. Every byte is valid.
    pub fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// The byte to store.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Whether all of `other` are granted.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for AclGrants {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl ObjectControls {
    /// Whether a legal hold keeps the version.
    pub fn is_held(&self) -> bool {
        self.legal_hold == Some(true)
    }

    /// Whether none is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The critical features that a file with these controls needs.
    pub(super) fn features(&self) -> Features {
        match self.legal_hold {
            _ if self.is_empty() => Features::NONE,
            Some(false) => Features::OBJECT_CONTROLS.with(Features::AMENDED_CONTROLS),
            _ => Features::OBJECT_CONTROLS,
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let retention = self.retention.map_or(0, |retention| match retention.mode {
            RetentionMode::Governance => GOVERNANCE,
            RetentionMode::Compliance => COMPLIANCE,
        });
        let acl = if self.acl == AclGrants::NONE { 0 } else { ACL };
        let legal_hold = self.legal_hold.map_or(0, |held| if held { LEGAL_HOLD } else { NO_LEGAL_HOLD });
        out.put_u8(acl | retention | legal_hold);
        if self.acl != AclGrants::NONE {
            out.put_u8(self.acl.bits());
        }
        if let Some(retention) = self.retention {
            out.put_varint(retention.until.as_millis());
        }
    }

    pub(super) fn decode(from: &mut ByteDecoder<'_>) -> Decoded<Self> {
        let flags = from.u8()?;
        if flags & !(ACL | GOVERNANCE | COMPLIANCE | LEGAL_HOLD | NO_LEGAL_HOLD) != 0 {
            return Err(DecodeError::Unknown("a control of an object"));
        }
        let acl = AclGrants::from_bits(if flags & ACL != 0 { from.u8()? } else { 0 });
        let mode = match flags & (GOVERNANCE | COMPLIANCE) {
            0 => None,
            GOVERNANCE => Some(RetentionMode::Governance),
            COMPLIANCE => Some(RetentionMode::Compliance),
            _ => return Err(DecodeError::Value("the retention of an object")),
        };
        let retention = match mode {
            Some(mode) => Some(Retention { mode, until: Timestamp::from_millis(from.varint()?) }),
            None => None,
        };
        let legal_hold = match flags & (LEGAL_HOLD | NO_LEGAL_HOLD) {
            0 => None,
            LEGAL_HOLD => Some(true),
            NO_LEGAL_HOLD => Some(false),
            _ => return Err(DecodeError::Value("the legal hold of an object")),
        };
        Ok(Self { acl, retention, legal_hold })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<ObjectControls> {
        let retention = |mode| Some(Retention { mode, until: Timestamp::from_millis(1_800_000_000_000) });
        let none = ObjectControls::default();
        vec![
            ObjectControls { acl: AclGrants::ALL_READ | AclGrants::AUTHENTICATED_WRITE_ACP, ..none },
            ObjectControls { retention: retention(RetentionMode::Governance), ..none },
            ObjectControls {
                retention: retention(RetentionMode::Compliance),
                legal_hold: Some(true),
                ..none
            },
            ObjectControls { legal_hold: Some(true), acl: AclGrants::ALL_READ, ..none },
            ObjectControls { legal_hold: Some(false), ..none },
        ]
    }

    #[test]
    fn controls_come_back_and_no_prefix_passes() {
        for controls in all() {
            let mut bytes = Vec::new();
            controls.encode(&mut bytes);
            assert_eq!(ObjectControls::decode(&mut ByteDecoder::new(&bytes)), Ok(controls));
            let amended = controls.features().contains(Features::AMENDED_CONTROLS);
            assert_eq!(amended, controls.legal_hold == Some(false));
            assert!(controls.features().contains(Features::OBJECT_CONTROLS));
            for len in 0..bytes.len() {
                assert!(
                    ObjectControls::decode(&mut ByteDecoder::new(&bytes[..len])).is_err(),
                    "cut to {len}"
                );
            }
        }
        assert_eq!(ObjectControls::default().features(), Features::NONE);
    }

    #[test]
    fn unknown_controls_are_newer_and_contradictory_ones_wrong() {
        let decode = |bytes: &[u8]| ObjectControls::decode(&mut ByteDecoder::new(bytes));
        assert!(decode(&[32]).is_err_and(DecodeError::is_newer));
        assert!(decode(&[LEGAL_HOLD | NO_LEGAL_HOLD]).is_err_and(|error| !error.is_newer()));
        assert!(decode(&[GOVERNANCE | COMPLIANCE, 1]).is_err_and(|error| !error.is_newer()));
    }
}
