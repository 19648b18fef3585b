//! A request to a target, and the meaning of its answer.

use std::borrow::Cow;
use std::io;
use std::time::{Duration, Instant};

use super::WebhookSettings;
use crate::base::Timestamp;
use crate::base::digest::{HmacSha256, to_hex};
use crate::client::{Answer, Endpoint, HttpConnection, SignedRequest};

/// The header with the signature of a request.
pub const SIGNATURE_HEADER: &str = "X-Siltstone-Signature";

/// The statuses that refuse the content of a request. Others may pass once the target is mended.
const REFUSALS: [u16; 4] = [400, 413, 415, 422];

/// A failed delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryError {
    /// The target does not want this content.
    Refused(String),
    /// The target was not reached, or could not take it now.
    Failed(String),
    /// The target asks for another try after this time.
    Later(String, Duration),
}

/// The sender of requests to one target.
pub struct WebhookSender {
    endpoint: Endpoint,
    settings: WebhookSettings,
    connection: Option<HttpConnection>,
}

impl WebhookSender {
    /// A sender, which does not connect yet.
    ///
    /// # Errors
    /// A message, if the settings name no server.
    pub fn new(settings: &WebhookSettings) -> Result<Self, String> {
        let endpoint = Endpoint::unresolved(&settings.endpoint, &settings.trust)?;
        let endpoint = endpoint.with_patience(settings.timeout);
        Ok(Self { endpoint, settings: settings.clone(), connection: None })
    }

    /// Sends `body`, at the time `now`.
    ///
    /// # Errors
    /// Errors of the target.
    pub fn send(&mut self, body: &str, now: Timestamp) -> Result<(), DeliveryError> {
        let request = self.request(body, now.as_secs());
        let deadline = Instant::now() + self.settings.timeout;
        let answer = self.exchange(&request, deadline);
        let answer = answer.map_err(|error| DeliveryError::Failed(error.to_string()))?;
        let why = format!("it answers {}", answer.status);
        let later = answer.header("Retry-After").and_then(|value| retry_after(&value, now));
        match (answer.status, later) {
            (200..=299, _) => Ok(()),
            // Too much for now.
            (413, Some(after)) => Err(DeliveryError::Later(why, after)),
            (status, _) if REFUSALS.contains(&status) => Err(DeliveryError::Refused(why)),
            (_, Some(after)) => Err(DeliveryError::Later(why, after)),
            (_, None) => Err(DeliveryError::Failed(why)),
        }
    }

    /// Sends the request on the open connection, if there is one, and on another one where that has
    /// ended in the meantime.
    fn exchange(&mut self, request: &SignedRequest<'_>, deadline: Instant) -> io::Result<Answer> {
        if let Some(mut connection) = self.connection.take().filter(HttpConnection::is_open) {
            match connection.exchange_head(request, deadline) {
                Ok(answer) => {
                    self.connection = Some(connection);
                    return Ok(answer);
                }
                // The target has the request, and may be at work on it: it gets no second one at
                // once.
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
                // A connection that was idle is often closed by then. The target may get the event
                // twice, which consumers of S3's events have to expect.
                Err(_) => {}
            }
        }
        let mut connection = HttpConnection::open_by(&self.endpoint, deadline)?;
        let answer = connection.exchange_head(request, deadline)?;
        self.connection = Some(connection);
        Ok(answer)
    }

    fn request<'b>(&self, body: &'b str, now: u64) -> SignedRequest<'b> {
        let signature = self.settings.secret.as_ref().map_or_else(String::new, |secret| {
            format!("{SIGNATURE_HEADER}: {}\r\n", signature(&secret.key(), now, body))
        });
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: siltstone/{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             {signature}\r\n",
            self.settings.path,
            self.endpoint.host,
            env!("CARGO_PKG_VERSION"),
            body.len()
        );
        SignedRequest { head, body: Cow::Borrowed(body.as_bytes()), head_only: false }
    }
}

/// The time that a `Retry-After` asks for: seconds, or a date (RFC 9110, section 10.2.3).
fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    match value.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => Timestamp::parse_http_date(value).map(|at| at.since(now)),
    }
}

