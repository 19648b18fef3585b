//! Every limit of the server in one place: the unit is the end of the name, the source stands above it,
//! and what must hold between two limits is asserted at compile time.

/// One kibibyte.
pub const KIB: u64 = 1024;
/// One mebibyte.
pub const MIB: u64 = 1024 * KIB;
/// One gibibyte.
pub const GIB: u64 = 1024 * MIB;
/// One tebibyte.
pub const TIB: u64 = 1024 * GIB;

// ---- The protocol -------------------------------------------------------------------------------------

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
/// User metadata in all: names and values together (S3 user guide, "User-defined object metadata").
pub const USER_METADATA_MAX_BYTES: usize = 2048;
/// The six standard headers that are kept with an object: names and values together (S3 user guide, "System-defined object
/// metadata"). All of it is in memory with the key.
pub const SYSTEM_METADATA_MAX_BYTES: usize = 2048;
/// Tags of one object (S3 user guide, "Categorizing your objects using tags").
pub const TAGS_MAX: usize = 10;
/// The key of a tag, in characters (ibidem).
pub const TAG_KEY_LEN_MAX_CHARS: usize = 128;
/// The value of a tag, in characters (ibidem).
pub const TAG_VALUE_LEN_MAX_CHARS: usize = 256;
/// Keys, versions, uploads or parts on one page of a listing (S3 API reference, `max-keys`).
pub const PAGE_LEN_MAX: usize = 1000;
/// Objects in one DeleteObjects request (S3 API reference, DeleteObjects).
pub const DELETE_OBJECTS_MAX: usize = 1000;
/// An XML request body.
pub const XML_BODY_MAX_BYTES: usize = MIB as usize;
/// The XML request body that lists the parts of an upload: 10,000 with SHA-256 checksums, quotes escaped and lines
/// indented, take 2.4 million bytes.
pub const PART_LIST_MAX_BYTES: usize = 3 * MIB as usize;
/// Difference between a request's date and the server's (S3 API reference, RequestTimeTooSkewed).
pub const CLOCK_SKEW_MAX_SECS: u64 = 15 * 60;
/// Longest validity of a presigned URL: seven days (S3 API reference, "Authenticating requests: query").
pub const PRESIGNED_EXPIRES_MAX_SECS: u64 = 604_800;
/// The line before a chunk of an `aws-chunked` body, or one trailer line behind the last, without its line end.
/// A size of 16 digits with a signature takes 97.
pub const AWS_CHUNK_LINE_MAX_BYTES: usize = 512;
/// Trailers that a request may announce; clients send one checksum.
pub const TRAILERS_MAX: usize = 8;
/// Derived signing keys that are kept for a user. Seven days of presigned URLs and today, in two regions, fit.
pub const SIGNING_KEYS_PER_USER_MAX: usize = 18;
/// Access key, secret key or name of a user.
pub const CREDENTIAL_LEN_MAX_BYTES: usize = 128;
/// Secret keys below that length are warned of: whoever records one signed request can try all of them at leisure.
pub const SECRET_ADVISED_BYTES: usize = 16;

// ---- Memory -------------------------------------------------------------------------------------------

