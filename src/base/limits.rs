//! The limits of the server. The name of each ends with its unit, its documentation names its
//! source, and relations between limits are asserted at compile time.

/// One kibibyte.
pub const KIB: u64 = 1024;
/// One mebibyte.
pub const MIB: u64 = 1024 * KIB;
/// One gibibyte.
pub const GIB: u64 = 1024 * MIB;
/// One tebibyte.
pub const TIB: u64 = 1024 * GIB;

// ---- The
// protocol -------------------------------------------------------------------------------------

/// The longest bucket policy, in bytes (S3 user guide, "Bucket policies").
pub const BUCKET_POLICY_MAX_BYTES: usize = 20 * 1024;
/// The wildcards of one pattern of a bucket policy that is put.
pub const POLICY_WILDCARDS_MAX: usize = 64;
/// The longest value of a request that a condition of a bucket policy is compared with. With a
/// longer one, `Allow` does not apply and `Deny` does.
pub const POLICY_VALUE_MAX_BYTES: usize = 4 * 1024;
/// The names that are compared with CORS rules, of those in one preflight.
pub const CORS_REQUEST_HEADERS_MAX: usize = 100;

/// Buckets of an owner without another limit.
pub const BUCKETS_MAX_DEFAULT: u64 = 1000;
/// Stamps, sequences, epochs and other numbers that count on are below this: one that is not was
/// never given, and leaves no number for what comes after it (data-format.md, "stamp").
pub const COUNTERS_END: u64 = 1 << 63;

