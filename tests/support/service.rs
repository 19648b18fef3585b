//! The service in this process, on a simulated disk and at a fixed time.

use std::path::Path;
use std::sync::{Arc, Mutex};

use siltstone::auth::{Authenticator, Users};
use siltstone::base::{Budget, Clock, ManualClock, Md5Pool, SeededEntropy, Timestamp};
use siltstone::client::SettingSources;
use siltstone::fs::sim::SimFs;
use siltstone::keys::{KeyRing, SharedKeyRing};
use siltstone::mirror::{MirrorSettings, Mirrors};
use siltstone::ops::{Context, EntityTags, LifecycleFigures, PaddingTimes};
use siltstone::s3::ObjectOwnership;
use siltstone::service::{
    AuditLog, BucketLogs, DiskDirectory, DiskRole, MirrorSide, MirrorSides, Service, ServiceSettings,
    UserDirectory,
};
use siltstone::store::{Store, StoreOptions};
use siltstone::webhook::TargetFigures;

/// The time of the tests, unless a test moves the clock.
pub(crate) const NOW: &str = "2026-01-31T12:00:00.250Z";
/// The namespace of XML documents.
pub(crate) const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// Memory that requests may reserve.
const MEMORY_BYTES: u64 = 256 << 20;

/// What differs between tests.
pub(crate) struct ServiceOptions<'u> {
    pub(crate) users: &'u str,
    pub(crate) settings: ServiceSettings,
    pub(crate) padding: PaddingTimes,
    pub(crate) entity_tags: EntityTags,
    pub(crate) store: StoreOptions,
    pub(crate) audit_log: Option<Arc<dyn AuditLog>>,
    pub(crate) directory: Option<Arc<dyn UserDirectory>>,
    pub(crate) encryption: EncryptionOptions,
    /// The ownership in buckets without controls.
    pub(crate) ownership: ObjectOwnership,
}

/// How the server encrypts objects.
#[derive(Clone, Copy, Default)]
pub(crate) struct EncryptionOptions {
    /// All objects, whatever is asked.
    pub(crate) of_all: bool,
    /// Whether keys of customers may come over plain HTTP from other hosts.
    pub(crate) takes_keys_over_http: bool,
}

/// The ring of the tests: a current key, one that clients name, and a retired one.
pub(crate) const RING: &str = r#"
[[key]]
id = "k-current"
created = "2026-01-03T00:00:00.000Z"
secret = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="

[[key]]
id = "k-invoices"
created = "2026-01-02T00:00:00.000Z"
secret = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="
name = "invoices"

[[key]]
id = "k-closed"
created = "2026-01-01T00:00:00.000Z"
secret = "AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM="
name = "closed"
retired = true
"#;

/// A service with one bucket, `b`, that belongs to `owner`.
pub(crate) struct InProcess {
    pub(crate) fs: SimFs,
    pub(crate) store: Arc<Store>,
    pub(crate) service: Arc<Service>,
    pub(crate) memory: Arc<Budget>,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) expiries: Arc<LifecycleFigures>,
    pub(crate) keys: Arc<SharedKeyRing>,
    /// The two disks that the store is shown to be on.
    pub(crate) sides: Arc<Mutex<MirrorSides>>,
}

/// Options of a store that uses its simulated disk to the last byte and writes no idle groups.
pub(crate) fn store_options() -> StoreOptions {
    StoreOptions { keep_free_bytes: 0, idle_group_after: None, ..StoreOptions::default() }
}

/// A mirror that no thread works for.
fn mirrors(clock: &Arc<dyn Clock>) -> Mirrors {
    let text = "[[mirror]]\nname = 'away'\nbuckets = ['photos']\nendpoint = 'http://127.0.0.1:1'\n\
        access_key = 'AK'\nsecret_key = 'SK'\n";
    let read = |_: &Path| Err("no file is named".to_owned());
    let sources = SettingSources { read: &read, variable: &|_| None };
    Mirrors::new(MirrorSettings::parse(text, &sources).unwrap(), clock).unwrap()
}

fn both_sides_whole() -> MirrorSides {
    let side = |letter, dir: &str| MirrorSide {
        letter,
        dir: dir.to_owned(),
        state: "whole",
        since: Timestamp::from_millis(0),
        why: String::new(),
    };
    let sides = [side('A', "/one"), side('B', "/two")];
    MirrorSides { sides, left_bytes: 0, fill_bytes: 0, repaired_files: 0, waiting_files: 0 }
}

impl InProcess {
    pub(crate) fn start(options: ServiceOptions<'_>) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::parse_iso8601(NOW).unwrap()));
        let fs = SimFs::new();
        let store = Store::open(Arc::new(fs.clone()), clock.clone(), &SeededEntropy::new(1), options.store);
        let store = Arc::new(store.unwrap());
        store.create_bucket("b", "owner").unwrap();
        let regions = vec!["eu".to_owned(), "us-east-1".to_owned()];
        let users = Users::parse(options.users).unwrap();
        let addressing = options.settings.addressing.clone();
        let authenticator =
            Arc::new(Authenticator::new(users, regions, clock.clone()).with_version_2(addressing));
        let memory = Budget::new(MEMORY_BYTES, 0);
        let md5 = Md5Pool::start().unwrap();
        let keys = Arc::new(SharedKeyRing::new(KeyRing::parse(RING).unwrap()));
        store.set_keys(keys.clone());
        let context = Context {
            keys: keys.clone(),
            encrypt_objects: options.encryption.of_all,
            takes_keys_over_http: options.encryption.takes_keys_over_http,
            padding: options.padding,
            entity_tags: options.entity_tags,
            object_ownership: options.ownership,
            webhooks: vec!["thumbs".to_owned(), "audit".to_owned()],
            ..Context::new(store.clone(), "eu".to_owned(), md5, memory.clone())
        };
        let entropy = Arc::new(SeededEntropy::new(2));
        let service = Service::new(context, authenticator.clone(), clock.clone(), entropy, options.settings);
        let expiries: Arc<LifecycleFigures> = Arc::default();
        let service = service.with_lifecycle_figures(expiries.clone());
        let sides = Arc::new(Mutex::new(both_sides_whole()));
        let shown = sides.clone();
        let service = service.with_sides(move || shown.lock().unwrap().clone());
        let service = service.with_directories(|| {
            [('A', "/one"), ('B', "/two")]
                .map(|(letter, dir)| DiskDirectory {
                    role: DiskRole::Side(letter),
                    dir: dir.to_owned(),
                    file_system: "ext4 on /dev/sda1".to_owned(),
                    space: Some((1 << 30, 4 << 30)),
                })
                .to_vec()
        });
        let service = service.with_certificate_expiry(|| Some(Timestamp::from_millis(5_000)));
        let service =
            service.with_webhooks(vec![Arc::new(TargetFigures::new("thumbs", "https://hooks.example"))]);
        let service = service.with_mirrors(Arc::new(mirrors(&(clock.clone() as Arc<dyn Clock>))));
        let service = service.with_bucket_logs(Arc::new(BucketLogs::new(clock.clone())));
        let service = match options.audit_log {
            Some(log) => service.with_audit_log(log),
            None => service,
        };
        let service = match options.directory {
            Some(directory) => service.with_users(directory),
            None => service,
        };
        Self { fs, store, service: Arc::new(service), memory, authenticator, clock, expiries, keys, sides }
    }
}
