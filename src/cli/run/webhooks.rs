//! The threads that deliver events to webhooks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use log::{error, info};
use siltstone::store::Store;
use siltstone::webhook::{TargetFigures, Webhook, WebhookFigures, WebhookSettings};

use super::stoppable_thread::StoppableThread;
use crate::cli::config::keys;
use crate::cli::error::CliError;

/// The longest wait for the end of all threads.
const END_MAX: Duration = Duration::from_secs(3);

/// Reads the secrets of webhooks again, for the next requests. One that cannot be read stays in
/// effect.
pub(crate) fn reload_secrets(settings: &[WebhookSettings]) {
    for target in settings {
        match target.secret.as_ref().map(|secret| secret.reload(&keys::key_in)) {
            Some(Ok(true)) => info!("the webhook {} has another secret", target.name),
            Some(Err(problem)) => error!("the secret of the webhook {} is unchanged: {problem}", target.name),
            Some(Ok(false)) | None => {}
        }
    }
}

/// The threads, one for each target.
pub(crate) struct WebhookThreads(Vec<StoppableThread>);

impl WebhookThreads {
    /// The figures for targets, which their threads count in.
    pub(crate) fn figures(settings: &[WebhookSettings]) -> WebhookFigures {
        settings.iter().map(|target| Arc::new(TargetFigures::new(&target.name, &target.endpoint))).collect()
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start(
        store: &Arc<Store>,
        settings: &[WebhookSettings],
        region: &str,
        figures: &WebhookFigures,
    ) -> Result<Self, CliError> {
        let mut threads = Vec::with_capacity(settings.len());
        for (target, figures) in settings.iter().zip(figures) {
            info!("events go to the webhook {target:?}");
            let mut webhook = Webhook::new(store, target, region, Arc::clone(figures))
                .map_err(|why| CliError::start(format!("the webhook {target:?}: {why}")))?;
            threads.push(StoppableThread::of_store("webhook", Arc::clone(store), move |store, stopped| {
                webhook.run(store, stopped);
            })?);
        }
        Ok(Self(threads))
    }

    /// Ends the threads. What a target has not accepted by then it gets after the next start.
    pub(crate) fn end(mut self) {
        // One deadline for all: a target that does not answer delays the end once.
        let by = Instant::now() + END_MAX;
        for thread in &mut self.0 {
            thread.stop();
        }
        for thread in self.0 {
            thread.end_within(by.saturating_duration_since(Instant::now()), "an event");
        }
    }
}
