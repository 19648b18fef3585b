//! Options and settings: the values from flags, variables of the environment, variables of other
//! servers, and the configuration file.

pub(crate) mod bucket_specs;
pub(crate) mod config_file;
pub(crate) mod environment;
pub(crate) mod keys;
pub(crate) mod layers;
pub(crate) mod notes;
pub(crate) mod old_names;
pub(crate) mod option_values;
pub(crate) mod options;
pub(crate) mod secret_files;
pub(crate) mod sections;
pub(crate) mod server;
pub(crate) mod shown;
pub(crate) mod tls_files;
