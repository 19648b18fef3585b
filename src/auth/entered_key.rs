//! Keys that a user entered, for the session of a browser, instead of signing a request with them.

use std::sync::Arc;

use subtle::ConstantTimeEq as _;

use crate::auth::canonical::{CanonicalRequest, SortedHeaders, TargetEncoding};
use crate::auth::presigned::signature_param;
use crate::auth::signature;
use crate::auth::signature_params::ALGORITHM;
use crate::auth::signing_key::{SERVICE, TERMINATOR};
use crate::auth::user::Signer;
use crate::auth::users::Users;
use crate::auth::{Authenticator, Identity, OidcPerson};
use crate::base::digest::{Sha256, hex32};
use crate::s3::{Dialect, Headers, QueryParams, Request, uri};

/// An access key whose secret was known to its user, or as whose user a person may act. It holds no
/// secret. It counts until the users file has another secret for the access key, or does not let
/// the person act as the user any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnteredKey {
    access_key: String,
    /// The SHA-256 of the secret.
    fingerprint: [u8; 32],
    /// The person who acts as the user, where it did not enter the key itself.
    person: Option<Arc<OidcPerson>>,
}

impl EnteredKey {
    pub fn access_key(&self) -> &str {
        &self.access_key
    }
}

/// A GET of an object, which a presigned URL is to allow.
#[derive(Debug, Clone, Copy)]
pub struct SharedObject<'a> {
    /// `http` or `https`, `://`, and the host, as the URL is to have them.
    pub origin: &'a str,
    pub bucket: &'a str,
    pub key: &'a str,
    /// The version; `None` for the current one.
    pub version: Option<&'a str>,
    /// The region of the signature.
    pub region: &'a str,
    /// How long the URL is valid, in seconds; at most seven days.
    pub expires_secs: u64,
}

impl Authenticator {
    /// The key that a user entered, if the secret is its own. An unknown access key takes as long
    /// as a wrong secret.
    pub fn enter(&self, access_key: &str, secret: &str) -> Option<EnteredKey> {
        let users = self.users();
        // Digests are compared, and for an unknown key with that of nothing: neither the length of
        // a secret nor whether there is such a key shows in the time.
        let entered = Sha256::of(secret.as_bytes());
        let known = users.find_own(access_key).map(|signer| fingerprint(signer));
        let is_same: bool = known.unwrap_or_else(|| Sha256::of(b"")).ct_eq(&entered).into();
        (known.is_some() && is_same).then(|| EnteredKey {
            access_key: access_key.into(),
            fingerprint: entered,
            person: None,
        })
    }

    /// The key of a user whom the server itself has admitted, by a token that it showed to its
    /// operator.
    pub fn admit(&self, access_key: &str) -> Option<EnteredKey> {
        let fingerprint = fingerprint(self.users().find_own(access_key)?);
        Some(EnteredKey { access_key: access_key.to_owned(), fingerprint, person: None })
    }

    /// The key of the user as whom a person acts. `None` if the users file names neither the person
    /// nor one of its groups.
    pub fn admit_person(&self, person: OidcPerson) -> Option<EnteredKey> {
        let users = self.users();
        let access_key = users.access_key_of(&person)?;
        let fingerprint = fingerprint(users.find_own(access_key)?);
        Some(EnteredKey { access_key: access_key.to_owned(), fingerprint, person: Some(Arc::new(person)) })
    }

    /// The user of a key, who sends `request`. `None` after the user or the key was removed or
    /// rotated away.
    pub fn identity_of(&self, key: &EnteredKey, request: &Request<'_>) -> Option<Identity> {
        let users = self.users();
        let signer = Arc::clone(find(&users, key)?);
        let now = self.now();
        signer.note_use(now);
        Some(Identity::of_person(&signer, users, key.person.clone()).sent_by(request, now))
    }

    /// A URL that allows everyone who has it to read an object (S3 API reference, "Authenticating
    /// requests: using query parameters"). It ends with the key that signs it. `None` for a key
    /// that counts no more.
    pub fn presign(&self, key: &EnteredKey, shared: SharedObject<'_>) -> Option<String> {
        let users = self.users();
        let signer = find(&users, key)?;
        let timestamp = self.now().to_iso_basic();
        let date = timestamp.get(..8)?;
        let scope = format!("{date}/{}/{SERVICE}/{TERMINATOR}", shared.region);
        let path = format!("/{}/{}", uri::encode_listed(shared.bucket), uri::encode_listed(shared.key));
        let sent = presigned_query(key, shared, &scope, &timestamp);
        let mut headers = Headers::default();
        headers.push("host", shared.origin.split_once("://")?.1.as_bytes());
        let request = CanonicalRequest {
            method: "GET",
            path: &path,
            query: &QueryParams::parse(&sent).ok()?,
            signature_param: Some(signature_param(Dialect::Aws)),
            headers: &SortedHeaders::of(&headers),
            signed_headers: "host",
            payload: "UNSIGNED-PAYLOAD",
        };
        let digest = hex32(&request.digest(TargetEncoding::Canonical));
        let signature =
            signature::sign(&timestamp, &scope, &signer.signing_key(date, shared.region, SERVICE), &digest);
        let signature = String::from_utf8_lossy(&signature);
        Some(format!("{}{path}?{sent}&{}={signature}", shared.origin, signature_param(Dialect::Aws)))
    }
}

