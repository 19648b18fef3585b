//! The links from a page of a list to the pages before and after it.
//!
//! Listings go forward alone, so the address of a page names the beginnings of the pages before it
//! by parameters `back`, the nearest one last. The server keeps nothing.

use super::super::form;
use crate::s3::{QueryParams, uri};

/// The parameter with the beginning of a page before the shown one: its parameters as a query.
const BACK: &str = "back";
/// Pages whose beginnings an address names. From further on a link leads to the first page.
const PAGES_MAX: usize = 20;
/// Bytes of these beginnings: an address must stay one that browsers and servers take.
const BYTES_MAX: usize = 3_000;

/// A list that is shown in pages.
#[derive(Clone, Copy)]
pub(super) struct PagedList<'a> {
    /// The address of its first page.
    pub(super) first: &'a str,
    /// The parameters that say where a page begins. The first page has none of them.
    pub(super) beginning: &'a [&'a str],
}

/// The links of a page.
pub(super) struct PageLinks {
    /// The page before; the first one where the way back is not known.
    pub(super) previous: Option<String>,
    pub(super) is_to_first: bool,
    pub(super) next: Option<String>,
    /// Whether the page ends before it is full, since a walk takes long.
    pub(super) is_part: bool,
}

impl PageLinks {
    /// The links of the page that `params` asked for; `next` says where the next page begins.
    pub(super) fn of(params: &QueryParams, list: PagedList<'_>, next: Option<&[(&str, &str)]>) -> Self {
        let PagedList { first, beginning } = list;
        let mut before = Vec::new();
        for back in form::all(params, BACK) {
            // The address may be anybody's.
            let sent = QueryParams::parse(back);
            before.push(sent.map_or_else(|_| String::new(), |sent| known_params(&sent, beginning)));
        }
        let shown = known_params(params, beginning);
        let next = next.map(|next| {
            let mut back = before.clone();
            back.push(shown.clone());
            with_beginning(first, &uri::encode_pairs(next.iter().copied()), &back)
        });
        let (previous, is_to_first) = match before.pop() {
            Some(nearest) => (Some(with_beginning(first, &nearest, &before)), false),
            None if !shown.is_empty() => (Some(first.to_owned()), true),
            None => (None, false),
        };
        Self { previous, is_to_first, next, is_part: false }
    }

    /// Whether there is any.
    pub(super) fn are_there(&self) -> bool {
        self.previous.is_some() || self.next.is_some()
    }
}

/// Some of the parameters as a query.
fn known_params(params: &QueryParams, known: &[&str]) -> String {
    uri::encode_pairs(params.iter().filter(|(name, _)| known.contains(name)))
}

/// The address of the page that begins there, with the nearest of the beginnings before it.
fn with_beginning(first: &str, beginning: &str, before: &[String]) -> String {
    let mut back = Vec::new();
    let mut bytes = 0;
    for known in before.iter().rev().take(PAGES_MAX) {
        let pair = uri::encode_pairs([(BACK, known.as_str())]);
        bytes += pair.len();
        if bytes > BYTES_MAX {
            break;
        }
        back.push(pair);
    }
    back.reverse();
    let mut address = first.to_owned();
    for part in std::iter::once(beginning).chain(back.iter().map(String::as_str)) {
        if !part.is_empty() {
            address.push(if address.contains('?') { '&' } else { '?' });
            address.push_str(part);
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "/-/console/bucket?name=b";

    /// The links of the page at an address.
    fn links(address: &str, next: Option<&[(&str, &str)]>) -> PageLinks {
        let query = address.split_once('?').map_or("", |(_, query)| query);
        let list = PagedList { first: FIRST, beginning: &["after", "version"] };
        PageLinks::of(&QueryParams::parse(query).unwrap(), list, next)
    }

    #[test]
    fn the_way_back_is_the_way_that_was_taken() {
        let mut address = FIRST.to_owned();
        let mut visited = Vec::new();
        for n in 0..15 {
            let key = format!("k/ü&{n}");
            let links = links(&address, Some(&[("after", &key), ("version", "v")]));
            assert_eq!(links.previous.as_ref(), visited.last());
            visited.push(address);
            address = links.next.unwrap();
        }
        while let Some(previous) = links(&address, None).previous {
            address = previous;
            assert_eq!(Some(&address), visited.pop().as_ref());
        }
        assert!(visited.is_empty() && address == FIRST);
    }

    #[test]
    fn a_long_way_is_cut_and_leads_to_the_first_page() {
        for (key, steps) in [("k".to_owned(), PAGES_MAX), ("ü".repeat(300), 0)] {
            let mut address = FIRST.to_owned();
            for n in 0..40 {
                address = links(&address, Some(&[("after", &format!("{key}{n}"))])).next.unwrap();
                assert!(address.len() < 2 * BYTES_MAX, "{address}");
            }
            let mut taken = 0;
            loop {
                let links = links(&address, None);
                address = links.previous.unwrap();
                if links.is_to_first {
                    break;
                }
                taken += 1;
            }
            assert!(taken >= steps && taken < 40, "{taken}");
            assert_eq!(address, FIRST);
        }
    }

    #[test]
    fn an_address_that_somebody_made_up_leads_to_pages_of_the_same_list() {
        let made_up = format!("{FIRST}&after=k&back=name%3Dother%26after%3Dj%26find%3Dx&back=%25zz");
        let shown = links(&made_up, None);
        assert_eq!(shown.previous.as_deref(), Some("/-/console/bucket?name=b&back=after%3Dj"));
        assert!(!shown.is_to_first && shown.next.is_none());
        assert!(!links(FIRST, None).are_there());
    }
}
