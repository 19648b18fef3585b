//! The keys of clients (SSE-C) with which objects of a source are read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use siltstone::base::digest::Md5;
use siltstone::client::Endpoint;
use siltstone::transfer::Header;

use crate::minio::format::keys::SecretKey;

const HEADER: &str = "x-amz-server-side-encryption-customer";

/// Keys, each for what begins with a bucket and the beginning of a key.
#[derive(Default)]
pub(super) struct ClientKeys(Vec<(String, SecretKey)>);

impl ClientKeys {
    /// Keys for a source at `url`.
    ///
    /// # Errors
    /// A message: the keys would be sent in the clear.
    pub(super) fn new(keys: Vec<(String, SecretKey)>, url: &str) -> Result<Self, String> {
        let (server, _) = Endpoint::split(url);
        let host = server.strip_prefix("http://").unwrap_or(server);
        let is_near = ["localhost", "127.", "[::1]"].iter().any(|near| host.starts_with(near));
        match keys.is_empty() || server.starts_with("https://") || is_near {
            true => Ok(Self(keys)),
            false => {
                Err("--sse-c-keys: the keys would be sent in the clear: name the source by https".to_owned())
            }
        }
    }

    /// The headers with the key of an object: of all that it begins with, the longest.
    pub(super) fn headers_for(&self, bucket: &str, key: &str) -> Vec<Header> {
        let name = format!("{bucket}/{key}");
        let of_name = self.0.iter().filter(|(prefix, _)| name.starts_with(prefix));
        let Some((_, key)) = of_name.max_by_key(|(prefix, _)| prefix.len()) else { return Vec::new() };
        vec![
            (format!("{HEADER}-algorithm"), "AES256".to_owned()),
            (format!("{HEADER}-key"), BASE64.encode(key)),
            (format!("{HEADER}-key-md5"), BASE64.encode(Md5::of(key))),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beginning_counts_and_no_key_is_sent_in_the_clear() {
        let keys =
            || vec![("b/".to_owned(), [1; 32]), ("b/films".to_owned(), [2; 32]), ("b/f".to_owned(), [3; 32])];
        let known = ClientKeys::new(keys(), "https://s3.example.com").unwrap();
        let sent = |key: &str| known.headers_for("b", key).get(1).map(|(_, value)| value.clone());
        assert_eq!(sent("films/1"), Some(BASE64.encode([2; 32])));
        assert_eq!([sent("fi"), sent("a")], [Some(BASE64.encode([3; 32])), Some(BASE64.encode([1; 32]))]);
        assert_eq!(known.headers_for("c", "films"), []);
        for near in ["http://localhost:9000", "http://127.0.0.1", "http://[::1]:1/", "localhost:1"] {
            assert!(ClientKeys::new(keys(), near).is_ok(), "{near}");
        }
        for far in ["http://s3.example.com", "s3.example.com", "http://10.0.0.1:9000/"] {
            assert!(ClientKeys::new(keys(), far).is_err(), "{far}");
            assert!(ClientKeys::new(Vec::new(), far).is_ok(), "{far}");
        }
    }
}
