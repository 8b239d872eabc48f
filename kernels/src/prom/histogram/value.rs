//! One histogram.
//!
//! Buckets are kept sparse: pairs of index and count in the order of indexes, those without observations left out. Counts
//! are numbers, or while many histograms are added numbers with their compensation.

use std::sync::Arc;

use crate::prom::histogram::layout::{CUSTOM, coarser, upper};
use crate::prom::sum::Sum;

/// What a histogram knows of counter resets before it.
pub const UNKNOWN: u8 = 0;
pub const RESET: u8 = 1;
pub const NOT_RESET: u8 = 2;
pub const GAUGE: u8 = 3;

/// What counts observations.
pub trait Count: Copy {
    fn of(value: f64) -> Self;
    fn value(self) -> f64;
    fn plus(self, other: Self) -> Self;
}

impl Count for f64 {
    fn of(value: f64) -> Self {
        value
    }

    fn value(self) -> f64 {
        self
    }

    fn plus(self, other: Self) -> Self {
        self + other
    }
}

impl Count for Sum {
    fn of(value: f64) -> Self {
        Sum { value, lost: 0.0 }
    }

    fn value(self) -> f64 {
        self.total()
    }

    fn plus(self, other: Self) -> Self {
        let sum = self.add(other.value);
        Sum { value: sum.value, lost: sum.lost + other.lost }
    }
}

pub type Side<C> = Vec<(i32, C)>;

#[derive(Clone, Debug)]
pub struct Histogram<C = f64> {
    pub hint: u8,
    pub schema: i32,
    pub zero_threshold: f64,
    pub zero_count: C,
    pub count: C,
    pub sum: C,
    pub positive: Side<C>,
    pub negative: Side<C>,
    /// Of the custom schema, none otherwise.
    pub bounds: Arc<[f64]>,
}

/// A bucket with its edges.
#[derive(Clone, Copy, Default)]
pub struct Bucket {
    pub lower: f64,
    pub upper: f64,
    pub count: f64,
    pub has_lower: bool,
    pub has_upper: bool,
}

impl<C: Count> Histogram<C> {
    pub fn is_custom(&self) -> bool {
        self.schema == CUSTOM
    }

    pub fn upper(&self, index: i32) -> f64 {
        upper(index, self.schema, &self.bounds)
    }

    /// Makes the schema coarser.
    pub fn coarsen(&mut self, schema: i32) {
        if schema < self.schema && !self.is_custom() {
            let by = schema.abs_diff(self.schema);
            self.positive = coarsened(&self.positive, by);
            self.negative = coarsened(&self.negative, by);
            self.schema = schema;
        }
    }

    /// The count of a zero bucket of at least `threshold`, and how far it reaches: never into a bucket.
    pub fn zero_up_to(&self, mut threshold: f64) -> (C, f64) {
        if threshold == self.zero_threshold {
            return (self.zero_count, threshold);
        }
        loop {
            let (positive, reach) = self.covered(&self.positive, threshold);
            threshold = threshold.max(reach);
            let (negative, reach) = self.covered(&self.negative, threshold);
            if reach > threshold {
                threshold = reach;
                continue;
            }
            return (self.zero_count.plus(positive).plus(negative), threshold);
        }
    }

    /// The count of the buckets that begin below a threshold, and the end of the last one.
    fn covered(&self, side: &Side<C>, threshold: f64) -> (C, f64) {
        let (mut count, mut reach) = (C::of(0.0), 0.0);
        for &(index, each) in side {
            if self.upper(index - 1) >= threshold {
                break;
            }
            count = count.plus(each);
            if each.value() != 0.0 {
                reach = self.upper(index);
            }
        }
        (count, reach)
    }

    /// Makes the zero bucket larger; returns how far it reaches then.
    pub fn widen_zero(&mut self, threshold: f64) -> f64 {
        (self.zero_count, self.zero_threshold) = self.zero_up_to(threshold);
        let (schema, bounds, zero) = (self.schema, self.bounds.clone(), self.zero_threshold);
        let is_outside = |&(index, _): &(i32, C)| upper(index - 1, schema, &bounds) >= zero;
        self.positive.retain(is_outside);
        self.negative.retain(is_outside);
        zero
    }

