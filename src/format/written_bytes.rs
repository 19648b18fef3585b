//! The bytes that a store has written in its life (data-format.md, section 6, *written bytes*).

use crate::format::{ByteDecoder, Decoded, Encode};

/// Bytes written, by purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WrittenBytes {
    /// Acknowledged payload of objects and parts, as sent by clients. The other fields are its
    /// cost.
    pub payload: u64,
    /// Extents with headers and descriptors; headers and footers of segments.
    pub objects: u64,
    /// Groups of the log, and small files.
    pub log: u64,
    /// Zeros: ahead of packs and groups, and over erased records.
    pub zeros: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Relocated extents, and the headers and footers of their segments.
    pub moved: u64,
}

impl WrittenBytes {
    /// The kind of the entry. Readers that do not know it skip it.
    pub(super) const KIND: u8 = 128;

    /// The written bytes by name, without the payload.
    pub fn by_kind(&self) -> [(&'static str, u64); 5] {
        [
            ("objects", self.objects),
            ("log", self.log),
            ("zeros", self.zeros),
            ("checkpoints", self.checkpoints),
            ("moved", self.moved),
        ]
    }

    /// Bytes written in all.
    pub fn total(&self) -> u64 {
        self.by_kind().iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Bytes written for each byte of payload; `None` without payload.
    pub fn amplification(&self) -> Option<f64> {
        (self.payload > 0).then(|| self.total() as f64 / self.payload as f64)
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let [mine, others] = [self, other].map(Self::fields);
        Self::of(std::array::from_fn(|at| mine[at].saturating_add(others[at])))
    }

    /// Appends the entry.
    pub fn encode_entry(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        for field in &self.fields() {
            body.put_varint(*field);
        }
        out.put_u8(Self::KIND);
        out.put_bytes(&body);
    }

    pub(super) fn decode(body: &[u8]) -> Decoded<Self> {
        let mut from = ByteDecoder::new(body);
        let mut fields = [0; 6];
        for field in &mut fields {
            *field = from.varint()?;
        }
        from.finish()?;
        Ok(Self::of(fields))
    }

    fn fields(&self) -> [u64; 6] {
        [self.payload, self.objects, self.log, self.zeros, self.checkpoints, self.moved]
    }

    fn of([payload, objects, log, zeros, checkpoints, moved]: [u64; 6]) -> Self {
        Self { payload, objects, log, zeros, checkpoints, moved }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Entry, RawEntry};

    const SOME: WrittenBytes = WrittenBytes {
        payload: 100,
        objects: 200,
        log: 300,
        zeros: 1 << 40,
        checkpoints: 5,
        moved: u64::MAX,
    };

    #[test]
    fn an_entry_comes_back_and_those_who_do_not_know_it_skip_it() {
        let mut bytes = Vec::new();
        SOME.encode_entry(&mut bytes);
        let raw = RawEntry::read(&mut ByteDecoder::new(&bytes)).unwrap();
        assert_eq!(raw.written_bytes(), Ok(Some(SOME)));
        assert_eq!(Entry::decode(&mut ByteDecoder::new(&bytes)), Ok(None));
        let shorter = [&[128, bytes[1] - 1], &bytes[2..bytes.len() - 1]].concat();
        assert!(RawEntry::read(&mut ByteDecoder::new(&shorter)).unwrap().written_bytes().is_err());
    }

    #[test]
    fn sums_do_not_overflow() {
        assert_eq!(SOME.plus(&SOME).payload, 200);
        assert_eq!(SOME.plus(&SOME).total(), u64::MAX);
        let put = WrittenBytes { payload: 4, objects: 5, log: 7, ..WrittenBytes::default() };
        assert_eq!((put.amplification(), WrittenBytes::default().amplification()), (Some(3.0), None));
    }
}
