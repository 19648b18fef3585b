//! Floor 5: the whole life of a request on one page.