/// The value of [`SIGNATURE_HEADER`]: the time, and the HMAC-SHA256 of the time, a dot and the
/// body.
fn signature(secret: &[u8], now: u64, body: &str) -> String {
    let digest = HmacSha256::of(secret, format!("{now}.{body}").as_bytes());
    format!("t={now},v1={}", to_hex(&digest))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::client::SettingSources;

    const BODY: &str = "{\"Records\":[]}";

    /// A target that reads a request for each of `answers`, and sends them on as many connections
    /// as there are lists. An empty answer stands for none. Returns its URL.
    fn target(answers: Vec<Vec<&'static str>>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/in?x=y", listener.local_addr().unwrap());
        thread::spawn(move || {
            for of_connection in answers {
                let (mut socket, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(socket.try_clone().unwrap());
                for answer in of_connection {
                    read_request(&mut reader);
                    socket.write_all(answer.as_bytes()).unwrap();
                    if answer.is_empty() {
                        // The sender gives up first.
                        let _ = socket.read(&mut [0]);
                    }
                }
            }
        });
        url
    }

    fn read_request(reader: &mut BufReader<TcpStream>) {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
            assert!(!line.is_empty(), "the request ends early");
        }
        reader.read_exact(&mut [0; BODY.len()]).unwrap();
    }

    fn now() -> Timestamp {
        Timestamp::from_millis(784_111_770_000)
    }

    fn sender(url: &str) -> WebhookSender {
        let text = format!("[[webhook]]\nname = 't'\nurl = '{url}'\ntimeout = '2s'\n");
        let sources = SettingSources { read: &|_| Err(String::new()), variable: &|_| None };
        WebhookSender::new(&WebhookSettings::parse(&text, &sources).unwrap()[0]).unwrap()
    }

    #[test]
    fn answers_accept_refuse_or_fail() {
        const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        for (answer, is_refusal) in [
            ("HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n", true),
            ("HTTP/1.1 422 Bad\r\nContent-Length: 3\r\n\r\nbad", true),
            ("HTTP/1.1 401 Who\r\nContent-Length: 0\r\n\r\n", false),
            ("HTTP/1.1 429 Soon\r\nContent-Length: 0\r\n\r\n", false),
            ("HTTP/1.1 302 There\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", false),
            ("HTTP/1.1 503 Soon\r\nContent-Length: 0\r\n\r\n", false),
        ] {
            let mut sender = sender(&target(vec![vec![answer, OK]]));
            let refused = matches!(sender.send(BODY, now()), Err(DeliveryError::Refused(_)));
            assert_eq!(refused, is_refusal, "{answer}");
            assert_eq!(sender.send(BODY, now()), Ok(()), "the connection is used again after {answer}");
        }
    }

    #[test]
    fn a_target_names_the_time_of_the_next_try() {
        for (status, value, after) in [
            (503, "7", Some(7)),
            (429, "Sun, 06 Nov 1994 08:49:37 GMT", Some(7)),
            (503, "Tue, 06 Nov 1984 08:49:37 GMT", Some(0)),
            (413, "99999999999999999999", None),
            (413, "120", Some(120)),
            (500, "soon", None),
            (422, "7", None),
        ] {
            let answer =
                format!("HTTP/1.1 {status} Later\r\nretry-after: {value}\r\nContent-Length: 0\r\n\r\n");
            let told = sender(&target(vec![vec![answer.leak()]])).send(BODY, now()).unwrap_err();
            let asked = match told {
                DeliveryError::Later(_, after) => Some(after.as_secs()),
                _ => None,
            };
            assert_eq!(asked, after, "{status} {value}");
        }
    }

    #[test]
    fn an_accepted_request_needs_no_known_body() {
        const LONG: &str = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n";
        const OLD: &str = "HTTP/1.0 200 OK\r\n\r\nok";
        const CHUNKED: &str = "HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
        const NONE: &str = "HTTP/1.1 204 OK\r\n\r\n";
        let answers = vec![vec![LONG], vec![OLD], vec![CHUNKED], vec![NONE, NONE]];
        let count = answers.iter().map(Vec::len).sum::<usize>();
        let mut sender = sender(&target(answers));
        for _ in 0..count {
            assert_eq!(sender.send(BODY, now()), Ok(()));
        }
    }

    #[test]
    fn a_target_that_ends_idle_connections_gets_the_request_on_another_one() {
        const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        let mut sender = sender(&target(vec![vec![OK], vec![OK]]));
        assert_eq!(sender.send(BODY, now()), Ok(()));
        // Whether the end is seen with this request or before it, the next connection gets it.
        assert_eq!(sender.send(BODY, now()), Ok(()));
    }

    #[test]
    fn a_target_that_does_not_answer_is_given_up_in_time() {
        let mut sender = sender(&target(vec![vec![""]]));
        let begun = Instant::now();
        assert!(matches!(sender.send(BODY, now()), Err(DeliveryError::Failed(_))));
        let taken = begun.elapsed();
        assert!(taken >= Duration::from_secs(1) && taken < Duration::from_secs(60), "{taken:?}");
    }

    #[test]
    fn a_signature_is_the_hmac_of_time_and_body() {
        // printf '1700000000.{"Records":[]}' | openssl dgst -sha256 -hmac hush
        let expected = "t=1700000000,v1=97a49b4e46f608afa5ce1d916fd42cc822b868f43c9d4da7524b6c75b95d37e9";
        assert_eq!(signature(b"hush", 1_700_000_000, BODY), expected);
    }
}
