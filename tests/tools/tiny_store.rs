//! A tiny S3 store without durability and signatures, with selectable faults, to see that the tools
//! find them.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use siltstone::base::digest::{Md5, to_hex};
use siltstone::xml::{Document, Writer};

/// The longest wait of a write for a second one between its check and its put.
const COMPANY_MAX: Duration = Duration::from_secs(5);

/// The fault of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// Checks a condition, and puts later without a lock in between.
    NoLock,
    /// Ignores `If-None-Match`.
    IgnoresAbsence,
    /// Ignores `If-Match`.
    IgnoresTags,
    /// Answers 412 to a write, and does it all the same.
    WritesTheRefused,
    /// Answers 501 to a deletion with `If-Match`.
    RefusesDeletions,
    /// Answers 500 to every completion of an upload.
    Fails,
}

/// The bytes of objects, or those of the parts of uploads.
type Contents = BTreeMap<String, Vec<u8>>;

/// Status, entity tag and body.
type Reply = (u16, Option<String>, Vec<u8>);

/// A running store. Its threads end with the process.
pub(super) struct TinyStore {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    fault: Fault,
    objects: Mutex<Contents>,
    uploads: Mutex<Contents>,
    last_upload: AtomicU64,
    /// The writes that have passed their check in a race.
    checked: Mutex<usize>,
    company: Condvar,
}

/// A request as received.
struct Received {
    method: String,
    key: Option<String>,
    query: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl TinyStore {
    pub(super) fn start(fault: Fault) -> Self {
        let state = Arc::new(State {
            fault,
            objects: Mutex::default(),
            uploads: Mutex::default(),
            last_upload: AtomicU64::new(0),
            checked: Mutex::default(),
            company: Condvar::new(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&accepting);
                // A client may go at any time.
                thread::spawn(move || state.serve(stream.unwrap()).ok());
            }
        });
        Self { address, state }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The number of objects and of uploads.
    pub(super) fn left(&self) -> (usize, usize) {
        (self.state.objects.lock().unwrap().len(), self.state.uploads.lock().unwrap().len())
    }
}

impl Received {
    fn read(from: &mut BufReader<TcpStream>) -> io::Result<Self> {
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line: &String| !line.is_empty()) {
            let mut line = String::new();
            if from.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            lines.push(line.trim_end().to_owned());
        }
        let mut first = lines[0].split(' ');
        let method = first.next().unwrap().to_owned();
        let target = first.next().unwrap();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let key = path[1..].split_once('/').map(|(_, key)| key.to_owned()).filter(|key| !key.is_empty());
        let headers = lines[1..].iter().filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut received = Self { method, key, query: query.to_owned(), headers, body: Vec::new() };
        let length = received.header("Content-Length").map_or(0, |length| length.parse().unwrap());
        received.body = vec![0; length];
        from.read_exact(&mut received.body)?;
        Ok(received)
    }

    fn header(&self, name: &str) -> Option<String> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone())
    }
}