    /// Drops the buckets without observations.
    pub fn compact(&mut self) {
        self.positive.retain(|&(_, count)| count.value() != 0.0);
        self.negative.retain(|&(_, count)| count.value() != 0.0);
    }

    pub fn counts_mut(&mut self) -> impl Iterator<Item = &mut C> {
        let own = [&mut self.zero_count, &mut self.count, &mut self.sum];
        own.into_iter()
            .chain(self.positive.iter_mut().map(|(_, count)| count))
            .chain(self.negative.iter_mut().map(|(_, count)| count))
    }

    pub fn counts(&self) -> impl Iterator<Item = C> {
        [self.zero_count, self.count, self.sum]
            .into_iter()
            .chain(self.positive.iter().map(|&(_, count)| count))
            .chain(self.negative.iter().map(|&(_, count)| count))
    }
}

pub fn coarsened<C: Count>(side: &[(i32, C)], by: u32) -> Side<C> {
    let mut out: Side<C> = Vec::with_capacity(side.len());
    for &(index, count) in side {
        let index = coarser(index, by);
        match out.last_mut() {
            Some((last, sum)) if *last == index => *sum = sum.plus(count),
            _ => out.push((index, count)),
        }
    }
    out
}

impl Histogram {
    /// A histogram without observations, of the same schema as another.
    pub fn empty_like(other: &Histogram) -> Self {
        Self {
            hint: UNKNOWN,
            schema: other.schema,
            zero_threshold: 0.0,
            zero_count: 0.0,
            count: 0.0,
            sum: 0.0,
            positive: Vec::new(),
            negative: Vec::new(),
            bounds: other.bounds.clone(),
        }
    }

    /// All buckets with observations from the lowest to the highest; none reaches into the zero bucket.
    pub fn buckets(&self) -> Vec<Bucket> {
        let mut out = Vec::with_capacity(self.negative.len() + self.positive.len() + 1);
        for &(index, count) in self.negative.iter().rev() {
            let (lower, mut upper) = (-self.upper(index), -self.upper(index - 1));
            if upper < 0.0 && upper > -self.zero_threshold {
                upper = -self.zero_threshold;
            }
            out.push(Bucket { lower, upper, count, has_lower: true, has_upper: false });
        }
        if self.zero_count > 0.0 {
            out.push(self.zero_bucket());
        }
        for &(index, count) in &self.positive {
            let (mut lower, upper) = (self.upper(index - 1), self.upper(index));
            if lower > 0.0 && lower < self.zero_threshold {
                lower = self.zero_threshold;
            }
            let has_lower = self.is_custom() && index == 0;
            out.push(Bucket { lower, upper, count, has_lower, has_upper: true });
        }
        out
    }

    pub fn zero_bucket(&self) -> Bucket {
        Bucket {
            lower: -self.zero_threshold,
            upper: self.zero_threshold,
            count: self.zero_count,
            has_lower: true,
            has_upper: true,
        }
    }

    pub fn scaled(&self, factor: f64) -> Self {
        let mut out = self.clone();
        out.counts_mut().for_each(|count| *count *= factor);
        if factor < 0.0 {
            out.hint = GAUGE;
        }
        out.compact();
        out
    }

    /// Of a division by zero the buckets do not survive.
    pub fn divided(&self, divisor: f64) -> Self {
        let mut out = self.clone();
        if divisor == 0.0 {
            out.positive.clear();
            out.negative.clear();
        }
        out.counts_mut().for_each(|count| *count /= divisor);
        if divisor < 0.0 {
            out.hint = GAUGE;
        }
        out.compact();
        out
    }

    pub fn with_hint(&self, hint: u8) -> Self {
        Self { hint, ..self.clone() }
    }

    /// How many buckets it keeps.
    pub fn width(&self) -> usize {
        self.positive.len() + self.negative.len()
    }
}
