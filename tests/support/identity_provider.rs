//! A provider of identities on this host: it signs tokens, and answers as a test has it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64_URL;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

/// What the provider does when it is asked.
#[derive(Clone)]
pub(crate) enum Manner {
    /// It tells its addresses and keys.
    Honest,
    /// It answers with this status.
    Status(u16),
    /// It sends a header that leads elsewhere.
    Redirect(String),
    /// It calls itself so.
    Calls(String),
    /// It names this address of its keys.
    KeysAt(String),
    /// It sends bytes without an end: as many as are taken, or one now and then.
    Endless { slowly: bool },
    /// It sends this text.
    Text(String),
    /// It answers honestly once it is released.
    Held,
}

/// A key that signs tokens.
pub(crate) struct SigningPair {
    pair: EcdsaKeyPair,
    pub(crate) kid: String,
}

impl SigningPair {
    pub(crate) fn new(kid: &str) -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap();
        Self { pair, kid: kid.to_owned() }
    }

    /// The key as providers show it.
    pub(crate) fn public(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        json!({"kty": "EC", "crv": "P-256", "kid": self.kid, "use": "sig",
            "x": BASE64_URL.encode(&point[1..33]), "y": BASE64_URL.encode(&point[33..])})
    }

    /// The point of the key, for those who take it for a shared secret.
    pub(crate) fn point(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    pub(crate) fn token(&self, claims: &Value) -> String {
        self.token_with(&json!({"alg": "ES256", "kid": self.kid}), claims)
    }

    /// A token whose claims are this text.
    pub(crate) fn token_of(&self, claims: &str) -> String {
        let header = json!({"alg": "ES256", "kid": self.kid}).to_string();
        self.signed(&format!("{}.{}", BASE64_URL.encode(header), BASE64_URL.encode(claims)))
    }

    /// A token whose header is chosen.
    pub(crate) fn token_with(&self, header: &Value, claims: &Value) -> String {
        self.signed(&unsigned(header, claims))
    }

    fn signed(&self, signed: &str) -> String {
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", BASE64_URL.encode(signature.as_ref()))
    }
}

/// The part of a token that is signed.
pub(crate) fn unsigned(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| BASE64_URL.encode(value.to_string());
    format!("{}.{}", part(header), part(claims))
}

struct ProviderState {
    manner: Manner,
    keys: Vec<Value>,
    /// The paths that were asked for.
    asked: Vec<String>,
}

/// The provider. It has no addresses for browsers, as that of a cluster.
pub(crate) struct IdentityProvider {
    address: SocketAddr,
    state: Arc<Mutex<ProviderState>>,
    /// Tells that a request is held.
    held: Mutex<Receiver<()>>,
    /// Releases one.
    release: Sender<()>,
}

impl IdentityProvider {
    pub(crate) fn start(keys: &[Value]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = ProviderState { manner: Manner::Honest, keys: keys.to_vec(), asked: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let (tell, held) = channel();
        let (release, released) = channel();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                serve(stream.unwrap(), address, &shared, &tell, &released);
            }
        });
        Self { address, state, held: Mutex::new(held), release }
    }

    /// The URL of the issuer.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn set(&self, manner: Manner) {
        self.state.lock().unwrap().manner = manner;
    }

    pub(crate) fn show(&self, keys: &[Value]) {
        self.state.lock().unwrap().keys = keys.to_vec();
    }

    /// The paths that were asked for since the last look.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().asked)
    }

    /// Waits until a request is held.
    pub(crate) fn await_held(&self) {
        self.held.lock().unwrap().recv().unwrap();
    }

    /// Lets the request go on that is held, and all that follow it.
    pub(crate) fn release(&self) {
        self.set(Manner::Honest);
        self.release.send(()).unwrap();
    }
}

fn serve(
    stream: TcpStream,
    address: SocketAddr,
    state: &Mutex<ProviderState>,
    tell: &Sender<()>,
    released: &Receiver<()>,
) {
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
        request += &std::mem::take(&mut line);
    }
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    state.lock().unwrap().asked.push(path.clone());
    let manner = state.lock().unwrap().manner.clone();
    let mut stream = reader.into_inner();
    let url = format!("http://{address}");
    let mut issuer = url.clone();
    let mut keys_at = format!("{url}/keys");
    match manner {
        Manner::Honest => {}
        Manner::Calls(other) => issuer = other,
        Manner::KeysAt(other) => keys_at = other,
        Manner::Held => {
            tell.send(()).unwrap();
            released.recv().unwrap();
        }
        Manner::Status(status) => return respond(&mut stream, status, "", "{}"),
        Manner::Redirect(to) => {
            return respond(&mut stream, 302, &format!("Location: {to}\r\n"), "{}");
        }
        Manner::Text(text) => return respond(&mut stream, 200, "", &text),
        Manner::Endless { slowly } => return send_endlessly(stream, slowly),
    }
    let document = match &*path {
        "/keys" => json!({ "keys": state.lock().unwrap().keys }),
        _ => json!({"issuer": issuer, "jwks_uri": keys_at,
            "authorization_endpoint": "urn:programs:alone", "response_types_supported": ["id_token"]}),
    };
    respond(&mut stream, 200, "", &document.to_string());
}

fn respond(stream: &mut TcpStream, status: u16, lines: &str, body: &str) {
    let head =
        format!("HTTP/1.1 {status} x\r\n{lines}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let _ = stream.write_all((head + body).as_bytes());
}

/// Sends until the other side has had enough.
fn send_endlessly(mut stream: TcpStream, slowly: bool) {
    let mut sent = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    while sent.is_ok() {
        if slowly {
            std::thread::sleep(std::time::Duration::from_millis(100));
            sent = stream.write_all(b"1\r\n \r\n");
        } else {
            sent = stream.write_all(format!("1000\r\n{}\r\n", " ".repeat(0x1000)).as_bytes());
        }
    }
}
