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
const NAMED_USERS: u8 = 32;
const KNOWN_FLAGS: u8 = ACL | GOVERNANCE | COMPLIANCE | LEGAL_HOLD | NO_LEGAL_HOLD | NAMED_USERS;

/// The permissions that a user may have, one bit each.
const USER_PERMISSIONS: u8 = 15;

/// The smallest encoding of a grant to a user: a name, a time and the permissions.
const USER_GRANT_BYTES_MIN: usize = 3;

/// The controls of a version, or of an upload for the version that it will make. By default none is
/// set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectControls {
    /// The grants of its access control list to groups.
    pub acl: AclGrants,
    /// The users whom its access control list names; `None` for none, as of most objects.
    pub users: Option<Box<NamedUsers>>,
    /// Its retention.
    pub retention: Option<Retention>,
    /// Whether a legal hold keeps it; `None` if nobody ever said so.
    pub legal_hold: Option<bool>,
}

/// The grants of an access control list beside the full control of the owner: a set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct AclGrants(u8);

/// The users whom the access control list of a version names. There is at least one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamedUsers {
    /// The owner of the object, where it is not the owner of the bucket.
    pub owner: Option<ObjectOwner>,
    /// The users with grants, at most [`NamedUsers::GRANTS_MAX`], in the order of the list. One may
    /// be there several times, with what was granted to it each time.
    pub grants: Vec<UserGrant>,
}

/// The owner of an object. The name means the user who had it at that time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectOwner {
    /// The name of the user.
    pub name: String,
    /// The time from which the object has been his.
    pub since: Timestamp,
}

/// A grant to a user. The name means the user who had it at that time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserGrant {
    /// The name of the user.
    pub name: String,
    /// The time of the grant.
    pub since: Timestamp,
    /// A bit each for the permissions to read, to write, to read and to write the list. At least
    /// one is set, and no other.
    pub permissions: u8,
}

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

impl NamedUsers {
    /// The largest number of grants (S3 user guide, "Access control list (ACL) overview").
    pub const GRANTS_MAX: usize = crate::base::limits::ACL_GRANTS_MAX;

