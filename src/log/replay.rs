//! Reading the metadata log: by the server at start, and by the tools. Replay judges the end of the
//! log (data-format.md, section 5, "Recovery") and writes nothing.

use std::io;
use std::ops::AddAssign;
use std::sync::Arc;

use crate::base::limits::{MIB, PAGE_BYTES};
use crate::format::{
    Features, FileHeader, FileKind, Group, GroupHeader, GroupKind, Pack, StoreId, UncheckedGroup, log_path,
    page_ceil,
};
use crate::fs::{File, Fs};
use crate::log::files::newer;
use crate::log::groups::{GroupError, GroupFile, GroupReader};
use crate::log::{Damage, LogError, list_numbers, open_file, unreadable};

/// A page of zeros. Comparing with it is many times faster than a loop over bytes.
const ZEROS: [u8; PAGE_BYTES as usize] = [0; PAGE_BYTES as usize];

/// A log file is created with space for at least one group.
const FILE_LEN_MIN: u64 = 2 * PAGE_BYTES;

/// Where reading starts.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReplayStart {
    /// Groups up to this sequence are in the checkpoint.
    pub covered: u64,
    /// The checkpoint proves that groups up to this sequence were durable.
    pub through: u64,
}

/// The last group before a crash, never acknowledged and dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornGroup {
    /// The log file, relative to the data directory.
    pub file: String,
    /// Where the group starts.
    pub offset: u64,
    /// The end of its last byte that is not zero.
    pub end: u64,
    /// The reason why it is not whole.
    pub why: String,
}

/// The size of some groups of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogVolume {
    /// Groups.
    pub groups: u64,
    /// Their entries.
    pub entries: u64,
    /// Bytes of the entries.
    pub entry_bytes: u64,
    /// Bytes of the groups, padding included.
    pub log_bytes: u64,
}

impl LogVolume {
    /// One group with a body of `entries` entries and `entry_bytes` bytes.
    pub fn of_group(entries: u64, entry_bytes: u64) -> Self {
        let log_bytes = page_ceil(GroupHeader::BYTES as u64 + entry_bytes);
        Self { groups: 1, entries, entry_bytes, log_bytes }
    }
}

impl AddAssign for LogVolume {
    fn add_assign(&mut self, other: Self) {
        self.groups += other.groups;
        self.entries += other.entries;
        self.entry_bytes += other.entry_bytes;
        self.log_bytes += other.log_bytes;
    }
}

/// The end of the log.
pub struct LogTail {
    /// The last file.
    pub file: Arc<dyn File>,
    /// The sequence in its name.
    pub number: u64,
    /// The critical features that its header states.
    pub features: Features,
    /// Where the next group goes.
    pub position: u64,
    /// The sequence of the next group.
    pub sequence: u64,
    /// The header CRC of the last good group.
    pub previous_crc: u32,
    /// The highest file length that a group of the last file states.
    pub durable_len: u64,
    /// Whether only its own bytes prove that the last good group was durable.
    pub in_doubt: bool,
    /// The segment with the pack of the last group in doubt. It must be kept, since the next start
    /// may check the pack again.
    pub doubtful_segment: Option<u64>,
    /// The group that was dropped, if there was one.
    pub torn: Option<TornGroup>,
    /// The groups from the start to the end.
    pub volume: LogVolume,
    /// The damage that forbids appending, if there is any.
    pub damage: Option<Damage>,
}

/// Receives the groups after the start, in order. An error says why a group is invalid.
type GroupVisitor<'v> = dyn FnMut(Group) -> Result<(), String> + 'v;

/// Whether the bytes of a pack are complete.
pub type PackCheck<'p> = dyn Fn(&Pack) -> Result<bool, LogError> + 'p;

/// Reads the log.
pub struct Replay<'a> {
    /// The disk.
    pub fs: &'a dyn Fs,
    /// The store.
    pub store: StoreId,
    /// Where to start.
    pub start: ReplayStart,
    /// Called for the pack of the last group.
    pub pack_is_good: &'a PackCheck<'a>,
}