/// Longest object key (S3 user guide, "Naming Amazon S3 objects").
pub const KEY_LEN_MAX_BYTES: usize = 1024;
/// Shortest bucket name (S3 user guide, "Bucket naming rules").
pub const BUCKET_NAME_LEN_MIN_BYTES: usize = 3;
/// Longest bucket name (S3 user guide, "Bucket naming rules").
pub const BUCKET_NAME_LEN_MAX_BYTES: usize = 63;
/// Largest single put or part (S3 user guide, "Uploading objects").
pub const PUT_SIZE_MAX_BYTES: u64 = 5 * GIB;
/// Largest object (S3 user guide, "Multipart upload limits").
pub const OBJECT_SIZE_MAX_BYTES: u64 = 5 * TIB;
/// Smallest part but the last (S3 API reference, CompleteMultipartUpload, EntityTooSmall).
pub const PART_SIZE_MIN_BYTES: u64 = 5 * MIB;
/// Highest part number (S3 API reference, UploadPart).
pub const PART_NUMBER_MAX: u32 = 10_000;
/// User metadata: names and values together (S3 user guide, "User-defined object metadata").
pub const USER_METADATA_MAX_BYTES: usize = 2048;
/// The redirect location of an object (S3 API reference, PutObject,
/// "x-amz-website-redirect-location").
pub const REDIRECT_LOCATION_MAX_BYTES: usize = 2048;
/// The six stored standard headers and the redirect location: names and values together (S3 user
/// guide, "System-defined object metadata"). All of it is in memory with the key.
pub const SYSTEM_METADATA_MAX_BYTES: usize = 2048;
/// Tags of one object (S3 user guide, "Categorizing your objects using tags").
pub const TAGS_MAX: usize = 10;
/// Tags of one bucket (S3 user guide, "Using cost allocation S3 bucket tags").
pub const BUCKET_TAGS_MAX: usize = 50;
/// The key of a tag, in code units of UTF-16 (ibidem).
pub const TAG_KEY_LEN_MAX_CHARS: usize = 128;
/// The value of a tag, in code units of UTF-16 (ibidem).
pub const TAG_VALUE_LEN_MAX_CHARS: usize = 256;
/// Keys, versions, uploads or parts on one page of a listing (S3 API reference, `max-keys`).
pub const PAGE_LEN_MAX: usize = 1000;
/// Objects in one DeleteObjects request (S3 API reference, DeleteObjects).
pub const DELETE_OBJECTS_MAX: usize = 1000;
/// A website configuration (S3 API reference, PutBucketWebsite).
pub const WEBSITE_MAX_BYTES: usize = 128 * KIB as usize;
/// Routing rules of a website (S3 API reference, PutBucketWebsite).
pub const ROUTING_RULES_MAX: usize = 50;
/// The cross-origin rules of a bucket, as they are sent (S3 API reference, PutBucketCors).
pub const CORS_MAX_BYTES: usize = 64 * KIB as usize;
/// Cross-origin rules of a bucket (ibidem).
pub const CORS_RULES_MAX: usize = 100;
/// Event notifications of a bucket (S3 user guide, "Event notification types and destinations").
pub const NOTIFICATIONS_MAX: usize = 100;
/// The most replication rules of a bucket (S3 API reference, PutBucketReplication).
pub const REPLICATION_RULES_MAX: usize = 1000;
/// Lifecycle rules of a bucket (S3 API reference, PutBucketLifecycleConfiguration).
pub const LIFECYCLE_RULES_MAX: usize = 1000;
/// An XML request body.
pub const XML_BODY_MAX_BYTES: usize = MIB as usize;
/// The XML request body that lists the parts of an upload: 10,000 with SHA-256 checksums, quotes
/// escaped and lines indented, take 2.4 million bytes.
pub const PART_LIST_MAX_BYTES: usize = 3 * MIB as usize;
/// The fields of a form before its file, with their headers and delimiters, and those after it (S3
/// API reference, "POST Object"). All of them are in memory.
pub const FORM_FIELDS_MAX_BYTES: usize = 20 * KIB as usize;
/// The boundary of a form (RFC 2046, section 5.1.1).
pub const FORM_BOUNDARY_MAX_BYTES: usize = 70;
/// The buffer of a form: it takes all of its fields.
pub const FORM_BUFFER_BYTES: usize = 32 * KIB as usize;
/// Difference between a request's date and the server's (S3 API reference, RequestTimeTooSkewed).
pub const CLOCK_SKEW_MAX_SECS: u64 = 15 * 60;
/// Longest validity of a presigned URL: seven days (S3 API reference, "Authenticating requests:
/// query").
pub const PRESIGNED_EXPIRES_MAX_SECS: u64 = 604_800;
/// The size line of an `aws-chunked` chunk, or one trailer line, without its line end. A size of 16
/// digits with a signature takes 97.
pub const AWS_CHUNK_LINE_MAX_BYTES: usize = 512;
/// Trailers that a request may announce; clients send one checksum.
pub const TRAILERS_MAX: usize = 8;
/// Cached signing keys of a user. Seven days of presigned URLs and today, in two regions, fit.
pub const SIGNING_KEYS_PER_USER_MAX: usize = 18;
/// Access key, secret key or name of a user.
pub const CREDENTIAL_LEN_MAX_BYTES: usize = 128;
/// Shorter secret keys cause a warning: an attacker who records one signed request can try all of
/// them offline.
pub const SECRET_ADVISED_BYTES: usize = 16;

/// The beginning of the keys of the objects of a bucket's log. The rest of such a key has up to
/// 150.
pub const LOG_PREFIX_MAX_BYTES: usize = 800;
/// Records that wait for their delivery to a bucket: as many are delivered at once.
pub const LOG_OBJECT_BYTES: usize = MIB as usize;
/// How long records wait for their delivery without another setting.
pub const BUCKET_LOG_INTERVAL_SECS: u64 = 5 * 60;
/// Records that wait where a delivery fails, of one log and of all.
pub const LOG_WAITING_MAX_BYTES: usize = 4 * MIB as usize;
pub const LOGS_WAITING_MAX_BYTES: usize = 8 * MIB as usize;

