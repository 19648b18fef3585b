//! A queue in which clients take turns, so that a client with many requests delays each of the
//! others by one request.

use std::collections::{HashMap, VecDeque};

use crate::http::client_origin::ClientOrigin;

/// A first-in, first-out queue for each client address; the addresses take turns.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    len_max: usize,
    len: usize,
    /// Origins with items, in the order of their turns.
    turns: VecDeque<ClientOrigin>,
    /// The items of each origin; no queue is empty.
    items: HashMap<ClientOrigin, VecDeque<T>>,
}

impl<T> FairQueue<T> {
    /// An empty queue for that many items.
    pub(super) fn new(len_max: usize) -> Self {
        Self { len_max, len: 0, turns: VecDeque::new(), items: HashMap::new() }
    }

    /// The number of items.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no items.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an item. If the queue is full, the origin with the most items loses its last one.
    ///
    /// # Errors
    /// Returns the item for which there is no room: this one, or the one that it displaces.
    pub(super) fn push(&mut self, origin: ClientOrigin, item: T) -> Result<(), T> {
        let displaced = match self.len < self.len_max {
            true => None,
            false => match self.displace(origin) {
                None => return Err(item),
                displaced => displaced,
            },
        };
        let items = self.items.entry(origin).or_default();
        if items.is_empty() {
            self.turns.push_back(origin);
        }
        items.push_back(item);
        self.len += 1;
        displaced.map_or(Ok(()), Err)
    }

    /// Removes the next item.
    pub(super) fn pop(&mut self) -> Option<T> {
        let origin = self.turns.pop_front()?;
        let items = self.items.get_mut(&origin)?;
        let item = items.pop_front();
        if items.is_empty() {
            self.items.remove(&origin);
        } else {
            self.turns.push_back(origin);
        }
        self.len -= 1;
        item
    }

    /// Removes the last item of the origin with the most items, if that has at least two more than
    /// `origin`.
    fn displace(&mut self, origin: ClientOrigin) -> Option<T> {
        let own = self.items.get(&origin).map_or(0, VecDeque::len);
        let most = self.items.values_mut().max_by_key(|items| items.len())?;
        // At least two more: with one more the two would only change places, and displace each
        // other in turn. Its newest item goes, which has waited least.
        let item = if most.len() > own + 1 { most.pop_back() } else { None };
        self.len -= usize::from(item.is_some());
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(last: u8) -> ClientOrigin {
        ClientOrigin::of([192, 0, 2, last].into())
    }

    #[test]
    fn origins_take_turns() {
        let mut queue = FairQueue::new(10);
        for item in ["a1", "a2", "a3", "b1", "c1", "b2"] {
            queue.push(origin(item.as_bytes()[0]), item).unwrap();
        }
        assert_eq!(queue.len(), 6);
        let popped: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(popped, ["a1", "b1", "c1", "a2", "b2", "a3"]);
        assert!(queue.is_empty() && queue.turns.is_empty() && queue.items.is_empty());
    }

    #[test]
    fn a_full_queue_has_room_for_origins_with_fewer_items() {
        let mut queue = FairQueue::new(4);
        for item in ["a1", "a2", "a3", "a4"] {
            queue.push(origin(b'a'), item).unwrap();
        }
        assert_eq!(queue.push(origin(b'a'), "a5"), Err("a5"));
        assert_eq!(queue.push(origin(b'b'), "b1"), Err("a4"));
        assert_eq!(queue.push(origin(b'b'), "b2"), Err("a3"));
        assert_eq!(queue.push(origin(b'b'), "b3"), Err("b3"), "both have two items");
        let popped: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(popped, ["a1", "b1", "a2", "b2"]);
        assert_eq!(FairQueue::new(0).push(origin(1), 1), Err(1));
    }
}