impl Replay<'_> {
    /// Gives every group after the start to `visit` and judges the end. Groups before damage are
    /// given, too.
    ///
    /// # Errors
    /// Of the disk; damage that leaves no place to continue: no log file, or a bad file header.
    pub fn run(&self, visit: &mut GroupVisitor<'_>) -> Result<LogTail, LogError> {
        let numbers = self.relevant_files()?;
        let last = *numbers.last().expect("there is at least the file that reading starts in");
        let mut walk = ReplayPass {
            replay: self,
            visit,
            sequence: numbers[0],
            previous_crc: None,
            watermark: self.start.through.max(last - 1),
            file_len: FILE_LEN_MIN,
            held: None,
            volume: LogVolume::default(),
        };
        let mut log = LogFile::open(self, numbers[0])?;
        for next in &numbers[1..] {
            let mut stop = walk.read_file(&log)?;
            if *next != walk.sequence || stop.damage.is_some() {
                return walk.judge_end(log, stop);
            }
            match LogFile::open(self, *next) {
                Ok(opened) => log = opened,
                Err(LogError::Damaged(damage)) => {
                    stop.damage = Some(damage);
                    return walk.judge_end(log, stop);
                }
                Err(error) => return Err(error),
            }
        }
        let stop = walk.read_file(&log)?;
        walk.judge_end(log, stop)
    }

    /// The file that holds the first group after the start, and all later ones.
    fn relevant_files(&self) -> Result<Vec<u64>, LogError> {
        let wanted = self.start.covered + 1;
        let mut numbers = list_numbers(self.fs, FileKind::Log)?;
        let from = numbers.iter().rposition(|number| *number <= wanted).ok_or_else(|| {
            Damage::new(
                log_path(wanted),
                0,
                "the log file that this group is in, or an earlier one, is missing",
            )
        })?;
        Ok(numbers.split_off(from))
    }
}

/// A log file that is being read.
struct LogFile {
    number: u64,
    path: String,
    file: Arc<dyn File>,
    header: FileHeader,
    len: u64,
}

impl LogFile {
    fn open(replay: &Replay<'_>, number: u64) -> Result<Self, LogError> {
        let (file, header) = open_file(replay.fs, FileKind::Log, number, Some(replay.store))?;
        let len = file.len()?;
        Ok(Self { number, path: log_path(number), file, header, len })
    }

    /// Scans the bytes after the last good group: the highest `stable` of any group found there,
    /// the end of the last bytes that are not zero, and unreadable pages.
    fn scan_tail(&self, store: &StoreId, position: u64) -> Result<TailScan, LogError> {
        let mut tail = TailScan { stable: 0, end: None, damage: None };
        let mut buffer = vec![0; MIB as usize];
        let mut at = position;
        // After a read error, the scan continues page by page.
        let mut step = MIB;
        while at < self.len {
            let len = step.min(self.len - at);
            match self.file.read_exact_at(&mut buffer[..len as usize], at) {
                Err(error) if error.kind() == io::ErrorKind::InvalidData && len > PAGE_BYTES => {
                    step = PAGE_BYTES;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    tail.damage.get_or_insert_with(|| Damage::new(&self.path, at, unreadable(&error)));
                }
                read => {
                    read?;
                    for (index, page) in buffer[..len as usize].chunks(PAGE_BYTES as usize).enumerate() {
                        tail.add_page(store, page, at + index as u64 * PAGE_BYTES);
                    }
                }
            }
            at += len;
        }
        Ok(tail)
    }
}

struct TailScan {
    stable: u64,
    end: Option<u64>,
    damage: Option<Damage>,
}

impl TailScan {
    fn add_page(&mut self, store: &StoreId, page: &[u8], at: u64) {
        if *page != ZEROS[..page.len()] {
            self.end = Some(at + page.len() as u64);
            if let Ok(group) = UncheckedGroup::decode(GroupKind::Log, store, page) {
                self.stable = self.stable.max(group.header().stable);
            }
        }
    }
}

/// A good group that is applied only when it is known to count.
struct PendingGroup {
    group: Group,
    path: String,
    at: u64,
}

/// The position where reading a file ended, and the reason.
struct ReplayStop {
    position: u64,
    why: String,
    damage: Option<Damage>,
}

/// One run of the replay.
struct ReplayPass<'w, 'v> {
    replay: &'w Replay<'w>,
    visit: &'w mut GroupVisitor<'v>,
    /// The sequence expected next.
    sequence: u64,
    /// The header CRC of the last good group; `None` before the first file has been opened.
    previous_crc: Option<u32>,
    /// The highest sequence known to have been durable.
    watermark: u64,
    /// The highest length that a group of the current file states.
    file_len: u64,
    held: Option<PendingGroup>,
    /// The groups given to the visitor.
    volume: LogVolume,
}

impl ReplayPass<'_, '_> {
    /// Reads the groups of a file; each is applied after the next one was found good.
    fn read_file(&mut self, log: &LogFile) -> Result<ReplayStop, LogError> {
        self.file_len = FILE_LEN_MIN;
        // The first file that is read has none before it to be compared with.
        let expected = *self.previous_crc.get_or_insert(log.header.previous_crc);
        if expected != log.header.previous_crc {
            let damage = Damage::new(&log.path, 0, "the file does not follow the one before it");
            return Ok(ReplayStop { position: PAGE_BYTES, why: String::new(), damage: Some(damage) });
        }
        let mut reader = GroupReader {
            groups: GroupFile {
                file: log.file.as_ref(),
                len: log.len,
                kind: GroupKind::Log,
                store: self.replay.store,
            },
            position: PAGE_BYTES,
            sequence: self.sequence,
            previous_crc: expected,
        };
        loop {
            match reader.next()? {
                Err(GroupError::Bad(why)) => {
                    return Ok(ReplayStop { position: reader.position, why, damage: None });
                }
                Err(GroupError::Unreadable(why)) => {
                    let position = reader.position;
                    let damage = Damage::new(&log.path, reader.position, &why);
                    return Ok(ReplayStop { position, why, damage: Some(damage) });
                }
                Err(GroupError::Newer(why)) => return Err(newer(&log.path, why)),
                Ok((group, at)) => {
                    if let Err(damage) = self.accept(PendingGroup { group, path: log.path.clone(), at }) {
                        return Ok(ReplayStop { position: at, why: String::new(), damage: Some(damage) });
                    }
                }
            }
        }
    }

