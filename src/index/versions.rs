//! The versions of one key. Most keys have one, so that one takes no more than its encoding.

use crate::format::{Decoder, VersionRecord, VersionSummary};
use crate::index::trusted;

/// Encoded [`VersionRecord`]s, newest first.
pub(super) enum Versions {
    One(Box<[u8]>),
    #[expect(clippy::box_collection, reason = "a thin pointer keeps the common case at two words")]
    Many(Box<Vec<Box<[u8]>>>),
}

fn encode(record: &VersionRecord) -> Box<[u8]> {
    let mut bytes = Vec::with_capacity(96);
    record.encode(&mut bytes);
    bytes.into()
}

fn decode(bytes: &[u8]) -> VersionRecord {
    trusted(VersionRecord::decode(&mut Decoder::new(bytes)))
}

fn summary(bytes: &[u8]) -> VersionSummary {
    trusted(VersionSummary::decode(bytes))
}

impl Versions {
    pub(super) fn one(record: &VersionRecord) -> Self {
        Self::One(encode(record))
    }

    fn as_slice(&self) -> &[Box<[u8]>] {
        match self {
            Self::One(bytes) => std::slice::from_ref(bytes),
            Self::Many(all) => all,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    pub(super) fn newest(&self) -> Option<VersionSummary> {
        self.as_slice().first().map(|bytes| summary(bytes))
    }

    pub(super) fn summaries(&self) -> impl Iterator<Item = VersionSummary> {
        self.as_slice().iter().map(|bytes| summary(bytes))
    }

    pub(super) fn find(&self, mut wanted: impl FnMut(&VersionSummary) -> bool) -> Option<VersionRecord> {
        self.as_slice().iter().find(|bytes| wanted(&summary(bytes))).map(|bytes| decode(bytes))
    }

    pub(super) fn records_oldest_first(&self) -> impl Iterator<Item = VersionRecord> {
        self.as_slice().iter().rev().map(|bytes| decode(bytes))
    }

    pub(super) fn push_newest(&mut self, record: &VersionRecord) {
        let mut all = self.take();
        all.insert(0, encode(record));
        self.put(all);
    }

    /// Replaces the version that has the same id, and gives it back.
    pub(super) fn amend(&mut self, record: &VersionRecord) -> Option<VersionRecord> {
        let mut all = self.take();
        let found = all.iter_mut().find(|bytes| summary(bytes).id == record.id);
        let old = found.map(|bytes| decode(&std::mem::replace(bytes, encode(record))));
        self.put(all);
        old
    }

    /// Takes out the versions that `goes` accepts.
    pub(super) fn remove_where(
        &mut self,
        goes: &mut dyn FnMut(&VersionSummary) -> bool,
    ) -> Vec<VersionRecord> {
        if !self.summaries().any(|summary| goes(&summary)) {
            return Vec::new();
        }
        let (out, stay): (Vec<_>, Vec<_>) = self.take().into_iter().partition(|bytes| goes(&summary(bytes)));
        self.put(stay);
        out.iter().map(|bytes| decode(bytes)).collect()
    }

    fn take(&mut self) -> Vec<Box<[u8]>> {
        match std::mem::replace(self, Self::Many(Box::default())) {
            Self::One(bytes) => vec![bytes],
            Self::Many(all) => *all,
        }
    }

    fn put(&mut self, mut all: Vec<Box<[u8]>>) {
        *self = match all.len() {
            1 => Self::One(all.remove(0)),
            _ => Self::Many(Box::new(all)),
        };
    }
}
