//! The order in which local pieces of remote segments are given back: SIEVE (Zhang et al., NSDI
//! 2024). A hand moves from the oldest to the newest piece. It passes those that were read since
//! its last visit, and takes the first other one. A read moves nothing, so it needs no lock.

/// A piece: its segment, and its number in it.
pub(super) type PieceId = (u64, u32);

/// No place.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Place {
    piece: PieceId,
    /// The place of the next newer piece, and of the next older one.
    newer: u32,
    older: u32,
}

/// The pieces, from the newest to the oldest.
pub(super) struct Sieve {
    places: Vec<Place>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    hand: u32,
}

impl Default for Sieve {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new(), newest: NONE, oldest: NONE, hand: NONE }
    }
}

impl Sieve {
    /// Adds a piece as the newest. The caller sees to it that none is added twice.
    pub(super) fn insert(&mut self, piece: PieceId) {
        let place = Place { piece, newer: NONE, older: self.newest };
        let at = match self.free.pop() {
            Some(at) => {
                self.places[at as usize] = place;
                at
            }
            None => {
                self.places.push(place);
                self.places.len() as u32 - 1
            }
        };
        match self.newest {
            NONE => self.oldest = at,
            newest => self.places[newest as usize].newer = at,
        }
        self.newest = at;
    }

    /// Removes the piece that is to be given back next. `spare` says whether a piece stays for
    /// now, because it was read since it was asked about last. `None` if there is no piece, or all
    /// stay in two rounds.
    pub(super) fn evict(&mut self, mut spare: impl FnMut(PieceId) -> bool) -> Option<PieceId> {
        // The first round clears the marks of reads, the second finds a piece. Readers may mark all
        // of them again meanwhile, and the caller, who needs room, is not to go round for ever.
        for _ in 0..2 * self.len() {
            let at = if self.hand == NONE { self.oldest } else { self.hand };
            let Place { piece, newer, .. } = self.places[at as usize];
            self.hand = newer;
            if !spare(piece) {
                self.remove(at);
                return Some(piece);
            }
        }
        None
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    fn remove(&mut self, at: u32) {
        let Place { newer, older, .. } = self.places[at as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.places[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.places[older as usize].newer = newer,
        }
        self.free.push(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn pieces_that_were_not_read_go_first_and_the_oldest_of_them() {
        let mut sieve = Sieve::default();
        for piece in 0..5 {
            sieve.insert((1, piece));
        }
        let mut read: BTreeSet<u32> = [0, 2].into();
        let mut order = Vec::new();
        while let Some((_, piece)) = sieve.evict(|(_, piece)| read.remove(&piece)) {
            order.push(piece);
        }
        assert_eq!((order, sieve.len()), (vec![1, 3, 4, 0, 2], 0));
        sieve.insert((1, 9));
        assert_eq!(sieve.evict(|_| false), Some((1, 9)));
    }

    #[test]
    fn the_hand_goes_on_where_it_was_and_new_pieces_come_last() {
        let mut sieve = Sieve::default();
        for piece in 0..4 {
            sieve.insert((1, piece));
        }
        assert_eq!(sieve.evict(|(_, piece)| piece == 0), Some((1, 1)));
        sieve.insert((1, 7));
        let rest: Vec<u32> = std::iter::from_fn(|| sieve.evict(|_| false)).map(|(_, piece)| piece).collect();
        assert_eq!(rest, [2, 3, 7, 0]);
    }

    #[test]
    fn where_all_stay_nothing_goes() {
        let mut sieve = Sieve::default();
        assert_eq!(sieve.evict(|_| true), None);
        sieve.insert((1, 1));
        assert_eq!((sieve.evict(|_| true), sieve.len()), (None, 1));
    }
}
