//! The guide for operators. Each page is a file of `src/guide`, held against the code by `tests/guide`.

#[doc = include_str!("guide/operations.md")]
pub mod operations {}

#[doc = include_str!("guide/guarantees.md")]
pub mod guarantees {}

#[doc = include_str!("guide/limits.md")]
pub mod limits {}

#[doc = include_str!("guide/configuration.md")]
pub mod configuration {}

#[doc = include_str!("guide/users.md")]
pub mod users {}

#[doc = include_str!("guide/quotas.md")]
pub mod quotas {}

#[doc = include_str!("guide/backups.md")]
pub mod backups {}

#[doc = include_str!("guide/remote.md")]
pub mod remote {}

#[doc = include_str!("guide/webhooks.md")]
pub mod webhooks {}

#[doc = include_str!("guide/mirror.md")]
pub mod mirror {}

#[doc = include_str!("guide/api.md")]
pub mod api {}

#[doc = include_str!("guide/console.md")]
pub mod console {}

#[doc = include_str!("guide/lifecycle.md")]
pub mod lifecycle {}

#[doc = include_str!("guide/metrics.md")]
pub mod metrics {}

#[doc = include_str!("guide/http.md")]
pub mod http {}

#[doc = include_str!("guide/memory.md")]
pub mod memory {}

#[doc = include_str!("guide/performance.md")]
pub mod performance {}

#[doc = include_str!("guide/tools.md")]
pub mod tools {}

#[doc = include_str!("guide/clients.md")]
pub mod clients {}

#[doc = include_str!("guide/packages.md")]
pub mod packages {}
