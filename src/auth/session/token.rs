//! Tokens of sessions: what they hold, sealed so that this server alone, and those with the same
//! users file, can read and make them.
//!
//! A token is base64url of: a version, the id of the sealing key, a salt of 16 random bytes, and
//! the session in JSON, encrypted by AES-256-GCM. The key that encrypts it is derived (HKDF, RFC
//! 5869) from the sealing key and the salt, so that it encrypts nothing else. What comes before the
//! session is authenticated, too. The secret key of a session is a keyed digest of its token.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD as BASE64, URL_SAFE_NO_PAD as BASE64_URL};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::SessionKind;
use super::origin::{SessionOrigin, SourceSession};
use crate::auth::Secret;
use crate::auth::bucket_policy::TokenClaim;
use crate::base::digest::HmacSha256;
use crate::base::limits::SESSION_TOKEN_MAX_BYTES;
use crate::base::{Entropy, Timestamp};

/// The version of the form of tokens.
const VERSION: u8 = 1;
const KEY_ID_BYTES: usize = 8;
const SALT_BYTES: usize = 16;
/// The bytes before the encrypted session.
const HEAD_BYTES: usize = 1 + KEY_ID_BYTES + SALT_BYTES;
/// The digest of a token that its secret is: 40 characters, as of keys of AWS.
const SECRET_BYTES: usize = 30;

/// What the derived keys are for.
const OF_ID: &[u8] = b"siltstone session key id";
const OF_TOKEN: &[u8] = b"siltstone session token";
const OF_SECRET: &[u8] = b"siltstone session secret";

/// What a token says of its session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::auth) struct SessionClaims {
    #[serde(rename = "a")]
    pub(in crate::auth) access_key: String,
    #[serde(rename = "k")]
    pub(in crate::auth) kind: SessionKind,
    /// The name of the role or user.
    #[serde(rename = "p")]
    pub(in crate::auth) principal: String,
    /// The name of the session; empty for [`SessionKind::User`].
    #[serde(rename = "n", default, skip_serializing_if = "String::is_empty")]
    pub(in crate::auth) name: String,
    #[serde(rename = "t", default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::auth) tags: Vec<(String, String)>,
    /// The session policy.
    #[serde(rename = "j", default, skip_serializing_if = "Option::is_none")]
    pub(in crate::auth) policy: Option<Value>,
    /// The names of policies of the users file that limit it, too.
    #[serde(rename = "m", default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::auth) managed: Vec<String>,
    /// The claims of the provider's token by which a role was assumed; `iss` among them.
    #[serde(rename = "c", default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::auth) token_claims: Vec<TokenClaim>,
    #[serde(rename = "o", default, skip_serializing_if = "SessionOrigin::is_empty")]
    pub(in crate::auth) origin: SessionOrigin,
    /// In milliseconds since 1970.
    #[serde(rename = "i")]
    issued: u64,
    #[serde(rename = "e")]
    expires: u64,
}

/// When a session was issued, and when it ends.
#[derive(Debug, Clone, Copy)]
pub(in crate::auth) struct SessionTimes {
    pub(in crate::auth) issued: Timestamp,
    pub(in crate::auth) expires: Timestamp,
}

impl SessionClaims {
    /// The claims of a session without tags and policy.
    pub(in crate::auth) fn new(
        access_key: String,
        kind: SessionKind,
        principal: String,
        name: String,
        times: SessionTimes,
    ) -> Self {
        let issued = times.issued.as_millis();
        let expires = times.expires.as_millis();
        let tags = Vec::new();
        let managed = Vec::new();
        let token_claims = Vec::new();
        let policy = None;
        let origin = SessionOrigin::default();
        Self {
            access_key,
            kind,
            principal,
            name,
            tags,
            policy,
            managed,
            token_claims,
            origin,
            issued,
            expires,
        }
    }

    /// The issuer of the token by which a role was assumed.
    pub(in crate::auth) fn issuer(&self) -> Option<&str> {
        let claim = self.token_claims.iter().find(|claim| claim.name == "iss")?;
        claim.values.first().map(String::as_str)
    }

    /// The session, for those that are handed out to it.
    fn as_source(&self, sealed_by: &SealingKey) -> SourceSession {
        SourceSession {
            kind: self.kind,
            principal: self.principal.clone(),
            issued: self.issued,
            sealed_by: sealed_by.name(),
            issuer: self.issuer().map(str::to_owned),
        }
    }

