//! `import` into a server, from directories and from another server.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustix::process::Signal;
use serde_json::Value;
use siltstone::base::digest::Md5;
use siltstone::client::{
    Answer, Endpoint, HttpConnection, RequestSigner, RequestToSign, SignedRequest, encoded_query,
};

use super::{bytes, status, stderr, stdout, until_unlocked};
use crate::support::process::{Running, on_a_free_port};
use crate::support::users::{access_key, secret_key, user, write_users};

const ACCESS_KEY: &str = "AKIMPORTSTHINGS1";
const SECRET_KEY: &str = "a secret of the import";
/// The refusal of a directory whose store is open.
const IN_USE: &str = "another process uses";

pub(super) fn start(dir: &Path) -> Running {
    let mut command = on_a_free_port(dir);
    command.env("SILTSTONE_ACCESS_KEY", ACCESS_KEY).env("SILTSTONE_SECRET_KEY", SECRET_KEY);
    Running::start(command)
}

fn command(args: &[&str]) -> Command {
    command_of("import", args)
}

pub(super) fn command_of(name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
    command.args(["--json", name]).args(args);
    command.env("SILTSTONE_ACCESS_KEY", ACCESS_KEY).env("SILTSTONE_SECRET_KEY", SECRET_KEY);
    command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
    command.env_remove("SSL_CERT_FILE").env_remove("AWS_SESSION_TOKEN").stdin(Stdio::null());
    command
}

