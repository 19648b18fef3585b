//! The history of figures (data-format.md, section 22).

use std::collections::VecDeque;

use crate::base::limits::{HISTORY_BUCKETS_MAX, HISTORY_DAYS_MAX, HISTORY_HOURS_MAX, HISTORY_MINUTES_MAX};
use crate::format::state_file::{self, StateFileMagic};
use crate::format::{ByteDecoder, DecodeError, Decoded, Encode, StoreId};

const MAGIC_BYTES: &StateFileMagic = b"SiltHist";

/// The smallest encodings of a sample, of the sizes of a day and of the size of a bucket.
const SAMPLE_BYTES_MIN: usize = 8;
const DAY_BYTES_MIN: usize = 2;
const SIZE_BYTES_MIN: usize = 2;

/// The figures of a minute or an hour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HistorySample {
    /// When it ends, in minutes since 1970.
    pub minute: u64,
    /// Requests that were answered.
    pub requests: u64,
    /// Those answered with a status of 500 or more.
    pub errors: u64,
    /// Bytes of request bodies.
    pub received: u64,
    /// Bytes of response bodies.
    pub sent: u64,
    /// The time within which 99 of 100 commits were done, in microseconds; 0 without a commit.
    pub commit_micros: u64,
    /// Bytes that are free on the file system at the end; 0 where it does not say.
    pub free: u64,
    /// Bytes of objects at the end.
    pub objects: u64,
}

/// The size of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketSize {
    /// The id of the bucket.
    pub bucket: u64,
    /// Bytes of its versions and parts.
    pub bytes: u64,
}

/// The sizes of buckets at the beginning of a day.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DaySizes {
    /// The day, in days since 1970.
    pub day: u64,
    /// Those of the first buckets by age.
    pub sizes: Vec<BucketSize>,
}

/// The history, the oldest figures first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// A sample of each minute of the last day.
    pub minutes: VecDeque<HistorySample>,
    /// A sample of each hour of the last ninety days.
    pub hours: VecDeque<HistorySample>,
    /// The sizes of the last days.
    pub days: VecDeque<DaySizes>,
}

impl HistorySample {
    fn encode(&self, out: &mut Vec<u8>) {
        let Self { minute, requests, errors, received, sent, commit_micros, free, objects } = *self;
        for number in [minute, requests, errors, received, sent, commit_micros, free, objects] {
            out.put_varint(number);
        }
    }

    fn decode(decoder: &mut ByteDecoder<'_>) -> Decoded<Self> {
        Ok(Self {
            minute: decoder.varint()?,
            requests: decoder.varint()?,
            errors: decoder.varint()?,
            received: decoder.varint()?,
            sent: decoder.varint()?,
            commit_micros: decoder.varint()?,
            free: decoder.varint()?,
            objects: decoder.varint()?,
        })
    }
}

impl DaySizes {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(self.day);
        out.put_varint(self.sizes.len() as u64);
        for size in &self.sizes {
            out.put_varint(size.bucket);
            out.put_varint(size.bytes);
        }
    }

    fn decode(decoder: &mut ByteDecoder<'_>) -> Decoded<Self> {
        let day = decoder.varint()?;
        let count = bounded(decoder.count(SIZE_BYTES_MIN)?, HISTORY_BUCKETS_MAX, "the buckets of a day")?;
        let mut sizes = Vec::with_capacity(count);
        for _ in 0..count {
            sizes.push(BucketSize { bucket: decoder.varint()?, bytes: decoder.varint()? });
        }
        Ok(Self { day, sizes })
    }
}

