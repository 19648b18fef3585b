//! The protocol without a socket: requests go to the service as an engine would hand them over, and a real store on the
//! simulated disk answers. Each test is named by the rule that it holds.

mod acl;
mod attributes;
mod audit;
mod bucket_policy;
mod buckets;
mod conditions;
mod configurations;
mod copy;
mod cors;
mod create_only;
mod delete;
mod dialects;
mod errors;
mod failures;
mod get;
mod harness;
mod headers;
mod hostile;
mod html_sandbox;
mod lifecycle;
mod list;
mod locked_for_good;
mod memory;
mod multipart;
mod object_lock;
mod ownership;
mod pages;
mod permissions;
mod post;
mod post_refusals;
mod presigned;
mod presigned_v2;
mod put;
mod quotas;
mod ranges;
mod rules;
mod socket;
mod tagging;
mod versioning;
mod versions_list;
mod website;
mod wire;

use harness::*;
use siltstone::s3::Dialect;