/// The users to whom an ACL grants something (S3 user guide, "Access control list (ACL) overview"),
pub const ACL_GRANTS_MAX: usize = 100;
/// and the bytes of their names: both are in the record of an object.
pub const ACL_NAMES_MAX_BYTES: usize = 8192;
/// The access keys of a user (IAM user guide, "IAM and AWS STS quotas").
pub const USER_KEYS_MAX: usize = 2;
/// The names of users and roles, and of groups and policies, that IAM's calls make (likewise).
pub const IAM_NAME_MAX_CHARS: usize = 64;
pub const IAM_LONG_NAME_MAX_CHARS: usize = 128;
/// The entries of a page of a list of IAM (IAM API reference, "MaxItems").
pub const IAM_PAGE_MAX_ITEMS: u64 = 1000;
/// A policy of users, groups and roles.
pub const MANAGED_POLICY_MAX_BYTES: usize = 20 * 1024;
/// The policy of a session, in characters (STS API reference, AssumeRole, "Policy").
pub const SESSION_POLICY_MAX_CHARS: usize = 2048;
/// The policies of the users file that a session names (STS API reference, AssumeRole,
/// "PolicyArns").
pub const SESSION_POLICIES_MAX: usize = 10;
/// The token of a session. It has to fit in a head and in a URL, among other things.
pub const SESSION_TOKEN_MAX_BYTES: usize = 4096;
/// The tags of a session (STS API reference, AssumeRole, "Tags").
pub const SESSION_TAGS_MAX: usize = 50;
/// The shortest session (STS API reference, AssumeRole, "DurationSeconds").
pub const SESSION_MIN_SECS: u64 = 15 * 60;
/// The longest session of a role (ibidem), and one that another session asks for.
pub const ROLE_SESSION_MAX_SECS: u64 = 12 * 60 * 60;
pub const CHAINED_SESSION_MAX_SECS: u64 = 60 * 60;
/// The longest session of a user (STS API reference, GetSessionToken, "DurationSeconds").
pub const USER_SESSION_MAX_SECS: u64 = 36 * 60 * 60;
/// Sessions whose opened tokens are in memory. Each takes up to some 20 KiB.
pub const OPENED_SESSIONS_MAX: usize = 512;
/// How long one request may ask a provider of identities for its addresses and keys. Others go
/// on with what is known, or wait for a moment and are refused.
pub const OIDC_FETCH_MAX_SECS: u64 = 5;
/// A document of such a provider.
pub const OIDC_DOCUMENT_MAX_BYTES: usize = 256 * KIB as usize;
/// Providers in a users file.
pub const ISSUERS_MAX: usize = 16;
/// The URL of a provider that IAM's calls make, and each of its client ids (IAM API reference,
/// CreateOpenIDConnectProvider).
pub const ISSUER_URL_MAX_BYTES: usize = 255;
/// The client ids of such a provider (IAM user guide, "IAM and AWS STS quotas").
pub const ISSUER_AUDIENCES_MAX: usize = 100;
/// Its thumbprints (IAM API reference, CreateOpenIDConnectProvider).
pub const ISSUER_THUMBPRINTS_MAX: usize = 5;
/// The characters of a thumbprint (ibidem): a SHA-1 in hexadecimal.
pub const ISSUER_THUMBPRINT_CHARS: usize = 40;
/// Failed calls with tokens of such providers that one network makes in a minute: they are
/// unsigned.
pub const WEB_IDENTITY_FAILURES_MAX: u32 = 60;
/// The body of a call of STS or IAM: parameters of a form, among which IAM takes a policy of 131,072
/// characters (IAM API reference, PutUserPolicy). It is read before it is known who sends it.
pub const QUERY_BODY_MAX_BYTES: usize = 128 * KIB as usize;

// ----
// Memory -------------------------------------------------------------------------------------------

