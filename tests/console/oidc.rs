//! Signing in by an OpenID provider, and the attacks on the way there and back.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64_URL;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use siltstone::auth::Secret;
use siltstone::base::Clock as _;
use siltstone::console::OidcSettings;
use siltstone::s3::QueryParams;
use siltstone::service::{AuditLog, AuditRecord};

use super::harness::{Answer, Browser, Site};

/// A provider of the tests: it gives out one code at a time, for the person that is set.
struct Provider {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    pair: EcdsaKeyPair,
    kid: String,
    claims: Value,
    /// The code that was given out last, and the challenge of the request for it.
    code: (String, String),
    /// The forms that were sent to the token endpoint.
    forms: Vec<String>,
    key_requests: usize,
    /// The path of its address to sign out.
    logout: Option<&'static str>,
}

fn new_pair() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap()
}

impl Provider {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let pair = new_pair();
        let kid = "1".to_owned();
        let code = (String::new(), String::new());
        let claims = Value::Null;
        let forms = Vec::new();
        let key_requests = 0;
        let logout = None;
        let state = State { pair, kid, claims, code, forms, key_requests, logout };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            listener.incoming().for_each(|stream| serve(stream.unwrap(), address, &shared));
        });
        Self { address, state }
    }

    fn settings(&self) -> OidcSettings {
        OidcSettings {
            issuer: format!("http://{}", self.address),
            client_id: "siltstone".to_owned(),
            client_secret: Some(Secret::new("secret of the client")),
            scopes: "openid profile".to_owned(),
            groups_claim: "groups".to_owned(),
            authorities: None,
        }
    }

    /// What a browser does there: the person signs in, and the provider sends it back. The query of
    /// the way back.
    fn sign_in(&self, location: &str, site: &Site, subject: &str, groups: &[&str]) -> String {
        let query = location.strip_prefix(&format!("http://{}/authorize?", self.address)).unwrap();
        let query = QueryParams::parse(query).unwrap();
        let of = |name: &str| query.get(name).unwrap().to_owned();
        assert_eq!(
            (&*of("response_type"), &*of("client_id"), &*of("scope")),
            ("code", "siltstone", "openid profile")
        );
        assert_eq!(of("redirect_uri"), "http://127.0.0.1:9000/-/console/oidc/callback");
        assert_eq!(of("code_challenge_method"), "S256");
        let now = site.server.clock.now().as_millis() / 1000;
        let mut state = self.state.lock().unwrap();
        state.code = (format!("code-{subject}"), of("code_challenge"));
        state.claims = json!({"iss": format!("http://{}", self.address), "sub": subject, "aud": "siltstone", "iat": now,
                              "exp": now + 60, "nonce": of("nonce"), "groups": groups, "email": "a@example.org"});
        format!("code={}&state={}", state.code.0, of("state"))
    }
}

fn serve(stream: TcpStream, address: SocketAddr, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    let mut len = 0;
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap() > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            len = value.trim().parse().unwrap();
        }
        request += &std::mem::take(&mut line);
    }
    let mut body = vec![0; len];
    reader.read_exact(&mut body).unwrap();
    let answer = answer(&request, &String::from_utf8(body).unwrap(), address, &mut state.lock().unwrap());
    let (status, document) =
        answer.map_or_else(|error| (400, json!({"error": error})), |document| (200, document));
    let document = document.to_string();
    let head =
        format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", document.len());
    let _ = reader.into_inner().write_all((head + &document).as_bytes());
}

