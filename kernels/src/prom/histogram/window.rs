//! The functions of PromQL over the samples of one window, of which some are histograms.
//!
//! A window of floats alone is left to `prom::window`. Where floats and histograms do not go together the answer is nothing
//! and a flag; where histograms are not looked at, the floats among the samples answer.

use std::sync::Arc;

use crate::prom::histogram::combine::{Mean, Mixed, Remark, Total, combined, is_equal, is_reset};
use crate::prom::histogram::value::{GAUGE, Histogram, NOT_RESET, RESET};
use crate::prom::window as prom_window;

/// What is to be said about a series.
pub const MIXED_TYPES: u32 = 1;
pub const MIXED_SCHEMAS: u32 = 2;
pub const NOT_A_COUNTER: u32 = 4;
pub const NOT_A_GAUGE: u32 = 8;
pub const SUBTRACTED: u32 = 16;
pub const ADDED: u32 = 32;
pub const AGGREGATED: u32 = 64;
pub const COLLISION: u32 = 128;
pub const IGNORED: u32 = 256;

/// The samples of a window; `cells` has the number of a histogram, or -1 for a float.
pub struct Window<'a> {
    pub times: &'a [i64],
    pub values: &'a [f64],
    pub cells: &'a [i32],
    pub pool: &'a [Arc<Histogram>],
    /// How many of the samples are histograms, at least one.
    pub histograms: usize,
    /// For each sample whether the counter was reset between the one before it and it; both must be histograms.
    pub resets: &'a [bool],
    pub start: i64,
    pub end: i64,
    pub at: i64,
    pub first: f64,
    pub second: f64,
}

/// What a function gives.
pub enum Found {
    Nothing,
    Number(f64),
    Histogram(Arc<Histogram>),
}

impl<'a> Window<'a> {
    pub fn get(&self, position: usize) -> Option<&'a Arc<Histogram>> {
        usize::try_from(self.cells[position]).ok().map(|cell| &self.pool[cell])
    }

    pub fn is_mixed(&self) -> bool {
        self.histograms < self.times.len()
    }

    /// All samples of a window without floats.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &'a Arc<Histogram>> {
        (0..self.times.len()).filter_map(|position| self.get(position))
    }

    fn value_at(&self, position: usize) -> Found {
        match self.get(position) {
            Some(histogram) => Found::Histogram(histogram.clone()),
            None => Found::Number(self.values[position]),
        }
    }
}

fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}

/// Applies a function to a window with at least one histogram; `None` if it is not known.
pub fn apply(function: &str, window: &Window, flags: &mut u32, scratch: &mut Scratch) -> Option<Found> {
    let last = window.times.len() - 1;
    Some(match function {
        "rate" => extrapolated(window, true, true, flags),
        "increase" => extrapolated(window, true, false, flags),
        "delta" => extrapolated(window, false, false, flags),
        "irate" => instant(window, true, flags),
        "idelta" => instant(window, false, flags),
        "sum_over_time" | "avg_over_time" => aggregated(window, function == "avg_over_time", flags),
        "count_over_time" => Found::Number(window.times.len() as f64),
        "present_over_time" => Found::Number(1.0),
        "first_over_time" => window.value_at(0),
        "last_over_time" => window.value_at(last),
        "ts_of_first_over_time" => Found::Number(seconds(window.times[0])),
        "ts_of_last_over_time" => Found::Number(seconds(window.times[last])),
        "changes" => {
            Found::Number(pairs(window, 0, |a, b| a != b && !(a.is_nan() && b.is_nan()), is_changed))
        }
        "resets" => Found::Number(pairs(window, 0, |a, b| b < a, is_reset)),
        _ => return of_floats(function, window, flags, scratch),
    })
}

pub fn is_changed(before: &Histogram, after: &Histogram) -> bool {
    !is_equal(before, after)
}

/// Counts the neighbours, from a sample on, that differ; a float and a histogram always do.
pub fn pairs(
    window: &Window,
    from: usize,
    floats: impl Fn(f64, f64) -> bool,
    histograms: impl Fn(&Histogram, &Histogram) -> bool,
) -> f64 {
    let differs = |&position: &usize| match (window.get(position - 1), window.get(position)) {
        (None, None) => floats(window.values[position - 1], window.values[position]),
        (Some(before), Some(after)) => histograms(before, after),
        _ => true,
    };
    (from + 1..window.times.len()).filter(differs).count() as f64
}