/// The lowest limit that may be set for memory other than the index.
pub const MEMORY_MIN_BYTES: u64 = 48 * MIB;
/// The default is a quarter of the memory of the process, between this
pub const MEMORY_DEFAULT_MIN_BYTES: u64 = 64 * MIB;
/// and this.
pub const MEMORY_DEFAULT_MAX_BYTES: u64 = GIB;
/// The default share of the index in the remaining memory of the process. The rest is for snapshots
/// of the index during checkpoints, and for the system.
pub const INDEX_DEFAULT_SHARE: (u64, u64) = (3, 4);
/// The least default limit of the index.
pub const INDEX_DEFAULT_MIN_BYTES: u64 = 8 * MIB;
/// The share of the index, one in this many, that a quota allows by default.
pub const INDEX_QUOTA_SHARE: u64 = 4;
/// The program and its permanent threads: the poller, the committer, checkpoints, the scrub, and
/// the reclaimer, whose batches are the largest part.
pub const MEMORY_OF_PROCESS_BYTES: u64 = 16 * MIB;
/// A worker: the buffers of request and response bodies, among them the pieces for the MD5
/// ([`MD5_PIECES_MAX`]), two heads, a small object in the committer, a stack.
pub const MEMORY_OF_WORKER_BYTES: u64 = MIB;
/// An idle connection, and its place in the queue.
pub const MEMORY_OF_CONNECTION_BYTES: u64 = KIB;
/// An idle encrypted connection.
pub const MEMORY_OF_TLS_CONNECTION_BYTES: u64 = 24 * KIB;
/// The least memory that must be left for reservations of requests.
pub const MEMORY_FOR_REQUESTS_MIN_BYTES: u64 = 12 * MIB;
/// How long a request waits for reserved memory to be released before it gets a 503.
pub const MEMORY_PATIENCE_MILLIS: u64 = 250;
/// The `Retry-After` of a request that was rejected for lack of time or memory.
pub const RETRY_AFTER_SECS: u64 = 1;
/// Received bytes of a waiting request without a reservation of [`HEAD_MAX_BYTES`]; most heads fit.
pub const UNRESERVED_HEAD_BYTES: usize = 2 * KIB as usize;

// ---- The front
// end ------------------------------------------------------------------------------------

