//! URLs that settings and other servers name.

/// Whether nobody on the way can read or change what is sent to the URL: it is of `https`, or of
/// this host.
pub fn is_confidential_url(url: &str) -> bool {
    let is_plain = url.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\\"<>#".contains(&byte));
    let host = url.strip_prefix("http://").map(|rest| rest.split(['/', '?']).next().unwrap_or_default());
    let is_local = host.is_some_and(|host| {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        matches!(name, "localhost" | "127.0.0.1" | "[::1]")
    });
    is_plain && (url.starts_with("https://") || is_local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_of_tls_or_of_this_host() {
        for url in [
            "https://id.example",
            "https://id.example/a?b",
            "http://127.0.0.1:9400/x",
            "http://localhost",
            "http://[::1]:1/",
        ] {
            assert!(is_confidential_url(url), "{url}");
        }
        for url in [
            "http://id.example",
            "http://127.0.0.1.evil.example/",
            "ftp://x",
            "",
            "https://a b",
            "https://a\r\nX: y",
            "http://evil@127.0.0.1/",
        ] {
            assert!(!is_confidential_url(url), "{url}");
        }
    }
}