fn presigned_query(key: &EnteredKey, shared: SharedObject<'_>, scope: &str, timestamp: &str) -> String {
    let credential = uri::encode_query(&format!("{}/{scope}", key.access_key));
    let version = shared.version.map(|version| format!("&versionId={}", uri::encode_query(version)));
    format!(
        "X-Amz-Algorithm={ALGORITHM}&X-Amz-Credential={credential}&X-Amz-Date={timestamp}&X-Amz-Expires={}&X-Amz-SignedHeaders=host{}",
        shared.expires_secs,
        version.unwrap_or_default()
    )
}

fn find<'u>(users: &'u Users, key: &EnteredKey) -> Option<&'u Arc<Signer>> {
    if let Some(person) = key.person.as_deref()
        && users.access_key_of(person) != Some(&*key.access_key)
    {
        return None;
    }
    // The secret was known when it was entered. A rotation since then ends what began with it.
    users.find_own(&key.access_key).filter(|signer| fingerprint(signer) == key.fingerprint)
}

fn fingerprint(signer: &Signer) -> [u8; 32] {
    Sha256::of(signer.secret().reveal().as_bytes())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::auth::Action;
    use crate::base::{ManualClock, Timestamp};
    use crate::s3::{Body, Method};

    fn users(secret: &str) -> Users {
        let text = format!("[[user]]\nname = \"u\"\naccess_key = \"AKIAUSER\"\nsecret_key = \"{secret}\"\n");
        Users::parse(&text).unwrap()
    }

    fn authenticator() -> Authenticator {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
        Authenticator::new(users("secret-of-the-user"), vec!["eu".to_owned()], clock)
    }

    /// A request over plain HTTP.
    fn request() -> Request<'static> {
        Request {
            method: Method::Get,
            path: String::new(),
            query: String::new(),
            headers: Headers::default(),
            body: Body::none(),
            secure: false,
            peer: None,
            client: None,
        }
    }

    #[test]
    fn conditions_see_the_time_and_the_connection_of_the_request() {
        let authenticator = authenticator();
        for (condition, over_plain_http, over_tls) in [
            (r#"{"DateLessThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}}"#, false, false),
            (r#"{"DateGreaterThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}}"#, true, true),
            (r#"{"Bool": {"aws:SecureTransport": "true"}}"#, false, true),
        ] {
            let policy = format!(
                r#"{{"Version": "2012-10-17", "Statement": [{{"Effect": "Allow", "Action": "*", "Resource": "*",
                "Condition": {condition}}}]}}"#
            );
            let text = format!(
                "[[user]]\nname = \"u\"\naccess_key = \"AKIAUSER\"\nsecret_key = \"secret-of-the-user\"\n\
                 policy = '''{policy}'''\n"
            );
            authenticator.replace(Users::parse(&text).unwrap());
            let key = authenticator.enter("AKIAUSER", "secret-of-the-user").unwrap();
            for (secure, expected) in [(false, over_plain_http), (true, over_tls)] {
                let identity = authenticator.identity_of(&key, &Request { secure, ..request() }).unwrap();
                assert_eq!(identity.may_administer(Action::AdminListUsers), expected, "{condition} {secure}");
            }
        }
    }

    #[test]
    fn only_the_secret_of_the_key_is_accepted() {
        let authenticator = authenticator();
        let key = authenticator.enter("AKIAUSER", "secret-of-the-user").unwrap();
        assert_eq!(authenticator.identity_of(&key, &request()).unwrap().name(), "u");
        for (access_key, secret) in
            [("AKIAUSER", "secret"), ("AKIAUSER", ""), ("AKIAOTHER", "secret-of-the-user"), ("", "")]
        {
            assert_eq!(authenticator.enter(access_key, secret), None, "{access_key} {secret}");
        }
        assert_eq!(authenticator.admit("AKIAUSER"), Some(key));
        assert_eq!(authenticator.admit("AKIAOTHER"), None);
    }

    #[test]
    fn a_person_acts_as_the_first_user_that_names_it_or_its_group_until_none_does() {
        let user = |name: &str, oidc: &str| {
            format!(
                "[[user]]\nname = \"{name}\"\naccess_key = \"AK{name}\"\nsecret_key = \"secret-of-{name}\"\n{oidc}\n"
            )
        };
        let file = |of_staff: &str| {
            let ops = user("ops", "oidc = { groups = [\"ops\", \"staff\"] }");
            let ann = user("ann", "oidc = { subjects = [\"7\"] }");
            Users::parse(&(ops + &user("staff", of_staff) + &ann)).unwrap()
        };
        let authenticator = authenticator();
        authenticator.replace(file("oidc = { groups = [\"staff\", \"guests\"] }"));
        let person = |subject: &str, groups: &[&str]| {
            let groups = groups.iter().map(|&group| group.to_owned()).collect();
            OidcPerson { subject: subject.to_owned(), name: "Ann".to_owned(), groups }
        };
        let acts_as = |subject: &str, groups: &[&str]| {
            let key = authenticator.admit_person(person(subject, groups))?;
            authenticator.identity_of(&key, &request()).map(|identity| identity.name().to_owned())
        };
        assert_eq!(acts_as("1", &["guests", "staff"]).as_deref(), Some("ops"));
        assert_eq!(acts_as("1", &["guests"]).as_deref(), Some("staff"));
        assert_eq!(acts_as("7", &["ops"]).as_deref(), Some("ann"), "a name comes before groups");
        assert_eq!(acts_as("1", &["gue"]), None);
        assert_eq!(acts_as("ops", &[]), None);
        let guest = authenticator.admit_person(person("1", &["guests"])).unwrap();
        let identity = authenticator.identity_of(&guest, &request()).unwrap();
        assert_eq!(identity.person().map(|person| &*person.subject), Some("1"));
        authenticator.replace(file(""));
        assert!(authenticator.identity_of(&guest, &request()).is_none());
        assert!(authenticator.presign(&guest, shared("k", None)).is_none());
    }

    #[test]
    fn tables_that_admit_nobody_are_refused() {
        let refusal = |text: &str| Users::parse(text).unwrap_err().problem;
        let keys = "[[user]]\nname = \"u\"\naccess_key = \"A\"\nsecret_key = \"secret\"\n";
        for table in ["{}", "{ groups = [] }", "{ groups = [\"\"] }", "{ group = [\"a\"] }"] {
            assert!(!refusal(&format!("{keys}oidc = {table}\n")).is_empty(), "{table}");
        }
        let anonymous = "[[user]]\nname = \"anonymous\"\noidc = { groups = [\"a\"] }\n";
        assert!(refusal(anonymous).contains("anonymous"));
    }

    #[test]
    fn a_key_ends_with_its_secret() {
        let authenticator = authenticator();
        let key = authenticator.enter("AKIAUSER", "secret-of-the-user").unwrap();
        authenticator.replace(users("another-secret-by-now"));
        assert!(authenticator.identity_of(&key, &request()).is_none());
        assert!(authenticator.presign(&key, shared("k", None)).is_none());
        authenticator.replace(Users::default());
        assert!(authenticator.identity_of(&key, &request()).is_none());
    }

    fn shared<'a>(key: &'a str, version: Option<&'a str>) -> SharedObject<'a> {
        let origin = "http://127.0.0.1:9000";
        let bucket = "b";
        let region = "eu";
        SharedObject { origin, bucket, key, version, region, expires_secs: 60 }
    }

    #[test]
    fn a_shared_url_authenticates_as_its_user() {
        let authenticator = authenticator();
        let key = authenticator.enter("AKIAUSER", "secret-of-the-user").unwrap();
        for (name, version) in [("k", None), ("a b/ü+%&=?#/../x", Some("null")), ("k", Some("A_b-9"))] {
            let url = authenticator.presign(&key, shared(name, version)).unwrap();
            let target = url.strip_prefix("http://127.0.0.1:9000").unwrap();
            let (path, query) = target.split_once('?').unwrap();
            let mut request = Request { path: path.to_owned(), query: query.to_owned(), ..request() };
            request.headers.push("host", b"127.0.0.1:9000");
            let query = QueryParams::parse(query).unwrap();
            let user = authenticator.authenticate(&mut request, &query, Dialect::Aws).unwrap();
            assert_eq!(user.name(), "u", "{url}");
            assert_eq!(uri::decode_path(path).unwrap(), format!("/b/{name}"));
            assert_eq!(query.get("versionId"), version);
        }
    }
}