pub(super) fn report(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

/// The counts of a report: stored, there before, failed, left out.
pub(super) fn counts(report: &Value) -> [u64; 4] {
    ["stored", "present", "failed", "left_out_count"].map(|name| report[name].as_u64().unwrap())
}

/// A bucket of a server, as a client sees it.
pub(super) struct Client {
    pub(super) url: String,
    bucket: String,
    connection: HttpConnection,
    /// Signs its requests.
    keys: [String; 2],
}

impl Client {
    /// Makes the bucket.
    pub(super) fn new(server: &Running, bucket: &str) -> Self {
        let mut client = Self::of_bucket(server, bucket);
        client.ask("PUT", "", &[], "", b"");
        client
    }

    /// A client of a bucket that is there.
    pub(super) fn of_bucket(server: &Running, bucket: &str) -> Self {
        let url = format!("http://{}", server.address());
        let endpoint = Endpoint::resolve(&url, None).unwrap();
        let bucket = bucket.to_owned();
        let keys = [ACCESS_KEY, SECRET_KEY].map(str::to_owned);
        Self { url, bucket, connection: HttpConnection::open(&endpoint).unwrap(), keys }
    }

    /// The same client with the keys of someone else.
    pub(super) fn by(self, access_key: &str, secret_key: &str) -> Self {
        Self { keys: [access_key, secret_key].map(str::to_owned), ..self }
    }

    /// The status of an answer, whatever it is.
    pub(super) fn status(&mut self, method: &str, key: &str, body: &[u8]) -> u16 {
        let request = self.request(method, key, &[], "", body);
        self.connection.exchange(&request).unwrap().status
    }

    pub(super) fn ask(
        &mut self,
        method: &str,
        key: &str,
        query: &[(&str, &str)],
        lines: &str,
        body: &[u8],
    ) -> Answer {
        let request = self.request(method, key, query, lines, body);
        let answer = self.connection.exchange(&request).unwrap();
        assert!(answer.status < 300 || method == "HEAD", "{method} {key}: {}", answer.refusal());
        answer
    }

    /// A request whose headers `x-amz-` are signed, as the server demands.
    fn request<'b>(
        &self,
        method: &str,
        key: &str,
        query: &[(&str, &str)],
        lines: &str,
        body: &'b [u8],
    ) -> SignedRequest<'b> {
        let (signed, plain): (Vec<_>, Vec<_>) = lines.lines().partition(|line| line.starts_with("x-amz-"));
        let more: Vec<_> = signed.iter().filter_map(|line| line.split_once(": ")).collect();
        let host = self.url.trim_start_matches("http://");
        let query = encoded_query(query);
        let name = &self.bucket;
        let path = if key.is_empty() { format!("/{name}") } else { format!("/{name}/{key}") };
        let to_sign =
            RequestToSign { method, path: &path, query: &query, host, hash: "UNSIGNED-PAYLOAD", more: &more };
        let signature =
            RequestSigner::new(&self.keys[0], &self.keys[1], "us-east-1").lines_for_hash(&to_sign);
        let plain: String = plain.iter().map(|line| format!("{line}\r\n")).collect();
        let length = body.len();
        let head = format!(
            "{method} {path}?{query} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n{plain}{signature}\r\n"
        );
        SignedRequest { head, body: body.into(), head_only: method == "HEAD" }
    }

    pub(super) fn enable_versions(&mut self) {
        let on = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
        assert_eq!(self.ask("PUT", "", &[("versioning", "")], "", on).status, 200);
    }

    pub(super) fn body(&mut self, key: &str) -> Vec<u8> {
        let answer = self.ask("GET", key, &[], "", b"");
        assert_eq!(answer.status, 200, "{key}: {}", answer.refusal());
        answer.into_body()
    }

    /// The versions of the bucket without ids and times: what a copy must have, too.
    pub(super) fn history(&mut self) -> Vec<String> {
        let page = self.ask("GET", "", &[("versions", "")], "", b"").text();
        let document = roxmltree::Document::parse(&page).unwrap();
        let entries = document.root_element().children();
        let entries = entries.filter(|entry| ["Version", "DeleteMarker"].contains(&entry.tag_name().name()));
        let fields = ["Key", "IsLatest", "ETag", "Size"];
        entries
            .map(|entry| {
                let texts = entry.children().filter(|child| fields.contains(&child.tag_name().name()));
                let texts: Vec<_> = texts.filter_map(|child| child.text()).collect();
                format!("{} {}", entry.tag_name().name(), texts.join(" "))
            })
            .collect()
    }

    /// The modification times of all versions but delete markers, as the listing shows them.
    pub(super) fn times(&mut self) -> Vec<String> {
        let page = self.ask("GET", "", &[("versions", "")], "", b"").text();
        let document = roxmltree::Document::parse(&page).unwrap();
        let versions =
            document.root_element().children().filter(|entry| entry.tag_name().name() == "Version");
        let time = |entry: roxmltree::Node<'_, '_>| {
            let time = entry.children().find(|child| child.tag_name().name() == "LastModified");
            time.and_then(|time| time.text()).unwrap().to_owned()
        };
        versions.map(time).collect()
    }

    /// Stores an object of two parts.
    pub(super) fn put_parts(&mut self, key: &str, parts: [&[u8]; 2]) -> String {
        let begun = self.ask("POST", key, &[("uploads", "")], "x-amz-meta-kind: film\r\n", b"").text();
        let id = begun.split("<UploadId>").nth(1).unwrap().split('<').next().unwrap().to_owned();
        let mut list = String::new();
        for (number, part) in ["1", "2"].into_iter().zip(parts) {
            let answer = self.ask("PUT", key, &[("partNumber", number), ("uploadId", &id)], "", part);
            let etag = answer.header("etag").unwrap();
            list += &format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>");
        }
        let list = format!("<CompleteMultipartUpload>{list}</CompleteMultipartUpload>");
        let done = self.ask("POST", key, &[("uploadId", &id)], "", list.as_bytes());
        assert_eq!(done.status, 200, "{}", done.refusal());
        self.ask("HEAD", key, &[], "", b"").header("etag").unwrap()
    }
}

