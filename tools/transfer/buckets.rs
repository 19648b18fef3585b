//! Copies between the buckets of two servers.

use siltstone::client::{Endpoint, RequestSigner};
use siltstone::transfer::{
    Peer, PeerCall, PeerError, PeerKey, PeerLink, enable_versions, has_bucket, make_bucket, visit_keys,
};
use siltstone::xml::Document;

use super::bucket_source::BucketSource;
use super::client_keys::ClientKeys;
use super::object::ObjectCopy;
use super::threads::Transfer;

/// A bucket and a prefix of names.
pub(super) struct Place {
    pub(super) peer: Peer,
    pub(super) prefix: String,
}

/// The keys of a user.
pub(super) struct Credentials<'k> {
    pub(super) access_key: &'k str,
    pub(super) secret_key: &'k str,
    /// The token of temporary keys; empty for none.
    pub(super) token: &'k str,
}

/// A copy from one bucket to another.
pub(super) struct BucketCopy<'b> {
    pub(super) source: &'b Place,
    pub(super) target: &'b Place,
    pub(super) all_versions: bool,
    pub(super) keep_times: bool,
    /// Whether the times of copies are stated, too.
    pub(super) state_times: bool,
    pub(super) client_keys: ClientKeys,
}

impl Place {
    /// The bucket and prefix that `name` has, as `BUCKET/PREFIX`.
    ///
    /// # Errors
    /// A message, if the URL is none.
    pub(super) fn open(
        name: &str,
        url: &str,
        keys: &Credentials<'_>,
        region: &str,
        ca_file: Option<&std::path::Path>,
    ) -> Result<Self, String> {
        let name = name.strip_prefix("s3://").unwrap_or(name);
        let (bucket, prefix) = name.split_once('/').unwrap_or((name, ""));
        let token = Some(keys.token).filter(|token| !token.is_empty()).map(str::to_owned);
        let signer = RequestSigner::new(keys.access_key, keys.secret_key, region).signing_bodies(token);
        let endpoint = Endpoint::resolve(url, ca_file)?;
        let peer = Peer { endpoint, signer, bucket: bucket.to_owned() };
        Ok(Self { peer, prefix: prefix.to_owned() })
    }

    /// Makes the prefix a directory's.
    pub(super) fn close_prefix(&mut self) {
        if !self.prefix.is_empty() && !self.prefix.ends_with('/') {
            self.prefix.push('/');
        }
    }

    /// Makes the bucket unless it is there; with `versions` one that keeps them.
    pub(super) fn make_bucket(&self, versions: bool) -> Result<(), String> {
        let failed = |error: PeerError| format!("{}: {}", self.peer.bucket, error.text());
        let mut link = PeerLink::new(&self.peer);
        if has_bucket(&mut link).map_err(failed)? {
            return Ok(());
        }
        make_bucket(&mut link).map_err(failed)?;
        if versions {
            enable_versions(&mut link).map_err(failed)?;
        }
        Ok(())
    }

    /// Whether the bucket has versions. It fails if the bucket cannot be used.
    pub(super) fn keeps_versions(&self) -> Result<bool, String> {
        let Peer { bucket, .. } = &self.peer;
        let call = PeerCall { method: "GET", query: &[("versioning", "")], ..PeerCall::default() };
        let (_, document) = match PeerLink::new(&self.peer).ask(call) {
            Err(PeerError::Absent) => return Err(format!("{bucket}: there is no such bucket")),
            Err(PeerError::Unsupported(_)) => return Ok(false),
            Err(error) => return Err(format!("{bucket}: {}", error.text())),
            Ok(answer) => answer,
        };
        let document = Document::parse(&document).map_err(|error| format!("{bucket}: {error}"))?;
        let status = document.root().child_text("Status").map_err(|error| error.to_string())?;
        Ok(status.is_some_and(|status| !status.is_empty()))
    }
}

impl BucketCopy<'_> {
    /// Copies all keys below the prefix of the source.
    pub(super) fn run(&self, transfer: &Transfer, parallel: u16, verb: &str, json: bool) {
        transfer.run(
            parallel,
            verb,
            json,
            |queue| {
                let mut link = PeerLink::new(&self.source.peer);
                visit_keys(&mut link, &self.source.prefix, self.all_versions, &mut |listed| {
                    let bytes = listed.bytes();
                    queue.push(listed, bytes)
                })
                .map_err(|why| format!("the listing of the source: {why}"))
            },
            |jobs| {
                let mut source = PeerLink::new(&self.source.peer);
                let mut target = PeerLink::new(&self.target.peer);
                for listed in jobs {
                    self.copy(transfer, &mut source, &mut target, &listed);
                }
            },
        );
    }

    fn copy<'p>(
        &self,
        transfer: &Transfer,
        source: &mut PeerLink<'p>,
        target: &mut PeerLink<'p>,
        listed: &PeerKey,
    ) {
        let name = listed.key.strip_prefix(&self.source.prefix).unwrap_or(&listed.key);
        let mut copy = ObjectCopy {
            source: &mut BucketSource {
                link: source,
                key: &listed.key,
                keep_times: self.keep_times,
                client_key: self.client_keys.headers_for(&self.source.peer.bucket, &listed.key),
                sent: Vec::new(),
            },
            target,
            key: &format!("{}{name}", self.target.prefix),
            begun: transfer.begun,
            times: Some(&transfer.times).filter(|_| self.state_times),
            lost: &mut |loss| transfer.report().lose(loss),
        };
        let current = listed.versions.last().and_then(|version| version.modified);
        let outcome = match (&listed.fault, self.all_versions) {
            (Some(why), _) => Err(why.clone()),
            (None, true) => copy.copy_versions(&listed.versions),
            (None, false) => copy.copy_current(current),
        };
        transfer.report().add(&listed.key, listed.bytes(), outcome);
    }
}