/// Room for the floats of a window.
#[derive(Default)]
pub struct Scratch {
    times: Vec<i64>,
    values: Vec<f64>,
    pub spare: Vec<f64>,
}

fn of_floats(function: &str, window: &Window, flags: &mut u32, scratch: &mut Scratch) -> Option<Found> {
    let apply = prom_window::find(function)?;
    scratch.times.clear();
    scratch.values.clear();
    for position in (0..window.times.len()).filter(|&position| window.cells[position] < 0) {
        scratch.times.push(window.times[position]);
        scratch.values.push(window.values[position]);
    }
    if scratch.times.is_empty() {
        return Some(Found::Nothing);
    }
    *flags |= IGNORED;
    let floats = prom_window::Window {
        times: &scratch.times,
        values: &scratch.values,
        start: window.start,
        end: window.end,
        at: window.at,
        first: window.first,
        second: window.second,
        total: None,
    };
    Some(apply(&floats, &mut scratch.spare).map_or(Found::Nothing, Found::Number))
}

/// The increase over the window, as if the samples went on to its edges.
fn extrapolated(window: &Window, is_counter: bool, is_rate: bool, flags: &mut u32) -> Found {
    if window.is_mixed() {
        *flags |= MIXED_TYPES;
        return Found::Nothing;
    }
    let last = window.times.len() - 1;
    let (Some(first), true) = (window.get(0), last > 0) else {
        return Found::Nothing;
    };
    let Some(change) = change(window, is_counter, flags) else {
        return Found::Nothing;
    };
    let mut to_start = seconds(window.times[0] - window.start);
    let mut to_end = seconds(window.end - window.times[last]);
    let sampled = seconds(window.times[last] - window.times[0]);
    let spacing = sampled / last as f64;
    let threshold = spacing * 1.1;
    if to_start >= threshold {
        to_start = spacing / 2.0;
    }
    if is_counter && change.count > 0.0 && first.count >= 0.0 {
        // A counter starts at zero, so it cannot be continued to before that.
        to_start = to_start.min(sampled * (first.count / change.count));
    }
    if to_end >= threshold {
        to_end = spacing / 2.0;
    }
    let mut factor = (sampled + to_start + to_end) / sampled;
    if is_rate {
        factor /= seconds(window.end - window.start);
    }
    Found::Histogram(Arc::new(change.scaled(factor)))
}

/// The change from the first to the last sample, with what was lost by resets.
fn change(window: &Window, is_counter: bool, flags: &mut u32) -> Option<Histogram> {
    let size = window.times.len();
    let (first, last) = (window.get(0)?, window.get(size - 1)?);
    let mut own = 0;
    if is_counter && (first.hint == GAUGE || last.hint == GAUGE) {
        own |= NOT_A_COUNTER;
    }
    // If the counter was reset behind the first sample, that need not fit the others.
    let second = window.get(1)?;
    let nothing;
    let mut before: &Histogram = first;
    if is_counter && window.resets[1] {
        nothing = Histogram::empty_like(second);
        before = &nothing;
    }
    let mut schema = before.schema.min(last.schema);
    if last.is_custom() != before.is_custom() {
        *flags |= own | MIXED_SCHEMAS;
        return None;
    }
    if is_counter {
        for middle in window.all().skip(1).take(size.saturating_sub(2)) {
            if middle.is_custom() != before.is_custom() {
                *flags |= MIXED_SCHEMAS;
                return None;
            }
            if middle.hint == GAUGE {
                own |= NOT_A_COUNTER;
            }
            schema = schema.min(middle.schema);
        }
    }
    match difference(window, before, last, schema, is_counter, &mut own) {
        Ok(result) => {
            *flags |= own;
            Some(result)
        }
        Err(Mixed) => {
            *flags |= MIXED_SCHEMAS;
            None
        }
    }
}

fn difference(
    window: &Window,
    first: &Histogram,
    last: &Histogram,
    schema: i32,
    is_counter: bool,
    flags: &mut u32,
) -> Result<Histogram, Mixed> {
    let mut total = Total::of(last);
    total.coarsen(schema);
    mark(flags, total.add(first, -1.0)?, SUBTRACTED);
    if is_counter {
        // What was before a reset behind the first sample has not been subtracted, so it need not be added.
        for position in (2..window.times.len()).filter(|&position| window.resets[position]) {
            if let Some(before) = window.get(position - 1) {
                mark(flags, total.add(before, 1.0)?, ADDED);
            }
        }
    } else if window.get(0).is_some_and(|each| each.hint != GAUGE) || last.hint != GAUGE {
        *flags |= NOT_A_GAUGE;
    }
    let mut result = total.finish();
    result.hint = GAUGE;
    Ok(result)
}

