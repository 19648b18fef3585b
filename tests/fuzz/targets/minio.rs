//! The files of MinIO's drives: any bytes are read as a value or an error, and nothing is computed
//! from a value that its own checks let pass. The first byte chooses the file.
#![no_main]
#![allow(dead_code, reason = "the readers are those of siltstone-tools, which calls all of them")]

#[path = "../../../tools/minio/format/mod.rs"]
mod format;

use std::io::Read;

use format::dare::{DareReader, plain_length};
use format::keys::Encryption;
use format::s2::{S2Reader, decode_block};
use format::version::{StoredVersion, VersionBody};
use format::xl_meta::XlMeta;
use format::{bucket_metadata, format_json, sealed_config, xl_json};
use libfuzzer_sys::fuzz_target;
use twox_hash::XxHash64;

/// The longest plain data that is read of an input: a few bytes of S2 stand for megabytes.
const READ_MAX_BYTES: u64 = 16 << 20;

fn use_up(version: &StoredVersion) {
    let VersionBody::Object(object) = &version.body else { return };
    if object.fault().is_some() {
        return;
    }
    for part in &object.parts {
        let _ = object.coding.shard_file_bytes(part.stored);
        let _ = plain_length(part.stored);
    }
    let _ = Encryption::of(&object.internal);
}

fn read_xl_meta(bytes: &[u8]) {
    if let Ok(file) = XlMeta::parse(bytes) {
        file.versions.iter().for_each(use_up);
    }
}

/// A file of that minor version with this metadata, the right checksum, and what follows.
fn xl_meta(minor: u8, metadata: &[u8], inline: &[u8]) -> Vec<u8> {
    let mut file = b"XL2 \x01\x00".to_vec();
    file.extend([minor, 0, 0xc6]);
    file.extend((metadata.len() as u32).to_be_bytes());
    file.extend(metadata);
    if minor >= 2 {
        file.push(0xce);
        file.extend((XxHash64::oneshot(0, metadata) as u32).to_be_bytes());
    }
    file.extend(inline);
    file
}

fn read_whole(reader: impl Read) {
    let _ = std::io::copy(&mut reader.take(READ_MAX_BYTES), &mut std::io::sink());
}

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind {
        b'x' => read_xl_meta(bytes),
        b'0' => read_xl_meta(&[b"XL2 1   ", bytes].concat()),
        b'1'..=b'3' => {
            let Some((length, rest)) = bytes.split_first_chunk() else { return };
            let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
            let (metadata, inline) = rest.split_at(length);
            read_xl_meta(&xl_meta(kind - b'0', metadata, inline));
        }
        b'j' => {
            if let Ok(version) = xl_json::parse(bytes) {
                use_up(&version);
            }
        }
        b'f' => {
            let _ = format_json::parse(bytes);
        }
        b'b' => {
            let _ = bucket_metadata::parse(bytes);
        }
        b's' => {
            let _ = decode_block(bytes);
        }
        b'S' => read_whole(S2Reader::new(bytes)),
        b'k' => {
            let _ = sealed_config::assumption(bytes);
            let _ = sealed_config::open_stream(&[7; 32], 0, [1; 8], bytes);
        }
        b'd' => read_whole(DareReader::new(bytes, [7; 32], 0)),
        _ => {}
    }
});