/// A request line and its headers.
pub const HEAD_MAX_BYTES: usize = 16 * KIB as usize;
/// The highest limit that may be set for them: a worker keeps a buffer of that size.
pub const HEAD_MAX_BYTES_CEILING: usize = MIB as usize;
/// Header lines of one request.
pub const HEADERS_MAX: usize = 100;
/// The size line of one chunk of a request body (RFC 9112, section 7.1), with extensions, which are
/// ignored.
pub const CHUNK_LINE_MAX_BYTES: usize = KIB as usize;
/// Chunk extensions and trailer lines of one request body in all.
pub const CHUNK_EXTRA_MAX_BYTES: usize = 16 * KIB as usize;
/// Threads that handle requests. Each holds a buffer of [`HEAD_MAX_BYTES`] and, after its first
/// large response, one of [`RESPONSE_BUFFER_BYTES`].
pub const WORKERS_DEFAULT: usize = 96;
/// The highest number that may be set.
pub const WORKERS_CEILING: usize = 1024;
/// Complete heads that wait for a worker; a further one gets a 503 at once.
pub const QUEUE_LEN_DEFAULT: usize = 1024;
/// The highest number that may be set: the queue is allocated at the start.
pub const QUEUE_LEN_CEILING: usize = 65_536;
/// Open connections. An idle one takes the kernel's socket and less than a kibibyte.
pub const CONNECTIONS_MAX_DEFAULT: usize = 8192;
/// One address may have one in this many of them.
pub const CONNECTIONS_SHARE_DEFAULT: usize = 4;
/// The most that an operator may allow.
pub const CONNECTIONS_MAX_CEILING: usize = 1 << 20;
/// The longest timeout that may be set: a day.
pub const DEADLINE_MAX_SECS: u64 = 24 * 60 * 60;
/// From the first byte of a head to its last (RFC 9110, section 15.5.9).
pub const HEAD_DEADLINE_DEFAULT_SECS: u64 = 20;
/// How long a connection may be idle.
pub const IDLE_DEADLINE_DEFAULT_SECS: u64 = 60;
/// The rate below which a peer consumes its stall budget, in both directions.
pub const RATE_MIN_DEFAULT_BYTES_PER_SEC: u64 = KIB;
/// The stall budget of a client for its body: how long a worker may wait beyond the time that the
/// minimum rate allows.
pub const READ_STALL_BUDGET_DEFAULT_SECS: u64 = 20;
/// The stall budget of a client for reading the response, as for the body.
pub const WRITE_STALL_BUDGET_DEFAULT_SECS: u64 = 30;
/// How long an idle worker waits for the next request of the connection that it has just served.
pub const LINGER_DEFAULT_MILLIS: u64 = 10;
/// The longest such wait that may be set, since other requests may have to wait for the worker.
pub const LINGER_MAX_MILLIS: u64 = 1000;
/// From the latest part of a multipart upload to its abort, where no rule of the bucket sets
/// another time.
pub const ABORT_UPLOADS_AFTER_DEFAULT_SECS: u64 = 7 * 24 * 60 * 60;
/// From the signal to stop to the end of the process, whatever still runs.
pub const SHUTDOWN_TIMEOUT_DEFAULT_SECS: u64 = 10;
/// The buffer of a worker for response bodies from the store.
pub const RESPONSE_BUFFER_BYTES: usize = 256 * KIB as usize;
/// A piece of a large body, as it is read, written and submitted to the MD5 pool.
pub const MD5_PIECE_BYTES: usize = 128 * KIB as usize;
/// Pieces of one request body, one of them outside the MD5 pool. With two, the reader and the pool
/// would wait for each other at every piece.
pub const MD5_PIECES_MAX: usize = 3;
/// Bodies that wait for the MD5 pool. Each belongs to a worker, so that this never limits anything.
pub const MD5_QUEUE_LEN: usize = WORKERS_CEILING;
/// The rest of a request body that is read to keep the connection.
pub const UNREAD_BODY_MAX_BYTES: u64 = 64 * KIB;
/// How long the response may wait for that rest.
pub const UNREAD_BODY_WAIT_MILLIS: u64 = 100;
/// Bodies up to this size are *small*: workers of every class may handle them. Larger bodies and
/// bodies of unknown length are *large*, in either direction.
pub const SMALL_BODY_MAX_BYTES: u64 = 256 * KIB;
/// A small body that arrives later than this after its head counts as large.
pub const SMALL_BODY_WAIT_MILLIS: u64 = 200;
/// How long a worker waits for the commit of a multipart upload before the response is deferred.
pub const PROMPT_COMMIT_MILLIS: u64 = 250;
/// How long a worker waits for room to send before it leaves the response to the poller, if other
/// requests wait for a worker.
pub const YIELD_AFTER_MILLIS: u64 = 10;
/// The factor by which stall budgets are consumed faster while requests wait for a worker.
pub const UNDER_LOAD_FACTOR: u32 = 16;
/// Bytes that a client may still send after the last response of its connection, so that it reads
/// that response.
pub const DRAIN_MAX_BYTES: u64 = 16 * MIB;
/// How long it may take to send them.
pub const DRAIN_DEADLINE_DEFAULT_SECS: u64 = 5;
/// Connections in that state; further ones are closed at once.
pub const DRAINING_MAX: usize = 256;
/// Threads that are kept for pages of the console, in addition to the others.
pub const CONSOLE_RESERVE_WORKERS: usize = 2;
/// Requests that wait for one of them; a further one gets a 503 at once.
pub const RESERVE_QUEUE_LEN: usize = 64;
/// The limits of a listener that serves the console alone: threads,
pub const CONSOLE_WORKERS: usize = 4;
/// requests that wait for one of them,
pub const CONSOLE_QUEUE_LEN: usize = 64;
/// open connections,
pub const CONSOLE_CONNECTIONS_MAX: usize = 64;
/// and connections that are draining.
pub const CONSOLE_DRAINING_MAX: usize = 32;
/// The time after which the padding of a long operation begins (S3 API reference,
/// CompleteMultipartUpload): well before the timeout of clients, which is a minute for most.
pub const PADDING_AFTER_SECS: u64 = 5;
/// The interval of whitespace in a padded response, short enough for all proxies.
pub const PADDING_EVERY_SECS: u64 = 5;