impl State {
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut writer = stream.try_clone()?;
        let mut reader = BufReader::new(stream);
        loop {
            let request = Received::read(&mut reader)?;
            let (status, etag, body) = match request.key.clone() {
                Some(key) => self.object(&request, &key),
                None => self.bucket(&request),
            };
            let etag = etag.map(|etag| format!("ETag: {etag}\r\n")).unwrap_or_default();
            let head = format!("HTTP/1.1 {status} -\r\n{etag}Content-Length: {}\r\n\r\n", body.len());
            writer.write_all(&[head.as_bytes(), &body].concat())?;
        }
    }

    fn bucket(&self, request: &Received) -> Reply {
        let nothing = |status| (status, None, Vec::new());
        match request.method.as_str() {
            "HEAD" => nothing(404),
            "PUT" if request.query.starts_with("versioning") => nothing(501),
            "GET" => (200, None, self.list()),
            "POST" => {
                let document = Document::parse(&request.body).unwrap();
                for object in document.root().all("Object") {
                    self.objects.lock().unwrap().remove(&*object.child_text("Key").unwrap().unwrap());
                }
                nothing(200)
            }
            "DELETE" => nothing(204),
            _ => nothing(200),
        }
    }

    fn list(&self) -> Vec<u8> {
        let mut document = Writer::new("ListBucketResult", None);
        for key in self.objects.lock().unwrap().keys() {
            document.element("Contents", |entry| entry.leaf("Key", key));
        }
        document.finish()
    }

    fn object(&self, request: &Received, key: &str) -> Reply {
        let upload = request.query.split('&').find_map(|parameter| parameter.strip_prefix("uploadId="));
        match (request.method.as_str(), upload) {
            ("GET", _) => match self.objects.lock().unwrap().get(key) {
                Some(bytes) => (200, Some(tag(bytes)), bytes.clone()),
                None => (404, None, Vec::new()),
            },
            ("POST", None) => (200, None, self.begin()),
            ("PUT", Some(upload)) => {
                self.uploads.lock().unwrap().insert(upload.to_owned(), request.body.clone());
                (200, Some(tag(&request.body)), Vec::new())
            }
            ("DELETE", Some(upload)) => {
                self.uploads.lock().unwrap().remove(upload);
                (204, None, Vec::new())
            }
            ("POST", Some(_)) if self.fault == Fault::Fails => (500, None, Vec::new()),
            ("POST", Some(upload)) => {
                let bytes = self.uploads.lock().unwrap()[upload].clone();
                let reply = self.write(request, key, Some(bytes));
                if reply.0 == 200 {
                    self.uploads.lock().unwrap().remove(upload);
                }
                reply
            }
            ("DELETE", None) => self.write(request, key, None),
            _ => self.write(request, key, Some(request.body.clone())),
        }
    }

    fn begin(&self) -> Vec<u8> {
        let id = format!("upload-{}", self.last_upload.fetch_add(1, Ordering::Relaxed));
        self.uploads.lock().unwrap().insert(id.clone(), Vec::new());
        let mut document = Writer::new("InitiateMultipartUploadResult", None);
        document.leaf("UploadId", &id);
        document.finish()
    }

    /// Puts the bytes or deletes, if the conditions of the request hold.
    fn write(&self, request: &Received, key: &str, bytes: Option<Vec<u8>>) -> Reply {
        let absent = request.header("If-None-Match");
        let tags = request.header("If-Match");
        if self.fault == Fault::RefusesDeletions && bytes.is_none() && tags.is_some() {
            return (501, None, Vec::new());
        }
        let absent = absent.filter(|_| self.fault != Fault::IgnoresAbsence);
        let tags = tags.filter(|_| self.fault != Fault::IgnoresTags);
        let is_conditional = absent.is_some() || tags.is_some();
        let unmet = |there: Option<&Vec<u8>>| match (there, &absent, &tags) {
            (None, _, Some(_)) => Some(404),
            (Some(_), Some(_), _) => Some(412),
            (Some(there), _, Some(wanted)) if tag(there) != *wanted => Some(412),
            _ => None,
        };
        let mut objects = self.objects.lock().unwrap();
        let status = unmet(objects.get(key));
        if self.fault == Fault::NoLock && status.is_none() && is_conditional && key.contains("-race") {
            drop(objects);
            self.wait_for_company();
            objects = self.objects.lock().unwrap();
        }
        if let Some(status) = status.filter(|_| self.fault != Fault::WritesTheRefused) {
            return (status, None, Vec::new());
        }
        let etag = bytes.as_deref().map(tag);
        match bytes {
            Some(bytes) => objects.insert(key.to_owned(), bytes),
            None => objects.remove(key),
        };
        (status.unwrap_or(if etag.is_some() { 200 } else { 204 }), etag, Vec::new())
    }

    /// Waits until a second write is between its check and its put.
    fn wait_for_company(&self) {
        let mut checked = self.checked.lock().unwrap();
        *checked += 1;
        self.company.notify_all();
        let alone = |checked: &mut usize| *checked < 2;
        drop(self.company.wait_timeout_while(checked, COMPANY_MAX, alone).unwrap());
    }
}

fn tag(bytes: &[u8]) -> String {
    format!("\"{}\"", to_hex(&Md5::of(bytes)))
}