/// The least that may be set for what is used beside the index.
pub const MEMORY_MIN_BYTES: u64 = 64 * MIB;
/// Where nothing is set, a quarter of what the process may have, but no less than [`MEMORY_MIN_BYTES`] and no more than this.
pub const MEMORY_DEFAULT_MAX_BYTES: u64 = GIB;
/// Of what the process may have beyond that, the index may take up three quarters where nothing is set: the rest is for what
/// snapshots of it still hold while a checkpoint is written, and for the system.
pub const INDEX_DEFAULT_SHARE: (u64, u64) = (3, 4);
/// It may take up no less where nothing is set.
pub const INDEX_DEFAULT_MIN_BYTES: u64 = 8 * MIB;
/// The program itself and the threads that are there once: the poller, the committer, checkpoints, the scrub, and what wins back
/// room, whose batches are the largest of it.
pub const MEMORY_OF_PROCESS_BYTES: u64 = 16 * MIB;
/// A worker: the buffers that bodies come and go through, among them the pieces for the MD5 ([`MD5_PIECES_MAX`]), a head, one
/// that it takes in for the poller, a small object on its way through the committer, a stack.
pub const MEMORY_OF_WORKER_BYTES: u64 = MIB;
/// A connection that waits, and its place in the queue.
pub const MEMORY_OF_CONNECTION_BYTES: u64 = KIB;
/// An encrypted one.
pub const MEMORY_OF_TLS_CONNECTION_BYTES: u64 = 24 * KIB;
/// What must be left for what single requests need beyond that.
pub const MEMORY_FOR_REQUESTS_MIN_BYTES: u64 = 12 * MIB;
/// How long a request waits for memory that others have reserved, before it is answered that it should come later.
pub const MEMORY_PATIENCE_MILLIS: u64 = 250;
/// When a client that was turned away for want of time or memory may try again.
pub const RETRY_AFTER_SECS: u64 = 1;
/// Received bytes of a request that may wait for a worker without a reservation of [`HEAD_MAX_BYTES`]: most heads.
pub const UNRESERVED_HEAD_BYTES: usize = 2 * KIB as usize;

// ---- The front end ------------------------------------------------------------------------------------