    /// An owner and grants; `None` for neither.
    pub fn of(owner: Option<ObjectOwner>, grants: Vec<UserGrant>) -> Option<Box<Self>> {
        let is_empty = owner.is_none() && grants.is_empty();
        (!is_empty).then(|| Box::new(Self { owner, grants }))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.owner.is_some().into());
        if let Some(owner) = &self.owner {
            out.put_bytes(owner.name.as_bytes());
            out.put_varint(owner.since.as_millis());
        }
        out.put_varint(self.grants.len() as u64);
        for grant in &self.grants {
            out.put_bytes(grant.name.as_bytes());
            out.put_varint(grant.since.as_millis());
            out.put_u8(grant.permissions);
        }
    }

    fn decode(from: &mut ByteDecoder<'_>) -> Decoded<Box<Self>> {
        let owner = match from.u8()? {
            0 => None,
            1 => Some(ObjectOwner {
                name: from.string()?.to_owned(),
                since: Timestamp::from_millis(from.varint()?),
            }),
            _ => return Err(DecodeError::Value("the owner of an object")),
        };
        let count = from.count(USER_GRANT_BYTES_MIN)?;
        if count > Self::GRANTS_MAX {
            return Err(DecodeError::Value("the number of grants of an object"));
        }
        let mut grants = Vec::new();
        for _ in 0..count {
            let name = from.string()?.to_owned();
            let since = Timestamp::from_millis(from.varint()?);
            let permissions = from.u8()?;
            if permissions == 0 || permissions & !USER_PERMISSIONS != 0 {
                return Err(DecodeError::Value("a grant of an object"));
            }
            grants.push(UserGrant { name, since, permissions });
        }
        Self::of(owner, grants).ok_or(DecodeError::Value("the named users of an object"))
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
        let named = self.users.as_ref().map_or(Features::NONE, |_| Features::NAMED_USERS);
        match self.legal_hold {
            _ if self.is_empty() => Features::NONE,
            Some(false) => Features::OBJECT_CONTROLS.with(Features::AMENDED_CONTROLS).with(named),
            _ => Features::OBJECT_CONTROLS.with(named),
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let retention = self.retention.map_or(0, |retention| match retention.mode {
            RetentionMode::Governance => GOVERNANCE,
            RetentionMode::Compliance => COMPLIANCE,
        });
        let acl = if self.acl == AclGrants::NONE { 0 } else { ACL };
        let legal_hold = self.legal_hold.map_or(0, |held| if held { LEGAL_HOLD } else { NO_LEGAL_HOLD });
        let named = if self.users.is_some() { NAMED_USERS } else { 0 };
        out.put_u8(acl | retention | legal_hold | named);
        if self.acl != AclGrants::NONE {
            out.put_u8(self.acl.bits());
        }
        if let Some(retention) = self.retention {
            out.put_varint(retention.until.as_millis());
        }
        if let Some(users) = &self.users {
            users.encode(out);
        }
    }

    pub(super) fn decode(from: &mut ByteDecoder<'_>) -> Decoded<Self> {
        let flags = from.u8()?;
        if flags & !KNOWN_FLAGS != 0 {
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
        let users = if flags & NAMED_USERS != 0 { Some(NamedUsers::decode(from)?) } else { None };
        Ok(Self { acl, users, retention, legal_hold })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> ObjectOwner {
        ObjectOwner { name: "ann".into(), since: Timestamp::from_millis(1_700_000_000_000) }
    }

    fn grants(count: usize) -> Vec<UserGrant> {
        let since = Timestamp::from_millis(1_750_000_000_000);
        let grant =
            |nth: usize| UserGrant { name: format!("user-{nth}"), since, permissions: (nth % 15 + 1) as u8 };
        (0..count).map(grant).collect()
    }

    fn all() -> Vec<ObjectControls> {
        let retention = |mode| Some(Retention { mode, until: Timestamp::from_millis(1_800_000_000_000) });
        let none = ObjectControls::default();
        vec![
            ObjectControls { acl: AclGrants::ALL_READ | AclGrants::AUTHENTICATED_WRITE_ACP, ..none.clone() },
            ObjectControls { retention: retention(RetentionMode::Governance), ..none.clone() },
            ObjectControls {
                retention: retention(RetentionMode::Compliance),
                legal_hold: Some(true),
                ..none.clone()
            },
            ObjectControls { legal_hold: Some(true), acl: AclGrants::ALL_READ, ..none.clone() },
            ObjectControls { legal_hold: Some(false), ..none.clone() },
            ObjectControls { users: NamedUsers::of(Some(owner()), Vec::new()), ..none.clone() },
            ObjectControls { users: NamedUsers::of(None, grants(NamedUsers::GRANTS_MAX)), ..none.clone() },
            ObjectControls {
                acl: AclGrants::ALL_READ,
                users: NamedUsers::of(Some(owner()), grants(2)),
                retention: retention(RetentionMode::Governance),
                legal_hold: Some(true),
            },
        ]
    }

    #[test]
    fn controls_come_back_and_no_prefix_passes() {
        for controls in all() {
            let mut bytes = Vec::new();
            controls.encode(&mut bytes);
            assert_eq!(ObjectControls::decode(&mut ByteDecoder::new(&bytes)), Ok(controls.clone()));
            let amended = controls.features().contains(Features::AMENDED_CONTROLS);
            assert_eq!(amended, controls.legal_hold == Some(false));
            assert!(controls.features().contains(Features::OBJECT_CONTROLS));
            let named = controls.features().contains(Features::NAMED_USERS);
            assert_eq!(named, controls.users.is_some(), "an older program reads all others");
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
        assert!(decode(&[64]).is_err_and(DecodeError::is_newer));
        let named = |rest: &[u8]| decode(&[&[NAMED_USERS], rest].concat());
        assert!(named(&[0, 1, 1, b'a', 9, 15]).is_ok());
        for wrong in [
            &[0, 0][..],
            &[2, 0],
            &[0, 1, 1, b'a', 9, 0],
            &[0, 1, 1, b'a', 9, 16],
            &[0, 1, 1, 0xff, 9, 1],
            &[0, 0xff, 0xff, 0xff, 0xff, 0x0f],
        ] {
            assert!(named(wrong).is_err_and(|error| !error.is_newer()), "{wrong:?}");
        }
        let too_many = grants(NamedUsers::GRANTS_MAX + 1);
        let mut bytes = Vec::new();
        ObjectControls { users: NamedUsers::of(None, too_many), ..ObjectControls::default() }
            .encode(&mut bytes);
        assert!(decode(&bytes).is_err_and(|error| !error.is_newer()));
        assert!(decode(&[LEGAL_HOLD | NO_LEGAL_HOLD]).is_err_and(|error| !error.is_newer()));
        assert!(decode(&[GOVERNANCE | COMPLIANCE, 1]).is_err_and(|error| !error.is_newer()));
    }
}
