//! Sums that keep the low bits: what PromQL's sums, means and regressions are made of.

use std::cmp::Ordering;

/// A running sum with its compensation (Neumaier's form of Kahan's sum).
#[derive(Clone, Copy, Default)]
pub struct Sum {
    pub value: f64,
    pub lost: f64,
}

impl Sum {
    pub fn of(value: f64) -> Self {
        Self { value, lost: 0.0 }
    }

    pub fn add(self, more: f64) -> Self {
        let value = self.value + more;
        let lost = if value.is_infinite() {
            0.0
        } else if self.value.abs() >= more.abs() {
            self.lost + ((self.value - value) + more)
        } else {
            self.lost + ((more - value) + self.value)
        };
        Self { value, lost }
    }

    pub fn total(self) -> f64 {
        if self.value.is_infinite() { self.value } else { self.value + self.lost }
    }

    fn scaled(self, factor: f64) -> Self {
        Self { value: self.value * factor, lost: self.lost * factor }
    }
}

/// A mean: of the sum as long as that does not overflow, of the mean so far from there on.
#[derive(Clone, Copy)]
pub struct Mean {
    sum: Sum,
    count: f64,
    is_incremental: bool,
}

impl Mean {
    pub fn of(value: f64) -> Self {
        Self { sum: Sum::of(value), count: 1.0, is_incremental: false }
    }

    pub fn add(&mut self, value: f64) {
        self.count += 1.0;
        if !self.is_incremental {
            let next = self.sum.add(value);
            if !next.value.is_infinite() {
                self.sum = next;
                return;
            }
            self.is_incremental = true;
            let before = self.count - 1.0;
            self.sum = Sum { value: self.sum.value / before, lost: self.sum.lost / before };
        }
        let share = (self.count - 1.0) / self.count;
        self.sum = self.sum.scaled(share).add(value / self.count);
    }

    pub fn result(self) -> f64 {
        if self.is_incremental {
            self.sum.value + self.sum.lost
        } else {
            self.sum.value / self.count + self.sum.lost / self.count
        }
    }
}

/// The quantile of values, whose order changes: NaN is the smallest.
pub fn quantile(q: f64, values: &mut [f64]) -> f64 {
    if values.is_empty() || q.is_nan() {
        return f64::NAN;
    }
    if q < 0.0 {
        return f64::NEG_INFINITY;
    }
    if q > 1.0 {
        return f64::INFINITY;
    }
    let rank = q * (values.len() - 1) as f64;
    let lower = (rank.floor().max(0.0) as usize).min(values.len() - 1);
    let weight = rank - rank.floor();
    let above = values.len() - lower;
    let (low, high) = if values.iter().fold(false, |any, value| any | value.is_nan()) {
        select(values, lower, order)
    } else if above <= GREATEST_MAX {
        select_greatest(values, above)
    } else {
        // Without a NaN a comparison is one instruction.
        select(values, lower, |a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal))
    };
    low * (1.0 - weight) + high * weight
}

/// The values at a rank and behind it: only these are needed, not all of them in order.
fn select(values: &mut [f64], rank: usize, order: impl Fn(&f64, &f64) -> Ordering) -> (f64, f64) {
    let (_, &mut low, rest) = values.select_nth_unstable_by(rank, &order);
    (low, rest.iter().copied().min_by(&order).unwrap_or(low))
}

/// Of so many values the greatest are found in one pass: the 99th percentile of 400 is one of four.
const GREATEST_MAX: usize = 4;

/// The least and the second of the `count` greatest values, of which none is a NaN.
fn select_greatest(values: &[f64], count: usize) -> (f64, f64) {
    // Ascending; what there is no value for is at the end.
    let mut kept = [f64::INFINITY; GREATEST_MAX];
    kept[..count].fill(f64::NEG_INFINITY);
    for &value in values {
        if value <= kept[0] {
            continue;
        }
        kept[0] = value;
        for at in 1..count {
            if kept[at - 1] <= kept[at] {
                break;
            }
            kept.swap(at - 1, at);
        }
    }
    (kept[0], kept[..count].get(1).copied().unwrap_or(kept[0]))
}

fn order(a: &f64, b: &f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => a.total_cmp(b),
    }
}
