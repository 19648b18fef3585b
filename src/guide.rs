//! The guide for operators: start with [`index`]. Each page is a file of `src/guide`, held against
//! the code by `tests/guide`.
//!
//! Pages refer to each other as `[users]`, and define that at their end as the file, for those who
//! read the files. Here the definitions of `guide/links.txt` come first, and Markdown takes the
//! first: the page as a module.

/// Documents a module by a page.
macro_rules! page {
    ($name:ident, $file:literal) => {
        #[doc = include_str!("guide/links.txt")]
        #[doc = ""]
        #[doc = include_str!($file)]
        pub mod $name {}
    };
}

page!(index, "guide/index.md");
page!(operations, "guide/operations.md");
page!(guarantees, "guide/guarantees.md");
page!(limits, "guide/limits.md");
page!(configuration, "guide/configuration.md");
page!(users, "guide/users.md");
page!(iam, "guide/iam.md");
page!(identities, "guide/identities.md");
page!(quotas, "guide/quotas.md");
page!(backups, "guide/backups.md");
page!(encryption, "guide/encryption.md");
page!(disks, "guide/disks.md");
page!(remote, "guide/remote.md");
page!(webhooks, "guide/webhooks.md");
page!(mirror, "guide/mirror.md");
page!(api, "guide/api.md");
page!(console, "guide/console.md");
page!(lifecycle, "guide/lifecycle.md");
page!(metrics, "guide/metrics.md");
page!(http, "guide/http.md");
page!(memory, "guide/memory.md");
page!(performance, "guide/performance.md");
page!(tools, "guide/tools.md");
page!(clients, "guide/clients.md");
page!(applications, "guide/applications.md");
page!(testing, "guide/testing.md");
page!(packages, "guide/packages.md");
page!(minio, "guide/minio.md");
page!(troubleshooting, "guide/troubleshooting.md");
page!(lost_host, "guide/lost_host.md");
page!(upgrading, "guide/upgrading.md");
page!(releases, "guide/releases.md");
page!(appliances, "guide/appliances.md");
page!(choosing, "guide/choosing.md");
page!(planning, "guide/planning.md");
page!(security, "guide/security.md");
page!(faq, "guide/faq.md");
