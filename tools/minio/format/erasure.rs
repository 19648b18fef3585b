//! The erasure code of MinIO: Reed-Solomon over GF(2^8) with the polynomial 0x11D.
//!
//! Row r of the Vandermonde matrix has r^c in column c. Multiplied by the inverse of its upper
//! square, the upper rows are the identity, so that the first shards are the data itself. Each block
//! is coded alone; a shard is the data divided by the number of data shards, rounded up, with zeros
//! at the end.

/// The generator's powers and their exponents.
struct Tables {
    powers: [u8; 512],
    exponents: [u8; 256],
}

const TABLES: Tables = tables();

const fn tables() -> Tables {
    let mut tables = Tables { powers: [0; 512], exponents: [0; 256] };
    let mut value: u16 = 1;
    let mut at = 0;
    while at < 255 {
        tables.powers[at] = value as u8;
        // Once more, so that the sum of two exponents is an index as it is.
        tables.powers[at + 255] = value as u8;
        tables.exponents[value as usize] = at as u8;
        value <<= 1;
        if value & 0x100 != 0 {
            value ^= 0x11d;
        }
        at += 1;
    }
    tables
}

fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    let exponent =
        usize::from(TABLES.exponents[usize::from(a)]) + usize::from(TABLES.exponents[usize::from(b)]);
    TABLES.powers[exponent]
}

/// The inverse of an element that is not 0.
fn inverse(a: u8) -> u8 {
    TABLES.powers[255 - usize::from(TABLES.exponents[usize::from(a)])]
}

fn power(base: u8, exponent: usize) -> u8 {
    if exponent == 0 {
        return 1;
    }
    if base == 0 {
        return 0;
    }
    TABLES.powers[usize::from(TABLES.exponents[usize::from(base)]) * exponent % 255]
}

type Matrix = Vec<Vec<u8>>;

/// The inverse of a square matrix; `None` for one that has none.
fn inverted(matrix: &[Vec<u8>]) -> Option<Matrix> {
    let size = matrix.len();
    // The right half begins as the identity, and ends as the inverse.
    let mut rows: Matrix = matrix.to_vec();
    for (at, row) in rows.iter_mut().enumerate() {
        row.resize(2 * size, 0);
        row[size + at] = 1;
    }
    for column in 0..size {
        let pivot = (column..size).find(|row| rows[*row][column] != 0)?;
        rows.swap(column, pivot);
        let scale = inverse(rows[column][column]);
        for value in &mut rows[column] {
            *value = multiply(*value, scale);
        }
        let pivot = rows[column].clone();
        for (at, row) in rows.iter_mut().enumerate() {
            let factor = row[column];
            if at == column || factor == 0 {
                continue;
            }
            for (value, of_pivot) in row.iter_mut().zip(&pivot) {
                *value ^= multiply(factor, *of_pivot);
            }
        }
    }
    for row in &mut rows {
        row.drain(..size);
    }
    Some(rows)
}

fn product(left: &[Vec<u8>], right: &[Vec<u8>]) -> Matrix {
    let width = right.first().map_or(0, Vec::len);
    let mut product = Vec::with_capacity(left.len());
    for row in left {
        let mut cells = vec![0; width];
        for (value, other) in row.iter().zip(right) {
            for (cell, factor) in cells.iter_mut().zip(other) {
                *cell ^= multiply(*value, *factor);
            }
        }
        product.push(cells);
    }
    product
}

/// The code of so many data and parity shards.
pub(crate) struct ErasureCode {
    data: usize,
    matrix: Matrix,
}

impl ErasureCode {
    /// The code; `None` for numbers that are out of range.
    pub(crate) fn new(data: usize, parity: usize) -> Option<Self> {
        if data == 0 || data + parity > super::version::SHARDS_MAX {
            return None;
        }
        let row = |row: usize| (0..data).map(|column| power(row as u8, column)).collect();
        let vandermonde: Matrix = (0..data + parity).map(row).collect();
        let matrix = product(&vandermonde, &inverted(&vandermonde[..data])?);
        Some(Self { data, matrix })
    }

