"""A reader of data directories, written from data-format.md and nothing else: what a stranger needs to get objects out."""

import hmac
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path

PAGE, BLOCK, UNIT = 4096, 65536, 64
MAGICS = {"segment": b"SiltSegm", "log": b"SiltMlog", "checkpoint": b"SiltCkpt"}
VERSIONING = ["unset", "enabled", "suspended"]
ALGORITHMS = [None, "CRC32", "CRC32C", "SHA1", "SHA256", "CRC64NVME"]
TYPES = ["FULL_OBJECT", "COMPOSITE"]


class Corrupt(Exception):
    """What was durable is not there, or not what was written."""


class Unknown(Exception):
    """Written by a newer siltstone."""


class NotGood(Exception):
    """No good group stands here."""


# ---- Sections 2 and 3: files ---------------------------------------------------------------------------


@dataclass
class FileHeader:
    store: bytes
    number: int
    previous_crc: int


def numbers(directory, kind):
    """The numbers in the names of all files of a kind, ascending."""
    folder = Path(directory) / ("data" if kind == "segment" else "meta")
    names = [path.name.split(".") for path in folder.glob(f"*.{kind}")]
    return sorted(int(digits, 16) for digits, suffix in names if len(digits) == 16 and suffix == kind)


def path_of(directory, kind, number):
    return Path(directory) / ("data" if kind == "segment" else "meta") / f"{number:016x}.{kind}"


def file_header(path, kind, number, store=None):
    with open(path, "rb") as file:
        page = file.read(PAGE)
    if len(page) < PAGE or zlib.crc32(page[:4092]) != struct.unpack_from("<I", page, 4092)[0]:
        raise Corrupt(f"{path}: bad header")
    magic, version, length, owner, own_number, critical, _, _, previous_crc = struct.unpack_from("<8sII16sQQQQI", page)
    if version != 1 or critical:
        raise Unknown(f"{path}: version {version}, critical features {critical:x}")
    if (magic, length, own_number) != (MAGICS[kind], PAGE, number) or store not in (None, owner):
        raise Corrupt(f"{path}: the header of another file")
    return FileHeader(owner, own_number, previous_crc)


def sealed(store, data):
    return zlib.crc32(data, zlib.crc32(store))


# ---- Section 6: encodings ------------------------------------------------------------------------------