    pub(in crate::auth) fn issued(&self) -> Timestamp {
        Timestamp::from_millis(self.issued)
    }

    pub(in crate::auth) fn expires(&self) -> Timestamp {
        Timestamp::from_millis(self.expires)
    }
}

/// A token that was opened.
pub(in crate::auth) struct OpenedToken {
    pub(in crate::auth) claims: SessionClaims,
    pub(in crate::auth) secret: Secret,
    /// The session, for those that are handed out to it.
    pub(in crate::auth) session: SourceSession,
}

/// A key that seals tokens. `Debug` shows its id alone.
#[derive(Clone)]
pub struct SealingKey {
    id: [u8; KEY_ID_BYTES],
    bytes: [u8; 32],
}

impl std::fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SealingKey({})", crate::base::digest::to_hex(&self.id))
    }
}

impl SealingKey {
    /// A new key.
    pub fn generate(entropy: &dyn Entropy) -> Self {
        let mut bytes = [0; 32];
        entropy.fill(&mut bytes);
        Self::new(bytes)
    }

    fn new(bytes: [u8; 32]) -> Self {
        let mut key = Self { id: [0; KEY_ID_BYTES], bytes };
        let derived = key.derived(OF_ID);
        key.id.copy_from_slice(&derived[..KEY_ID_BYTES]);
        key
    }

    /// Parses the text of a users file: 32 bytes in base64.
    pub(in crate::auth) fn parse(text: &str) -> Option<Self> {
        BASE64.decode(text).ok()?.try_into().ok().map(Self::new)
    }

    /// Its id, as text.
    pub(in crate::auth) fn name(&self) -> String {
        BASE64_URL.encode(self.id)
    }

    /// The text for a users file.
    pub fn reveal(&self) -> String {
        BASE64.encode(self.bytes)
    }

    /// The token of a session and its secret; `None` for claims that are too long for a token.
    pub(in crate::auth) fn seal(
        &self,
        claims: &SessionClaims,
        entropy: &dyn Entropy,
    ) -> Option<(String, Secret)> {
        let mut salt = [0; SALT_BYTES];
        entropy.fill(&mut salt);
        let mut token = vec![VERSION];
        token.extend(self.id);
        token.extend(salt);
        let mut text = serde_json::to_vec(claims).ok()?;
        let head = Aad::from(token.clone());
        let sealed = self.token_key(&salt).seal_in_place_append_tag(no_nonce(), head, &mut text);
        sealed.expect("a session is shorter than the most that one key encrypts");
        token.extend(text);
        let token = BASE64_URL.encode(token);
        let secret = self.secret_of(&token);
        (token.len() <= SESSION_TOKEN_MAX_BYTES).then_some((token, secret))
    }

    /// The session in a token that `keys` can open; `None` for a token that none of them has
    /// sealed.
    pub(in crate::auth) fn open<'k>(
        token: &str,
        keys: impl Iterator<Item = &'k Self>,
    ) -> Option<OpenedToken> {
        // Before memory is taken for its bytes: it comes with requests that nobody has signed yet.
        if token.len() > SESSION_TOKEN_MAX_BYTES {
            return None;
        }
        let mut bytes = BASE64_URL.decode(token).ok()?;
        let (head, text) = bytes.split_at_mut_checked(HEAD_BYTES)?;
        let (version, rest) = head.split_first()?;
        let (id, salt) = rest.split_at(KEY_ID_BYTES);
        let mut keys = keys;
        let key = keys.find(|key| *version == VERSION && key.id == *id)?;
        let opened = key.token_key(salt).open_in_place(no_nonce(), Aad::from(&*head), text).ok()?;
        // Parsed once it is authentic: this server, or one with the same keys, has written it.
        let claims: SessionClaims = serde_json::from_slice(opened).ok()?;
        let session = claims.as_source(key);
        Some(OpenedToken { claims, secret: key.secret_of(token), session })
    }

    fn secret_of(&self, token: &str) -> Secret {
        let digest = HmacSha256::of(&self.derived(OF_SECRET), token.as_bytes());
        Secret::new(BASE64_URL.encode(&digest[..SECRET_BYTES]))
    }

    fn token_key(&self, salt: &[u8]) -> LessSafeKey {
        let key = self.extracted(salt);
        let key = key.expand(&[OF_TOKEN], &AES_256_GCM).expect("HKDF expands to 32 bytes");
        LessSafeKey::new(UnboundKey::from(key))
    }

    fn derived(&self, purpose: &[u8]) -> [u8; 32] {
        let mut derived = [0; 32];
        let key = self.extracted(&[]);
        let purpose = [purpose];
        let expanded = key.expand(&purpose, HKDF_SHA256).expect("HKDF expands to 32 bytes");
        expanded.fill(&mut derived).expect("the digest of HKDF has 32 bytes");
        derived
    }

    fn extracted(&self, salt: &[u8]) -> Prk {
        Salt::new(HKDF_SHA256, salt).extract(&self.bytes)
    }
}

