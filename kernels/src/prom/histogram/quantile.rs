//! Quantiles, fractions and variances of a histogram.
//!
//! Inside of an exponential bucket observations are taken to be spread evenly over the logarithm, inside of a custom one
//! and of the zero bucket evenly over the value. The zero bucket of a histogram with one side only lies on that side.

use crate::prom::histogram::value::{Bucket, Histogram};
use crate::prom::sum::Sum;

/// Remarks on histograms whose sum is NaN because NaN was observed, which no bucket holds.
pub const NAN_RESULT: u8 = 1;
pub const NAN_SKEW: u8 = 2;

pub fn quantile(histogram: &Histogram, q: f64) -> (f64, u8) {
    if q < 0.0 {
        return (f64::NEG_INFINITY, 0);
    }
    if q > 1.0 {
        return (f64::INFINITY, 0);
    }
    if histogram.count == 0.0 || q.is_nan() {
        return (f64::NAN, 0);
    }
    let has_nan = histogram.sum.is_nan();
    let is_forward = has_nan || q < 0.5;
    let mut rank = if is_forward { q } else { 1.0 - q } * histogram.count;
    let mut buckets = histogram.buckets();
    if !is_forward {
        buckets.reverse();
    }
    let (mut bucket, mut count) = (Bucket::default(), 0.0);
    for each in &buckets {
        bucket = *each;
        count += bucket.count;
        if count >= rank {
            break;
        }
    }
    if let Some(edge) = settle(histogram, &mut bucket) {
        return (edge, 0);
    }
    count = count.min(histogram.count);
    if count < rank {
        return if has_nan { (f64::NAN, NAN_RESULT) } else { (bucket.upper, 0) };
    }
    rank = if is_forward { rank - (count - bucket.count) } else { count - rank };
    let skew = if has_nan && total(&buckets) < histogram.count { NAN_SKEW } else { 0 };
    (inside(histogram, &bucket, rank / bucket.count), skew)
}

fn total(buckets: &[Bucket]) -> f64 {
    buckets.iter().map(|bucket| bucket.count).sum()
}

/// Gives a bucket around zero or with an infinite edge the edges it is taken to have; an answer if that is one already.
fn settle(histogram: &Histogram, bucket: &mut Bucket) -> Option<f64> {
    if !histogram.is_custom() {
        if bucket.lower < 0.0 && bucket.upper > 0.0 {
            take_side(histogram, bucket);
        }
        return None;
    }
    if bucket.lower == f64::NEG_INFINITY {
        if bucket.upper <= 0.0 {
            return Some(bucket.upper);
        }
        bucket.lower = 0.0;
        return None;
    }
    (bucket.upper == f64::INFINITY).then_some(bucket.lower)
}

fn take_side(histogram: &Histogram, bucket: &mut Bucket) {
    match (histogram.negative.is_empty(), histogram.positive.is_empty()) {
        (true, false) => bucket.lower = 0.0,
        (false, true) => bucket.upper = 0.0,
        _ => {}
    }
}

/// The value at a share of a bucket.
fn inside(histogram: &Histogram, bucket: &Bucket, share: f64) -> f64 {
    if histogram.is_custom() || (bucket.lower <= 0.0 && bucket.upper >= 0.0) {
        return bucket.lower + (bucket.upper - bucket.lower) * share;
    }
    let (lower, upper) = (bucket.lower.abs().log2(), bucket.upper.abs().log2());
    if bucket.lower > 0.0 {
        (lower + (upper - lower) * share).exp2()
    } else {
        -(upper + (lower - upper) * (1.0 - share)).exp2()
    }
}

/// The share of observations between two values, and whether NaN was observed, which lies between none.
pub fn fraction(histogram: &Histogram, lower: f64, upper: f64) -> (f64, u8) {
    if histogram.count == 0.0 || lower.is_nan() || upper.is_nan() {
        return (f64::NAN, 0);
    }
    if lower >= upper {
        return (0.0, 0);
    }
    let buckets = histogram.buckets();
    let (mut limit, mut flag) = (histogram.count, 0);
    if histogram.sum.is_nan() {
        limit = total(&buckets);
        flag = if limit < histogram.count { NAN_SKEW } else { 0 };
    }
    let (from, to) = (rank(histogram, &buckets, lower), rank(histogram, &buckets, upper));
    let capped = |rank: Option<f64>| rank.filter(|&rank| rank <= limit).unwrap_or(limit);
    ((capped(to) - capped(from)) / histogram.count, flag)
}

/// How many observations are below a value; `None` if all are.
fn rank(histogram: &Histogram, buckets: &[Bucket], value: f64) -> Option<f64> {
    let mut before = 0.0;
    for bucket in buckets {
        let mut bucket = *bucket;
        let is_zero = bucket.lower <= 0.0 && bucket.upper >= 0.0;
        if is_zero {
            take_side(histogram, &mut bucket);
        }
        if bucket.lower >= value {
            return Some(before);
        }
        if bucket.upper > value {
            if bucket.lower == f64::NEG_INFINITY {
                return Some(bucket.count);
            }
            let is_even = histogram.is_custom() || is_zero;
            return Some(before + bucket.count * share_below(&bucket, value, is_even));
        }
        before += bucket.count;
    }
    None
}

/// The share of a bucket that is below a value inside of it.
pub fn share_below(bucket: &Bucket, value: f64, is_even: bool) -> f64 {
    if is_even {
        return (value - bucket.lower) / (bucket.upper - bucket.lower);
    }
    let (lower, upper) = (bucket.lower.abs().log2(), bucket.upper.abs().log2());
    let place = value.abs().log2();
    if bucket.lower >= 0.0 {
        (place - lower) / (upper - lower)
    } else {
        1.0 - (place - upper) / (lower - upper)
    }
}

pub fn variance(histogram: &Histogram) -> f64 {
    let mean = histogram.sum / histogram.count;
    let mut squares = Sum::default();
    for bucket in histogram.buckets() {
        let middle = if histogram.is_custom() {
            (bucket.upper + bucket.lower) / 2.0
        } else if bucket.lower <= 0.0 && bucket.upper >= 0.0 {
            0.0
        } else {
            (bucket.upper * bucket.lower).sqrt().copysign(bucket.upper)
        };
        let delta = middle - mean;
        squares = squares.add(bucket.count * delta * delta);
    }
    (squares.value + squares.lost) / histogram.count
}