    /// Computes the data shards that are missing from those that are there, which have the same
    /// length. Returns whether enough are.
    pub(crate) fn rebuild_data(&self, shards: &mut [Option<Vec<u8>>]) -> bool {
        let missing: Vec<usize> = (0..self.data).filter(|at| shards[*at].is_none()).collect();
        if missing.is_empty() {
            return true;
        }
        let there: Vec<usize> =
            (0..shards.len()).filter(|at| shards[*at].is_some()).take(self.data).collect();
        if there.len() < self.data {
            return false;
        }
        let rows: Matrix = there.iter().map(|at| self.matrix[*at].clone()).collect();
        let Some(decoding) = inverted(&rows) else { return false };
        for at in missing {
            let sources: Vec<&[u8]> = there.iter().filter_map(|from| shards[*from].as_deref()).collect();
            shards[at] = Some(combined(&decoding[at], &sources));
        }
        true
    }
}

/// The sum of shards, each multiplied by its factor.
fn combined(factors: &[u8], shards: &[&[u8]]) -> Vec<u8> {
    let mut sum = vec![0; shards.first().map_or(0, |shard| shard.len())];
    for (factor, shard) in factors.iter().zip(shards) {
        if *factor == 0 {
            continue;
        }
        // All products of the factor: a byte of the shard then takes one look-up.
        let mut products = [0; 256];
        for (value, product) in (0..=255).zip(&mut products) {
            *product = multiply(*factor, value);
        }
        for (to, from) in sum.iter_mut().zip(*shard) {
            *to ^= products[usize::from(*from)];
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Data and parity shards of the bytes 0 to 255.
    fn coded(data: usize, parity: usize) -> Vec<Vec<u8>> {
        let code = ErasureCode::new(data, parity).unwrap();
        let bytes: Vec<u8> = (0..=255).collect();
        let length = bytes.len().div_ceil(data);
        let shards: Vec<Vec<u8>> = (0..data)
            .map(|at| {
                let mut shard = bytes.get(at * length..).unwrap_or_default().to_vec();
                shard.resize(length, 0);
                shard
            })
            .collect();
        let sources: Vec<&[u8]> = shards.iter().map(|shard| &shard[..]).collect();
        code.matrix.iter().map(|row| combined(row, &sources)).collect()
    }

    #[test]
    fn the_first_shards_are_the_data() {
        let shards = coded(4, 3);
        assert_eq!(shards[..4].concat(), (0..=255).collect::<Vec<u8>>());
    }

    /// The sums that MinIO compares at its start, for a few codes.
    #[test]
    fn the_code_is_that_of_minio() {
        let sums: [(usize, usize, u64); 5] = [
            (2, 2, 0x23fb_21be_2496_f5d3),
            (3, 2, 0xe649_27da_ef76_435a),
            (4, 4, 0x09a0_7581_dcd0_3da8),
            (5, 1, 0x0f71_031a_01d7_0daf),
            (8, 4, 0x03ba_5e9b_41bf_07f0),
        ];
        for (data, parity, sum) in sums {
            let mut bytes = Vec::new();
            for (at, shard) in coded(data, parity).into_iter().enumerate() {
                bytes.push(at as u8);
                bytes.extend(shard);
            }
            let found = twox_hash::XxHash64::oneshot(0, &bytes);
            assert_eq!(found, sum, "{data}+{parity}");
        }
    }

    #[test]
    fn any_data_shards_are_enough() {
        for (data, parity) in [(1, 1), (2, 2), (3, 2), (4, 3), (12, 4)] {
            let code = ErasureCode::new(data, parity).unwrap();
            let all = coded(data, parity);
            for kept in 0..1_u32 << (data + parity) {
                if kept.count_ones() as usize != data {
                    continue;
                }
                let mut shards: Vec<_> = all
                    .iter()
                    .enumerate()
                    .map(|(at, shard)| (kept >> at & 1 == 1).then(|| shard.clone()))
                    .collect();
                assert!(code.rebuild_data(&mut shards));
                assert!(
                    shards.iter().zip(&all).take(data).all(|(shard, right)| shard.as_ref() == Some(right))
                );
            }
        }
        let code = ErasureCode::new(3, 2).unwrap();
        let mut few: Vec<Option<Vec<u8>>> = vec![Some(vec![1]), None, Some(vec![2]), None, None];
        assert!(!code.rebuild_data(&mut few));
        assert!(ErasureCode::new(0, 2).is_none() && ErasureCode::new(200, 57).is_none());
    }
}
