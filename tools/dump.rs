//! The command `dump`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use siltstone::base::limits::PAGE_BYTES;
use siltstone::format::{
    ClientIds, DecodeError, ExtentHeader, FileHeader, FileKind, Footer, Group, GroupHeader, GroupKind,
    RawEntry, SaltPage, StoreId, UncheckedGroup, number_of,
};
use siltstone::fs::{File, Fs, OsFs, ReadOnlyFs};
use siltstone::log::{GroupScan, LogError, Scanned, Segment, SegmentRecord, SegmentScan, any_header};
use siltstone::vault;

use crate::data_dir::DataDir;
use crate::outcome::{Failure, Outcome};
use crate::{describe, show};

/// How far below its data directory a file may be: one that was set aside is in `aside/X/meta`.
const ROOT_DEPTH: usize = 4;

/// Prints the records of the files. An unreadable file does not prevent the others from being
/// printed.
pub(crate) fn run(
    data_dir: &DataDir,
    files: &[PathBuf],
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let mut worst = Outcome::Success;
    for path in files {
        let outcome = match Dump::open(data_dir, path, json, out).and_then(Dump::run) {
            Err(Failure::Output(error)) => return Err(Failure::Output(error)),
            Err(failure) => {
                failure.report();
                Outcome::Failed
            }
            Ok(outcome) => outcome,
        };
        worst = worst.max(outcome);
    }
    Ok(worst)
}

/// The dump of one file.
struct Dump<'a> {
    path: &'a Path,
    file: Arc<dyn File>,
    json: bool,
    out: &'a mut dyn Write,
    outcome: Outcome,
}

/// Opens a file, in the clear where it is one of an encrypted data directory.
fn open_file(data_dir: &DataDir, path: &Path) -> Result<Arc<dyn File>, Failure> {
    let (dir, name) = split(path)?;
    let file = OsFs::new(dir).open_read(name).map_err(|error| Failure::Command(error.to_string()))?;
    let mut head = [0; SaltPage::HEAD_BYTES];
    let is_encrypted = file.read_exact_at(&mut head, 0).is_ok() && SaltPage::is_meant(&head);
    if !is_encrypted {
        return Ok(file);
    }
    let path = std::path::absolute(path).map_err(|error| Failure::Command(error.to_string()))?;
    for root in path.ancestors().skip(1).take(ROOT_DEPTH) {
        let has_keys =
            vault::is_encrypted(&OsFs::new(root)).map_err(|error| Failure::of(root.display(), error))?;
        if let Some(inside) = path.strip_prefix(root).ok().and_then(Path::to_str).filter(|_| has_keys) {
            return data_dir
                .beside(root)
                .disk()?
                .open_read(inside)
                .map_err(|error| Failure::Command(error.to_string()));
        }
    }
    Err(Failure::of(path.display(), "it is encrypted, and there is no KEYS in a directory above it"))
}

/// The facts needed to read a file.
struct Identity {
    kind: FileKind,
    number: u64,
    store: StoreId,
    /// The sequence and previous CRC of the first group, if the file header is good.
    first: Option<(u64, u32)>,
}

impl Identity {
    fn ids(&self) -> ClientIds {
        ClientIds::new(&self.store)
    }
}

impl<'a> Dump<'a> {
    fn open(data_dir: &DataDir, path: &'a Path, json: bool, out: &'a mut dyn Write) -> Result<Self, Failure> {
        let file = open_file(data_dir, path)?;
        if !json {
            writeln!(out, "{}", path.display())?;
        }
        Ok(Self { path, file, json, out, outcome: Outcome::Success })
    }

    fn run(mut self) -> Result<Outcome, Failure> {
        if let Some(identity) = self.header()? {
            match identity.kind {
                FileKind::Segment => self.segment(&identity)?,
                FileKind::Log => self.groups(GroupKind::Log, &identity)?,
                FileKind::Checkpoint => self.groups(GroupKind::Checkpoint, &identity)?,
            }
        }
        Ok(self.outcome)
    }

    /// Prints the file header, and identifies the file, if possible.
    fn header(&mut self) -> Result<Option<Identity>, Failure> {
        let len = PAGE_BYTES.min(self.file.len().map_err(|error| self.unreadable(error))?);
        let mut page = vec![0; len as usize];
        self.file.read_exact_at(&mut page, 0).map_err(|error| self.unreadable(error))?;
        let error = match FileHeader::decode(&page) {
            Ok(header) => {
                self.record(0, "file header", describe::file_header(&header))?;
                let FileHeader { kind, number, store, previous_crc, .. } = header;
                let sequence = if kind == FileKind::Log { number } else { 1 };
                return Ok(Some(Identity { kind, number, store, first: Some((sequence, previous_crc)) }));
            }
            Err(error) => error,
        };
        self.damaged(0, len, &format!("file header: {error}"))?;
        let guess = self.guess(&page);
        if guess.is_none() {
            self.damaged(0, len, "neither its header nor its name nor the files beside it tell its kind")?;
        }
        Ok(guess)
    }

    /// Identifies a file with a damaged header from its name and the files beside it, or else from
    /// the rest of the header.
    fn guess(&self, page: &[u8]) -> Option<Identity> {
        let path = std::path::absolute(self.path).ok()?;
        let name = path.file_name()?.to_str()?;
        let named = FileKind::ALL.into_iter().find_map(|kind| Some((kind, number_of(kind, name)?)));
        let left = FileHeader::guess(page);
        let beside = path.parent().and_then(Path::parent).and_then(|dir| {
            let fs = OsFs::new(dir);
            any_header(&ReadOnlyFs::new(&fs)).ok()?
        });
        let (kind, number) = named.or(left.map(|header| (header.kind, header.number)))?;
        Some(Identity { kind, number, store: beside.or(left)?.store, first: None })
    }