fn answer(request: &str, form: &str, address: SocketAddr, state: &mut State) -> Result<Value, &'static str> {
    let url = |path: &str| format!("http://{address}/{path}");
    match request.split(' ').nth(1).unwrap() {
        "/.well-known/openid-configuration" => Ok(json!({"issuer": format!("http://{address}"),
            "authorization_endpoint": url("authorize"), "token_endpoint": url("token"), "jwks_uri": url("keys"),
            "end_session_endpoint": state.logout.map(url)})),
        "/keys" => {
            state.key_requests += 1;
            let point = state.pair.public_key().as_ref();
            let x = BASE64_URL.encode(&point[1..33]);
            let y = BASE64_URL.encode(&point[33..]);
            Ok(
                json!({"keys": [{"kty": "unknown"}, {"kty": "EC", "crv": "P-256", "kid": state.kid, "x": x, "y": y}]}),
            )
        }
        "/token" => {
            state.forms.push(form.to_owned());
            // siltstone:secret%20of%20the%20client
            assert!(
                request.contains("Authorization: Basic c2lsdHN0b25lOnNlY3JldCUyMG9mJTIwdGhlJTIwY2xpZW50\r\n"),
                "{request}"
            );
            let fields = QueryParams::parse(form).unwrap();
            let challenge = BASE64_URL
                .encode(siltstone::base::digest::Sha256::of(fields.get("code_verifier").unwrap().as_bytes()));
            let (code, expected) = std::mem::take(&mut state.code);
            if fields.get("code") != Some(&*code) || code.is_empty() || challenge != expected {
                return Err("invalid_grant");
            }
            Ok(json!({"id_token": token(state), "token_type": "Bearer", "access_token": "x"}))
        }
        _ => Err("not_found"),
    }
}

fn token(state: &State) -> String {
    let part = |value: &Value| BASE64_URL.encode(value.to_string());
    let signed = format!("{}.{}", part(&json!({"alg": "ES256", "kid": state.kid})), part(&state.claims));
    let signature = state.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    format!("{signed}.{}", BASE64_URL.encode(signature.as_ref()))
}

/// The owner of the site is for the group `ops`, and its reader for the subject `7`.
fn users() -> String {
    let users = Site::users("secret of owner");
    let users = users.replace(
        "secret_key = \"secret of owner\"\n",
        "secret_key = \"secret of owner\"\noidc = { groups = [\"ops\"] }\n",
    );
    let with = users.replace(
        "secret_key = \"secret of reader\"\n",
        "secret_key = \"secret of reader\"\noidc = { subjects = [\"7\"] }\n",
    );
    assert!(with.contains("ops") && with.contains("\"7\""), "{with}");
    with
}

fn site(provider: &Provider) -> Site {
    let site = Site::new().with_oidc(provider.settings());
    site.replace_users(&users());
    site
}

fn begin(browser: &mut Browser<'_>) -> String {
    let answer = browser.get("oidc?next=%2F-%2Fconsole%2Fconnect");
    assert_eq!(answer.status, 303, "{}", answer.text());
    answer.header("Location").unwrap().to_owned()
}

#[test]
fn the_way_back_has_the_path_of_the_console() {
    let provider = Provider::start();
    let site = site(&provider).below("/box/ui/");
    let mut browser = site.browser();
    let answer = browser.get("oidc?next=%2Fbox%2Fui%2Fconnect");
    let location = answer.header("Location").unwrap();
    assert!(
        location.contains("redirect_uri=http%3A%2F%2F127.0.0.1%3A9000%2Fbox%2Fui%2Foidc%2Fcallback&"),
        "{location}"
    );
    let cookie = answer.header("Set-Cookie").unwrap();
    assert!(
        cookie.contains("%2Fbox%2Fui%2Fconnect; ") && cookie.contains("; Path=/box/ui/oidc; "),
        "{cookie}"
    );
}

fn end(browser: &mut Browser<'_>, query: &str) -> Answer {
    // Browsers say that it comes from another site.
    browser.send(
        siltstone::s3::Method::Get,
        &format!("oidc/callback?{query}"),
        &[("sec-fetch-site", "cross-site")],
        b"",
    )
}

