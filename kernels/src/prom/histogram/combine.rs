//! Sums, differences and means of histograms, and what their neighbours tell of counter resets.
//!
//! Two exponential histograms meet in the coarser of their schemas, with a zero bucket that holds both zero buckets and
//! cuts no bucket of either in two. Two histograms with custom bounds meet in the bounds that both have. An exponential
//! and a custom one do not meet.

use std::borrow::Cow;

use crate::prom::histogram::layout::{common, within};
use crate::prom::histogram::value::{Count, GAUGE, Histogram, NOT_RESET, RESET, Side, UNKNOWN, coarsened};
use crate::prom::sum::Sum;

/// An exponential and a custom histogram cannot be put together.
#[derive(Debug)]
pub struct Mixed;

/// What was remarkable about an addition.
#[derive(Clone, Copy, Default)]
pub struct Remark {
    /// One side tells of a counter reset, the other that there was none.
    pub is_collision: bool,
    /// The custom bounds differed.
    pub is_reconciled: bool,
}

/// What is added up, with the low bits that a plain sum would lose.
pub type Total = Histogram<Sum>;

impl Total {
    pub fn of(histogram: &Histogram) -> Self {
        let side = |side: &Side<f64>| side.iter().map(|&(index, count)| (index, Sum::of(count))).collect();
        Self {
            hint: histogram.hint,
            schema: histogram.schema,
            zero_threshold: histogram.zero_threshold,
            zero_count: Sum::of(histogram.zero_count),
            count: Sum::of(histogram.count),
            sum: Sum::of(histogram.sum),
            positive: side(&histogram.positive),
            negative: side(&histogram.negative),
            bounds: histogram.bounds.clone(),
        }
    }

    /// Adds a histogram, or with a sign of -1 subtracts it.
    pub fn add(&mut self, other: &Histogram, sign: f64) -> Result<Remark, Mixed> {
        if self.is_custom() != other.is_custom() {
            return Err(Mixed);
        }
        let is_collision = self.join_hint(other.hint);
        let is_reconciled = if self.is_custom() {
            self.add_custom(other, sign)
        } else {
            self.add_exponential(other, sign);
            false
        };
        self.count = self.count.add(other.count * sign);
        self.sum = self.sum.add(other.sum * sign);
        Ok(Remark { is_collision, is_reconciled })
    }

    fn join_hint(&mut self, other: u8) -> bool {
        if self.hint == other || self.hint == GAUGE {
            return false;
        }
        let is_collision = other != GAUGE && self.hint != UNKNOWN && other != UNKNOWN;
        self.hint = if other == GAUGE { GAUGE } else { UNKNOWN };
        is_collision
    }

    fn add_exponential(&mut self, other: &Histogram, sign: f64) {
        let (mut zero_count, mut threshold) = (other.zero_count, other.zero_threshold);
        while threshold != self.zero_threshold {
            if self.zero_threshold > threshold {
                (zero_count, threshold) = other.zero_up_to(self.zero_threshold);
            }
            if threshold > self.zero_threshold {
                self.widen_zero(threshold);
            }
        }
        self.zero_count = self.zero_count.add(zero_count * sign);
        self.coarsen(other.schema);
        let by = other.schema.abs_diff(self.schema);
        add_side(&mut self.positive, &outside(&other.positive, other, threshold, by), sign);
        add_side(&mut self.negative, &outside(&other.negative, other, threshold, by), sign);
    }

    fn add_custom(&mut self, other: &Histogram, sign: f64) -> bool {
        if self.bounds == other.bounds {
            add_side(&mut self.positive, &other.positive, sign);
            return false;
        }
        let bounds = common(&self.bounds, &other.bounds);
        self.positive = joined(&self.positive, &self.bounds, &bounds);
        add_side(&mut self.positive, &joined(&other.positive, &other.bounds, &bounds), sign);
        self.bounds = bounds.into();
        true
    }

    pub fn divide(&mut self, divisor: f64) {
        self.counts_mut().for_each(|count| {
            *count = Sum { value: count.value / divisor, lost: count.lost / divisor };
        });
    }

    pub fn scale(&mut self, factor: f64) {
        self.counts_mut().for_each(|count| {
            *count = Sum { value: count.value * factor, lost: count.lost * factor };
        });
    }

    fn has_overflow(&self) -> bool {
        self.counts().any(|count| count.value.is_infinite())
    }

    pub fn finish(&self) -> Histogram {
        let side = |side: &Side<Sum>| -> Side<f64> {
            let counts = side.iter().map(|&(index, count)| (index, count.total()));
            counts.filter(|&(_, count)| count != 0.0).collect()
        };
        Histogram {
            hint: self.hint,
            schema: self.schema,
            zero_threshold: self.zero_threshold,
            zero_count: self.zero_count.total(),
            count: self.count.total(),
            sum: self.sum.total(),
            positive: side(&self.positive),
            negative: side(&self.negative),
            bounds: self.bounds.clone(),
        }
    }
}

/// The buckets of one side that are outside of a zero bucket, in a schema that is coarser by some steps.
fn outside<'a>(side: &'a Side<f64>, histogram: &Histogram, threshold: f64, by: u32) -> Cow<'a, Side<f64>> {
    let inside = side.partition_point(|&(index, _)| histogram.upper(index) <= threshold);
    match (inside, by) {
        (0, 0) => Cow::Borrowed(side),
        _ => Cow::Owned(coarsened(&side[inside..], by)),
    }
}

