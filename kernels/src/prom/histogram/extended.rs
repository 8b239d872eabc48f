//! Windows of histograms whose edges have a sample of their own: `anchored` and `smoothed` range selectors.
//!
//! As in `prom::extended`, the samples reach further than the window. Between two histograms lies the one that has grown
//! evenly from the first to the second; behind a counter reset it grows from nothing.

use std::sync::Arc;

use crate::prom::histogram::combine::{Mixed, Total, combined, is_reset};
use crate::prom::histogram::value::{GAUGE, Histogram};
use crate::prom::histogram::window::{
    ADDED, Found, MIXED_SCHEMAS, MIXED_TYPES, NOT_A_COUNTER, NOT_A_GAUGE, SUBTRACTED, Window, is_changed,
    mark, pairs,
};

/// Applies a function to a window with at least one histogram; `None` if it is not known.
pub fn apply(function: &str, window: &Window, is_smooth: bool, flags: &mut u32) -> Option<Found> {
    let is_counter = function != "delta";
    Some(match function {
        "rate" | "increase" | "delta" => change(window, is_smooth, is_counter, function == "rate", flags),
        "changes" | "resets" => {
            if *window.times.last()? <= window.start {
                return Some(Found::Nothing);
            }
            let anchor = window.times.partition_point(|&time| time <= window.start).saturating_sub(1);
            Found::Number(if function == "changes" {
                pairs(window, anchor, |a, b| a != b && !(a.is_nan() && b.is_nan()), is_changed)
            } else {
                pairs(window, anchor, |a, b| b < a, is_reset)
            })
        }
        _ => return None,
    })
}

fn change(window: &Window, is_smooth: bool, is_counter: bool, is_rate: bool, flags: &mut u32) -> Found {
    if window.is_mixed() {
        *flags |= MIXED_TYPES;
        return Found::Nothing;
    }
    let Some((first, last)) = bounds(window, is_smooth) else {
        return Found::Nothing;
    };
    let samples: Vec<&Arc<Histogram>> = window.all().collect();
    if samples[first..=last].iter().any(|each| each.is_custom() != samples[first].is_custom()) {
        *flags |= MIXED_SCHEMAS;
        return Found::Nothing;
    }
    if is_counter && samples[first..=last].iter().any(|each| each.hint == GAUGE) {
        *flags |= NOT_A_COUNTER;
    }
    let result = Edges { window, samples, first, last, is_smooth, is_counter }.change(flags);
    match result {
        Ok(mut result) => {
            if is_rate {
                result = result.divided((window.end - window.start) as f64 / 1000.0);
            }
            result.hint = GAUGE;
            Found::Histogram(Arc::new(result))
        }
        Err(Mixed) => {
            *flags |= MIXED_SCHEMAS;
            Found::Nothing
        }
    }
}

/// The samples that matter: the first is the last one up to the start, the last, smoothed, the first from the end on.
fn bounds(window: &Window, is_smooth: bool) -> Option<(usize, usize)> {
    let times = window.times;
    let mut last = times.len() - 1;
    let first = times[..last].partition_point(|&time| time <= window.start).saturating_sub(1);
    if is_smooth {
        last = times[..last].partition_point(|&time| time < window.end);
    }
    let is_before = is_smooth && times[first] > window.end;
    (times[last] > window.start && !is_before).then_some((first, last))
}

struct Edges<'a> {
    window: &'a Window<'a>,
    samples: Vec<&'a Arc<Histogram>>,
    first: usize,
    last: usize,
    is_smooth: bool,
    is_counter: bool,
}

impl Edges<'_> {
    fn change(&self, flags: &mut u32) -> Result<Histogram, Mixed> {
        let (times, start, end) = (self.window.times, self.window.start, self.window.end);
        let left = if self.is_smooth && times[self.first] < start {
            self.between(self.first, start, flags)?
        } else {
            self.samples[self.first].as_ref().clone()
        };
        let right = if self.is_smooth && self.last > 0 && times[self.last] > end {
            self.between(self.last - 1, end, flags)?
        } else {
            self.samples[self.last].as_ref().clone()
        };
        if !self.is_counter && (left.hint != GAUGE || right.hint != GAUGE) {
            *flags |= NOT_A_GAUGE;
        }
        let mut total = Total::of(&right);
        mark(flags, total.add(&left, -1.0)?, SUBTRACTED);
        if self.is_counter {
            self.correct(&mut total, &left, &right, flags)?;
        }
        Ok(total.finish())
    }

    /// The histogram at a time behind sample `position`.
    fn between(&self, position: usize, at: i64, flags: &mut u32) -> Result<Histogram, Mixed> {
        let times = self.window.times;
        let share = (at - times[position]) as f64 / (times[position + 1] - times[position]) as f64;
        let (before, after) = (self.samples[position], self.samples[position + 1]);
        interpolated(before, after, share, self.is_counter, flags)
    }

    /// Adds what was lost by resets between the edges.
    fn correct(
        &self,
        total: &mut Total,
        left: &Histogram,
        right: &Histogram,
        flags: &mut u32,
    ) -> Result<(), Mixed> {
        let (mut before, mut from) = (left, self.first + 1);
        let is_between = self.is_smooth && self.window.times[self.first] < self.window.start;
        if is_between && is_reset(self.samples[self.first], self.samples[self.first + 1]) {
            // The left edge lies behind this reset already.
            before = self.samples[self.first + 1];
            from += 1;
        }
        if from > self.last {
            return Ok(());
        }
        let inside = self.samples[from..self.last].iter().map(|each| each.as_ref());
        for after in inside.chain(std::iter::once(right)) {
            if is_reset(before, after) {
                mark(flags, total.add(before, 1.0)?, ADDED);
            }
            before = after;
        }
        Ok(())
    }
}

/// The histogram at a share of the way from one to the next.
pub fn interpolated(
    before: &Histogram,
    after: &Histogram,
    share: f64,
    is_counter: bool,
    flags: &mut u32,
) -> Result<Histogram, Mixed> {
    if share == 0.0 {
        return Ok(before.clone());
    }
    if share == 1.0 {
        return Ok(after.clone());
    }
    if is_counter && is_reset(before, after) {
        return Ok(after.scaled(share));
    }
    let (change, remark) = combined(after, before, -1.0)?;
    mark(flags, remark, SUBTRACTED);
    let (result, remark) = combined(&change.scaled(share), before, 1.0)?;
    mark(flags, remark, ADDED);
    Ok(result)
}
