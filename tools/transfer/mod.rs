//! The commands `import` and `export`: copies between a bucket of this server and a directory or
//! another server.

mod bucket_source;
mod buckets;
mod client_keys;
mod configurations;
mod directory;
pub(crate) mod export;
mod exported;
mod file;
mod file_names;
pub(crate) mod import;
mod manifest;
mod minio;
mod object;
mod own_server;
mod report;
mod save;
mod stated_times;
mod threads;
