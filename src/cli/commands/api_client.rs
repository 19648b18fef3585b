//! The API for programs at a running server, as the commands use it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use siltstone::auth::KeyPair;
use siltstone::client::{Answer, Bucket, Endpoint, HttpConnection, RequestSigner};
use siltstone::transfer::Peer;

use crate::cli::announce;
use crate::cli::config::environment::Environment;
use crate::cli::config::keys::AdministratorKeys;
use crate::cli::config::notes::Notes;
use crate::cli::config::options::ServerOptions;
use crate::cli::error::CliError;
use crate::cli::users::users_file::UsersFile;

/// The server options that also apply to commands which ask a running server.
pub(crate) const OPTIONS: [&str; 6] = ["config", "data_dir", "users", "listen", "region", "log_level"];

/// The longest silence of the server at the address of `--listen`.
const PATIENCE: Duration = Duration::from_secs(10);

/// The server that is asked.
#[derive(Debug, Args)]
pub(crate) struct ServerAddress {
    /// URL of the server [default: plain HTTP at the address of --listen]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// PEM file with the authorities that verify its certificate [default: those of the system]
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// A connection to the server, and the keys of an administrator.
pub(crate) struct ApiClient {
    server: Bucket,
    connection: HttpConnection,
    /// The URL of the server.
    pub(crate) url: String,
}

impl ApiClient {
    /// Connects to the server of `address`.
    ///
    /// # Errors
    /// A message for the operator: the server cannot be named or does not answer, or there are no
    /// keys.
    pub(crate) fn open(
        address: &ServerAddress,
        options: &ServerOptions,
        environment: &Environment,
    ) -> Result<Self, CliError> {
        let url = url_of(address, options)?;
        let mut endpoint = Endpoint::resolve(&url, address.ca_file.as_deref()).map_err(CliError::refused)?;
        if address.endpoint.is_none() {
            endpoint = endpoint.with_patience(PATIENCE);
        }
        let signer = signer_of(options, environment)?;
        let connection = HttpConnection::open(&endpoint)
            .map_err(|e| CliError::refused(format!("{url} does not answer: {e}")))?;
        Ok(Self {
            server: Bucket::new("-".to_owned(), &endpoint, signer.signing_bodies(None)),
            connection,
            url,
        })
    }

    /// Connects to the server that uses the users file: the one of `--endpoint`, or else the one at
    /// the address of `--listen` if it knows the administrator's keys. `None` if no such server
    /// answers.
    ///
    /// # Errors
    /// As [`Self::open`], for a server that is named.
    pub(crate) fn find(
        address: &ServerAddress,
        options: &ServerOptions,
        environment: &Environment,
    ) -> Result<Option<Self>, CliError> {
        if address.endpoint.is_some() {
            return Self::open(address, options, environment).map(Some);
        }
        let Ok(mut found) = Self::open(address, options, environment) else { return Ok(None) };
        let knows_keys = found.ask("GET", "users", b"").is_ok();
        Ok(knows_keys.then_some(found))
    }

    /// Sends a request for `/-/api/1/{path}`. Returns the answer, which is JSON or empty.
    ///
    /// # Errors
    /// A message for the operator: the server does not answer, or refuses.
    pub(crate) fn ask(&mut self, method: &str, path: &str, document: &[u8]) -> Result<String, CliError> {
        let request = self.server.request(method, &format!("api/1/{path}"), &[], "", document.into());
        let answer = self.connection.exchange(&request);
        let answer = answer.map_err(|e| CliError::refused(format!("the server does not answer: {e}")))?;
        if answer.status < 300 { Ok(answer.text()) } else { Err(CliError::refused(refusal(&answer))) }
    }

    /// Sends a request whose answer is a document.
    ///
    /// # Errors
    /// As [`Self::ask`], or the answer is none.
    pub(crate) fn ask_document(
        &mut self,
        method: &str,
        path: &str,
        document: &[u8],
    ) -> Result<Value, CliError> {
        parsed(&self.ask(method, path, document)?)
    }
}

/// The server of `address` without a bucket, with the keys of an administrator.
///
/// # Errors
/// As of [`ApiClient::open`].
pub(crate) fn peer(
    address: &ServerAddress,
    options: &ServerOptions,
    environment: &Environment,
) -> Result<Peer, CliError> {
    let url = url_of(address, options)?;
    let endpoint = Endpoint::resolve(&url, address.ca_file.as_deref()).map_err(CliError::refused)?;
    let signer = signer_of(options, environment)?;
    Ok(Peer { endpoint, signer, bucket: String::new() })
}

fn url_of(address: &ServerAddress, options: &ServerOptions) -> Result<String, CliError> {
    match &address.endpoint {
        Some(url) => Ok(url.clone()),
        None if options.http.tls_files()?.is_some() => {
            Err(CliError::usage("the server speaks HTTPS: name it by --endpoint https://NAME:PORT"))
        }
        None => Ok(format!("http://{}", announce::reachable(options.start.listen))),
    }
}

fn signer_of(options: &ServerOptions, environment: &Environment) -> Result<RequestSigner, CliError> {
    let KeyPair { access_key, secret_key } = administrator_keys(options, environment)?;
    Ok(RequestSigner::new(&access_key, secret_key.reveal(), &options.addressing.region.0[0]))
}

/// The document in an answer.
///
/// # Errors
/// A message for the operator.
pub(crate) fn parsed(text: &str) -> Result<Value, CliError> {
    serde_json::from_str(text)
        .map_err(|e| CliError::refused(format!("the answer of the server cannot be read: {e}")))
}

/// The status, the code and the message of an error.
fn refusal(answer: &Answer) -> String {
    let error: Value = serde_json::from_str(&answer.text()).unwrap_or_default();
    let code = text_in(&error, "code");
    let message = text_in(&error, "message");
    format!("the server answers {} {code}: {message}", answer.status)
}

/// The text of a field of an answer; empty without the field.
pub(super) fn text_in<'v>(answer: &'v Value, field: &str) -> &'v str {
    answer[field].as_str().unwrap_or_default()
}

/// The number of a field of an answer; 0 without the field.
pub(super) fn number_in(answer: &Value, field: &str) -> u64 {
    answer[field].as_u64().unwrap_or_default()
}

/// The keys that the environment sets, or else those of an administrator in the users file.
fn administrator_keys(options: &ServerOptions, environment: &Environment) -> Result<KeyPair, CliError> {
    let keys = AdministratorKeys::from_environment(environment, &mut Notes::default());
    if let Some(keys) = keys.map_err(CliError::usage)? {
        return keys.read().map_err(CliError::usage);
    }
    let file = UsersFile::of(options, None);
    let (users, _) = file.read().map_err(CliError::refused)?;
    users.administrator_keys().ok_or_else(|| {
        CliError::refused(format!("{} has no administrator, whose keys it takes", file.path().display()))
    })
}
