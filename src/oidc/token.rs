//! Tokens of providers: their signatures and their claims (RFC 7515, 7518 and 7519; OpenID Connect
//! Core 1.0, sections 2 and 3.1.3.7).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64_URL;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::key::ProviderKey;
use crate::base::Timestamp;

/// Bytes of a token.
const TOKEN_MAX_BYTES: usize = 64 << 10;
/// Characters of the reason why a token cannot be read.
const REASON_MAX_CHARS: usize = 200;
/// How much the clocks of the provider and of this host may differ, in seconds.
const CLOCK_SKEW_SECS: f64 = 60.0;

/// A token that was read, and whose signature nobody has checked yet. What it claims is shown by
/// [`super::Provider::verified`] alone.
pub struct SignedToken<'t> {
    header: JoseHeader,
    claims: TokenClaims,
    signed: &'t str,
    signature: Vec<u8>,
}

/// What a token says.
#[derive(Debug, Clone, Deserialize)]
pub struct TokenClaims {
    #[serde(rename = "iss")]
    issuer: String,
    /// Whom it is about, by a name that stays the same.
    #[serde(rename = "sub")]
    pub subject: String,
    #[serde(rename = "aud")]
    audience: Audience,
    /// The client that it was given to. (`azp`)
    #[serde(rename = "azp")]
    pub party: Option<String>,
    #[serde(rename = "exp")]
    expires: f64,
    #[serde(rename = "iat")]
    issued: Option<f64>,
    #[serde(rename = "nbf")]
    not_before: Option<f64>,
    /// What the client that asked for it sent along.
    pub nonce: Option<String>,
    /// All, these included, as they are in the token.
    #[serde(skip)]
    pub all: Map<String, Value>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize)]
struct JoseHeader {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

/// Why the signature of a token does not count.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SignatureProblem {
    /// No known key has its name. The provider may have a newer one.
    UnknownKey,
    /// It is wrong, or of an algorithm that is not accepted.
    Wrong,
}

/// Why the time of a token is not the present one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TimeProblem {
    Expired,
    /// It begins later, or was issued later.
    Future,
}

impl<'t> SignedToken<'t> {
    /// Reads a token.
    ///
    /// # Errors
    /// The reason, if it is none.
    pub fn parse(token: &'t str) -> Result<Self, String> {
        if token.len() > TOKEN_MAX_BYTES {
            return Err("it is too long".to_owned());
        }
        let (signed, signature) = token.rsplit_once('.').ok_or("it has no signature")?;
        let (header, claims) = signed.split_once('.').ok_or("it has no claims")?;
        let header: JoseHeader = json(header)?;
        if header.crit.is_some() {
            return Err("it has critical extensions".to_owned());
        }
        Ok(Self {
            header,
            claims: TokenClaims::parse(&bytes(claims)?)?,
            signed,
            signature: bytes(signature)?,
        })
    }

    /// Who says to have issued it.
    pub fn stated_issuer(&self) -> &str {
        &self.claims.issuer
    }

    /// Its claims, before its signature was checked.
    pub(super) fn unverified(&self) -> &TokenClaims {
        &self.claims
    }

    /// Checks that one of `keys` has signed it.
    pub(super) fn check_signature(&self, keys: &[ProviderKey]) -> Result<(), SignatureProblem> {
        let header = &self.header;
        let mut is_known = false;
        for key in keys {
            // A token without the name of its key may be signed by any.
            if header.kid.is_some() && !key.is_called(header.kid.as_deref()) {
                continue;
            }
            if key.verifies(&header.alg, self.signed.as_bytes(), &self.signature) {
                return Ok(());
            }
            is_known = true;
        }
        match is_known {
            true => Err(SignatureProblem::Wrong),
            false => Err(SignatureProblem::UnknownKey),
        }
    }
}

fn bytes(text: &str) -> Result<Vec<u8>, String> {
    BASE64_URL.decode(text).map_err(|_| "it is not in base64url".to_owned())
}

fn json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_slice(&bytes(text)?).map_err(|error| shown(&error))
}

/// The reason, which may quote what the sender wrote.
fn shown(error: &serde_json::Error) -> String {
    error.to_string().chars().take(REASON_MAX_CHARS).collect()
}

/// The JSON with quotes around the integers that have more digits than the parser keeps: ids that
/// differ must not read as the same float.
fn with_long_integers_quoted(json: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(json.len());
    let mut rest = json;
    while let Some(&first) = rest.first() {
        let taken = match first {
            b'"' => string_len(rest),
            b'-' | b'0'..=b'9' => rest.iter().take_while(|byte| is_of_number(**byte)).count(),
            _ => 1,
        };
        let token = rest.split_off(..taken).unwrap_or_default();
        let quotes: &[u8] = if is_long_integer(token) { b"\"" } else { b"" };
        quoted.extend([quotes, token, quotes].concat());
    }
    quoted
}

