//! The bucket of the check: made or found, and cleaned at the end.

use std::sync::atomic::{AtomicBool, Ordering};

use siltstone::base::{Entropy, OsEntropy};
use siltstone::xml::{Document, Writer};

use siltstone::client::{
    Answer, Bucket, Endpoint, HttpConnection, ObjectVersion, RequestSigner, SignedRequest, keys, versions,
};

/// The most pages of keys that are removed.
const PAGES_MAX: usize = 1000;

/// Whether the bucket keeps versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Versions {
    Off,
    On,
}

/// The bucket, and the prefix of all keys of this run.
pub(crate) struct Place {
    pub(crate) endpoint: Endpoint,
    pub(crate) bucket: Bucket,
    /// Whether this run made the bucket, and so removes it.
    pub(crate) made: bool,
    pub(crate) prefix: String,
    has_versions: AtomicBool,
}

impl Place {
    /// Makes the bucket, or finds the one of that name.
    ///
    /// # Errors
    /// A message, if the store cannot be reached or refuses the bucket.
    pub(crate) fn open(
        endpoint: &Endpoint,
        signer: RequestSigner,
        name: Option<String>,
        region: &str,
    ) -> Result<Self, String> {
        let number = OsEntropy.next_u64();
        let bucket = name.unwrap_or_else(|| format!("cas-check-{number:016x}"));
        let mut place = Self {
            endpoint: endpoint.clone(),
            bucket: Bucket::new(bucket, endpoint, signer),
            made: false,
            prefix: format!("cas-check-{number:016x}/"),
            has_versions: AtomicBool::new(false),
        };
        match place.ask(&place.bucket.object("HEAD", ""))?.status {
            200 => place.has_versions = place.found_versions()?.into(),
            404 => {
                let answer = place.ask(&place.create(region))?;
                expect(&answer, 200).map_err(|why| format!("the bucket cannot be created: {why}"))?;
                place.made = true;
            }
            // The answer to a HEAD has no body. A listing is refused with the reason.
            _ => {
                let answer = place.ask(&place.bucket.list())?;
                return Err(format!("the bucket cannot be used: {}", answer.refusal()));
            }
        }
        Ok(place)
    }

    pub(crate) fn versions(&self) -> Versions {
        if self.has_versions.load(Ordering::Relaxed) { Versions::On } else { Versions::Off }
    }

    /// Lets the bucket keep versions.
    ///
    /// # Errors
    /// The answer of a store that does not.
    pub(crate) fn enable_versions(&self) -> Result<(), String> {
        let mut document = Writer::new("VersioningConfiguration", None);
        document.leaf("Status", "Enabled");
        let body = document.finish().into();
        expect(&self.ask(&self.bucket.request("PUT", "", &[("versioning", "")], "", body))?, 200)?;
        self.has_versions.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn found_versions(&self) -> Result<bool, String> {
        let answer =
            self.ask(&self.bucket.request("GET", "", &[("versioning", "")], "", Vec::new().into()))?;
        // A store without versions may refuse the question.
        let text = answer.text();
        let status = Document::parse(text.as_bytes()).ok();
        let status =
            status.and_then(|document| Some(document.root().child_text("Status").ok()??.into_owned()));
        // A bucket whose versions are suspended has a status, too, and its keys are removed with
        // their versions.
        Ok(status.is_some())
    }

    fn create(&self, region: &str) -> SignedRequest<'static> {
        if region == "us-east-1" {
            return self.bucket.create();
        }
        let mut document = Writer::new("CreateBucketConfiguration", None);
        document.leaf("LocationConstraint", region);
        self.bucket.request("PUT", "", &[], "", document.finish().into())
    }

    /// Removes all keys of this run with their versions, and the bucket if this run made it.
    ///
    /// # Errors
    /// A message.
    pub(crate) fn close(&self) -> Result<(), String> {
        for _ in 0..PAGES_MAX {
            let objects = self.objects(&self.prefix)?;
            if objects.is_empty() {
                break;
            }
            expect(&self.ask(&self.bucket.delete_all(&objects))?, 200)?;
        }
        if self.made { expect(&self.ask(&self.bucket.delete())?, 204) } else { Ok(()) }
    }

    /// A page of the objects below `prefix`; all versions and delete markers where the bucket keeps
    /// them.
    ///
    /// # Errors
    /// A message.
    pub(crate) fn objects(&self, prefix: &str) -> Result<Vec<ObjectVersion>, String> {
        if self.versions() == Versions::Off {
            return keys(&self.page(&self.bucket.list_prefix(prefix))?);
        }
        let query = [("max-keys", "1000"), ("prefix", prefix), ("versions", "")];
        versions(&self.page(&self.bucket.request("GET", "", &query, "", Vec::new().into()))?)
    }

    fn page(&self, request: &SignedRequest<'_>) -> Result<String, String> {
        let answer = self.ask(request)?;
        expect(&answer, 200)?;
        Ok(answer.text())
    }

    /// Sends a request over a connection of its own, which no pause has made stale.
    fn ask(&self, request: &SignedRequest<'_>) -> Result<Answer, String> {
        let connection = HttpConnection::open(&self.endpoint);
        connection.and_then(|mut connection| connection.exchange(request)).map_err(|error| error.to_string())
    }
}

/// Any answer of success counts where one is expected: stores differ in 200 and 204.
fn expect(answer: &Answer, status: u16) -> Result<(), String> {
    if answer.status / 100 == status / 100 { Ok(()) } else { Err(answer.refusal()) }
}