/// A request line and its headers.
pub const HEAD_MAX_BYTES: usize = 16 * KIB as usize;
/// The most that an operator may allow for them: a worker keeps a buffer of that size.
pub const HEAD_MAX_BYTES_CEILING: usize = MIB as usize;
/// Header lines of one request.
pub const HEADERS_MAX: usize = 100;
/// The line in front of one chunk of a request body (RFC 9112, section 7.1): its size and extensions that nobody reads.
pub const CHUNK_LINE_MAX_BYTES: usize = KIB as usize;
/// Chunk extensions and trailer lines of one request body in all.
pub const CHUNK_EXTRA_MAX_BYTES: usize = 16 * KIB as usize;
/// Threads that handle requests. Each holds a buffer of [`HEAD_MAX_BYTES`] and, once it has sent a large body, one of
/// [`RESPONSE_BUFFER_BYTES`].
pub const WORKERS_DEFAULT: usize = 96;
/// The most that an operator may allow.
pub const WORKERS_CEILING: usize = 1024;
/// Complete heads that wait for a worker; one more is answered with 503 at once.
pub const QUEUE_LEN_DEFAULT: usize = 1024;
/// The most that an operator may allow: the room for them is allocated at the start.
pub const QUEUE_LEN_CEILING: usize = 65_536;
/// Connections at a time. An idle one costs the kernel's socket and less than a kibibyte here.
pub const CONNECTIONS_MAX_DEFAULT: usize = 8192;
/// One address has this part of them at the most.
pub const CONNECTIONS_SHARE_DEFAULT: usize = 4;
/// The most that an operator may allow.
pub const CONNECTIONS_MAX_CEILING: usize = 1 << 20;
/// The longest deadline, patience or time-out that an operator may set: a day.
pub const DEADLINE_MAX_SECS: u64 = 24 * 60 * 60;
/// From the first byte of a head to its last (what RFC 9110, section 15.5.9, calls a time-out).
pub const HEAD_DEADLINE_DEFAULT_SECS: u64 = 20;
/// How long a connection may stay without a request.
pub const IDLE_DEADLINE_DEFAULT_SECS: u64 = 60;
/// The rate below which a peer uses up the patience with it, in both directions.
pub const RATE_MIN_DEFAULT_BYTES_PER_SEC: u64 = KIB;
/// How long a client may keep a worker waiting for its body beyond what its rate has earned.
pub const READ_PATIENCE_DEFAULT_SECS: u64 = 20;
/// How long a client may keep a worker waiting for room to write beyond what its rate has earned.
pub const WRITE_PATIENCE_DEFAULT_SECS: u64 = 30;
/// How long a worker that nobody else needs waits for the next request of the connection it has just served.
pub const LINGER_DEFAULT_MILLIS: u64 = 10;
/// The most that an operator may allow for it: a request may have to wait for a worker that lingers.
pub const LINGER_MAX_MILLIS: u64 = 1000;
/// From the order to stop to the end of the server, whatever still runs.
pub const SHUTDOWN_TIMEOUT_DEFAULT_SECS: u64 = 10;
/// The buffer of a worker for bodies that come from the store.
pub const RESPONSE_BUFFER_BYTES: usize = 256 * KIB as usize;
/// A piece of a large body, as it is read, written and handed to the MD5.
pub const MD5_PIECE_BYTES: usize = 128 * KIB as usize;
/// Of each body on its way in there are so many at most, one of them outside the mill. With two, body and mill would wait for each
/// other at every piece.
pub const MD5_PIECES_MAX: usize = 3;
/// Bodies with pieces that wait for the MD5; each belongs to a worker, so that this bounds nothing in practice.
pub const MD5_QUEUE_LEN: usize = WORKERS_CEILING;
/// The rest of a request body that is read only to keep the connection.
pub const UNREAD_BODY_MAX_BYTES: u64 = 64 * KIB;
/// How long that rest may keep the response waiting.
pub const UNREAD_BODY_PATIENCE_MILLIS: u64 = 100;
/// A body of at most this size is small: a worker of any duty may wait for it, and the largest is on the way in no time. What
/// is larger, or of unknown length, is large, in either direction.
pub const QUICK_BODY_MAX_BYTES: u64 = 256 * KIB;
/// How long a small body may take to follow its head before it counts as large, too.
pub const PROMPT_BODY_MILLIS: u64 = 200;
/// How long a worker waits for a commit that may take long before it takes it for one that does.
pub const PROMPT_COMMIT_MILLIS: u64 = 250;
/// How long a worker waits for room to send before it lets the response wait without it, where others wait for the worker.
pub const YIELD_AFTER_MILLIS: u64 = 10;
/// How many times faster the patience with a slow peer is used up while others wait for a worker.
pub const PRESSED_FACTOR: u32 = 16;
/// What a client may still send after the last response of its connection, so that it comes to read that response.
pub const DRAIN_MAX_BYTES: u64 = 16 * MIB;
/// How long it may take for that.
pub const DRAIN_DEADLINE_DEFAULT_SECS: u64 = 5;
/// Connections in that state at a time; more are closed without it.
pub const DRAINING_MAX: usize = 256;
/// An answer that may be late begins after so long (S3 API reference, CompleteMultipartUpload): well before clients give up,
/// most of which wait for a minute.
pub const PADDING_AFTER_SECS: u64 = 5;
/// A late answer grows by a blank this often, so that nobody underway takes the connection for dead.
pub const PADDING_EVERY_SECS: u64 = 5;

// ---- The store ----------------------------------------------------------------------------------------

