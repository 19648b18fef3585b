//! The reads of a standby: a service on the store of its directory, with the users of the writer.

use std::sync::Arc;

use log::{error, info};
use siltstone::auth::Authenticator;
use siltstone::base::{Budget, Clock};
use siltstone::service::StandbyService;
use siltstone::store::{OwnerQuotas, StandbyReaders, Store};
use siltstone::webhook::WebhookFigures;

use super::key_ring::RunningKeys;
use super::server_secrets::ServerSecrets;
use super::service;
use crate::cli::config::options::ServerOptions;
use crate::cli::error::CliError;
use crate::cli::logs::access_log::AccessLogFile;
use crate::cli::users::users_file::UsersFile;

/// The users of the reads, and the log of these.
#[derive(Clone)]
pub(crate) struct StandbyReads {
    users_file: Arc<UsersFile>,
    authenticator: Arc<Authenticator>,
    quotas: OwnerQuotas,
    access_log: Option<Arc<AccessLogFile>>,
    keys: Arc<RunningKeys>,
}

impl StandbyReads {
    /// Reads the users, and the keys of encrypted objects if they are there.
    ///
    /// # Errors
    /// There are none, or the access log cannot be opened.
    pub(crate) fn new(
        options: &ServerOptions,
        secrets: ServerSecrets,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, CliError> {
        let ServerSecrets { users: users_file, keys: keys_file } = secrets;
        let (users, _) = users_file.read().map_err(|problem| {
            CliError::start(format!("--standby-reads needs the users of the writer: {problem}"))
        })?;
        let quotas = users.quotas().clone();
        let authenticator = Arc::new(service::authenticator(options, users, clock));
        let access_log = service::open_access_log(options)?;
        let keys = Arc::new(RunningKeys::open(keys_file, false, false)?);
        Ok(Self { users_file: Arc::new(users_file), authenticator, quotas, access_log, keys })
    }

    /// Lets `listener` answer the reads, as requests that share `memory`.
    pub(crate) fn services(
        self,
        options: &ServerOptions,
        clock: &Arc<dyn Clock>,
        memory: &Arc<Budget>,
        listener: &Arc<StandbyService>,
    ) -> ReadServices {
        let clock = Arc::clone(clock);
        let memory = Arc::clone(memory);
        let listener = Arc::clone(listener);
        ReadServices { reads: self, options: options.clone(), clock, memory, listener }
    }

    /// Reads the users file and the keys again, and opens the access log again. If a file is
    /// broken, what it had before stays in effect.
    pub(crate) fn reload(&self) {
        if let Some(log) = &self.access_log {
            log.reopen();
        }
        self.keys.reload();
        match self.users_file.read() {
            Ok((users, _)) => {
                self.authenticator.replace(users);
                info!("the users file was read again");
            }
            Err(problem) => error!("the users are unchanged: {problem}"),
        }
    }
}

/// Services on the stores of a standby, one after the other.
pub(crate) struct ReadServices {
    reads: StandbyReads,
    options: ServerOptions,
    clock: Arc<dyn Clock>,
    memory: Arc<Budget>,
    listener: Arc<StandbyService>,
}

impl StandbyReaders for ReadServices {
    fn open(&self, store: Arc<Store>) {
        let StandbyReads { authenticator, quotas, access_log, keys, .. } = &self.reads;
        store.configure_owner_quotas(quotas.clone());
        store.set_keys(keys.ring.clone());
        let webhooks = WebhookFigures::new();
        let service = service::service(
            &self.options,
            &store,
            authenticator,
            &self.clock,
            &self.memory,
            &webhooks,
            keys,
        );
        match service {
            Ok(service) => {
                info!("reads are answered as soon as the directory has all that the remote has");
                self.listener.open_reads(match access_log {
                    Some(log) => service.with_access_log(log.clone()),
                    None => service,
                });
            }
            Err(problem) => error!("no reads are answered: {problem}"),
        }
    }

    fn close(&self) {
        self.listener.close_reads();
        info!("no more reads are answered for now");
    }
}