    fn groups(&mut self, kind: GroupKind, identity: &Identity) -> Result<(), Failure> {
        let file = self.file.clone();
        let scan = GroupScan::new(file.as_ref(), kind, identity.store);
        let mut next = identity.first;
        for found in scan.map_err(|error| self.unreadable(error))? {
            let (offset, found) = found.map_err(|error| self.unreadable(error))?;
            next = match found {
                Scanned::Record(group) => {
                    self.group((offset, identity), &group, next)?;
                    Some((group.header.sequence.wrapping_add(1), group.crc))
                }
                Scanned::Unread { len, why, .. } => {
                    self.damaged(offset, len, &why)?;
                    None
                }
            };
        }
        Ok(())
    }

    fn group(
        &mut self,
        (offset, identity): (u64, &Identity),
        group: &Group,
        next: Option<(u64, u32)>,
    ) -> Result<(), Failure> {
        let found = (group.header.sequence, group.header.previous_crc);
        if let Some((sequence, crc)) = next.filter(|next| *next != found) {
            let why = format!("the next group must have sequence {sequence} and previous CRC {crc:08x}");
            self.damaged(offset, 0, &why)?;
        }
        let mut bytes = vec![0; GroupHeader::BYTES + group.body_len];
        self.file.read_exact_at(&mut bytes, offset).map_err(|error| self.unreadable(error))?;
        let entries = raw_entries(group, identity, &bytes).map_err(|error| self.changed(offset, &error))?;
        self.record(offset, "group", describe::group(&identity.ids(), group, &entries))
    }

    fn segment(&mut self, identity: &Identity) -> Result<(), Failure> {
        let segment = Arc::new(Segment { id: identity.number, file: self.file.clone() });
        let scan = SegmentScan::new(segment.clone(), identity.store);
        for found in scan.map_err(|error| self.unreadable(error))? {
            match found.map_err(|error| self.unreadable(error))? {
                (offset, Scanned::Record(SegmentRecord::Extent(header))) => {
                    self.extent(&segment, (offset, identity), &header)?;
                }
                (offset, Scanned::Record(SegmentRecord::Footer(Footer { segment, .. }))) => {
                    self.record(offset, "footer", json!({ "segment": format!("{segment:016x}") }))?;
                }
                (offset, Scanned::Unread { len, why, damaged: true }) => self.damaged(offset, len, &why)?,
                (offset, Scanned::Unread { len, why, damaged: false }) => {
                    self.record(offset, "unrecognised", json!({ "len": len, "why": why }))?;
                }
            }
        }
        Ok(())
    }

    fn extent(
        &mut self,
        segment: &Arc<Segment>,
        (offset, identity): (u64, &Identity),
        header: &ExtentHeader,
    ) -> Result<(), Failure> {
        let payload = segment.check_payload(&header.to_ref());
        let descriptor = segment.descriptor(header);
        if payload.is_err() || descriptor.is_err() {
            self.outcome = Outcome::Findings;
        }
        let mut described = describe::extent(header);
        described["payload"] = payload.map_or_else(|error| reason(error).into(), |()| "good".into());
        described["descriptor"] = descriptor
            .map_or_else(|error| reason(error).into(), |found| describe::descriptor(&identity.ids(), &found));
        self.record(offset, "extent", described)
    }

    fn damaged(&mut self, offset: u64, len: u64, why: &str) -> Result<(), Failure> {
        self.outcome = Outcome::Findings;
        self.record(offset, "damaged", json!({ "len": len, "why": why }))
    }

    /// Prints one record.
    fn record(&mut self, offset: u64, record: &str, fields: Value) -> Result<(), Failure> {
        if !self.json {
            return Ok(show::text(self.out, 2, &format!("{offset} {record}"), &fields)?);
        }
        let mut line = json!({ "file": self.path.to_string_lossy(), "offset": offset, "record": record });
        if let (Some(line), Value::Object(fields)) = (line.as_object_mut(), fields) {
            line.extend(fields);
        }
        Ok(show::json(self.out, &line)?)
    }

    /// The failure for a group that was good when it was scanned.
    fn changed(&self, offset: u64, error: &DecodeError) -> Failure {
        Failure::of(self.path.display(), format!("the group at offset {offset} has changed: {error}"))
    }

    fn unreadable(&self, error: impl Into<LogError>) -> Failure {
        Failure::of(self.path.display(), reason(error.into()))
    }
}

/// The entries of a group, those included that readers of the log skip.
fn raw_entries<'b>(
    group: &Group,
    identity: &Identity,
    bytes: &'b [u8],
) -> Result<Vec<RawEntry<'b>>, DecodeError> {
    let unchecked = UncheckedGroup::decode(group.header.kind, &identity.store, bytes)?;
    let body = &bytes[GroupHeader::BYTES..];
    unchecked.check_body(body)?;
    unchecked.raw_entries(body).collect()
}

/// The directory of a file, and its name there.
fn split(path: &Path) -> Result<(&Path, &str), Failure> {
    let name = path.file_name().ok_or_else(|| Failure::of(path.display(), "it is not a file"))?;
    let name = name.to_str().ok_or_else(|| Failure::of(path.display(), "its name is not UTF-8"))?;
    Ok((path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")), name))
}

/// The error without the name of the file.
fn reason(error: LogError) -> String {
    match error {
        LogError::Damaged(damage) => format!("at offset {}: {}", damage.offset, damage.what),
        LogError::DiskFull(error)
        | LogError::Exhausted(error)
        | LogError::Unreachable(error)
        | LogError::Io(error) => error.to_string(),
    }
}