/// The unit of durability: no page of this size that was synced is ever written again (data-format.md,
/// "Assumptions about the disk").
pub const PAGE_BYTES: u64 = 4 * KIB;
/// Bytes that one block checksum covers (data-format.md, "Extents").
pub const BLOCK_BYTES: u64 = 64 * KIB;
/// A data segment is sealed when it has reached this size.
pub const SEGMENT_MAX_BYTES: u64 = 256 * MIB;
/// Segments whose files are kept open, beside those that are in use at the moment, where few files may be open.
pub const SEGMENTS_OPEN_MIN: usize = 16;
/// The same where many may be. Each takes some 2 KiB, most of it the kernel's.
pub const SEGMENTS_OPEN_MAX: usize = 4096;
/// What lives in a segment is moved when it would fill no more than so many hundredths of it: then the segments take up
/// at most twice what lives in them.
pub const MOVE_BELOW_LIVE_PERCENT: u64 = 50;
/// Segments that there may be beside those that what lives would fill. When there are more, the emptiest are put together.
pub const SEGMENTS_BESIDE_MAX: u64 = 32;
/// They are put together as far as they would fill no more than so many hundredths of a segment: a byte that goes costs the
/// writing of four at the most. So there is at most a quarter more of segments than what lives would fill, however much
/// that is.
pub const MERGE_BELOW_LIVE_PERCENT: u64 = 80;
/// The same while nobody uses the store.
pub const COMPACT_BELOW_LIVE_PERCENT: u64 = 90;
/// Segments that are emptied together, in one walk over the index.
pub const MOVED_AT_ONCE_MAX_SEGMENTS: usize = 256;
/// What is moved before it is committed, but for the last extent of it.
pub const MOVE_BATCH_BYTES: u64 = 4 * MIB;
/// Dead bytes side by side in a sealed segment are given back to the file system as a hole when they are so many.
pub const HOLE_MIN_BYTES: u64 = MIB;
/// The index is walked to find where when so many bytes have died for each key in it, unless room is short: the walk
/// costs less than the deletes did.
pub const HOLES_DEAD_BYTES_PER_KEY: u64 = 256;
/// What is gathered in a walk over the index, to find holes or what the scrub reads next, takes up no more than such a share of
/// what the index itself does,
pub const WALK_MEMORY_SHARE: u64 = 32;
/// or than so many bytes, where that is more.
pub const WALK_MEMORY_MIN_BYTES: u64 = 4 * MIB;
/// What was found out is kept in a file after each walk, and so often where something else has changed.
pub const RECLAIM_SAVE_EVERY_SECS: u64 = 10 * 60;
/// That file: there is room for some three hundred thousand segments.
pub const RECLAIM_FILE_MAX_BYTES: u64 = 4 * MIB;
/// What is moved in a second so that room is won back, in bytes, where none is short.
pub const RECLAIM_RATE_BYTES_PER_SEC: u64 = 32 * MIB;
/// Payload of one extent.
pub const EXTENT_PAYLOAD_MAX_BYTES: u64 = 16 * MIB;
/// A body of at most this size goes to the committer in memory, so that many share one write and one sync.
pub const PACKED_PAYLOAD_MAX_BYTES: u64 = 64 * KIB;
/// Payloads that one commit group may pack.
pub const PACK_MAX_BYTES: u64 = 4 * MIB;
/// Mutations that one commit group may hold.
pub const GROUP_MUTATIONS_MAX: usize = 1024;
/// Entries of one group, in bytes; a decoder refuses more (data-format.md, "Groups").
pub const GROUP_BODY_MAX_BYTES: u64 = 16 * MIB;
/// A file of the metadata log is closed when it has reached this size.
pub const LOG_FILE_MAX_BYTES: u64 = 64 * MIB;

/// What reading the log takes a start, as measured with keys in random order (README.md): for each group, ...
pub const REPLAY_GROUP_NANOS: u64 = 6_000;
/// ... and for each entry.
pub const REPLAY_ENTRY_NANOS: u64 = 5_000;
/// When a start would take so long for the log behind the last checkpoint, another checkpoint is written. What is written
/// meanwhile is left for half a second or so: a start after a crash takes five seconds for the log at the most.
pub const REPLAY_MAX_MILLIS: u64 = 2_500;
/// A store that is closed leaves so much of the log to the next start, rather than write a checkpoint.
pub const REPLAY_AFTER_CLOSE_MILLIS: u64 = 500;

/// The scrub begins a pass so long after the last one was begun, or when that has ended, where it took longer.
pub const SCRUB_EVERY_SECS: u64 = 7 * 24 * 60 * 60;
/// A pass takes no longer than this where no rate is set and the disk is fast enough.
pub const SCRUB_PASS_SECS: u64 = 6 * 24 * 60 * 60;
/// While it goes on, it keeps where it is so often.
pub const SCRUB_SAVE_EVERY_SECS: u64 = 60;
/// The least that it reads of the disk in a second where no rate is set: little enough for an SD card to serve clients meanwhile.
pub const SCRUB_RATE_BYTES_PER_SEC: u64 = 4 * MIB;
/// It reads for no more than one in so many parts of the time, whatever rate is set.
pub const SCRUB_TIME_SHARE: u32 = 4;
/// Bad extents that are listed until they are gone; more are counted and logged.
pub const SCRUB_BAD_EXTENTS_MAX: usize = 100;
/// The file in which it keeps them.
pub const SCRUB_FILE_MAX_BYTES: u64 = MIB;

