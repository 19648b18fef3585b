//! Siltstone, an S3-style object store for small hosts: one binary, blocking threads, and no byte
//! lost that was answered with 200.
//!
//! This page is the map for people who change the code. [`guide`] is the manual for operators;
//! data-format.md describes the disk.
//!
//! # Bird's eye view
//!
//! Two columns meet in [`ops`]. Every arrow points down, and there is no cycle; `tests/floors.rs`
//! reads the sources and holds the table.
//!
//! ```text
//!   8   main.rs, cli/                                tools/      beside them: client
//!   7   http         bytes in, bytes out; event loop and worker pool; the engines
//!   6   console      pages for browsers
//!   5   service      the life of a request on one page
//!   4   ops          one file per group of operations           mirror  webhook  offline
//!   3   store   disks                    auth    oidc
//!   2   log     index   remote  vault    s3
//!   1   format  fs  crypto               xml
//!   0   base         limits, clock, entropy, timestamps, digests
//!       -- storage column --             -- protocol column --
//! ```
//!
//! | module | purpose | may name |
//! |---|---|---|
//! | [`base`] | limits, clock, entropy, timestamps, digests, memory budget | nothing |
//! | [`crypto`] | keys of encrypted objects; the only place that encrypts their bytes | base |
//! | [`mod@format`] | bytes <-> values: the code half of data-format.md | base, crypto |
//! | [`fs`] | the only access to the disk; a simulated disk for tests | base |
//! | [`keys`] | the key ring: master keys of encrypted objects, and their file | base, crypto |
//! | [`vault`] | the data directory encrypted: a disk around the disk, and its keys | base, format, fs |
//! | [`xml`] | a reader and a writer of XML, a writer of HTML | base |
//! | [`log`] | segmented append-only logs of records; knows no S3 | base, format, fs |
//! | [`disks`] | the directories of a store: one, a data directory and a fast one, or the sides of a mirror | base, format, fs, log, vault |
//! | [`index`] | the state that the entries add up to, in memory | base, format |
//! | [`s3`] | the vocabulary of the protocol | base, crypto, xml |
//! | [`remote`] | objects on another S3 server, encrypted or not; a simulated one for tests | base, format, client |
//! | [`client`] | a client of S3 servers: signed requests over TCP or TLS, its settings and its limits | base, xml |
//! | [`transfer`] | copies of objects to other S3 servers | base, xml, client |
//! | [`store`] | the engine: commit, read, recover, reclaim, scrub | the storage column |
//! | [`offline`] | data directories and remotes for the tools: verify, backup, rebuild, audits | the storage column, keys |
//! | [`webhook`] | S3's records of events, sent by HTTP | base, client, s3, store |
//! | [`mirror`] | buckets on other S3 servers that follow the log of the store | base, client, s3, transfer, store; fs for the simulation in its tests |
//! | [`auth`] | signatures, users, permissions | base, s3 |
//! | [`oidc`] | providers of identities: their keys, and tokens that they signed | base, client |
//! | [`ops`] | S3 operations on the store | base, keys, xml, s3, auth, store |
//! | [`service`] | from request to response | base, s3, auth, oidc, ops, mirror, webhook |
//! | [`console`] | pages for browsers | base, xml, client, s3, auth, oidc, service |
//! | [`http`] | the engines | base, s3, service |
//! | [`guide`] | the manual, without code | nothing |
//!
//! # The life of a PUT
//!
//! 1. The idle connection is parked (`http/direct/connections/mod.rs`). When bytes come,
//!    `http/direct/event_handler.rs` reads the head without blocking and pushes the connection to
//!    `http/direct/work_queues/mod.rs`, as small or as large work.
//! 2. A worker (`http/direct/worker.rs`) takes it; `http/direct/exchange/mod.rs` parses the head
//!    and calls [`s3::Handler::handle`].
//! 3. `service/mod.rs` parses the query, detects the dialect, routes to an [`s3::Operation`],
//!    authenticates (`auth/authenticator.rs`) and authorizes (`ops/access.rs` has the facts,
//!    `auth/access/mod.rs` decides). A form, which is signed in its fields, is read up to its file
//!    first (`service/form.rs`). Without the resulting [`auth::Authorized`] no operation can be
//!    called.
//! 4. `ops/put.rs` checks everything that needs no body, then streams the body (`ops/body.rs`) into
//!    a [`store::ObjectWriter`].
//! 5. `store/objects/writer.rs` keeps a small body in memory. A large one goes to a segment at once
//!    (`log/extent_writer.rs`).
//! 6. `store/commit/committer/mod.rs` commits. The first thread to come leads; the others'
//!    mutations queue up and form the next group.
//! 7. `store/commit/committer/group_writer.rs` plans the group (`store/commit/plan/mod.rs`), packs
//!    small bodies into one extent, syncs the segments while it appends the group to the log
//!    (`log/log_writer.rs`), and syncs the log. **The PUT is durable here.**
//! 8. The group is applied to the index and the new [`index::Index`] published. Every read from now
//!    on sees the object.
//! 9. The committer answers; the worker writes the response. The connection is parked again.
//!
//! # The life of a GET
//!
//! 1. As a PUT, to `ops/get.rs`, which asks the store for the version (`ops/lookup.rs`).
//! 2. The store looks it up in the published index, without a lock that a commit waits for.
//!    [`store::FoundVersion`] pins its segments, so that a concurrent delete or relocation takes
//!    nothing away.
//! 3. `store/objects/reader.rs` reads extents through `log/extent_reader.rs`, which verifies every
//!    block before it hands out a byte.
//! 4. `http/response_writer.rs` sends. Where the client stalls, the rest of the response waits
//!    without a worker.
//!
//! A host below the domain of websites takes another way: `service/website.rs` finds the key, and
//! reads it as the anonymous user.
//!
//! # The life of a LIST
//!
//! 1. `ops/list.rs` turns the parameters into one query.
//! 2. `index/listing.rs` walks a snapshot of the key tree (`index/keys/tree/mod.rs`), skipping over
//!    whole common prefixes.
//! 3. The page is rendered from borrowed names (`xml/writer.rs`); its memory was reserved from the
//!    budget before.
//!
//! # The two engines
//!
//! [`http`] has two. `tiny` is a blocking front end on the crate tiny_http, which hands requests to
//! the worker pool. `direct` parks idle connections at an event loop, and hands over those whose
//! head is complete. Both validate heads and write responses by the same code, call the same
//! [`s3::Handler`], and pass the same tests of the protocol.
//!
//! `tiny` listens on loopback addresses alone, since these cases were shown against it on an open
//! port:
//!
//! - A client that opens connections and sends nothing takes a thread and two descriptors for each,
//!   for as long as it likes.
//! - The crate frames the request before we see it: `Content-Length: 3, 3`, a carriage return
//!   inside a line and a chunk of size `+5` are accepted, so that the rest of a body is read as the
//!   next request.
//! - A head is measured once it is in memory; a body that announces more than the free memory costs
//!   a thread for good.
//! - A refused upload is read to its end first, with `Expect: 100-continue` or without.
//!
//! Choose `tiny` where a proxy before it frames requests anew, and little code matters more than
//! speed; `direct` everywhere else. The page [`guide::http`] says which promises hold for each.
//!
//! # Invariants
//!
//! 1. **Acknowledged means durable.** An answer of success is sent only after the data, the log and
//!    new directory entries were synced.
//! 2. **One writer.** Only the thread with the commit leader lock changes log and index. Readers
//!    see published, durable states only.
//! 3. **Verified bytes.** No byte reaches a client before its block's checksum matched.
//! 4. **After a failed write or sync, no write follows** until a restart
//!    ([`store::ReadOnlyReason`]).
//! 5. **Damage is reported** with file and offset. Nothing repairs it in silence.
//! 6. **Bounded memory.** Sizes from the network or the disk are checked before memory is
//!    allocated; requests reserve from [`base::Budget`].
//! 7. **Entries are the only input of the index.** Server, checkpoints and tools build the same
//!    index from the same entries.
//!
//! Absent on purpose:
//!
//! 8. No module below [`http`] sees a type of the transport; the whole protocol is tested without a
//!    socket.
//! 9. Operations see neither a signature nor a header prefix. The store sees no HTTP.
//! 10. Nothing but [`fs`] opens a file of the store.
//! 11. No `unsafe`, no async runtime, no background thread that a request waits for without a
//!     limit.
//! 12. No path and no offset reaches a client. They go to the log, under the request id.
//!
//! # On a full disk
//!
//! The group writer asks for space before it writes (`log/reserve.rs`). Without space, mutations
//! that need it are refused in `store/commit/plan/mod.rs` with [`store::StoreError::DiskFull`],
//! which `ops/client_error.rs` turns into 507. Deletes use the reserve. The reclaimer
//! (`store/reclaim/mod.rs`) and the checkpointer (`store/commit/checkpointer.rs`) then return space
//! while the server runs.
//!
//! # Glossary
//!
//! | term | meaning |
//! |---|---|
//! | segment | a file of object bytes, append-only until it is sealed |
//! | extent | a contiguous run of an object's bytes in a segment, with checksums for its blocks |
//! | pack | an extent with the bytes of several small objects |
//! | entry | one change of the metadata |
//! | group | entries that become durable together: the unit of the log |
//! | checkpoint | a file with the whole metadata, from which a start begins |
//! | watermark | the number of the last group that a file includes |
//! | pin | a reader's hold on a segment |
//! | shadow | a copy of the log on the large one of two disks |
//! | hole | a range of a segment whose bytes were returned to the file system |
//! | dialect | the vendor prefix of headers, `x-amz-` or `x-svc-` |
//!
//! Of a remote:
//!
//! | term | meaning |
//! |---|---|
//! | tier | sealed segments that are copied to the remote, so that their local bytes may go |
//! | placement | where the bytes of a bucket should lie: on the disk or on the remote |
//! | segment cache | the bytes of a remote segment that are on the disk |
//! | fetch lock | what a reader holds that fetches; others at the same place wait, and share what it finds |
//! | in-flight fetch | bytes of a remote segment that are read while they come |
//! | shipping | putting the log on the remote, so that another host can take over |
//! | epoch | the time during which one host may change the remote; epochs are numbered |
//! | claim | the object by which a host takes the next epoch; one host succeeds in creating it |
//! | cut | the object that begins an epoch: the last parcel of the epoch before that it adopts |
//! | parcel | groups of the log in one object, with the bytes that they name for the first time |
//! | root | a checkpoint on the remote, from which a restore begins |
//! | floor | the oldest root that is still whole: what comes before it may be deleted |
//! | window | how far back in time a restore reaches |
//! | heartbeat | an object that a writer puts again and again, so that no standby takes over |
//! | fenced | said of a host whose epoch has ended, since another one was claimed |
//! | standby | a host whose directory follows the log on the remote |
//! | orphan | an object on the remote that nothing needs |
//!
//! # To change something
//!
//! | change | place |
//! |---|---|
//! | add an operation | its name and route in `s3/operation.rs`, a function in `ops`, its row in `ops/table.rs`, a row in `src/guide/operations.md`; `.github/CONTRIBUTING.md` has an example |
//! | add a call of IAM | its row and its function in a file of `service/iam`, a change in `service/iam_changes.rs` with its edit in `cli/users/iam_text.rs`, and its name in `src/guide/iam.md` |
//! | add a call of STS | `service/sts.rs` has the calls, `auth/sts.rs` their rules, `s3/query_call.rs` their form |
//! | add an error | `s3/error.rs` |
//! | add an option | the struct of its subject in `cli/config/options`, and a row in `src/guide/configuration.md` |
//! | take a lock | the rule for locks after a panic is on the page [`base::locks`] |
//! | try again after a failure | [`base::Backoff`] has the pauses |
//! | add a limit | `base/limits.rs`, and a row in `src/guide/limits.md` |
//! | store another field | data-format.md first, then `format/version.rs` or `format/entry.rs` |
//! | add a page of the console | `console/address.rs`, a file in `console/pages` with its template in `console/templates`, a row in `src/guide/console.md` |
//! | add a metric | the file of its feature in `service/metrics`, a row in `src/guide/metrics.md`, and a panel in `tools/package/grafana.json` |
//! | change when space is reclaimed, or which segments go | `store/reclaim/mod.rs` |
//! | change what is on the fast one of two disks | `fs/split.rs`; the directories and their marks, `disks/mod.rs`; what moves, `store/fast_disk.rs`; the shadow of the log, `log/shadow.rs`, and the store that it leaves, `offline/lost_disk.rs` |
//! | change how a store opens | `store/open/recovery.rs` |
//! | change who may write to the remote | `store/remote_log/right.rs`; claims are made in `store/ship/epoch.rs`, and in `store/tier/epoch.rs` without a log there |
//! | change what is deleted on the remote | `store/ship/cleanup.rs` |
//! | add a check of a data directory | `offline/verify.rs`, and a kind in `offline/verify/report.rs` |
//! | change the fairness between requests | `http/direct/work_queues/mod.rs` |

pub mod auth;
pub mod base;
pub mod client;
pub mod console;
pub mod crypto;
pub mod disks;
pub mod format;
pub mod fs;
pub mod guide;
pub mod http;
pub mod index;
pub mod keys;
pub mod log;
pub mod mirror;
pub mod offline;
pub mod oidc;
pub mod ops;
pub mod remote;
pub mod s3;
pub mod service;
pub mod store;
pub mod transfer;
pub mod vault;
pub mod webhook;
pub mod xml;
