//! The life of the process: the store, the listeners, the threads beside them, and the end.

pub(crate) mod allocator;
pub(crate) mod background;
pub(crate) mod buckets;
pub(crate) mod data_dir;
pub(crate) mod host_clock;
pub(crate) mod lifecycle;
pub(crate) mod listeners;
pub(crate) mod maintenance;
pub(crate) mod memory;
pub(crate) mod metrics_token;
pub(crate) mod mirrors;
pub(crate) mod open_files;
pub(crate) mod open_store;
pub(crate) mod outbound_thread;
pub(crate) mod promotion;
pub(crate) mod retention;
pub(crate) mod serve;
pub(crate) mod service;
pub(crate) mod service_manager;
pub(crate) mod ship;
pub(crate) mod signals;
pub(crate) mod standby;
pub(crate) mod standby_reads;
pub(crate) mod stop;
pub(crate) mod tier;
pub(crate) mod webhooks;
