//! Bounded lists of the latest things, which pages and figures show.

use std::collections::VecDeque;

/// Adds an item to a list that has the latest one last. Of the oldest, those beyond `max` go.
pub fn push_latest<T>(list: &mut VecDeque<T>, item: T, max: usize) {
    list.push_back(item);
    let beyond = list.len().saturating_sub(max);
    list.drain(..beyond);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_also_from_a_list_that_came_too_long() {
        let mut list = VecDeque::from([1, 2, 3, 4]);
        push_latest(&mut list, 5, 2);
        assert_eq!(list, [4, 5]);
        push_latest(&mut list, 6, 3);
        assert_eq!(list, [4, 5, 6]);
        push_latest(&mut list, 7, 0);
        assert!(list.is_empty());
    }
}
