//! Writes directories as MinIO leaves them. It shares no code with the reader: the erasure code is
//! that of polynomials here, and every format is written by hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use highway::{HighwayHash as _, HighwayHasher, Key};
use siltstone::base::digest::{Md5, to_hex};
use tempfile::TempDir;

pub(crate) const DEPLOYMENT: &str = "5f6ec3b4-0c8b-4d7a-9d0a-3d1a4c7f0e11";
/// A time in 2023, in nanoseconds.
pub(crate) const TIME: i64 = 1_700_000_000_123_456_789;

/// The form of xl.meta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) minor: u16,
    /// Of the headers of minor 3.
    pub(crate) header: u8,
    /// Whether the version is the text `1   `.
    pub(crate) textual: bool,
}

pub(crate) const NEWEST: Form = Form { minor: 3, header: 3, textual: false };

/// The drives of one set.
pub(crate) struct MinioDrives {
    /// Removed with the value.
    pub(crate) _home: TempDir,
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) data: usize,
    pub(crate) parity: usize,
    pub(crate) form: Form,
    pub(crate) block_bytes: u64,
}

/// A version that is written.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    /// Zeros for `null`.
    pub(crate) id: [u8; 16],
    pub(crate) time: i64,
    /// The stored parts with their numbers; `None` for a delete marker.
    pub(crate) parts: Option<Vec<(u32, Vec<u8>)>>,
    /// The lengths that clients know, if they differ from the stored ones.
    pub(crate) actual: Option<Vec<i64>>,
    pub(crate) user: BTreeMap<String, String>,
    pub(crate) internal: BTreeMap<String, Vec<u8>>,
    pub(crate) inline: bool,
}

impl Written {
    pub(crate) fn object(id: u8, time: i64, body: &[u8]) -> Self {
        let etag = to_hex(&Md5::of(body));
        let user = [("etag", &*etag), ("content-type", "text/plain"), ("X-Amz-Meta-Who", "me")];
        Self {
            id: [id; 16],
            time,
            parts: Some(vec![(1, body.to_vec())]),
            actual: None,
            user: user.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            internal: BTreeMap::new(),
            inline: body.len() < 1_000,
        }
    }

    pub(crate) fn marker(id: u8, time: i64) -> Self {
        Self { parts: None, ..Self::object(id, time, b"") }
    }