#[test]
fn a_person_acts_as_the_user_of_its_group() {
    let provider = Provider::start();
    let site = site(&provider);
    let mut browser = site.browser();
    let form = browser.get("connect");
    assert!(form.text().contains("/-/console/oidc?next=%2F-%2Fconsole%2Fconnect"), "{}", form.text());
    let location = begin(&mut browser);
    let attempt = browser.cookie.clone().unwrap();
    assert!(attempt.starts_with("siltstone-console-oidc="), "{attempt}");
    let query = provider.sign_in(&location, &site, "1", &["staff", "ops"]);
    let answer = end(&mut browser, &query);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.text().contains("/-/console/connect"), "{}", answer.text());
    let set: Vec<_> = answer.headers("Set-Cookie").collect();
    assert!(
        set.iter().any(|line| line.starts_with("siltstone-console-oidc=;") && line.ends_with("Max-Age=0")),
        "{set:?}"
    );
    let session = set.iter().find(|line| line.starts_with("siltstone-console=")).unwrap();
    assert!(session.ends_with("HttpOnly; SameSite=Strict"), "{session}");
    browser.cookie = Some(session.split(';').next().unwrap().to_owned());
    assert!(browser.get("").text().contains("<span>owner</span>"));
    assert!(!provider.state.lock().unwrap().forms[0].contains("secret"));
    // The session ends when the users file does not name the group any more.
    site.replace_users(&Site::users("secret of owner"));
    assert_eq!(browser.get("").status, 401);
}

#[test]
fn people_who_are_no_users_and_refusals_of_the_provider_open_no_session() {
    let provider = Provider::start();
    let site = site(&provider);
    let mut browser = site.browser();
    let location = begin(&mut browser);
    let query = provider.sign_in(&location, &site, "8", &["op", "Ops"]);
    let answer = end(&mut browser, &query);
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains("no user of this server is for you"), "{}", answer.text());
    let location = begin(&mut browser);
    let query = provider.sign_in(&location, &site, "1", &["ops"]);
    let state = query.split_once("&state=").unwrap().1;
    let answer = end(&mut browser, &format!("error=access_denied%0d%0a%3Cscript%3E&state={state}"));
    assert_eq!((answer.status, answer.text().contains("<script>")), (502, false));
    let location = begin(&mut browser);
    let query = provider.sign_in(&location, &site, "1", &["ops"]);
    assert_eq!(end(&mut browser, &format!("{query}&iss=https%3A%2F%2Fevil.example")).status, 502, "RFC 9207");
    assert_eq!(browser.get("").status, 401);
}

#[test]
fn an_attempt_ends_in_the_browser_where_it_began_and_once() {
    let provider = Provider::start();
    let site = site(&provider);
    let mut victim = site.browser();
    let mut thief = site.browser();
    let query = provider.sign_in(&begin(&mut thief), &site, "7", &[]);
    for cookie in [None, Some("siltstone-console-oidc=0000.%2F-%2Fconsole%2F".to_owned())] {
        victim.cookie = cookie;
        let answer = end(&mut victim, &query);
        assert_eq!(answer.status, 403, "the sign-in of another person is not planted");
        assert!(answer.text().contains("was not begun in this browser"));
    }
    begin(&mut victim);
    assert_eq!(end(&mut victim, &query).status, 403, "not with an attempt of its own either");
    let attempt = thief.cookie.clone();
    let code = query.split('&').next().unwrap();
    assert_eq!(end(&mut thief, code).status, 403, "the state is missing");
    assert_eq!(end(&mut thief, &query).status, 200);
    thief.cookie = attempt;
    assert_eq!(end(&mut thief, &query).status, 502, "a code counts once");
}

#[test]
fn a_token_for_another_attempt_is_not_accepted() {
    let provider = Provider::start();
    let site = site(&provider);
    let mut browser = site.browser();
    let location = begin(&mut browser);
    let query = provider.sign_in(&location, &site, "7", &[]);
    for (claim, value) in [("nonce", "other"), ("aud", "other"), ("iss", "http://other")] {
        let location = begin(&mut browser);
        let query = provider.sign_in(&location, &site, "7", &[]);
        provider.state.lock().unwrap().claims[claim] = json!(value);
        assert_eq!(end(&mut browser, &query).status, 502, "{claim}");
    }
    assert_eq!(end(&mut browser, &query).status, 403);
    let location = begin(&mut browser);
    let query = provider.sign_in(&location, &site, "7", &[]);
    site.server.clock.advance(Duration::from_secs(121));
    assert_eq!(end(&mut browser, &query).status, 502, "it has expired");
}