// ---- The
// store ----------------------------------------------------------------------------------------

/// The encryption context of an object.
pub const ENCRYPTION_CONTEXT_MAX_BYTES: usize = 8 * KIB as usize;
/// The unit of durability: a synced page of this size is never written again (data-format.md,
/// "Assumptions about the disk").
pub const PAGE_BYTES: u64 = 4 * KIB;
/// Bytes of a block, each of which has a checksum (data-format.md, "Extents").
pub const BLOCK_BYTES: u64 = 64 * KIB;
/// A data segment is sealed when it has reached this size.
pub const SEGMENT_MAX_BYTES: u64 = 256 * MIB;
/// Cached open segments, besides those in use, if the limit of open files is low.
pub const SEGMENTS_OPEN_MIN: usize = 16;
/// Cached open segments if the limit of open files is high. Each takes some 2 KiB, most of it in
/// the kernel.
pub const SEGMENTS_OPEN_MAX: usize = 4096;
/// Segments with live bytes up to this share are compacted, so that the segments take at most twice
/// the space of the live bytes.
pub const MOVE_BELOW_LIVE_PERCENT: u64 = 50;
/// Segments whose copy on the remote has a smaller share of live bytes are compacted, which means
/// to fetch these. Space there is at most the inverse of it times the live bytes.
pub const MOVE_REMOTE_BELOW_LIVE_PERCENT: u64 = 35;
/// The time for which the copy of a segment stays on the remote after the last version that
/// referred to it is gone.
pub const KEEP_DROPPED_SECS: u64 = 24 * 3600;
/// The default interval at which the log is sent to the remote.
pub const SHIP_EVERY_SECS: u64 = 2;
/// The default of the time into the past that a restore from the remote reaches at least.
pub const SHIP_WINDOW_SECS: u64 = 7 * 24 * 3600;
/// The interval of the roots on the remote, from which a restore begins.
pub const ROOT_EVERY_SECS: u64 = 3600;
/// Segments beyond the number that the live bytes would fill. If there are more, the emptiest are
/// merged.
pub const SEGMENTS_BESIDE_MAX: u64 = 32;
/// Segments with live bytes up to this share are merged. Each reclaimed byte costs writing at most
/// four. So the segments take at most a quarter more space than the live bytes.
pub const MERGE_BELOW_LIVE_PERCENT: u64 = 80;
/// The share below which segments are merged while the store is idle.
pub const COMPACT_BELOW_LIVE_PERCENT: u64 = 90;
/// Segments that are compacted in one walk over the index.
pub const MOVED_AT_ONCE_MAX_SEGMENTS: usize = 256;
/// Bytes that are moved in one commit, apart from the last extent.
pub const MOVE_BATCH_BYTES: u64 = 4 * MIB;
/// The least number of adjacent dead bytes in a sealed segment that is punched as a hole.
pub const HOLE_MIN_BYTES: u64 = MIB;
/// Dead bytes for each key at which the index is walked for holes, unless space is short: the walk
/// costs less than the deletes did.
pub const HOLES_DEAD_BYTES_PER_KEY: u64 = 256;
/// The share of the memory of the index that the results of one walk may take,
pub const WALK_MEMORY_SHARE: u64 = 32;
/// and the least memory for them.
pub const WALK_MEMORY_MIN_BYTES: u64 = 4 * MIB;
/// The results are saved after each walk, and otherwise at this interval if they have changed.
pub const RECLAIM_SAVE_EVERY_SECS: u64 = 10 * 60;
/// The size of that file: some three hundred thousand segments fit.
pub const RECLAIM_FILE_MAX_BYTES: u64 = 4 * MIB;
/// Bytes moved a second to reclaim space, while no space is short.
pub const RECLAIM_RATE_BYTES_PER_SEC: u64 = 32 * MIB;
/// Payload of one extent.
pub const EXTENT_PAYLOAD_MAX_BYTES: u64 = 16 * MIB;
/// Bodies up to this size are passed to the committer in memory, so that many share one write and
/// one sync.
pub const PACKED_PAYLOAD_MAX_BYTES: u64 = 64 * KIB;
/// Payloads that one commit group may pack.
pub const PACK_MAX_BYTES: u64 = 4 * MIB;
/// Mutations that one commit group may hold, as a bound on the time that later ones wait for it.
/// One with several lookups in the index counts as so many: the deletion of 1,000 keys as 1,000.
pub const GROUP_LOOKUPS_MAX: usize = 1024;
/// Bytes of the entries of one group; a decoder refuses more (data-format.md, "Groups").
pub const GROUP_BODY_MAX_BYTES: u64 = 16 * MIB;
/// A file of the metadata log is closed when it has reached this size.
pub const LOG_FILE_MAX_BYTES: u64 = 64 * MIB;
/// The default of the bytes of log files that are kept for followers alone.
pub const FOLLOW_MAX_BYTES: u64 = 1024 * MIB;