impl History {
    /// The file.
    pub fn encode(&self, store: &StoreId) -> Vec<u8> {
        let mut body = Vec::new();
        for samples in [&self.minutes, &self.hours] {
            body.put_varint(samples.len() as u64);
            for sample in samples {
                sample.encode(&mut body);
            }
        }
        body.put_varint(self.days.len() as u64);
        for day in &self.days {
            day.encode(&mut body);
        }
        state_file::encode(MAGIC_BYTES, store, &body)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// On invalid bytes, on more figures than there may be, and on those that are not in order.
    pub fn decode(store: &StoreId, file: &[u8]) -> Decoded<Self> {
        let (_, body) = state_file::decode([MAGIC_BYTES], store, file)?;
        let mut decoder = ByteDecoder::new(body);
        let minutes = samples(&mut decoder, HISTORY_MINUTES_MAX)?;
        let hours = samples(&mut decoder, HISTORY_HOURS_MAX)?;
        let count = bounded(decoder.count(DAY_BYTES_MIN)?, HISTORY_DAYS_MAX, "the days")?;
        let mut days: VecDeque<DaySizes> = VecDeque::with_capacity(count);
        for _ in 0..count {
            let day = DaySizes::decode(&mut decoder)?;
            if days.back().is_some_and(|last| last.day >= day.day) {
                return Err(DecodeError::Value("the order of the days"));
            }
            days.push_back(day);
        }
        decoder.finish().map(|()| Self { minutes, hours, days })
    }
}

fn samples(decoder: &mut ByteDecoder<'_>, max: usize) -> Decoded<VecDeque<HistorySample>> {
    let count = bounded(decoder.count(SAMPLE_BYTES_MIN)?, max, "the samples")?;
    let mut samples: VecDeque<HistorySample> = VecDeque::with_capacity(count);
    for _ in 0..count {
        let sample = HistorySample::decode(decoder)?;
        if samples.back().is_some_and(|last| last.minute >= sample.minute) {
            return Err(DecodeError::Value("the order of the samples"));
        }
        samples.push_back(sample);
    }
    Ok(samples)
}

fn bounded(count: usize, max: usize, what: &'static str) -> Decoded<usize> {
    if count > max { Err(DecodeError::Value(what)) } else { Ok(count) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::HISTORY_FILE_MAX_BYTES;

    const STORE: StoreId = StoreId([1; 16]);

    fn sample(number: u64) -> HistorySample {
        HistorySample {
            minute: 30_000_000 + number,
            requests: number,
            errors: 1,
            received: number << 20,
            sent: number << 30,
            commit_micros: 2_500,
            free: 1 << 40,
            objects: 1 << 39,
        }
    }

    #[test]
    fn a_history_comes_back_and_no_flip_passes() {
        let sizes = vec![BucketSize { bucket: 7, bytes: 1 << 33 }, BucketSize { bucket: 300, bytes: 0 }];
        let history = History {
            minutes: (0..3).map(sample).collect(),
            hours: (0..2).map(sample).collect(),
            days: [DaySizes::default(), DaySizes { day: 20_800, sizes }].into(),
        };
        for history in [History::default(), history] {
            let file = history.encode(&STORE);
            assert_eq!(History::decode(&STORE, &file), Ok(history));
            for at in 0..file.len() {
                let mut flipped = file.clone();
                flipped[at] ^= 4;
                assert!(History::decode(&STORE, &flipped).is_err(), "byte {at}");
                assert!(History::decode(&STORE, &file[..at]).is_err(), "{at} bytes");
            }
            assert!(History::decode(&StoreId([2; 16]), &file).is_err(), "that of another store");
        }
    }

    #[test]
    fn the_longest_history_fits_and_a_longer_one_is_refused() {
        let most = u64::MAX;
        let widest = |number: usize| HistorySample {
            minute: most - (HISTORY_HOURS_MAX - number) as u64,
            requests: most,
            errors: most,
            received: most,
            sent: most,
            commit_micros: most,
            free: most,
            objects: most,
        };
        let size = BucketSize { bucket: most, bytes: most };
        let day = |number: usize| DaySizes {
            day: most - (HISTORY_DAYS_MAX - number) as u64,
            sizes: vec![size; HISTORY_BUCKETS_MAX],
        };
        let mut history = History {
            minutes: (0..HISTORY_MINUTES_MAX).map(widest).collect(),
            hours: (0..HISTORY_HOURS_MAX).map(widest).collect(),
            days: (0..HISTORY_DAYS_MAX).map(day).collect(),
        };
        let file = history.encode(&STORE);
        assert!(file.len() as u64 <= HISTORY_FILE_MAX_BYTES, "{}", file.len());
        assert_eq!(History::decode(&STORE, &file).as_ref(), Ok(&history));
        history.hours.push_back(widest(HISTORY_HOURS_MAX));
        let longer = History::decode(&STORE, &history.encode(&STORE));
        assert_eq!(longer, Err(DecodeError::Value("the samples")));
    }

    #[test]
    fn figures_that_are_not_in_order_are_refused() {
        let same_minute = History { minutes: [sample(1), sample(1)].into(), ..History::default() };
        let hours_back = History { hours: [sample(2), sample(1)].into(), ..History::default() };
        for history in [same_minute, hours_back] {
            let decoded = History::decode(&STORE, &history.encode(&STORE));
            assert_eq!(decoded, Err(DecodeError::Value("the order of the samples")));
        }
        let days = [DaySizes::default(), DaySizes::default()].into();
        let decoded = History::decode(&STORE, &History { days, ..History::default() }.encode(&STORE));
        assert_eq!(decoded, Err(DecodeError::Value("the order of the days")));
    }
}