    fn accept(&mut self, held: PendingGroup) -> Result<(), Damage> {
        let header = &held.group.header;
        self.sequence = header.sequence + 1;
        self.previous_crc = Some(held.group.crc);
        self.watermark = self.watermark.max(header.stable);
        self.file_len = self.file_len.max(header.file_len);
        // One group behind: the last one may turn out not to count, and what is applied cannot be
        // taken back.
        let Some(before) = self.held.replace(held) else {
            return Ok(());
        };
        let applied = self.apply(before);
        if applied.is_err() {
            // Groups after an invalid one do not count.
            self.held = None;
        }
        applied
    }

    fn apply(&mut self, held: PendingGroup) -> Result<(), Damage> {
        let sequence = held.group.header.sequence;
        if sequence <= self.replay.start.covered {
            return Ok(());
        }
        self.volume += LogVolume::of_group(held.group.entries.len() as u64, held.group.body_len as u64);
        let PendingGroup { group, path, at } = held;
        (self.visit)(group).map_err(|why| Damage::new(path, at, format!("group {sequence}: {why}")))
    }

    fn judge_end(mut self, log: LogFile, stop: ReplayStop) -> Result<LogTail, LogError> {
        let tail = log.scan_tail(&self.replay.store, stop.position)?;
        self.watermark = self.watermark.max(tail.stable);
        if tail.end.is_some() {
            // Only the next group is ever written there, and only after the last one is durable.
            self.watermark = self.watermark.max(self.sequence - 1);
        }
        let lost = stop.damage.or_else(|| self.lost_groups(&log, stop.position, &stop.why));
        let mut damage = lost.or(tail.damage);
        let mut torn = tail.end.map(|end| TornGroup {
            file: log.path.clone(),
            offset: stop.position,
            end,
            why: stop.why,
        });
        let mut position = stop.position;
        let mut in_doubt = false;
        let mut doubtful_segment = None;
        if let Some(held) = self.held.take() {
            in_doubt = held.group.header.sequence > self.watermark;
            doubtful_segment = held.group.header.pack.filter(|_| in_doubt).map(|pack| pack.segment);
            // With damage nothing is written any more, so that the group is shown as it is.
            let counts = damage.is_some() || self.pending_counts(&held, &mut damage)?;
            if !counts {
                // The next group overwrites it.
                position = held.at;
                self.sequence = held.group.header.sequence;
                self.previous_crc = Some(held.group.header.previous_crc);
                let why = "its pack did not reach the disk".into();
                torn = Some(TornGroup { file: held.path, offset: held.at, end: stop.position, why });
            } else if let Err(found) = self.apply(held) {
                damage.get_or_insert(found);
            }
        }
        Ok(LogTail {
            file: log.file,
            number: log.number,
            features: log.header.features,
            position,
            sequence: self.sequence,
            previous_crc: self.previous_crc.unwrap_or(log.header.previous_crc),
            durable_len: self.file_len,
            in_doubt,
            doubtful_segment,
            torn: torn.filter(|_| damage.is_none()),
            volume: self.volume,
            damage,
        })
    }

    /// The damage if durable groups or bytes are missing at the end.
    fn lost_groups(&self, log: &LogFile, position: u64, why: &str) -> Option<Damage> {
        if self.sequence <= self.watermark {
            let what = format!("group {} was durable and cannot be read: {why}", self.sequence);
            return Some(Damage::new(&log.path, position, what));
        }
        (log.len < self.file_len).then(|| {
            let what = format!("the file was cut off: it had at least {} bytes", self.file_len);
            Damage::new(&log.path, log.len, what)
        })
    }

    /// Whether the last good group is known to be durable, or its pack is complete. A segment that
    /// cannot be opened is damage: it was durable before the first pack was written to it.
    fn pending_counts(&self, held: &PendingGroup, damage: &mut Option<Damage>) -> Result<bool, LogError> {
        let header = &held.group.header;
        let Some(pack) = header.pack.filter(|_| header.sequence > self.watermark) else {
            return Ok(true);
        };
        match (self.replay.pack_is_good)(&pack) {
            Err(LogError::Damaged(found)) => {
                *damage = Some(found);
                Ok(true)
            }
            good => good,
        }
    }
}
