//! The commands `import` and `export`: copies between a bucket of this server and a directory or another server.

mod attributes;
mod bucket_source;
mod buckets;
mod directory;
pub(crate) mod export;
mod exported;
mod file;
mod file_names;
pub(crate) mod import;
mod listing;
mod manifest;
mod object;
mod own_server;
mod peer;
mod report;
mod save;
mod threads;
mod upload;