#[test]
fn a_directory_is_imported_with_types_and_times_and_again_without_work() {
    let data = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let server = start(data.path());
    let mut client = Client::new(&server, "photos");
    let dir = files.path();
    fs::create_dir_all(dir.join("a b/ä")).unwrap();
    fs::write(dir.join("page.html"), b"<p>").unwrap();
    fs::write(dir.join("a b/ä/100% +&?.bin"), bytes(1, 300_000)).unwrap();
    fs::write(dir.join("large"), bytes(2, (64 << 20) + 5)).unwrap();
    fs::write(dir.join(std::ffi::OsStr::from_bytes(b"bad\xff")), b"x").unwrap();
    std::os::unix::fs::symlink("page.html", dir.join("link")).unwrap();
    std::os::unix::fs::symlink("..", dir.join("a b/loop")).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(1_500_000_000_250_000_000);
    fs::File::open(dir.join("page.html")).unwrap().set_modified(time).unwrap();

    let args = [dir.to_str().unwrap(), "photos/in", "--server", &client.url.clone()];
    let output = command(&args).output().unwrap();
    let told = report(&output);
    assert_eq!((status(&output), counts(&told)), (1, [3, 0, 0, 3]), "{told}");
    let head = client.ask("HEAD", "in/page.html", &[], "", b"");
    assert_eq!(head.header("content-type").as_deref(), Some("text/html"));
    assert_eq!(head.header("x-amz-meta-mtime").as_deref(), Some("1500000000.250000000"));
    assert_eq!(head.header("last-modified").as_deref(), Some("Fri, 14 Jul 2017 02:40:00 GMT"));
    assert!(client.body("in/a%20b/%C3%A4/100%25%20%2B%26%3F.bin") == bytes(1, 300_000));
    let large = client.ask("HEAD", "in/large", &[], "", b"");
    assert_eq!(large.header("content-length").unwrap(), ((64 << 20) + 5).to_string());
    assert!(large.header("etag").unwrap().ends_with("-5\""), "{:?}", large.header("etag"));

    assert_eq!(counts(&report(&command(&args).output().unwrap())), [0, 3, 0, 3]);
    // Other bytes of the same length and time are noticed.
    fs::write(dir.join("page.html"), b"<q>").unwrap();
    fs::File::open(dir.join("page.html")).unwrap().set_modified(time).unwrap();
    fs::remove_file(dir.join(std::ffi::OsStr::from_bytes(b"bad\xff"))).unwrap();
    let followed = [&args[..], &["--follow-links"]].concat();
    let told = report(&command(&followed).output().unwrap());
    assert_eq!(
        counts(&told),
        [2, 2, 0, 1],
        "the changed file and the link are stored, the loop is not: {told}"
    );
    assert!(client.body("in/link") == b"<q>");
}

#[test]
fn versions_markers_metadata_tags_and_parts_come_along_in_order() {
    let from = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    let source = start(from.path());
    let target = start(to.path());
    let mut old = Client::new(&source, "old");
    let mut new = Client::new(&target, "new");
    old.enable_versions();
    new.enable_versions();
    old.ask("PUT", "note", &[], "", b"first");
    old.ask("DELETE", "note", &[], "", b"");
    old.ask("PUT", "note", &[], "Content-Type: text/x-note\r\nx-amz-meta-who: me\r\nx-amz-tagging: a%20b=c%2Bd\r\nCache-Control: no-store\r\n", b"third");
    old.ask("PUT", "gone", &[], "", b"");
    old.ask("DELETE", "gone", &[], "", b"");
    let etag = old.put_parts("film", [&bytes(3, 6 << 20), &bytes(4, 700_000)]);

    let from_url = old.url.clone();
    let to_url = new.url.clone();
    let args = ["s3://old", "new", "--endpoint", &from_url, "--server", &to_url];
    let output = command(&args).output().unwrap();
    let told = report(&output);
    assert_eq!((status(&output), counts(&told)), (0, [3, 0, 0, 0]), "{told}");
    assert_eq!(new.history(), old.history());
    assert_eq!(new.history().len(), 6, "{:?}", new.history());
    assert_eq!(new.times(), old.times());
    let note = new.ask("HEAD", "note", &[], "", b"");
    let header = |name: &str| note.header(name).unwrap_or_default();
    assert_eq!(
        [header("content-type"), header("x-amz-meta-who"), header("cache-control")],
        ["text/x-note", "me", "no-store"]
    );
    let tags = new.ask("GET", "note", &[("tagging", "")], "", b"").text();
    assert!(tags.contains("<Key>a b</Key>") && tags.contains("<Value>c+d</Value>"), "{tags}");
    let film = new.ask("HEAD", "film", &[], "", b"");
    assert_eq!(
        (film.header("etag").unwrap(), film.header("x-amz-meta-kind").unwrap()),
        (etag, "film".to_owned())
    );

    assert_eq!(counts(&report(&command(&args).output().unwrap())), [0, 3, 0, 0]);
    old.ask("PUT", "note", &[], "", b"fourth");
    assert_eq!(counts(&report(&command(&args).output().unwrap())), [1, 2, 0, 0]);
    assert_eq!(new.history(), old.history());
    // A version that only the target has is a conflict, and nothing is stored over it.
    new.ask("PUT", "gone", &[], "", b"of the target");
    let before = new.history();
    let output = command(&args).output().unwrap();
    assert_eq!((status(&output), counts(&report(&output))), (1, [0, 2, 1, 0]));
    assert_eq!(new.history(), before);
}

