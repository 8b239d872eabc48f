//! Where the buckets of a histogram lie.
//!
//! Of an exponential schema n, bucket i of the positive side is `(2^((i-1)/2^n), 2^(i/2^n)]`; the negative side mirrors
//! it. The last bucket of regular numbers ends at the largest one, the bucket behind it holds infinity. The buckets of
//! the custom schema are told by their upper bounds: bucket i is `(bounds[i-1], bounds[i]]`, the first begins at negative
//! infinity and the one behind the last bound ends at infinity.

/// The schema of histograms with custom bounds.
pub const CUSTOM: i32 = -53;

/// The power of two that no number reaches.
const BEYOND: f64 = 1024.0;

/// The upper bound of bucket `index` on the positive side.
pub fn upper(index: i32, schema: i32, bounds: &[f64]) -> f64 {
    if schema != CUSTOM {
        return exponential(index, schema);
    }
    match usize::try_from(index) {
        Ok(position) => bounds.get(position).copied().unwrap_or(f64::INFINITY),
        Err(_) => f64::NEG_INFINITY,
    }
}

fn exponential(index: i32, schema: i32) -> f64 {
    // Both are exact: a power of two scales an integer of 32 bits.
    let exponent = f64::from(index) * f64::from(-schema).exp2();
    if exponent == BEYOND { f64::MAX } else { exponent.exp2() }
}

/// The bucket of a coarser schema that bucket `index` is a part of; `by` is how much coarser it is.
pub fn coarser(index: i32, by: u32) -> i32 {
    ((i64::from(index) - 1) >> by.min(63)) as i32 + 1
}

/// The bounds that both have, in order.
pub fn common(left: &[f64], right: &[f64]) -> Vec<f64> {
    let mut rest = right.iter().peekable();
    let mut found = Vec::new();
    for &bound in left {
        while rest.next_if(|&&other| other < bound).is_some() {}
        if rest.next_if(|&&other| other == bound).is_some() {
            found.push(bound);
        }
    }
    found
}

/// The bucket of fewer bounds that bucket `index` of `bounds` is a part of.
pub fn within(index: i32, bounds: &[f64], fewer: &[f64]) -> i32 {
    let end = upper(index, CUSTOM, bounds);
    fewer.partition_point(|&bound| bound < end) as i32
}