/// The time of replaying the log at the start, as measured with keys in random order: for each
/// group, ...
pub const REPLAY_GROUP_NANOS: u64 = 6_000;
/// ... and for each entry.
pub const REPLAY_ENTRY_NANOS: u64 = 5_000;
/// A checkpoint is written when replaying the log since the last one would take this long. The log
/// written during the checkpoint takes half a second or so: a start after a crash replays for five
/// seconds at the most.
pub const REPLAY_MAX_MILLIS: u64 = 2_500;
/// At close no checkpoint is written if replaying the log takes less than this.
pub const REPLAY_AFTER_CLOSE_MILLIS: u64 = 500;

/// The interval between the starts of two passes of the scrub, unless a pass takes longer.
pub const SCRUB_EVERY_SECS: u64 = 7 * 24 * 60 * 60;
/// The interval between the starts of two checks of the log and the checkpoints.
pub const LOG_SCRUB_EVERY_SECS: u64 = 24 * 60 * 60;
/// The target time of a pass without a rate, on a fast enough disk.
pub const SCRUB_PASS_SECS: u64 = 6 * 24 * 60 * 60;
/// The interval at which the position of a pass is saved.
pub const SCRUB_SAVE_EVERY_SECS: u64 = 60;
/// The least rate of the scrub if none is set: low enough for an SD card to serve clients at the
/// same time.
pub const SCRUB_RATE_BYTES_PER_SEC: u64 = 4 * MIB;
/// The scrub reads for at most one in this many parts of the time, at every rate.
pub const SCRUB_TIME_SHARE: u32 = 4;
/// Percent of the bytes on a remote that the scrub reads in [`SCRUB_REMOTE_SECS`], unless the
/// operator sets another number.
pub const SCRUB_REMOTE_PERCENT: u64 = 1;
/// The time for [`SCRUB_REMOTE_PERCENT`], in seconds: 30 days.
pub const SCRUB_REMOTE_SECS: u64 = 30 * 24 * 60 * 60;
/// Bad extents that are listed until they are gone; further ones are counted and logged.
pub const SCRUB_BAD_EXTENTS_MAX: usize = 100;
/// The size of the file of the scrub's state.
pub const SCRUB_FILE_MAX_BYTES: u64 = MIB;
/// Samples of the history of figures: of each minute of a day, and of each hour of 90 days.
pub const HISTORY_MINUTES_MAX: usize = 24 * 60;
/// See [`HISTORY_MINUTES_MAX`].
pub const HISTORY_HOURS_MAX: usize = 90 * 24;
/// Days of which the history has the sizes of buckets, today among them.
pub const HISTORY_DAYS_MAX: usize = 8;
/// Buckets of which it has the sizes, the first ones by age.
pub const HISTORY_BUCKETS_MAX: usize = 1_000;
/// The size of its file.
pub const HISTORY_FILE_MAX_BYTES: u64 = MIB;

