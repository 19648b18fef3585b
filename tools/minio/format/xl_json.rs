//! The file `xl.json`, and the metadata of FS mode: the forms before 2020.
//!
//! `xl.json` has one version, `null`, and its parts are files beside it. A part is verified by one
//! hash of its whole file, or where that hash is empty by hashes before its pieces.

use std::collections::BTreeMap;

use serde_json::Value;

use super::record::split_metadata;
use super::version::{
    Coding, PartChecksum, PartPlace, StoredObject, StoredPart, StoredVersion, VersionBody, WholeHash,
};

/// Reads `xl.json`.
///
/// # Errors
/// A message.
pub(crate) fn parse(text: &[u8]) -> Result<StoredVersion, String> {
    let value: Value = serde_json::from_slice(text).map_err(|error| format!("it is no JSON: {error}"))?;
    if value["format"].as_str() != Some("xl") || !matches!(value["version"].as_str(), Some("1.0.0" | "1.0.1"))
    {
        let format = &value["format"];
        let version = &value["version"];
        return Err(format!("its format {format}, version {version} is unknown"));
    }
    let erasure = &value["erasure"];
    let number = |value: &Value, name: &str| value[name].as_u64().ok_or_else(|| format!("it has no {name}"));
    let size_of = |value: &Value, name: &str| {
        number(value, name).map(|size| usize::try_from(size).unwrap_or(usize::MAX))
    };
    let shards = erasure["distribution"].as_array().into_iter().flatten();
    let coding = Coding {
        data: size_of(erasure, "data")?,
        parity: size_of(erasure, "parity")?,
        block_bytes: number(erasure, "blockSize")?,
        index: size_of(erasure, "index")?,
        distribution: shards.map(|shard| u16::try_from(shard.as_u64().unwrap_or(0)).unwrap_or(0)).collect(),
    };
    let (internal, user) = split_metadata(metadata(&value["meta"]));
    let object = StoredObject {
        coding,
        place: PartPlace::Beside,
        parts: parts(&value)?,
        size: number(&value["stat"], "size")?,
        internal,
        user,
        legacy: true,
    };
    if let Some(fault) = object.fault() {
        return Err(fault.to_owned());
    }
    let modified = value["stat"]["modTime"].as_str().and_then(parse_time).ok_or("its time cannot be read")?;
    Ok(StoredVersion {
        id: [0; 16],
        modified,
        signature: [0; 4],
        body: VersionBody::Object(Box::new(object)),
    })
}

/// The pairs of text in a JSON object.
pub(crate) fn metadata(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

fn parts(value: &Value) -> Result<Vec<StoredPart>, String> {
    let mut parts = Vec::new();
    for part in value["parts"].as_array().into_iter().flatten() {
        let number = part["number"].as_u64().and_then(|number| u32::try_from(number).ok());
        let number = number.ok_or("a part without a number")?;
        let name = part["name"].as_str().map_or_else(|| format!("part.{number}"), str::to_owned);
        parts.push(StoredPart {
            number,
            stored: part["size"].as_u64().ok_or("a part without a size")?,
            actual: part["actualSize"].as_u64().filter(|actual| *actual > 0),
            checksum: checksum(&value["erasure"], &name)?,
        });
    }
    Ok(parts)
}

fn checksum(erasure: &Value, part: &str) -> Result<PartChecksum, String> {
    let mut sums = erasure["checksum"].as_array().into_iter().flatten();
    let sum = sums.find(|sum| sum["name"].as_str() == Some(part)).ok_or("a part without a checksum")?;
    let hash = sum["hash"].as_str().unwrap_or_default();
    let bytes = (0..hash.len() / 2)
        .map(|at| hash.get(2 * at..2 * at + 2).and_then(|hex| u8::from_str_radix(hex, 16).ok()));
    let bytes: Vec<u8> = bytes.collect::<Option<_>>().ok_or("a checksum that is no hexadecimal")?;
    match sum["algorithm"].as_str() {
        Some("highwayhash256S") => Ok(PartChecksum::Streaming),
        Some("highwayhash256") if hash.is_empty() => Ok(PartChecksum::Streaming),
        Some("highwayhash256") => Ok(PartChecksum::Whole(WholeHash::Highway, bytes)),
        Some("sha256") => Ok(PartChecksum::Whole(WholeHash::Sha256, bytes)),
        Some("blake2b") => Ok(PartChecksum::Whole(WholeHash::Blake2b, bytes)),
        other => Err(format!("a checksum of the unknown kind {other:?}")),
    }
}

/// A time as RFC 3339 has it, in nanoseconds since 1970.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let digits = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let separators = [(4, "-"), (7, "-"), (13, ":"), (16, ":")];
    if separators.iter().any(|(at, separator)| text.get(*at..*at + 1) != Some(*separator))
        || !matches!(text.get(10..11), Some("T" | "t" | " "))
    {
        return None;
    }
    let day = days(digits(0, 4)?, digits(5, 7)?, digits(8, 10)?)?;
    let mut seconds = day * 86_400 + digits(11, 13)? * 3_600 + digits(14, 16)? * 60 + digits(17, 19)?;
    let mut rest = text.get(19..)?;
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let count = fraction.bytes().take_while(u8::is_ascii_digit).count();
        nanos = format!("{:0<9}", &fraction[..count.min(9)]).parse().ok()?;
        rest = &fraction[count..];
    }
    if !matches!(rest, "Z" | "z") {
        let sign = match rest.get(..1)? {
            "+" => -1,
            "-" => 1,
            _ => return None,
        };
        let hours: i64 = rest.get(1..3)?.parse().ok()?;
        let minutes: i64 = rest.get(4..6)?.parse().ok()?;
        seconds += sign * (hours * 3_600 + minutes * 60);
    }
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// The days from 1970 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years that begin in March have their leap day at the end.
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_fractions_and_offsets() {
        assert_eq!(parse_time("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(parse_time("2019-09-02T03:04:05.000000007Z"), Some(1_567_393_445_000_000_007));
        assert_eq!(parse_time("2000-02-29T12:00:00.5+02:00"), Some(951_818_400_500_000_000));
        for odd in ["", "2019", "2019-13-01T00:00:00Z", "2019-09-02T03:04:05", "2019-09-02 xx:04:05Z"] {
            assert_eq!(parse_time(odd), None, "{odd}");
        }
    }
}
