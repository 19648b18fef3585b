//! Options: dialect and form of requests and answers.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use siltstone::ops::EntityTags;
use siltstone::s3::{Dialect, ObjectOwnership};
use siltstone::service::MetricsAccess;

use crate::cli::config::option_values::{metrics_access, one_of};

/// Dialect and form of requests and answers.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct ProtocolOptions {
    /// Dialect of requests without a vendor prefix
    #[arg(long, value_name = "NAME", env = "SILTSTONE_DIALECT", global = true, default_value = "svc")]
    #[arg(value_parser = one_of(&[("svc", Dialect::Svc), ("aws", Dialect::Aws)]))]
    pub(crate) dialect: Dialect,

    /// Ownership of objects in buckets without ownership controls; BucketOwnerEnforced means that
    /// there are no ACLs
    #[arg(long, value_name = "NAME", env = "SILTSTONE_OBJECT_OWNERSHIP", global = true)]
    #[arg(default_value = ObjectOwnership::BucketOwnerEnforced.as_str())]
    #[arg(value_parser = one_of(&ObjectOwnership::TABLE))]
    pub(crate) object_ownership: ObjectOwnership,

    /// Accept URLs presigned by signature version 2, as AWS's clients still make them for us-east-1
    #[arg(long, value_name = "BOOL", env = "SILTSTONE_SIGV2_PRESIGNED", global = true)]
    #[arg(action = ArgAction::Set, default_value_t = true)]
    pub(crate) sigv2_presigned: bool,

    /// Namespace of XML documents; empty for none
    #[arg(long, value_name = "URI", env = "SILTSTONE_XML_NAMESPACE", global = true)]
    #[arg(default_value = "http://s3.amazonaws.com/doc/2006-03-01/")]
    pub(crate) xml_namespace: String,

    /// Encrypt every new object under the current key of the ring (SSE-S3) where neither the
    /// request nor its bucket says how
    #[arg(long, value_name = "BOOL", env = "SILTSTONE_ENCRYPT_OBJECTS", global = true)]
    #[arg(action = ArgAction::Set, default_value_t = false)]
    pub(crate) encrypt_objects: bool,

    /// Take keys of customers (SSE-C) also over plain HTTP from other hosts, where everyone on the
    /// way can read them: for a proxy with TLS before the server, or a network that is trusted
    #[arg(long, value_name = "BOOL", env = "SILTSTONE_SSE_C_INSECURE", global = true)]
    #[arg(action = ArgAction::Set, default_value_t = false)]
    pub(crate) sse_c_insecure: bool,

    /// Clients that may read /-/metrics: none (off), those on this host (local) or all (open)
    #[arg(long, value_name = "NAME", env = "SILTSTONE_METRICS", global = true)]
    #[arg(value_parser = metrics_access, default_value = "local")]
    pub(crate) metrics: MetricsAccess,

    /// File with a token that lets clients anywhere read /-/metrics, stated as `Authorization:
    /// Bearer TOKEN`; with --metrics off they alone may
    #[arg(long, value_name = "FILE", env = "SILTSTONE_METRICS_TOKEN_FILE", global = true)]
    pub(crate) metrics_token_file: Option<PathBuf>,

    /// ETag of a put: the MD5 of its bytes, or, cheaper, their CRC-32 as HEX-1
    #[arg(long, value_name = "NAME", env = "SILTSTONE_ETAG", global = true, default_value = "md5")]
    #[arg(value_parser = one_of(&[("md5", EntityTags::Md5), ("crc", EntityTags::Crc)]))]
    pub(crate) etag: EntityTags,
}

#[cfg(test)]
mod tests {
    use crate::cli::config::config_file::options;

    #[test]
    fn version_2_is_accepted_unless_it_is_switched_off() {
        assert!(options(&[], "").protocol.sigv2_presigned);
        assert!(!options(&[], "sigv2_presigned = false").protocol.sigv2_presigned);
        assert!(!options(&["--sigv2-presigned", "false"], "sigv2_presigned = true").protocol.sigv2_presigned);
    }
}