    pub(crate) fn multipart(id: u8, time: i64, parts: Vec<(u32, Vec<u8>)>) -> Self {
        let digests: Vec<u8> = parts.iter().flat_map(|(_, part)| Md5::of(part)).collect();
        let etag = format!("{}-{}", to_hex(&Md5::of(&digests)), parts.len());
        Self { parts: Some(parts), inline: false, ..Self::object(id, time, b"") }.with("etag", &etag)
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.user.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn with_internal(mut self, name: &str, value: &[u8]) -> Self {
        self.internal.insert(name.to_owned(), value.to_vec());
        self
    }

    fn data_directory(&self) -> [u8; 16] {
        let mut id = self.id;
        id[0] ^= 0xd1;
        id[15] = (self.time % 251) as u8;
        id
    }
}

pub(crate) fn uuid(id: &[u8; 16]) -> String {
    let hex = to_hex(id);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

impl MinioDrives {
    pub(crate) fn new(data: usize, parity: usize) -> Self {
        let home = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> =
            (1..=data + parity).map(|at| home.path().join(format!("disk{at}"))).collect();
        let drives = Self { _home: home, paths, data, parity, form: NEWEST, block_bytes: 1 << 20 };
        Self::write_formats(std::slice::from_ref(&drives), 0);
        drives
    }

    /// The sets of a pool, which has this number: each has drives of its own.
    pub(crate) fn pool(number: u8, sets: usize, data: usize, parity: usize) -> Vec<Self> {
        let sets: Vec<Self> = (0..sets).map(|_| Self::new(data, parity)).collect();
        Self::write_formats(&sets, number);
        sets
    }

    /// Writes format.json on all drives of a pool.
    fn write_formats(sets: &[Self], pool: u8) {
        let name = |set: usize, at: usize| {
            let mut id = [at as u8 + 1; 16];
            id[0] = pool;
            id[1] = set as u8;
            format!("\"{}\"", uuid(&id))
        };
        let list = |set: usize| -> String {
            let names: Vec<String> = (0..sets[set].paths.len()).map(|at| name(set, at)).collect();
            format!("[{}]", names.join(","))
        };
        let lists: Vec<String> = (0..sets.len()).map(list).collect();
        let lists = lists.join(",");
        for (number, set) in sets.iter().enumerate() {
            let kind = if set.paths.len() == 1 { "xl-single" } else { "xl" };
            for at in 0..set.paths.len() {
                let this = name(number, at);
                let format = format!(
                    r#"{{"version":"1","format":"{kind}","id":"{DEPLOYMENT}","xl":{{"version":"3","this":{this},"sets":[{lists}],"distributionAlgo":"SIPMOD+PARITY"}}}}"#
                );
                set.write(at, ".minio.sys/format.json", format.as_bytes());
            }
        }
    }

    /// The argument of the tools.
    pub(crate) fn source(&self) -> String {
        Self::source_of(&self.paths)
    }

    pub(crate) fn source_of(paths: &[PathBuf]) -> String {
        let names: Vec<_> = paths.iter().map(|path| path.to_str().unwrap()).collect();
        format!("minio:{}", names.join(","))
    }

    pub(crate) fn write(&self, drive: usize, path: &str, bytes: &[u8]) {
        let path = self.paths[drive].join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// The shard of each drive for a key, from 1.
    pub(crate) fn distribution(&self, path: &str) -> Vec<usize> {
        let count = self.paths.len();
        let start = path.bytes().map(usize::from).sum::<usize>() % count;
        (0..count).map(|at| (start + at) % count + 1).collect()
    }

    /// Writes a key with all its versions on all drives.
    pub(crate) fn put(&self, bucket: &str, key: &str, versions: &[Written]) {
        for at in 0..self.paths.len() {
            self.put_on(at, bucket, key, versions);
        }
    }

    /// Writes a key on one drive.
    pub(crate) fn put_on(&self, drive: usize, bucket: &str, key: &str, versions: &[Written]) {
        let path = match key.strip_suffix('/') {
            Some(key) => format!("{bucket}/{key}__XLDIR__"),
            None => format!("{bucket}/{key}"),
        };
        let distribution = self.distribution(&path);
        let mut inline = Vec::new();
        for version in versions {
            for (number, part) in version.parts.iter().flatten() {
                let file = self.shard_file(part, distribution[drive]);
                if version.inline && self.form.minor > 0 {
                    inline.push((version_name(&version.id), file));
                } else if !part.is_empty() {
                    let directory = uuid(&version.data_directory());
                    self.write(drive, &format!("{path}/{directory}/part.{number}"), &file);
                }
            }
        }
        let meta = self.meta(drive, &distribution, versions, &inline);
        self.write(drive, &format!("{path}/xl.meta"), &meta);
    }

    /// The file of a shard, with hashes.
    pub(crate) fn shard_file(&self, part: &[u8], shard: usize) -> Vec<u8> {
        let mut file = Vec::new();
        for block in part.chunks(self.block_bytes as usize) {
            let piece = &shards(block, self.data, self.parity)[shard - 1];
            file.extend(highway_hash(piece));
            file.extend(piece);
        }
        file
    }

    fn meta(
        &self,
        drive: usize,
        distribution: &[usize],
        versions: &[Written],
        inline: &[(String, Vec<u8>)],
    ) -> Vec<u8> {
        let records: Vec<Vec<u8>> =
            versions.iter().map(|version| self.record(version, distribution, distribution[drive])).collect();
        let mut file = b"XL2 ".to_vec();
        match self.form.textual {
            true => file.extend(b"1   "),
            false => file.extend([1, 0, self.form.minor as u8, 0]),
        }
        if self.form.minor < 3 {
            let mut map = vec![0x81];
            map.extend(text("Versions"));
            map.extend([0xdc, 0, records.len() as u8]);
            map.extend(records.concat());
            if self.form.minor == 0 {
                return [file, map].concat();
            }
            let sum = xxh64(&map) as u32;
            file.extend(binary(&map));
            if self.form.minor == 2 {
                file.extend(uint(u64::from(sum)));
            }
        } else {
            let mut index =
                [uint(u64::from(self.form.header)), uint(3), uint(versions.len() as u64)].concat();
            for (version, record) in versions.iter().zip(&records) {
                index.extend(binary(&self.header(version)));
                index.extend(binary(record));
            }
            file.extend([&[0xc6][..], &(index.len() as u32).to_be_bytes(), &index].concat());
            file.push(0xce);
            file.extend((xxh64(&index) as u32).to_be_bytes());
        }
        if !inline.is_empty() {
            file.push(1);
            file.push(0x80 | inline.len() as u8);
            for (name, bytes) in inline {
                file.extend(text(name));
                file.extend(binary(bytes));
            }
        }
        file
    }

    fn header(&self, version: &Written) -> Vec<u8> {
        let kind = if version.parts.is_some() { 1 } else { 2 };
        let mut header = vec![if self.form.header == 3 { 0x97 } else { 0x95 }];
        header.extend(binary(&version.id));
        header.extend(int(version.time));
        header.extend(binary(&[version.id[0], 1, 2, 3]));
        header.extend([kind, 0]);
        if self.form.header == 3 {
            header.extend([self.parity as u8, self.data as u8]);
        }
        header
    }

    fn record(&self, version: &Written, distribution: &[usize], shard: usize) -> Vec<u8> {
        let Some(parts) = &version.parts else {
            let marker = map(&[
                ("ID", binary(&version.id)),
                ("MTime", int(version.time)),
                ("MetaSys", bytes_map(&version.internal)),
            ]);
            return map(&[("Type", vec![2]), ("DelObj", marker), ("v", uint(1_700_000_000))]);
        };
        let stored: Vec<i64> = parts.iter().map(|(_, part)| part.len() as i64).collect();
        let mut internal = version.internal.clone();
        if version.inline && self.form.minor > 0 {
            internal.insert("x-minio-internal-inline-data".to_owned(), b"true".to_vec());
        }
        let user: Vec<(&str, Vec<u8>)> =
            version.user.iter().map(|(name, value)| (&**name, text(value))).collect();
        let object = map(&[
            ("ID", binary(&version.id)),
            ("DDir", binary(&version.data_directory())),
            ("EcAlgo", vec![1]),
            ("EcM", uint(self.data as u64)),
            ("EcN", uint(self.parity as u64)),
            ("EcBSize", uint(self.block_bytes)),
            ("EcIndex", uint(shard as u64)),
            ("EcDist", ints(&distribution.iter().map(|shard| *shard as i64).collect::<Vec<_>>())),
            ("CSumAlgo", vec![1]),
            ("PartNums", ints(&parts.iter().map(|(number, _)| i64::from(*number)).collect::<Vec<_>>())),
            ("PartETags", vec![0xc0]),
            ("PartSizes", ints(&stored)),
            ("PartASizes", ints(version.actual.as_ref().unwrap_or(&stored))),
            ("Size", int(stored.iter().sum())),
            ("MTime", int(version.time)),
            ("MetaSys", bytes_map(&internal)),
            ("MetaUsr", map(&user)),
        ]);
        map(&[("Type", vec![1]), ("V2Obj", object), ("v", uint(1_700_000_000))])
    }

    /// Writes the configurations of a bucket.
    pub(crate) fn configure(&self, bucket: &str, documents: &[(&str, &str)]) {
        let mut fields = vec![("Name", text(bucket)), ("LockEnabled", vec![0xc2])];
        fields.extend(documents.iter().map(|(name, document)| (*name, binary(document.as_bytes()))));
        let created = [&[0xc7, 12, 5][..], &1_600_000_000_i64.to_be_bytes(), &7_i32.to_be_bytes()].concat();
        fields.push(("Created", created));
        let body = [&[1, 0, 1, 0][..], &map(&fields)].concat();
        let object = Written { inline: true, ..Written::object(0, TIME, &body) };
        self.put(".minio.sys", &format!("buckets/{bucket}/.metadata.bin"), &[object]);
    }

    /// Changes a file of a drive.
    pub(crate) fn change(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
    }
}

pub(crate) const ENABLED: &str = "<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Status>Enabled</Status></VersioningConfiguration>";

fn version_name(id: &[u8; 16]) -> String {
    if *id == [0; 16] { "null".to_owned() } else { uuid(id) }
}

/// The data and parity shards of a block: the values at 0, 1, 2... of the polynomial that has the
/// data at the first places.
pub(crate) fn shards(block: &[u8], data: usize, parity: usize) -> Vec<Vec<u8>> {
    let length = block.len().div_ceil(data);
    let mut padded = block.to_vec();
    padded.resize(length * data, 0);
    let mut shards: Vec<Vec<u8>> = padded.chunks(length.max(1)).map(<[u8]>::to_vec).collect();
    shards.resize(data, Vec::new());
    for at in data..data + parity {
        let mut shard = vec![0; length];
        for (from, of_data) in shards.iter().take(data).enumerate() {
            let weight = lagrange(at as u8, from as u8, data);
            let table: Vec<u8> = (0..=255).map(|value| times(weight, value)).collect();
            for (to, value) in shard.iter_mut().zip(of_data) {
                *to ^= table[usize::from(*value)];
            }
        }
        shards.push(shard);
    }
    shards
}

/// The share of the value at `from` in that at `at`.
fn lagrange(at: u8, from: u8, count: usize) -> u8 {
    let others = (0..count as u8).filter(|other| *other != from);
    others.fold(1, |weight, other| times(weight, times(at ^ other, inverse(from ^ other))))
}

fn times(a: u8, b: u8) -> u8 {
    let (mut a, mut product) = (u16::from(a), 0);
    for bit in 0..8 {
        if b >> bit & 1 == 1 {
            product ^= a;
        }
        a <<= 1;
        if a & 0x100 != 0 {
            a ^= 0x11d;
        }
    }
    product as u8
}

/// a^254, which is the inverse in a field of 256 elements.
fn inverse(a: u8) -> u8 {
    (0..254).fold(1, |power, _| times(power, a))
}

pub(crate) fn highway_hash(bytes: &[u8]) -> Vec<u8> {
    let key = siltstone_hex("4be734fa8e238acd263e83e6bb968552040f935da39f441497e09d1322de36a0");
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(key.chunks(8)) {
        *word = u64::from_le_bytes(bytes.try_into().unwrap());
    }
    HighwayHasher::new(Key(words)).hash256(bytes).into_iter().flat_map(u64::to_le_bytes).collect()
}

pub(crate) fn siltstone_hex(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
}

fn int(number: i64) -> Vec<u8> {
    match number {
        0..=127 => vec![number as u8],
        _ => [&[0xd3][..], &number.to_be_bytes()].concat(),
    }
}

fn uint(number: u64) -> Vec<u8> {
    match number {
        0..=127 => vec![number as u8],
        128..=0xffff_ffff => [&[0xce][..], &(number as u32).to_be_bytes()].concat(),
        _ => [&[0xcf][..], &number.to_be_bytes()].concat(),
    }
}

fn text(text: &str) -> Vec<u8> {
    match text.len() {
        length @ 0..32 => [&[0xa0 | length as u8][..], text.as_bytes()].concat(),
        length => [&[0xda][..], &(length as u16).to_be_bytes(), text.as_bytes()].concat(),
    }
}

fn binary(bytes: &[u8]) -> Vec<u8> {
    match bytes.len() {
        length @ 0..256 => [&[0xc4, length as u8][..], bytes].concat(),
        length => [&[0xc6][..], &(length as u32).to_be_bytes(), bytes].concat(),
    }
}

fn ints(numbers: &[i64]) -> Vec<u8> {
    let mut list = [&[0xdc][..], &(numbers.len() as u16).to_be_bytes()].concat();
    list.extend(numbers.iter().flat_map(|number| int(*number)));
    list
}

fn map(fields: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut map = [&[0xde][..], &(fields.len() as u16).to_be_bytes()].concat();
    for (name, value) in fields {
        map.extend(text(name));
        map.extend(value);
    }
    map
}

fn bytes_map(pairs: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    if pairs.is_empty() {
        return vec![0xc0];
    }
    map(&pairs.iter().map(|(name, value)| (&**name, binary(value))).collect::<Vec<_>>())
}

/// XXH64 with seed 0, by the words of its specification.
pub(crate) fn xxh64(bytes: &[u8]) -> u64 {
    let prime = [
        11_400_714_785_074_694_791_u64,
        14_029_467_366_897_019_727,
        1_609_587_929_392_839_161,
        9_650_029_242_287_828_579,
        2_870_177_450_012_600_261,
    ];
    let step = |acc: u64, lane: u64| {
        acc.wrapping_add(lane.wrapping_mul(prime[1])).rotate_left(31).wrapping_mul(prime[0])
    };
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let mut at = 0;
    let mut acc = prime[4];
    if bytes.len() >= 32 {
        let mut lanes = [prime[0].wrapping_add(prime[1]), prime[1], 0, 0_u64.wrapping_sub(prime[0])];
        while at + 32 <= bytes.len() {
            (0..4).for_each(|lane| lanes[lane] = step(lanes[lane], word(at + 8 * lane)));
            at += 32;
        }
        acc = [1, 7, 12, 18]
            .iter()
            .zip(lanes)
            .fold(0_u64, |acc, (turn, lane)| acc.wrapping_add(lane.rotate_left(*turn)));
        for lane in lanes {
            acc = (acc ^ step(0, lane)).wrapping_mul(prime[0]).wrapping_add(prime[3]);
        }
    }
    acc = acc.wrapping_add(bytes.len() as u64);
    while at + 8 <= bytes.len() {
        acc = (acc ^ step(0, word(at))).rotate_left(27).wrapping_mul(prime[0]).wrapping_add(prime[3]);
        at += 8;
    }
    if at + 4 <= bytes.len() {
        let lane = u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()));
        acc =
            (acc ^ lane.wrapping_mul(prime[0])).rotate_left(23).wrapping_mul(prime[1]).wrapping_add(prime[2]);
        at += 4;
    }
    for byte in &bytes[at..] {
        acc = (acc ^ u64::from(*byte).wrapping_mul(prime[4])).rotate_left(11).wrapping_mul(prime[0]);
    }
    acc = (acc ^ acc >> 33).wrapping_mul(prime[1]);
    acc = (acc ^ acc >> 29).wrapping_mul(prime[2]);
    acc ^ acc >> 32
}