/// The bytes of the string that a text begins with.
fn string_len(text: &[u8]) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.iter().enumerate().skip(1) {
        match byte {
            b'"' if !is_escaped => return at + 1,
            b'\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

fn is_of_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
}

/// Whether it is an integer that neither of the parser's integers holds.
fn is_long_integer(token: &[u8]) -> bool {
    let digits = token.strip_prefix(b"-").unwrap_or(token);
    let is_integer = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(token).unwrap_or_default();
    is_integer && text.parse::<i64>().is_err() && text.parse::<u64>().is_err()
}

impl TokenClaims {
    /// Reads the claims of a token, in JSON.
    ///
    /// # Errors
    /// The reason, if they are none.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let all: Map<String, Value> =
            serde_json::from_slice(&with_long_integers_quoted(text)).map_err(|error| shown(&error))?;
        let claims: Self =
            serde_json::from_value(Value::Object(all.clone())).map_err(|error| shown(&error))?;
        Ok(Self { all, ..claims })
    }

    /// Who issued it.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Whom it is for.
    pub fn audiences(&self) -> &[String] {
        match &self.audience {
            Audience::One(one) => std::slice::from_ref(one),
            Audience::Several(several) => several,
        }
    }

    /// Checks that the time of the token is the present one.
    pub(super) fn check_times(&self, now: Timestamp) -> Result<(), TimeProblem> {
        let now = now.as_millis() as f64 / 1000.0;
        if self.expires <= now - CLOCK_SKEW_SECS {
            return Err(TimeProblem::Expired);
        }
        let starts = [self.issued, self.not_before];
        match starts.into_iter().flatten().all(|time| time < now + CLOCK_SKEW_SECS) {
            true => Ok(()),
            false => Err(TimeProblem::Future),
        }
    }
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
    use serde_json::json;

    use super::super::key::parse_keys;
    use super::*;

    const NOW_SECS: u64 = 1_800_000_000;

    struct TestSigner {
        pair: EcdsaKeyPair,
        key: Value,
    }

    impl TestSigner {
        fn new(kid: &str) -> Self {
            let random = SystemRandom::new();
            let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
            let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random)
                .unwrap();
            let point = pair.public_key().as_ref()[1..].to_vec();
            let x = BASE64_URL.encode(&point[..32]);
            let y = BASE64_URL.encode(&point[32..]);
            let key = json!({"kty": "EC", "crv": "P-256", "kid": kid, "use": "sig", "x": x, "y": y});
            Self { pair, key }
        }

        fn token(&self, header: &Value, claims: &Value) -> String {
            let part = |value: &Value| BASE64_URL.encode(value.to_string());
            let signed = format!("{}.{}", part(header), part(claims));
            let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
            format!("{signed}.{}", BASE64_URL.encode(signature.as_ref()))
        }
    }

    fn header() -> Value {
        json!({"alg": "ES256", "kid": "1"})
    }

    fn claims() -> Value {
        json!({"iss": "https://id.example", "sub": "7", "aud": "siltstone", "exp": NOW_SECS + 60, "iat": NOW_SECS})
    }

    fn with(mut claims: Value, name: &str, value: Value) -> Value {
        claims[name] = value;
        claims
    }

    fn keys(keys: &[&Value]) -> Vec<ProviderKey> {
        parse_keys(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
    }

    /// The outcome; `None` for what is no token.
    fn signed(token: &str, keys: &[ProviderKey]) -> Option<Result<(), SignatureProblem>> {
        Some(SignedToken::parse(token).ok()?.check_signature(keys))
    }

    #[test]
    fn a_token_is_signed_by_one_of_the_keys() {
        let signer = TestSigner::new("1");
        let other = TestSigner::new("0").key;
        let known = keys(&[&other, &signer.key]);
        let token = signer.token(&header(), &with(claims(), "aud", json!(["a", "b"])));
        assert_eq!(signed(&token, &known), Some(Ok(())));
        let parsed = SignedToken::parse(&token).unwrap();
        assert_eq!((parsed.stated_issuer(), &*parsed.unverified().subject), ("https://id.example", "7"));
        assert_eq!(parsed.unverified().audiences(), ["a", "b"]);
        let unnamed = signer.token(&json!({"alg": "ES256"}), &claims());
        assert_eq!(signed(&unnamed, &known), Some(Ok(())), "any key may fit");
    }

    #[test]
    fn a_token_counts_at_its_time() {
        let now = Timestamp::from_millis(NOW_SECS * 1000);
        let at = |name: &str, value: Value| {
            let claims: TokenClaims = serde_json::from_value(with(claims(), name, value)).unwrap();
            claims.check_times(now)
        };
        for (name, value) in [
            ("exp", json!(NOW_SECS - 59)),
            ("exp", json!(NOW_SECS as f64 + 1.5)),
            ("exp", json!(1e300)),
            ("iat", json!(NOW_SECS + 59)),
            ("iat", Value::Null),
            ("nbf", json!(NOW_SECS + 59)),
        ] {
            assert_eq!(at(name, value.clone()), Ok(()), "{name} {value}");
        }
        assert_eq!(at("exp", json!(NOW_SECS - 60)), Err(TimeProblem::Expired));
        assert_eq!(at("exp", json!(-1e300)), Err(TimeProblem::Expired));
        assert_eq!(at("iat", json!(NOW_SECS + 61)), Err(TimeProblem::Future));
        assert_eq!(at("nbf", json!(NOW_SECS + 61)), Err(TimeProblem::Future));
        for (name, value) in [
            ("exp", json!("1900000000")),
            ("exp", Value::Null),
            ("sub", json!(7)),
            ("iss", json!(["https://id.example"])),
            ("aud", json!({})),
        ] {
            let token = TestSigner::new("1").token(&header(), &with(claims(), name, value.clone()));
            assert!(SignedToken::parse(&token).is_err(), "{name} {value}");
        }
    }

    #[test]
    fn tokens_of_others_and_without_signature_are_refused() {
        let signer = TestSigner::new("1");
        let known = keys(&[&signer.key]);
        let token = signer.token(&header(), &claims());
        assert_eq!(signed(&token, &known), Some(Ok(())));
        let stranger = TestSigner::new("1").token(&header(), &claims());
        assert_eq!(signed(&stranger, &known), Some(Err(SignatureProblem::Wrong)));
        for alg in ["none", "None", "HS256", "ES384", "RS256", ""] {
            let token = signer.token(&json!({"alg": alg, "kid": "1"}), &claims());
            assert_eq!(signed(&token, &known), Some(Err(SignatureProblem::Wrong)), "{alg}");
        }
        let critical = signer.token(&json!({"alg": "ES256", "kid": "1", "crit": ["b64"]}), &claims());
        assert_eq!(signed(&critical, &known), None);
        let (text, signature) = token.rsplit_once('.').unwrap();
        let other = BASE64_URL.encode(with(claims(), "sub", json!("8")).to_string());
        let (head, _) = text.split_once('.').unwrap();
        for forged in [
            format!("{text}."),
            format!("{head}.{other}.{signature}"),
            format!("{text}.{signature}="),
            String::new(),
            "..".into(),
        ] {
            assert!(!matches!(signed(&forged, &known), Some(Ok(()))), "{forged}");
        }
        for at in 0..token.len() {
            assert!(!matches!(signed(&token[..at], &known), Some(Ok(()))), "{at} bytes");
        }
        let unknown = signer.token(&json!({"alg": "ES256", "kid": "2"}), &claims());
        assert_eq!(signed(&unknown, &known), Some(Err(SignatureProblem::UnknownKey)));
        assert_eq!(signed(&token, &[]), Some(Err(SignatureProblem::UnknownKey)));
        let encrypting = with(signer.key.clone(), "use", json!("enc"));
        assert_eq!(signed(&token, &keys(&[&encrypting])), Some(Err(SignatureProblem::Wrong)));
        assert!(SignedToken::parse(&"a".repeat(TOKEN_MAX_BYTES + 1)).is_err());
    }

    #[test]
    fn keys_of_the_other_types_verify() {
        // RFC 7515, appendix A.2.
        let n = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
        let signed = b"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
        let [key] = &keys(&[&json!({"kty": "RSA", "n": n, "e": "AQAB"})])[..] else { panic!() };
        let signature = BASE64_URL.decode(signature).unwrap();
        assert!(key.verifies("RS256", signed, &signature));
        assert!(!key.verifies("RS512", signed, &signature) && !key.verifies("PS256", signed, &signature));
        assert!(!key.verifies("RS256", &signed[1..], &signature));
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let x = BASE64_URL.encode(pair.public_key().as_ref());
        let [key] = &keys(&[&json!({"kty": "OKP", "crv": "Ed25519", "x": x})])[..] else { panic!() };
        assert!(key.verifies("EdDSA", b"text", pair.sign(b"text").as_ref()));
        assert!(!key.verifies("EdDSA", b"texts", pair.sign(b"text").as_ref()));
    }
}