const _: () = {
    assert!(BLOCK_BYTES.is_multiple_of(PAGE_BYTES));
    // Whole blocks of the MD5, so that only the last piece ends within a block.
    assert!(MD5_PIECE_BYTES.is_multiple_of(64));
    assert!(EXTENT_PAYLOAD_MAX_BYTES.is_multiple_of(BLOCK_BYTES));
    // An extent with its header and footer fits in a segment.
    assert!(EXTENT_PAYLOAD_MAX_BYTES * 2 <= SEGMENT_MAX_BYTES);
    assert!(PACKED_PAYLOAD_MAX_BYTES <= PACK_MAX_BYTES);
    assert!(PACK_MAX_BYTES * 2 <= SEGMENT_MAX_BYTES);
    assert!(MOVE_BELOW_LIVE_PERCENT <= MERGE_BELOW_LIVE_PERCENT && MERGE_BELOW_LIVE_PERCENT < 100);
    assert!(MOVE_REMOTE_BELOW_LIVE_PERCENT <= MOVE_BELOW_LIVE_PERCENT);
    assert!(GROUP_BODY_MAX_BYTES * 2 <= LOG_FILE_MAX_BYTES);
    assert!(SCRUB_PASS_SECS < SCRUB_EVERY_SECS);
    assert!(PART_SIZE_MIN_BYTES <= PUT_SIZE_MAX_BYTES && PUT_SIZE_MAX_BYTES <= OBJECT_SIZE_MAX_BYTES);
    // A fully percent-encoded key and all metadata leave half of a head for other lines.
    assert!(
        3 * KEY_LEN_MAX_BYTES + USER_METADATA_MAX_BYTES + SYSTEM_METADATA_MAX_BYTES <= HEAD_MAX_BYTES / 2
    );
    assert!(HEAD_MAX_BYTES <= HEAD_MAX_BYTES_CEILING);
    // Fields are searched in one piece. A form has no small body, in whose place are its fields,
    // twice, and its buffer.
    assert!(FORM_FIELDS_MAX_BYTES + FORM_BOUNDARY_MAX_BYTES < FORM_BUFFER_BYTES);
    assert!((FORM_BUFFER_BYTES + 2 * FORM_FIELDS_MAX_BYTES) as u64 <= SMALL_BODY_MAX_BYTES);
    // The buffer of the head takes every chunk line.
    assert!(CHUNK_LINE_MAX_BYTES < HEAD_MAX_BYTES && CHUNK_LINE_MAX_BYTES <= CHUNK_EXTRA_MAX_BYTES);
    assert!(WORKERS_DEFAULT <= QUEUE_LEN_DEFAULT && QUEUE_LEN_DEFAULT <= CONNECTIONS_MAX_DEFAULT);
    assert!(DRAINING_MAX < CONNECTIONS_MAX_DEFAULT);
    // A worker that waits for the next request or for the rest of a body is free again long before
    // a request would time out.
    assert!(
        LINGER_DEFAULT_MILLIS <= LINGER_MAX_MILLIS && LINGER_MAX_MILLIS < HEAD_DEADLINE_DEFAULT_SECS * 1000
    );
    assert!(UNREAD_BODY_WAIT_MILLIS <= LINGER_MAX_MILLIS);
    // A client that uses the whole drain time does not delay the shutdown.
    assert!(DRAIN_DEADLINE_DEFAULT_SECS < SHUTDOWN_TIMEOUT_DEFAULT_SECS);
    // The buffers of a request and a response body and both heads leave room for the stack.
    assert!(
        (MD5_PIECES_MAX * MD5_PIECE_BYTES + RESPONSE_BUFFER_BYTES + 2 * HEAD_MAX_BYTES) as u64
            + SMALL_BODY_MAX_BYTES
            + PACKED_PAYLOAD_MAX_BYTES
            <= MEMORY_OF_WORKER_BYTES
    );
    // A stored block fits in the response buffer.
    assert!(RESPONSE_BUFFER_BYTES as u64 >= BLOCK_BYTES && UNREAD_BODY_MAX_BYTES <= DRAIN_MAX_BYTES);
};