#[test]
fn keys_of_the_provider_may_change_and_unknown_ones_are_not_asked_for_again_and_again() {
    let provider = Provider::start();
    let site = site(&provider);
    let mut browser = site.browser();
    let mut sign_in = |kid: &str| {
        let location = begin(&mut browser);
        let query = provider.sign_in(&location, &site, "7", &[]);
        kid.clone_into(&mut provider.state.lock().unwrap().kid);
        end(&mut browser, &query).status
    };
    assert_eq!(sign_in("1"), 200);
    let asked = || provider.state.lock().unwrap().key_requests;
    assert_eq!((sign_in("1"), asked()), (200, 1));
    provider.state.lock().unwrap().pair = new_pair();
    assert_eq!((sign_in("2"), asked()), (502, 1), "the keys are a moment old");
    site.server.clock.advance(Duration::from_secs(10));
    assert_eq!((sign_in("2"), asked()), (200, 2));
    assert_eq!((sign_in("1"), asked()), (502, 2));
}

#[test]
fn without_a_provider_there_is_no_such_page_and_one_that_is_away_is_reported() {
    let site = Site::new();
    let mut browser = site.browser();
    assert_eq!(browser.get("oidc").status, 404);
    assert_eq!(browser.get("oidc/callback?code=1&state=2").status, 404);
    assert!(!browser.get("").text().contains("oidc"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let issuer = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let settings = OidcSettings { issuer, ..Provider::start().settings() };
    let site = Site::new().with_oidc(settings);
    let answer = site.browser().get("oidc");
    assert_eq!((answer.status, answer.header("Set-Cookie")), (502, None));
    let plain = OidcSettings { issuer: "http://id.example".to_owned(), ..Provider::start().settings() };
    assert!(plain.check().unwrap_err().contains("https"));
}

#[test]
fn the_way_back_leads_to_pages_of_the_console_alone() {
    let provider = Provider::start();
    let site = site(&provider);
    for next in ["https%3A%2F%2Fevil.example", "%2F%2Fevil.example", "%2Fb%2Fpage.html"] {
        let mut browser = site.browser();
        let answer = browser.get(&format!("oidc?next={next}"));
        let query = provider.sign_in(answer.header("Location").unwrap(), &site, "7", &[]);
        let forged = browser.cookie.clone().unwrap();
        let answer = end(&mut browser, &query);
        assert!(
            answer.status == 200 && !answer.text().contains("evil") && !answer.text().contains("page.html")
        );
        let secret = forged.split('.').next().unwrap();
        browser.cookie = Some(format!("{secret}.{next}"));
        assert_eq!(end(&mut browser, &query).status, 403);
    }
}

/// Signs in as a person of the group of the site's owner.
fn signed_in<'s>(provider: &Provider, site: &'s Site) -> Browser<'s> {
    signed_in_as(provider, site, "1", &["ops"])
}

fn signed_in_as<'s>(provider: &Provider, site: &'s Site, subject: &str, groups: &[&str]) -> Browser<'s> {
    let mut browser = site.browser();
    let location = begin(&mut browser);
    let query = provider.sign_in(&location, site, subject, groups);
    let answer = end(&mut browser, &query);
    let session = answer.headers("Set-Cookie").find(|line| line.starts_with("siltstone-console=")).unwrap();
    browser.cookie = Some(session.split(';').next().unwrap().to_owned());
    browser
}

