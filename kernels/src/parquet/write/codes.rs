//! Values that repeat, as codes of a dictionary: RLE_DICTIONARY.
//!
//! Rows are sorted by series, so what belongs to a series comes in long runs: a run is one code and its length. Where runs
//! are short, every code is packed into as few bits as the dictionary needs, if that is shorter.

use std::collections::HashMap;

use super::bits::put_packed;
use super::words::Word;
use crate::parquet::thrift::put_varint;

/// Codes in runs: a code, and how many of it.
pub type Runs = Vec<(u32, usize)>;

/// Finds the runs of codes.
pub fn runs_of(codes: impl Iterator<Item = u32>) -> Runs {
    let mut runs: Runs = Vec::new();
    for code in codes {
        match runs.last_mut() {
            Some((last, length)) if *last == code => *length += 1,
            _ => runs.push((code, 1)),
        }
    }
    runs
}

/// Numbers values in the order in which they first come: the dictionary, and the runs of codes.
pub fn number<N: Word>(values: &[N]) -> (Vec<N>, Runs) {
    let mut known: HashMap<N, u32> = HashMap::new();
    let (mut dictionary, mut runs) = (Vec::new(), Runs::new());
    for run in values.chunk_by(|left, right| left == right) {
        let code = *known.entry(run[0]).or_insert_with(|| {
            dictionary.push(run[0]);
            dictionary.len() as u32 - 1
        });
        runs.push((code, run.len()));
    }
    (dictionary, runs)
}

/// Appends codes below `limit`: the bits of one, then runs or packed codes.
pub fn put_codes(runs: &Runs, limit: usize, page: &mut Vec<u8>) {
    let width = (usize::BITS - limit.saturating_sub(1).leading_zeros()).max(1);
    let code_bytes = width.div_ceil(8) as usize;
    page.push(width as u8);
    let count: usize = runs.iter().map(|&(_, length)| length).sum();
    let packed_bytes = count.div_ceil(8) * width as usize;
    let start = page.len();
    for &(code, length) in runs {
        put_varint(page, (length as u64) << 1);
        page.extend_from_slice(&code.to_le_bytes()[..code_bytes]);
        if page.len() - start > packed_bytes {
            page.truncate(start);
            return put_eights(runs, count, width, page);
        }
    }
}

/// Packs all codes, eight at a time, which are whole bytes; the last ones are filled up.
fn put_eights(runs: &Runs, count: usize, width: u32, page: &mut Vec<u8>) {
    let eights = count.div_ceil(8);
    put_varint(page, (eights as u64) << 1 | 1);
    let codes = runs.iter().flat_map(|&(code, length)| std::iter::repeat_n(u64::from(code), length));
    put_packed(codes.chain(std::iter::repeat_n(0, eights * 8 - count)), width, page);
}
