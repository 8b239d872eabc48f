//! The trim operators: `</` keeps the observations below a value, `>/` those above.
//!
//! A bucket that the value cuts keeps its share. Of a bucket without an end nothing is known, so if the value cuts it, it
//! goes; only the first custom bucket with a positive end is taken to begin at zero. Count and sum follow from what is
//! left, the sum from the middles of the buckets; if nothing is cut off, both stay as they are.

use crate::prom::histogram::quantile::share_below;
use crate::prom::histogram::value::{Bucket, Histogram, Side};

struct Cut<'a> {
    histogram: &'a Histogram,
    at: f64,
    keeps_below: bool,
    count: f64,
    sum: f64,
    is_cut: bool,
}

pub fn trimmed(histogram: &Histogram, at: f64, keeps_below: bool) -> Histogram {
    let mut cut = Cut { histogram, at, keeps_below, count: 0.0, sum: 0.0, is_cut: false };
    let positive = cut.side(&histogram.positive, true);
    let negative = cut.side(&histogram.negative, false);
    let zero_count = cut.zero();
    if !cut.is_cut {
        return histogram.clone();
    }
    let mut out = Histogram {
        zero_count,
        count: cut.count,
        sum: cut.sum,
        positive,
        negative,
        bounds: histogram.bounds.clone(),
        ..*histogram
    };
    out.compact();
    out
}

impl Cut<'_> {
    fn side(&mut self, side: &Side<f64>, is_positive: bool) -> Side<f64> {
        let mut out = Vec::with_capacity(side.len());
        for &(index, count) in side {
            let (near, far) = (self.histogram.upper(index - 1), self.histogram.upper(index));
            let (lower, upper) = if is_positive { (near, far) } else { (-far, -near) };
            let bucket = Bucket { lower, upper, count, ..Bucket::default() };
            let (kept, middle) = self.keep(&bucket, is_positive);
            self.take(kept, middle, count);
            out.push((index, kept));
        }
        out
    }

    fn take(&mut self, kept: f64, middle: f64, before: f64) {
        self.is_cut |= kept != before;
        if kept != 0.0 {
            self.count += kept;
            self.sum += middle * kept;
        }
    }

    /// What is left of a bucket, and its middle.
    fn keep(&self, bucket: &Bucket, is_positive: bool) -> (f64, f64) {
        let Bucket { lower, upper, count, .. } = *bucket;
        let is_kept = if self.keeps_below { upper <= self.at } else { lower >= self.at };
        if is_kept {
            return (count, self.middle(lower, upper, is_positive));
        }
        let is_inside = if self.keeps_below { lower < self.at } else { upper > self.at };
        if !is_inside {
            return (0.0, 0.0);
        }
        if lower == f64::NEG_INFINITY || upper == f64::INFINITY {
            return self.keep_endless(bucket);
        }
        let below = count * share_below(bucket, self.at, self.histogram.is_custom());
        if self.keeps_below {
            (below, self.middle(lower, self.at, is_positive))
        } else {
            (count - below, self.middle(self.at, upper, is_positive))
        }
    }

    fn keep_endless(&self, bucket: &Bucket) -> (f64, f64) {
        let Bucket { lower, upper, count, .. } = *bucket;
        let begins_at_zero = lower == f64::NEG_INFINITY && upper > 0.0 && upper != f64::INFINITY;
        if begins_at_zero && self.keeps_below && self.at > 0.0 {
            return (count * self.at / upper, self.at / 2.0);
        }
        if begins_at_zero && !self.keeps_below && self.at >= 0.0 {
            return (count * (1.0 - self.at / upper), f64::midpoint(self.at, upper));
        }
        if lower == f64::NEG_INFINITY && self.keeps_below && upper <= 0.0 {
            return (count, self.at);
        }
        if lower != f64::NEG_INFINITY && !self.keeps_below && self.at >= lower {
            return (count, self.at);
        }
        (0.0, 0.0)
    }

    fn middle(&self, lower: f64, upper: f64, is_positive: bool) -> f64 {
        match (lower.is_infinite(), upper.is_infinite()) {
            (true, true) => 0.0,
            (true, false) => {
                if upper > 0.0 {
                    upper / 2.0
                } else {
                    upper
                }
            }
            (false, true) => lower,
            (false, false) if self.histogram.is_custom() => (lower + upper) / 2.0,
            (false, false) => {
                let mean = (lower * upper).abs().sqrt();
                if is_positive { mean } else { -mean }
            }
        }
    }

    fn zero(&mut self) -> f64 {
        let Bucket { mut lower, mut upper, count, .. } = self.histogram.zero_bucket();
        if count <= 0.0 || count.is_nan() {
            return count;
        }
        match (self.histogram.negative.is_empty(), self.histogram.positive.is_empty()) {
            (true, false) => lower = 0.0,
            (false, true) => upper = 0.0,
            _ => {}
        }
        let (is_whole, is_gone, from, to) = if self.keeps_below {
            (self.at >= upper && self.at > lower, self.at <= lower, lower, self.at)
        } else {
            (self.at <= lower, self.at >= upper && self.at > lower, self.at, upper)
        };
        let (from, to, kept) = match (is_whole, is_gone) {
            (true, _) => (lower, upper, count),
            (_, true) => (0.0, 0.0, 0.0),
            _ => (from, to, count * ((to - from) / (upper - lower))),
        };
        self.take(kept, (from + to) / 2.0, count);
        kept
    }
}