#[test]
fn signing_out_leads_people_to_the_provider_and_ends_the_session_before() {
    let provider = Provider::start();
    let site = site(&provider);
    let mut browser = signed_in(&provider, &site);
    let cookie = browser.cookie.clone();
    assert_eq!(
        browser.post("sign-out", &[]).header("Location"),
        Some("/-/console/"),
        "it has no address for it"
    );
    browser.cookie = cookie;
    assert_eq!(browser.get("").status, 401);

    provider.state.lock().unwrap().logout = Some("logout?of=a");
    site.server.clock.advance(Duration::from_secs(60 * 60));
    let mut browser = signed_in(&provider, &site);
    let cookie = browser.cookie.clone();
    let answer = browser.post("sign-out", &[]);
    let address = format!("http://{}/logout?of=a&#38;client_id=siltstone", provider.address);
    assert!(
        answer.status == 200 && answer.text().contains(&format!("content=\"0; url={address}\"")),
        "{}",
        answer.text()
    );
    assert!(answer.text().contains(&format!("href=\"{address}\"")));
    assert!(answer.header("Set-Cookie").unwrap().ends_with("Max-Age=0"));
    browser.cookie = cookie;
    assert_eq!(browser.get("").status, 401);
    let answer = site.signed_in("reader").post("sign-out", &[]);
    assert_eq!(answer.header("Location"), Some("/-/console/"), "who entered keys has no session there");
}

/// The action, the user, and subject and name of the person of a record.
type PersonRecord = (String, String, Option<(String, String)>);

/// An audit log that keeps who acted.
#[derive(Default)]
struct PersonLog(Mutex<Vec<PersonRecord>>);

impl AuditLog for PersonLog {
    fn is_writable(&self) -> bool {
        true
    }

    fn record(&self, records: &[AuditRecord<'_>]) {
        self.0.lock().unwrap().extend(records.iter().map(|record| {
            let person = record.person.map(|person| (person.subject.clone(), person.name.clone()));
            (record.action.to_owned(), record.user.unwrap_or_default().to_owned(), person)
        }));
    }
}

#[test]
fn the_audit_log_names_the_person_beside_its_user() {
    let provider = Provider::start();
    let log = Arc::new(PersonLog::default());
    let site = Site::with_audit_log(log.clone()).with_oidc(provider.settings());
    site.replace_users(&users());
    let mut person = signed_in(&provider, &site);
    assert_eq!(person.post("create-bucket", &[("name", "of-person")]).status, 303);
    site.replace_users(&Site::users("secret of owner"));
    let mut user = site.browser();
    user.sign_in(&crate::support::users::access_key("owner"), "secret of owner");
    assert_eq!(user.post("create-bucket", &[("name", "of-user")]).status, 303);
    let owner = |person: Option<(&str, &str)>| {
        let person = person.map(|(subject, name)| (subject.to_owned(), name.to_owned()));
        ("CreateBucket".to_owned(), "owner".to_owned(), person)
    };
    assert_eq!(*log.0.lock().unwrap(), [owner(Some(("1", "a@example.org"))), owner(None)]);
}

#[test]
fn people_who_act_as_one_user_see_and_end_sessions_of_their_own_and_make_no_keys() {
    let provider = Provider::start();
    let (site, directory) = super::users::site();
    let site = site.with_oidc(provider.settings());
    site.replace_users(&users().replace("subjects = [\"7\"]", "subjects = [\"7\", \"8\"]"));
    let mut person = signed_in_as(&provider, &site, "7", &[]);
    let mut again = signed_in_as(&provider, &site, "7", &[]);
    let mut other = signed_in_as(&provider, &site, "8", &[]);
    let mut by_key = site.signed_in("reader");
    let page = person.get("account");
    assert_eq!(page.text().matches("value=\"end-session\"").count(), 1, "{}", page.text());
    assert!(page.text().contains("<dt>Acts as the user</dt><dd>reader</dd>"), "{}", page.text());
    assert!(!page.text().contains("create-key") && !page.text().contains("delete-key"), "{}", page.text());
    assert_eq!(by_key.get("account").text().matches("value=\"end-session\"").count(), 0);
    // The keys would outlast the leave of the person to act as the user.
    for fields in [
        &[("change", "create-key"), ("label", "mine")][..],
        &[("change", "delete-key"), ("account", "laptop")],
    ] {
        assert_eq!(person.post("account", fields).status, 403);
    }
    assert!(!directory.has_changed() && directory.denials() == 2);
    assert_eq!(person.post("account", &[("change", "end-others")]).status, 303);
    assert_eq!((person.get("account").status, again.get("account").status), (200, 401));
    assert_eq!((other.get("account").status, by_key.get("account").status), (200, 200));
}