#[test]
fn an_import_that_is_killed_goes_on_where_it_was() {
    let from = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    let source = start(from.path());
    let target = start(to.path());
    let mut old = Client::new(&source, "old");
    let mut new = Client::new(&target, "new");
    for number in 0..300 {
        old.ask("PUT", &format!("key-{number:03}"), &[], "", &bytes(number, 2_000));
    }
    let from_url = old.url.clone();
    let to_url = new.url.clone();
    let args = ["s3://old", "new", "--endpoint", &from_url, "--server", &to_url, "--parallel", "2"];
    let mut child = command(&args).stdout(Stdio::null()).spawn().unwrap();
    while new.ask("HEAD", "key-020", &[], "", b"").status != 200 {
        assert!(
            child.try_wait().unwrap().is_none() || new.ask("HEAD", "key-020", &[], "", b"").status == 200
        );
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    let output = command(&args).output().unwrap();
    let [stored, present, failed, _] = counts(&report(&output));
    assert_eq!((status(&output), stored + present, failed), (0, 300, 0));
    assert!(stored > 0 && present >= 20, "{stored} and {present}");
    for number in [0, 20, 299] {
        assert!(new.body(&format!("key-{number:03}")) == bytes(number, 2_000));
    }
}

/// The headers with the key of a client.
fn client_key(byte: u8) -> String {
    let name = "x-amz-server-side-encryption-customer";
    let key = [byte; 32];
    let digest = BASE64.encode(Md5::of(&key));
    format!("{name}-algorithm: AES256\r\n{name}-key: {}\r\n{name}-key-md5: {digest}\r\n", BASE64.encode(key))
}

#[test]
fn objects_under_keys_of_clients_are_imported_with_those_keys() {
    let from = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    let source = start(from.path());
    let target = start(to.path());
    let mut old = Client::new(&source, "old");
    let mut new = Client::new(&target, "new");
    old.ask("PUT", "plain", &[], "", b"plain");
    for (key, byte, body) in
        [("a/1", 1, bytes(1, 100)), ("a/films/1", 2, bytes(2, 700_000)), ("other", 3, bytes(3, 10))]
    {
        let headers = format!("x-amz-meta-who: me\r\n{}", client_key(byte));
        assert_eq!(old.ask("PUT", key, &[], &headers, &body).status, 200, "{key}");
    }
    let from_url = old.url.clone();
    let to_url = new.url.clone();
    let args = ["s3://old", "new", "--endpoint", &from_url, "--server", &to_url];
    let output = command(&args).output().unwrap();
    let told = report(&output);
    assert_eq!((status(&output), counts(&told)), (1, [1, 0, 3, 0]), "{told}");
    assert!(told.to_string().contains("key of its client (SSE-C), which is not given"), "{told}");

    let keys = to.path().join("keys");
    let [first, second, wrong] = [1, 2, 9].map(|byte| BASE64.encode([byte; 32]));
    fs::write(&keys, format!("old/a/ {first}\nold/a/films {second}\n\nold/other {wrong}\n")).unwrap();
    let with_keys = [&args[..], &["--sse-c-keys", keys.to_str().unwrap()]].concat();
    let output = command(&with_keys).output().unwrap();
    let told = report(&output);
    assert_eq!((status(&output), counts(&told)), (1, [2, 1, 1, 0]), "{told}");
    assert!(told.to_string().contains("not with the one that is given"), "{told}");
    assert!(!told.to_string().contains(&wrong) && !stderr(&output).contains(&first));
    assert!(new.body("a/1") == bytes(1, 100) && new.body("a/films/1") == bytes(2, 700_000));
    assert_eq!(new.ask("HEAD", "a/1", &[], "", b"").header("x-amz-meta-who").as_deref(), Some("me"));
    assert_eq!(new.ask("HEAD", "other", &[], "", b"").status, 404);
    assert_eq!(counts(&report(&command(&with_keys).output().unwrap())), [0, 3, 1, 0]);
    let far = ["s3://old", "new", "--endpoint", "http://192.0.2.1", "--server", &to_url];
    let far = [&far[..], &["--sse-c-keys", keys.to_str().unwrap()]].concat();
    let output = command(&far).output().unwrap();
    assert!(status(&output) == 2 && stderr(&output).contains("in the clear"), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_imported_is_named() {
    let from = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    let source = start(from.path());
    let target = start(to.path());
    let mut old = Client::new(&source, "old");
    let new = Client::new(&target, "new");
    old.enable_versions();
    old.ask("PUT", "a", &[], "", b"a");
    let from_url = old.url.clone();
    let to_url = new.url.clone();
    let args = ["s3://old", "new", "--endpoint", &from_url, "--server", &to_url];
    let told = report(&command(&args).output().unwrap());
    let lost = told["not_kept"].to_string();
    assert!(lost.contains("noncurrent versions") && !lost.contains("modification time"), "{lost}");
    for (args, why) in [
        (&["s3://old", "new", "--server", &to_url][..], "--endpoint"),
        (&["/nowhere/at/all", "new", "--server", &to_url], "no such directory"),
        (&["s3://none", "new", "--endpoint", &from_url, "--server", &to_url], "no such bucket"),
        (&["s3://old", "none", "--endpoint", &from_url, "--server", &to_url], "no such bucket"),
    ] {
        let output = command(args).output().unwrap();
        assert!(status(&output) == 2 && stderr(&output).contains(why), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_stopped_server_is_filled_and_read_in_its_data_directory() {
    let [from, to, out] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let source = start(from.path());
    let mut old = Client::new(&source, "old");
    old.enable_versions();
    for body in [&b"first"[..], b"second"] {
        old.ask("PUT", "note", &[], "x-amz-meta-mood: good", body);
    }
    old.ask("PUT", "large", &[], "", &bytes(7, 70_000));
    let url = old.url.clone();
    let data_dir = to.path().join("siltstone-data");
    let [dir, out] = [&*data_dir, out.path()].map(|path| path.to_str().unwrap().to_owned());
    let args = ["s3://old", "new", "--endpoint", &url, "--offline", "--data-dir", &dir];
    let output = command(&args).output().unwrap();
    assert_eq!((status(&output), counts(&report(&output))), (0, [2, 0, 0, 0]), "{}", stderr(&output));
    assert_eq!(counts(&report(&command(&args).output().unwrap())), [0, 2, 0, 0]);

    let target = start(to.path());
    let mut new = Client::of_bucket(&target, "new");
    assert_eq!(new.history(), old.history());
    assert_eq!(new.times(), old.times());
    assert!(new.body("large") == bytes(7, 70_000));
    // Its store is open, and a second process leaves it alone.
    let output = command(&args).output().unwrap();
    assert!(status(&output) == 2 && stderr(&output).contains(IN_USE), "{}", stderr(&output));
    drop(target);

    let args = ["s3://new", &out, "--offline", "--data-dir", &dir];
    let run = || command_of("export", &args).output().unwrap();
    let output = until_unlocked(run, |output| stderr(output).contains(IN_USE));
    assert_eq!((status(&output), counts(&report(&output))), (0, [2, 0, 0, 0]), "{}", stderr(&output));
    assert_eq!(fs::read(Path::new(&out).join("note")).unwrap(), b"second");
    // An export makes no store.
    let nowhere = format!("{out}/none");
    let output =
        command_of("export", &["s3://new", &out, "--offline", "--data-dir", &nowhere]).output().unwrap();
    assert!(status(&output) == 2 && !Path::new(&nowhere).exists(), "{}", stderr(&output));
}

/// A user without the permission imports all the same, and the report says so.
#[test]
fn times_are_told_as_lost_where_they_may_not_be_stated() {
    let from = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    let grants = user("mover", &["*"], &["new", "new/*"]);
    let users = write_users(to.path(), &grants);
    let mut start_target = on_a_free_port(to.path());
    start_target.arg("--users").arg(users);
    start_target.env("SILTSTONE_ACCESS_KEY", ACCESS_KEY).env("SILTSTONE_SECRET_KEY", SECRET_KEY);
    let source = start(from.path());
    let target = Running::start(start_target);
    let mut old = Client::new(&source, "old");
    let mut new = Client::new(&target, "new");
    for key in ["a", "b"] {
        old.ask("PUT", key, &[], "", key.as_bytes());
    }
    let from_url = old.url.clone();
    let to_url = new.url.clone();
    let keys = [access_key("mover"), secret_key("mover")];
    let args = ["s3://old", "new", "--endpoint", &from_url, "--server", &to_url, "--keep-times"];
    let run = |args: &[&str]| {
        let told = report(
            &command(args).args(["--access-key", &keys[0], "--secret-key", &keys[1]]).output().unwrap(),
        );
        assert_eq!(told["failed"], 0, "{told}");
        told["not_kept"].to_string()
    };
    assert!(run(&args[..6]).contains("modification time"));
    assert_eq!(new.ask("HEAD", "a", &[], "", b"").header("x-amz-meta-mtime"), None);
    assert!(!run(&args).contains("modification time"));
    assert!(new.ask("HEAD", "a", &[], "", b"").header("x-amz-meta-mtime").is_some());
}