const _: () = {
    assert!(BLOCK_BYTES.is_multiple_of(PAGE_BYTES));
    // Whole blocks of the MD5, so that only the last piece ends within one.
    assert!(MD5_PIECE_BYTES.is_multiple_of(64));
    assert!(EXTENT_PAYLOAD_MAX_BYTES.is_multiple_of(BLOCK_BYTES));
    // An extent never spans segments, whatever stands before and behind its payload.
    assert!(EXTENT_PAYLOAD_MAX_BYTES * 2 <= SEGMENT_MAX_BYTES);
    assert!(PACKED_PAYLOAD_MAX_BYTES <= PACK_MAX_BYTES);
    assert!(PACK_MAX_BYTES * 2 <= SEGMENT_MAX_BYTES);
    assert!(MOVE_BELOW_LIVE_PERCENT <= MERGE_BELOW_LIVE_PERCENT && MERGE_BELOW_LIVE_PERCENT < 100);
    assert!(GROUP_BODY_MAX_BYTES * 2 <= LOG_FILE_MAX_BYTES);
    assert!(SCRUB_PASS_SECS < SCRUB_EVERY_SECS);
    assert!(PART_SIZE_MIN_BYTES <= PUT_SIZE_MAX_BYTES && PUT_SIZE_MAX_BYTES <= OBJECT_SIZE_MAX_BYTES);
    // A key of which every byte is percent-encoded and all metadata leave room for the rest of a head.
    assert!(
        3 * KEY_LEN_MAX_BYTES + USER_METADATA_MAX_BYTES + SYSTEM_METADATA_MAX_BYTES <= HEAD_MAX_BYTES / 2
    );
    assert!(HEAD_MAX_BYTES <= HEAD_MAX_BYTES_CEILING);
    // The buffer that held the head takes every chunk line.
    assert!(CHUNK_LINE_MAX_BYTES < HEAD_MAX_BYTES && CHUNK_LINE_MAX_BYTES <= CHUNK_EXTRA_MAX_BYTES);
    assert!(WORKERS_DEFAULT <= QUEUE_LEN_DEFAULT && QUEUE_LEN_DEFAULT <= CONNECTIONS_MAX_DEFAULT);
    assert!(DRAINING_MAX < CONNECTIONS_MAX_DEFAULT);
    // A worker that lingers or reads the rest of a body is free again long before anyone calls the server slow.
    assert!(
        LINGER_DEFAULT_MILLIS <= LINGER_MAX_MILLIS && LINGER_MAX_MILLIS < HEAD_DEADLINE_DEFAULT_SECS * 1000
    );
    assert!(UNREAD_BODY_PATIENCE_MILLIS <= LINGER_MAX_MILLIS);
    // A client that needs its whole drain does not hold up the end of the server.
    assert!(DRAIN_DEADLINE_DEFAULT_SECS < SHUTDOWN_TIMEOUT_DEFAULT_SECS);
    // What a worker may hold of a body on its way in and of one on its way out, with both heads, leaves room for its stack.
    assert!(
        (MD5_PIECES_MAX * MD5_PIECE_BYTES + RESPONSE_BUFFER_BYTES + 2 * HEAD_MAX_BYTES) as u64
            + QUICK_BODY_MAX_BYTES
            + PACKED_PAYLOAD_MAX_BYTES
            <= MEMORY_OF_WORKER_BYTES
    );
    // A stored block fits the buffer that it goes out from.
    assert!(RESPONSE_BUFFER_BYTES as u64 >= BLOCK_BYTES && UNREAD_BODY_MAX_BYTES <= DRAIN_MAX_BYTES);
};
