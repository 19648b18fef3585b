//! The parts that answer requests: the service of a store, its authenticator and the console.

use std::sync::Arc;

use siltstone::auth::{ANY_REGION, Authenticator, Users};
use siltstone::base::{Budget, Clock, Entropy as _, Md5Pool, OsEntropy, SeededEntropy};
use siltstone::console::Console;
use siltstone::ops::{Context, PaddingTimes};
use siltstone::s3::route::Addressing;
use siltstone::service::{Service, ServiceSettings};
use siltstone::store::Store;
use siltstone::webhook::WebhookFigures;

use super::key_ring::RunningKeys;
use crate::cli::config::options::ServerOptions;
use crate::cli::error::CliError;
use crate::cli::logs::access_log::AccessLogFile;

/// The service of a store.
///
/// # Errors
/// A thread cannot be started.
pub(crate) fn service(
    options: &ServerOptions,
    store: &Arc<Store>,
    authenticator: &Arc<Authenticator>,
    clock: &Arc<dyn Clock>,
    memory: &Arc<Budget>,
    webhooks: &WebhookFigures,
    keys: &RunningKeys,
) -> Result<Service, CliError> {
    let md5 = Md5Pool::start().map_err(|e| CliError::start(format!("cannot start a thread: {e}")))?;
    let region = options.addressing.region.0[0].clone();
    let context = Context {
        any_region: options.addressing.region.0.iter().any(|region| region == ANY_REGION),
        namespace: options.protocol.xml_namespace.clone(),
        padding: PaddingTimes { after: options.http.keep_alive_after.0, ..PaddingTimes::default() },
        entity_tags: options.protocol.etag,
        object_ownership: options.protocol.object_ownership,
        keys: Arc::clone(&keys.ring),
        ring_file: keys.absolute_path(),
        ring_is_with_data: keys.is_on_disk_of(&options.start.data_dir),
        encrypt_objects: options.protocol.encrypt_objects,
        takes_keys_over_http: options.protocol.sse_c_insecure,
        webhooks: webhooks.iter().map(|target| target.name().to_owned()).collect(),
        ..Context::new(Arc::clone(store), region, md5, Arc::clone(memory))
    };
    let settings = ServiceSettings {
        default_dialect: options.protocol.dialect,
        addressing: addressing(options),
        metrics: options.protocol.metrics,
        cors_allow_origins: options.addressing.cors_allow_origin.0.clone(),
        html_sandbox: options.addressing.html_sandbox,
    };
    // Request ids must differ from other starts', and may be predictable.
    let ids = SeededEntropy::new(OsEntropy.next_u64());
    let service =
        Service::new(context, Arc::clone(authenticator), Arc::clone(clock), Arc::new(ids), settings);
    let proxies = options.http.trusted_proxies.clone();
    Ok(service.with_trusted_proxies(move |address| proxies.contains(address)))
}

/// The console of a service.
///
/// # Errors
/// Its settings are not sound.
pub(crate) fn console(
    options: &ServerOptions,
    service: &Arc<Service>,
    authenticator: &Arc<Authenticator>,
    clock: &Arc<dyn Clock>,
) -> Result<Console, CliError> {
    let authenticator = Arc::clone(authenticator);
    let clock = Arc::clone(clock);
    let entropy = Arc::new(OsEntropy);
    let access = options.console.access();
    let console = Console::new(Arc::clone(service), authenticator, clock, entropy, access)
        .below(options.console.console_path.clone())
        .known_as(options.console.public_url.clone(), options.console.console_url.clone());
    let proxies = options.http.trusted_proxies.clone();
    let console = console.with_trusted_proxies(move |address| proxies.contains(address));
    Ok(match options.console.oidc.settings()? {
        Some(settings) => console.with_oidc(settings),
        None => console,
    })
}

/// The authenticator of `users`.
pub(crate) fn authenticator(options: &ServerOptions, users: Users, clock: &Arc<dyn Clock>) -> Authenticator {
    let authenticator = Authenticator::new(users, options.addressing.region.0.clone(), Arc::clone(clock));
    if options.protocol.sigv2_presigned {
        authenticator.with_version_2(addressing(options))
    } else {
        authenticator
    }
}

fn addressing(options: &ServerOptions) -> Addressing {
    Addressing {
        domain: options.addressing.host_domain(),
        website_domain: options.addressing.website_domain(),
    }
}

/// The access log; `None` where requests are in the log of the process.
///
/// # Errors
/// The file cannot be opened.
pub(crate) fn open_access_log(options: &ServerOptions) -> Result<Option<Arc<AccessLogFile>>, CliError> {
    let Some(place) = options.logs.access_log_place() else { return Ok(None) };
    let log = AccessLogFile::open(place, options.logs.access_log_format).map_err(CliError::start)?;
    Ok(Some(Arc::new(log)))
}