class Decoder:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise Corrupt("a value ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def byte(self):
        return self.take(1)[0]

    def u32(self):
        return struct.unpack("<I", self.take(4))[0]

    def u64(self):
        return struct.unpack("<Q", self.take(8))[0]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def bytes(self):
        return self.take(self.varint())

    def string(self):
        return self.bytes().decode()

    def many(self, item):
        return [item() for _ in range(self.varint())]

    def pairs(self):
        return self.many(lambda: (self.string(), self.string()))

    def optional(self, item):
        return item() if self.byte() else None

    def end(self):
        if self.at != len(self.data):
            raise Corrupt("bytes are left over")


# ---- Section 7: records --------------------------------------------------------------------------------


@dataclass
class ExtentRef:
    segment: int
    offset: int
    payload_len: int
    check: int
    skip: int
    take: int


@dataclass
class Version:
    id: int
    null: bool
    delete_marker: bool
    modified: int
    size: int
    etag: str
    extents: list
    attributes: list = field(default_factory=list)
    checksums: list = field(default_factory=list)
    tags: list = field(default_factory=list)
    parts: list = field(default_factory=list)

    def version_id(self, store):
        """The id of the version as clients see it."""
        return "null" if self.null else client_id(store, b"version", self.id)


@dataclass
class Part:
    number: int
    id: int
    modified: int
    size: int
    etag: str
    extents: list


@dataclass
class Upload:
    id: int
    initiated: int
    initiator: str
    checksum: tuple
    attributes: list
    tags: list
    parts: dict = field(default_factory=dict)


@dataclass
class Bucket:
    id: int
    name: str
    owner: str
    created: int
    versioning: str
    keys: dict = field(default_factory=dict)
    """The versions of each key, newest first."""
    uploads: dict = field(default_factory=dict)
    """The uploads by key and id."""


def read_etag(d):
    kind = d.byte()
    if kind == 0:
        return ""
    if kind == 1:
        return d.take(16).hex()
    if kind == 2:
        return f"{d.take(16).hex()}-{d.varint()}"
    if kind == 3:
        return f"{d.u32():08x}-1"
    raise Unknown(f"ETag of kind {kind}")


def read_extent(d):
    first, offset, payload_len, check = d.varint(), d.varint() * UNIT, d.varint(), d.u32()
    skip, take = (d.varint(), d.varint()) if first & 1 else (0, payload_len)
    return ExtentRef(first >> 2, offset, payload_len, check, skip, take)


def read_checksum(d):
    algorithm, kind, parts = ALGORITHMS[d.byte()], TYPES[d.byte()], d.varint()
    return algorithm, kind, parts, d.bytes()


def read_version(d):
    flags = d.varint()
    if flags > 63:
        raise Unknown(f"flags {flags:x}")
    version = Version(
        d.u64(), bool(flags & 1), bool(flags & 2), d.varint(), d.varint(), read_etag(d), d.many(lambda: read_extent(d))
    )
    if flags & 4:
        version.attributes = d.pairs()
    if flags & 8:
        version.checksums = d.many(lambda: read_checksum(d))
    if flags & 16:
        version.tags = d.pairs()
    if flags & 32:
        d.u64()
        version.parts = d.many(lambda: (d.varint(), d.varint(), d.optional(lambda: read_checksum(d))))
    if sum(extent.take for extent in version.extents) != version.size:
        raise Corrupt(f"the extents of version {version.id:x} do not add up")
    return version


def read_upload(d):
    id, initiated, initiator, algorithm, kind = d.u64(), d.varint(), d.string(), d.byte(), d.byte()
    checksum = (ALGORITHMS[algorithm], TYPES[kind]) if algorithm else None
    return Upload(id, initiated, initiator, checksum, d.pairs(), d.pairs())


def read_part(d):
    number, id, modified, size, etag = d.varint(), d.u64(), d.varint(), d.varint(), d.take(16).hex()
    part = Part(number, id, modified, size, etag, d.many(lambda: read_extent(d)))
    d.optional(lambda: read_checksum(d))
    return part


# ---- Section 14: what clients see ----------------------------------------------------------------------


def client_id(store, label, stamp):
    code = hmac.digest(store, label + struct.pack("<Q", stamp), "sha256")
    return f"{stamp:016x}{code[:8].hex()}"


# ---- Section 5: groups ---------------------------------------------------------------------------------


@dataclass
class Group:
    sequence: int
    stable: int
    file_length: int
    pack: tuple
    previous_crc: int
    crc: int
    length: int
    entries: list


def read_group(data, at, magic, store):
    head = data[at : at + 128]
    if len(head) < 128 or head[:4] != magic or sealed(store, head[:124]) != struct.unpack_from("<I", head, 124)[0]:
        raise NotGood("bad group header")
    _, body_len, sequence, stable, file_length, _, *pack, count, body_crc, previous, = struct.unpack_from(
        "<4sIQQQQQQIIIII", head
    )
    body = data[at + 128 : at + 128 + body_len]
    if len(body) < body_len or zlib.crc32(body) != body_crc:
        raise NotGood("bad group body")
    d, entries = Decoder(body), []
    for _ in range(count):
        entries.append((d.byte(), d.bytes()))
    d.end()
    length = -(-(128 + body_len) // PAGE) * PAGE
    return Group(sequence, stable, file_length, pack, previous, struct.unpack_from("<I", head, 124)[0], length, entries)


# ---- The store -----------------------------------------------------------------------------------------


class Store:
    """What a data directory holds. Nothing is written, and nobody else may write meanwhile."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.buckets = {}
        logs = numbers(directory, "log")
        self.store = file_header(path_of(directory, "log", logs[-1]), "log", logs[-1]).store
        self.covered = self.through = 0
        for covered in reversed(numbers(directory, "checkpoint")):
            try:
                self.read_checkpoint(covered)
                break
            except (Corrupt, NotGood):
                self.buckets, self.covered, self.through = {}, 0, 0
        self.read_log(logs)

    def read_checkpoint(self, covered):
        """Section 8."""
        path = path_of(self.directory, "checkpoint", covered)
        file_header(path, "checkpoint", covered, self.store)
        data, at, sequence, crc, counts = path.read_bytes(), PAGE, 1, 0, {1: 0, 3: 0}
        while True:
            group = read_group(data, at, b"SCKG", self.store)
            if (group.sequence, group.previous_crc) != (sequence, crc):
                raise Corrupt(f"{path}: a group that does not follow")
            for kind, body in group.entries:
                if kind == 5:
                    d = Decoder(body)
                    through, _, buckets, versions = d.varint(), d.varint(), d.varint(), d.varint()
                    if counts != {1: buckets, 3: versions}:
                        raise Corrupt(f"{path}: not all is there")
                    self.covered, self.through = covered, through
                    return
                counts[kind] = counts.get(kind, 0) + 1
                self.apply(kind, body, False)
            at, sequence, crc = at + group.length, sequence + 1, group.crc

    def read_log(self, logs):
        """Section 5, "Recovery"."""
        wanted = self.covered + 1
        first = [number for number in logs if number <= wanted]
        if not first:
            raise Corrupt("the log does not reach back to the checkpoint")
        logs = logs[logs.index(first[-1]) :]
        watermark, groups, sequence, crc = max(logs[-1] - 1, self.through), [], logs[0], None
        for number in logs:
            if number != sequence:
                break
            path = path_of(self.directory, "log", number)
            header = file_header(path, "log", number, self.store)
            if crc not in (None, header.previous_crc):
                raise Corrupt(f"{path}: does not follow the file before it")
            data, at, crc, length_min = path.read_bytes(), PAGE, header.previous_crc, 2 * PAGE
            while True:
                try:
                    group = read_group(data, at, b"SGRP", self.store)
                except NotGood:
                    break
                if (group.sequence, group.previous_crc) != (sequence, crc):
                    break
                groups.append(group)
                watermark, length_min = max(watermark, group.stable), max(length_min, group.file_length)
                at, sequence, crc = at + group.length, sequence + 1, group.crc
        for page in range(at, len(data), PAGE):
            if any(data[page : page + PAGE]):
                watermark = max(watermark, sequence - 1)
                try:
                    watermark = max(watermark, read_group(data, page, b"SGRP", self.store).stable)
                except NotGood:
                    pass
        if sequence <= watermark or len(data) < length_min:
            raise Corrupt(f"{path}: group {sequence} at {at} was durable")
        if groups and groups[-1].sequence > watermark and not self.pack_is_there(groups[-1].pack):
            groups.pop()
        for group in groups:
            if group.sequence > self.covered:
                for kind, body in group.entries:
                    self.apply(kind, body, group.sequence <= self.through)

    def pack_is_there(self, pack):
        segment, offset, length, crc = pack
        if segment == 0:
            return True
        with open(path_of(self.directory, "segment", segment), "rb") as file:
            file.seek(offset)
            data = file.read(length)
        return len(data) == length and zlib.crc32(data) == crc

    def apply(self, kind, body, may_be_gone):
        """Section 6. What a checkpoint covers through may name what was deleted behind it."""
        d = Decoder(body)
        if kind == 1:
            bucket = Bucket(d.varint(), d.string(), d.string(), d.varint(), VERSIONING[d.byte()])
            if old := self.buckets.get(bucket.id):
                bucket.keys, bucket.uploads = old.keys, old.uploads
            self.buckets[bucket.id] = bucket
            return d.end()
        if kind >= 128:
            return None
        if kind not in (2, 3, 4, 6, 7, 8, 9):
            raise Unknown(f"entry of kind {kind}")
        bucket = self.buckets.get(id := d.varint())
        if bucket is None:
            if may_be_gone:
                return None
            raise Corrupt(f"bucket {id:x} is unknown")
        if kind == 2:
            del self.buckets[id]
            return d.end()
        key = d.bytes()
        versions = bucket.keys.get(key, [])
        if kind == 3:
            new = read_version(d)
            versions = [old for old in versions if old.id != new.id and not (new.null and old.null)]
            bucket.keys[key] = [new, *versions]
        elif kind == 4:
            gone = d.u64()
            bucket.keys[key] = [old for old in versions if old.id != gone]
            if not bucket.keys[key]:
                del bucket.keys[key]
        elif kind == 6:
            new = read_version(d)
            if versions:
                bucket.keys[key] = [new if old.id == new.id else old for old in versions]
        elif kind == 7:
            new = read_upload(d)
            if old := bucket.uploads.get((key, new.id)):
                new.parts = old.parts
            bucket.uploads[key, new.id] = new
        elif kind == 8:
            bucket.uploads.pop((key, d.u64()), None)
        elif upload := bucket.uploads.get((key, id := d.u64())):
            part = read_part(d)
            upload.parts[part.number] = part
        elif not may_be_gone:
            raise Corrupt(f"upload {id:x} is unknown")
        else:
            return None
        return d.end()

    def bucket(self, name):
        return next(bucket for bucket in self.buckets.values() if bucket.name == name)

    def read(self, extents):
        """The bytes of an object or part, every one of them verified (section 4)."""
        return b"".join(self.payload(extent)[extent.skip : extent.skip + extent.take] for extent in extents)

    def payload(self, extent):
        path = path_of(self.directory, "segment", extent.segment)
        file_header(path, "segment", extent.segment, self.store)
        blocks = -(-extent.payload_len // BLOCK) if extent.payload_len > BLOCK else 0
        with open(path, "rb") as file:
            file.seek(extent.offset)
            header = file.read(64)
            payload = file.read(extent.payload_len)
            table = file.read(4 * blocks)
        magic, _, segment, offset, length, descriptor_length, check = struct.unpack_from("<4sIQQIII", header)
        if magic != b"SXT1" or sealed(self.store, header[:60]) != struct.unpack_from("<I", header, 60)[0]:
            raise Corrupt(f"{path}: no extent at {extent.offset}")
        expected = (extent.segment, extent.offset, extent.payload_len, extent.check)
        if (segment, offset, length, check) != expected:
            raise Corrupt(f"{path}: another extent at {extent.offset}")
        if zlib.crc32(table if blocks else payload) != check:
            raise Corrupt(f"{path}: the extent at {extent.offset} does not match its check")
        for block in range(blocks):
            if zlib.crc32(payload[block * BLOCK : (block + 1) * BLOCK]) != struct.unpack_from("<I", table, 4 * block)[0]:
                raise Corrupt(f"{path}: block {block} of the extent at {extent.offset}")
        return payload