/// Merges the buckets of one side into those of another.
fn add_side(own: &mut Side<Sum>, other: &Side<f64>, sign: f64) {
    if other.is_empty() {
        return;
    }
    let mut others = other.iter().peekable();
    let mut out = Vec::with_capacity(own.len() + other.len());
    for &(index, count) in own.iter() {
        while let Some(&(before, more)) = others.next_if(|&&(each, _)| each < index) {
            out.push((before, Sum::of(more * sign)));
        }
        match others.next_if(|&&(each, _)| each == index) {
            Some(&(_, more)) => out.push((index, count.add(more * sign))),
            None => out.push((index, count)),
        }
    }
    out.extend(others.map(|&(index, more)| (index, Sum::of(more * sign))));
    *own = out;
}

/// The buckets in the place they have among fewer custom bounds.
fn joined<C: Count>(side: &Side<C>, bounds: &[f64], fewer: &[f64]) -> Side<C> {
    let mut out: Side<C> = Vec::with_capacity(side.len());
    for &(index, count) in side {
        let index = within(index, bounds, fewer);
        match out.last_mut() {
            Some((last, sum)) if *last == index => *sum = sum.plus(count),
            _ => out.push((index, count)),
        }
    }
    out
}

/// A mean: of the sum as long as that does not overflow, of the mean so far from there on.
pub struct Mean {
    total: Total,
    count: f64,
    is_incremental: bool,
}

impl Mean {
    pub fn of(histogram: &Histogram) -> Self {
        Self { total: Total::of(histogram), count: 1.0, is_incremental: false }
    }

    pub fn add(&mut self, histogram: &Histogram) -> Result<Remark, Mixed> {
        self.count += 1.0;
        if !self.is_incremental {
            let mut next = self.total.clone();
            let remark = next.add(histogram, 1.0)?;
            if !next.has_overflow() {
                self.total = next;
                return Ok(remark);
            }
            self.is_incremental = true;
            self.total.divide(self.count - 1.0);
        }
        self.total.scale((self.count - 1.0) / self.count);
        self.total.add(&histogram.divided(self.count), 1.0)
    }

    pub fn finish(mut self) -> Histogram {
        if !self.is_incremental {
            self.total.divide(self.count);
        }
        self.total.finish()
    }
}

/// Two histograms put together.
pub fn combined(left: &Histogram, right: &Histogram, sign: f64) -> Result<(Histogram, Remark), Mixed> {
    let mut total = Total::of(left);
    let remark = total.add(right, sign)?;
    Ok((total.finish(), remark))
}

/// Tells whether the counter was reset between two histograms that follow each other.
pub fn is_reset(before: &Histogram, after: &Histogram) -> bool {
    match after.hint {
        RESET => return true,
        NOT_RESET => return false,
        _ => {}
    }
    if after.count < before.count {
        return true;
    }
    if after.is_custom() && before.is_custom() && after.bounds != before.bounds {
        let bounds = common(&after.bounds, &before.bounds);
        let (old, new) = (
            joined(&before.positive, &before.bounds, &bounds),
            joined(&after.positive, &after.bounds, &bounds),
        );
        return has_fallen(&old, &new);
    }
    if after.is_custom() != before.is_custom() || after.schema > before.schema {
        return true;
    }
    if after.is_custom() {
        return has_fallen(&before.positive, &after.positive);
    }
    if after.zero_threshold < before.zero_threshold {
        return true;
    }
    let (zero_count, threshold) = before.zero_up_to(after.zero_threshold);
    if threshold != after.zero_threshold || after.zero_count < zero_count {
        return true;
    }
    let by = before.schema.abs_diff(after.schema);
    let fell = |old: &Side<f64>, new: &Side<f64>| {
        has_fallen(&outside(old, before, threshold, by), &outside(new, after, threshold, 0))
    };
    fell(&before.positive, &after.positive) || fell(&before.negative, &after.negative)
}

/// Tells whether a bucket has fewer observations than before.
fn has_fallen(before: &Side<f64>, after: &Side<f64>) -> bool {
    let mut rest = after.iter().peekable();
    before.iter().any(|&(index, count)| {
        while rest.next_if(|&&(each, _)| each < index).is_some() {}
        match rest.peek() {
            Some(&&(each, now)) if each == index => now < count,
            _ => count != 0.0,
        }
    })
}

/// Tells whether two histograms are the same, bit by bit.
pub fn is_equal(left: &Histogram, right: &Histogram) -> bool {
    let same = |a: &Side<f64>, b: &Side<f64>| {
        a.len() == b.len()
            && a.iter().zip(b).all(|(one, other)| one.0 == other.0 && one.1.to_bits() == other.1.to_bits())
    };
    left.schema == right.schema
        && left.count.to_bits() == right.count.to_bits()
        && left.sum.to_bits() == right.sum.to_bits()
        && left.zero_threshold == right.zero_threshold
        && left.zero_count.to_bits() == right.zero_count.to_bits()
        && left.bounds == right.bounds
        && same(&left.positive, &right.positive)
        && same(&left.negative, &right.negative)
}