/// The nonce, which is the same for all: each derived key encrypts one session.
fn no_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeededEntropy;

    fn claims(name: &str) -> SessionClaims {
        let times = SessionTimes { issued: Timestamp::from_millis(5), expires: Timestamp::from_millis(9) };
        let claims = SessionClaims::new(
            "ASIAX".to_owned(),
            SessionKind::Role,
            "lake".to_owned(),
            name.to_owned(),
            times,
        );
        let tags = vec![("team".to_owned(), "red".to_owned())];
        SessionClaims { tags, policy: Some(serde_json::json!({ "b": [1], "a": "\"" })), ..claims }
    }

    fn key(seed: u64) -> SealingKey {
        SealingKey::generate(&SeededEntropy::new(seed))
    }

    fn open(token: &str, keys: &[&SealingKey]) -> Option<SessionClaims> {
        SealingKey::open(token, keys.iter().copied()).map(|opened| opened.claims)
    }

    #[test]
    fn a_session_is_read_back_with_its_secret_by_whoever_has_the_key() {
        let older = key(1);
        let (token, secret) = older.seal(&claims("job"), &SeededEntropy::new(9)).unwrap();
        let read = SealingKey::parse(&older.reveal()).unwrap();
        let opened = SealingKey::open(&token, [&key(2), &read].into_iter()).unwrap();
        assert_eq!(opened.claims, claims("job"));
        assert!(opened.secret == secret && secret.reveal().len() == 40);
        assert_eq!(open(&token, &[&key(2)]), None);
        let (again, other) = older.seal(&claims("job"), &SeededEntropy::new(8)).unwrap();
        assert!(again != token && other != secret);
    }

    #[test]
    fn no_token_that_is_changed_anywhere_is_opened() {
        let key = key(1);
        let (token, _) = key.seal(&claims("job"), &SeededEntropy::new(9)).unwrap();
        let (other, _) = key.seal(&claims("other"), &SeededEntropy::new(8)).unwrap();
        for at in 0..token.len() {
            for replaced in [b'A', b'B', b'-', b'_', b'=', b' '] {
                let mut changed = token.clone().into_bytes();
                changed[at] = replaced;
                let changed = String::from_utf8(changed).unwrap();
                assert_eq!(open(&changed, &[&key]).is_some(), changed == token, "{at}");
            }
            assert_eq!(open(&token[..at], &[&key]), None, "cut at {at}");
            let spliced = [&token[..at], &other[at.min(other.len())..]].concat();
            assert!(spliced == other || open(&spliced, &[&key]).is_none(), "spliced at {at}");
        }
        assert_eq!(open(&format!("{token}A"), &[&key]), None);
        assert_eq!(open(&format!("{token}="), &[&key]), None);
        assert_eq!(open(&"A".repeat(1 << 20), &[&key]), None);
    }

    #[test]
    fn a_session_that_is_too_long_has_no_token() {
        assert!(key(1).seal(&claims(&"x".repeat(3_200)), &SeededEntropy::new(9)).is_none());
        let (token, _) = key(1).seal(&claims(&"x".repeat(2_800)), &SeededEntropy::new(9)).unwrap();
        assert!(token.len() <= SESSION_TOKEN_MAX_BYTES);
    }

    #[test]
    fn keys_are_32_bytes_in_base64_and_never_shown() {
        for text in ["", "AAAA", &BASE64.encode([7; 31]), &BASE64.encode([7; 33]), &"A".repeat(43)] {
            assert!(SealingKey::parse(text).is_none(), "{text}");
        }
        let key = SealingKey::parse(&BASE64.encode([7; 32])).unwrap();
        assert!(!format!("{key:?}").contains(&key.reveal()));
    }
}
