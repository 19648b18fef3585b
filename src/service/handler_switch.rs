//! A handler that another one takes the place of while the listener goes on.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use crate::base::NOT_POISONED;
use crate::s3::{Handler, Request, Response, S3Error};

/// Hands each request to the handler of that moment.
pub struct HandlerSwitch {
    current: RwLock<Arc<dyn Handler>>,
}

impl HandlerSwitch {
    /// Begins with `first`.
    pub fn new(first: Arc<dyn Handler>) -> Self {
        Self { current: RwLock::new(first) }
    }

    /// Hands later requests to `next`.
    pub fn replace(&self, next: Arc<dyn Handler>) {
        *self.current.write().expect(NOT_POISONED) = next;
    }

    fn current(&self) -> Arc<dyn Handler> {
        Arc::clone(&self.current.read().expect(NOT_POISONED))
    }
}

impl Handler for HandlerSwitch {
    fn handle(&self, request: Request<'_>) -> Response {
        self.current().handle(request)
    }

    fn overloaded(&self, request: Option<&Request<'_>>) -> Response {
        self.current().overloaded(request)
    }

    fn refused(&self, error: S3Error) -> Response {
        self.current().refused(error)
    }

    fn uses_reserve(&self, method: &[u8], target: &[u8]) -> bool {
        self.current().uses_reserve(method, target)
    }

    fn note_queue_wait(&self, waited: Duration) {
        self.current().note_queue_wait(waited);
    }
}
