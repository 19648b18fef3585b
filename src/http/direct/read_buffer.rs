//! Bytes that a worker has received and not yet read.

/// A buffer of fixed size, filled at its end and emptied at its start. Each worker has one. A
/// parked connection keeps only the bytes themselves.
#[derive(Debug)]
pub(super) struct ReadBuffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl ReadBuffer {
    /// An empty buffer for `capacity` bytes.
    pub(super) fn new(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity].into(), start: 0, end: 0 }
    }

    /// Replaces the content by `bytes`, which must fit.
    pub(super) fn load(&mut self, bytes: &[u8]) {
        self.start = 0;
        self.end = bytes.len();
        self.bytes[..bytes.len()].copy_from_slice(bytes);
    }

    /// The bytes received and not yet read.
    pub(super) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Whether all received bytes have been read.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether there is no room for another byte.
    pub(super) fn is_full(&self) -> bool {
        self.filled().len() == self.bytes.len()
    }

    /// Drops the first `count` bytes.
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
        if self.is_empty() {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Moves bytes into `out` and returns how many.
    pub(super) fn read_into(&mut self, out: &mut [u8]) -> usize {
        let count = self.filled().len().min(out.len());
        out[..count].copy_from_slice(&self.filled()[..count]);
        self.consume(count);
        count
    }

    /// The free room, empty only when the buffer is full. Bytes written there count after
    /// `extend_filled`.
    pub(super) fn spare(&mut self) -> &mut [u8] {
        if self.end == self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.bytes[self.end..]
    }

    /// Adds the first `count` bytes of the free room to the content.
    pub(super) fn extend_filled(&mut self, count: usize) {
        self.end += count;
        debug_assert!(self.end <= self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(buffer: &mut ReadBuffer, bytes: &[u8]) {
        buffer.spare()[..bytes.len()].copy_from_slice(bytes);
        buffer.extend_filled(bytes.len());
    }

    #[test]
    fn bytes_are_read_in_the_order_they_were_received_and_their_room_is_used_again() {
        let mut buffer = ReadBuffer::new(8);
        receive(&mut buffer, b"abcdef");
        buffer.consume(4);
        receive(&mut buffer, b"gh");
        assert_eq!(buffer.filled(), b"efgh");
        assert!(!buffer.is_full());
        receive(&mut buffer, b"ijkl");
        assert!(buffer.is_full() && buffer.spare().is_empty());
        let mut out = [0; 6];
        assert_eq!(buffer.read_into(&mut out), 6);
        assert_eq!(&out, b"efghij");
        assert_eq!(buffer.read_into(&mut out), 2);
        assert!(buffer.is_empty());
        assert_eq!(buffer.spare().len(), 8);
    }
}