pub fn mark(flags: &mut u32, remark: Remark, what: u32) {
    if remark.is_reconciled {
        *flags |= what;
    }
}

/// The change between the last two samples.
fn instant(window: &Window, is_rate: bool, flags: &mut u32) -> Found {
    let size = window.times.len();
    if size < 2 || window.times[size - 1] == window.times[size - 2] {
        return Found::Nothing;
    }
    let apart = seconds(window.times[size - 1] - window.times[size - 2]);
    let (before, after) = match (window.get(size - 2), window.get(size - 1)) {
        (Some(before), Some(after)) => (before, after),
        (None, None) => {
            let (before, after) = (window.values[size - 2], window.values[size - 1]);
            let change = if is_rate && after < before { after } else { after - before };
            return Found::Number(if is_rate { change / apart } else { change });
        }
        _ => {
            *flags |= MIXED_TYPES;
            return Found::Nothing;
        }
    };
    if is_rate && (before.hint == GAUGE || after.hint == GAUGE) {
        *flags |= NOT_A_COUNTER;
    }
    if !is_rate && (before.hint != GAUGE || after.hint != GAUGE) {
        *flags |= NOT_A_GAUGE;
    }
    let mut result = if is_rate && is_reset(before, after) {
        after.as_ref().clone()
    } else {
        match combined(after, before, -1.0) {
            Ok((result, remark)) => {
                mark(flags, remark, SUBTRACTED);
                result
            }
            Err(Mixed) => {
                *flags |= MIXED_SCHEMAS;
                return Found::Nothing;
            }
        }
    };
    result.hint = GAUGE;
    Found::Histogram(Arc::new(if is_rate { result.divided(apart) } else { result }))
}

fn aggregated(window: &Window, is_mean: bool, flags: &mut u32) -> Found {
    if window.is_mixed() {
        *flags |= MIXED_TYPES;
        return Found::Nothing;
    }
    let mut own = 0;
    let result = if is_mean { mean(window.all(), &mut own) } else { sum(window.all(), &mut own) };
    match result {
        Ok(Some(result)) => {
            *flags |= own;
            Found::Histogram(Arc::new(result))
        }
        Ok(None) => Found::Nothing,
        Err(Mixed) => {
            *flags |= MIXED_SCHEMAS;
            Found::Nothing
        }
    }
}

/// Keeps watch over what histograms that are put together know of counter resets.
#[derive(Default)]
pub struct Hints {
    has_reset: bool,
    has_none: bool,
}

impl Hints {
    pub fn see(&mut self, hint: u8) {
        self.has_reset |= hint == RESET;
        self.has_none |= hint == NOT_RESET;
    }

    pub fn flag(&self) -> u32 {
        if self.has_reset && self.has_none { COLLISION } else { 0 }
    }
}

fn sum<'a>(
    histograms: impl Iterator<Item = &'a Arc<Histogram>>,
    flags: &mut u32,
) -> Result<Option<Histogram>, Mixed> {
    let (mut total, mut hints) = (None::<Total>, Hints::default());
    for each in histograms {
        hints.see(each.hint);
        match &mut total {
            Some(total) => mark(flags, total.add(each, 1.0)?, AGGREGATED),
            None => total = Some(Total::of(each)),
        }
    }
    *flags |= hints.flag();
    Ok(total.map(|total| total.finish()))
}

fn mean<'a>(
    histograms: impl Iterator<Item = &'a Arc<Histogram>>,
    flags: &mut u32,
) -> Result<Option<Histogram>, Mixed> {
    let (mut mean, mut hints) = (None::<Mean>, Hints::default());
    for each in histograms {
        hints.see(each.hint);
        match &mut mean {
            Some(mean) => mark(flags, mean.add(each)?, AGGREGATED),
            None => mean = Some(Mean::of(each)),
        }
    }
    *flags |= hints.flag();
    Ok(mean.map(Mean::finish))
}
