//! The bytes that a worker has received and nobody has taken yet.

/// A buffer of fixed size that is filled at its end and emptied at its start. Each worker has one; a connection that
/// no worker has keeps only the bytes themselves.
#[derive(Debug)]
pub(super) struct Inbox {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Inbox {
    /// An empty buffer for `capacity` bytes.
    pub(super) fn new(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity].into(), start: 0, end: 0 }
    }

    /// Forgets what it holds and takes `bytes`, which fit.
    pub(super) fn load(&mut self, bytes: &[u8]) {
        self.start = 0;
        self.end = bytes.len();
        self.bytes[..bytes.len()].copy_from_slice(bytes);
    }

    /// What has been received and not been taken.
    pub(super) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Whether nothing waits to be taken.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether there is no room for another byte.
    pub(super) fn is_full(&self) -> bool {
        self.filled().len() == self.bytes.len()
    }

    /// Takes the first `count` bytes off.
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
        if self.is_empty() {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Takes as many bytes off as there are and fit `out`, and says how many.
    pub(super) fn take(&mut self, out: &mut [u8]) -> usize {
        let count = self.filled().len().min(out.len());
        out[..count].copy_from_slice(&self.filled()[..count]);
        self.consume(count);
        count
    }

    /// Room for bytes to come; empty only when the buffer is full. What is written there counts after `received`.
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.end == self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.bytes[self.end..]
    }

    /// The first `count` bytes of the room hold received bytes now.
    pub(super) fn received(&mut self, count: usize) {
        self.end += count;
        debug_assert!(self.end <= self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(inbox: &mut Inbox, bytes: &[u8]) {
        inbox.room()[..bytes.len()].copy_from_slice(bytes);
        inbox.received(bytes.len());
    }

    #[test]
    fn bytes_come_out_in_the_order_they_came_in_and_the_room_comes_back() {
        let mut inbox = Inbox::new(8);
        receive(&mut inbox, b"abcdef");
        inbox.consume(4);
        receive(&mut inbox, b"gh");
        assert_eq!(inbox.filled(), b"efgh");
        assert!(!inbox.is_full());
        receive(&mut inbox, b"ijkl");
        assert!(inbox.is_full() && inbox.room().is_empty());
        let mut out = [0; 6];
        assert_eq!(inbox.take(&mut out), 6);
        assert_eq!(&out, b"efghij");
        assert_eq!(inbox.take(&mut out), 2);
        assert!(inbox.is_empty());
        assert_eq!(inbox.room().len(), 8);
    }
}
