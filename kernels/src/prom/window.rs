//! The functions of PromQL over the samples of one window.
//!
//! A window is a slice of times (milliseconds, ascending) and one of values, never empty. `None` means that the series
//! has no value at this step.

use crate::prom::sum::{Mean, Sum, quantile};

/// The samples of a window and where the window lies.
pub struct Window<'a> {
    pub times: &'a [i64],
    pub values: &'a [f64],
    /// The window is open at `start` and closed at `end`.
    pub start: i64,
    pub end: i64,
    /// The time of the step, which `end` differs from by the offset.
    pub at: i64,
    /// Scalar arguments of the function.
    pub first: f64,
    pub second: f64,
    /// What the function adds up over the window, if that is known already.
    pub total: Option<f64>,
}

/// What a function adds up over its window.
#[derive(Clone, Copy, PartialEq)]
pub enum Added {
    Nothing,
    /// What a counter loses by being reset.
    Drops,
    Values,
}

impl Added {
    pub fn by(function: &str) -> Self {
        match function {
            "rate" | "increase" => Self::Drops,
            "sum_over_time" | "avg_over_time" => Self::Values,
            _ => Self::Nothing,
        }
    }
}

/// Sums up to each sample of a series, so that windows which overlap need not be added up each anew.
///
/// Sums of whole numbers that are not too large are exact in whatever order, so the difference of two of them is, too.
/// Other series have none.
pub struct Totals {
    added: Added,
    is_zero: bool,
    /// Of the samples before each one.
    sums: Vec<f64>,
}

const EXACT_MAX: f64 = (1_i64 << 51) as f64;
const ROUND: f64 = (3_i64 << 51) as f64;

impl Totals {
    pub fn new(added: Added) -> Self {
        Self { added, is_zero: false, sums: vec![] }
    }

    pub fn read(&mut self, values: &[f64]) {
        self.sums.clear();
        self.is_zero = self.added == Added::Drops && !values.windows(2).any(|pair| pair[1] < pair[0]);
        if self.added == Added::Nothing || self.is_zero {
            return;
        }
        // Adding and taking away what leaves no room for a fraction rounds, and compiles to what works on several at once.
        let size_max = EXACT_MAX / values.len() as f64;
        let is_whole = |value: f64| (value.abs() <= size_max) & ((value + ROUND) - ROUND == value);
        if values.iter().fold(0, |others, &value| others + u32::from(!is_whole(value))) > 0 {
            return;
        }
        let mut total = 0.0;
        self.sums.push(total);
        if self.added == Added::Values {
            self.sums.extend(values.iter().map(|value| {
                total += value;
                total
            }));
        } else {
            self.sums.push(total);
            self.sums.extend(values.windows(2).map(|pair| {
                total += if pair[1] < pair[0] { pair[0] } else { 0.0 };
                total
            }));
        }
    }

    /// What is added up over the samples `low` to before `high`.
    pub fn within(&self, low: usize, high: usize) -> Option<f64> {
        if self.is_zero {
            // What is added to a sum and leaves it as it is, whatever its sign.
            return Some(-0.0);
        }
        // The first sample of a window is no reset, whatever came before it.
        let first = if self.added == Added::Drops { low + 1 } else { low };
        Some(self.sums.get(high)? - self.sums[first])
    }
}

pub type Function = fn(&Window, &mut Vec<f64>) -> Option<f64>;

pub fn find(name: &str) -> Option<Function> {
    Some(match name {
        "rate" => |w, _| extrapolated(w, true, true),
        "increase" => |w, _| extrapolated(w, true, false),
        "delta" => |w, _| extrapolated(w, false, false),
        "irate" => |w, _| instant(w, true),
        "idelta" => |w, _| instant(w, false),
        "changes" => |w, _| Some(changes(w.values)),
        "resets" => |w, _| Some(resets(w.values)),
        "deriv" => |w, _| (w.values.len() > 1).then(|| regression(w, w.times[0]).0),
        "predict_linear" => |w, _| (w.values.len() > 1).then(|| predicted(w)),
        "double_exponential_smoothing" => |w, _| smoothed(w),
        "avg_over_time" => {
            |w, _| Some(w.total.map_or_else(|| average(w.values), |sum| sum / w.values.len() as f64))
        }
        "sum_over_time" => |w, _| Some(w.total.unwrap_or_else(|| sum(w.values))),
        "min_over_time" => |w, _| Some(best(w, |new, old| new < old).1),
        "max_over_time" => |w, _| Some(best(w, |new, old| new > old).1),
        "ts_of_min_over_time" => |w, _| Some(seconds(best(w, |new, old| new <= old).0)),
        "ts_of_max_over_time" => |w, _| Some(seconds(best(w, |new, old| new >= old).0)),
        "count_over_time" => |w, _| Some(w.values.len() as f64),
        "first_over_time" => |w, _| w.values.first().copied(),
        "last_over_time" => |w, _| w.values.last().copied(),
        "ts_of_first_over_time" => |w, _| w.times.first().map(|&t| seconds(t)),
        "ts_of_last_over_time" => |w, _| w.times.last().map(|&t| seconds(t)),
        "present_over_time" => |_, _| Some(1.0),
        "stdvar_over_time" => |w, _| Some(variance(w.values)),
        "stddev_over_time" => |w, _| Some(variance(w.values).sqrt()),
        "quantile_over_time" => |w, scratch| {
            scratch.clear();
            scratch.extend_from_slice(w.values);
            Some(quantile(w.first, scratch))
        },
        "mad_over_time" => |w, scratch| Some(deviation(w.values, scratch)),
        _ => return None,
    })
}

fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}

fn sum(values: &[f64]) -> f64 {
    values.iter().fold(Sum::default(), |sum, &value| sum.add(value)).total()
}

fn average(values: &[f64]) -> f64 {
    let mut mean = Mean::of(values[0]);
    values[1..].iter().for_each(|&value| mean.add(value));
    mean.result()
}

/// The time and the value of the best sample; NaN gives way to anything.
fn best(window: &Window, is_better: impl Fn(f64, f64) -> bool) -> (i64, f64) {
    let (mut found, mut value) = (0, window.values[0]);
    for (position, &each) in window.values.iter().enumerate() {
        if is_better(each, value) || value.is_nan() {
            (found, value) = (position, each);
        }
    }
    (window.times[found], value)
}

fn variance(values: &[f64]) -> f64 {
    let (mut count, mut mean, mut squares) = (0.0, Sum::default(), Sum::default());
    for &value in values {
        count += 1.0;
        let delta = value - (mean.value + mean.lost);
        mean = mean.add(delta / count);
        squares = squares.add(delta * (value - (mean.value + mean.lost)));
    }
    (squares.value + squares.lost) / count
}

fn deviation(values: &[f64], scratch: &mut Vec<f64>) -> f64 {
    // With a NaN among the values there is no median to deviate from.
    if values.iter().any(|value| value.is_nan()) {
        return f64::NAN;
    }
    scratch.clear();
    scratch.extend_from_slice(values);
    let median = quantile(0.5, scratch);
    scratch.clear();
    scratch.extend(values.iter().map(|value| (value - median).abs()));
    quantile(0.5, scratch)
}

pub fn changes(values: &[f64]) -> f64 {
    values.windows(2).filter(|pair| pair[0] != pair[1] && !(pair[0].is_nan() && pair[1].is_nan())).count()
        as f64
}

pub fn resets(values: &[f64]) -> f64 {
    values.windows(2).filter(|pair| pair[1] < pair[0]).count() as f64
}

/// What a counter lost by being reset.
fn lost_by_resets(values: &[f64]) -> f64 {
    values.windows(2).filter(|pair| pair[1] < pair[0]).map(|pair| pair[0]).sum()
}

/// The increase over the window, as if the samples went on to its edges.
fn extrapolated(window: &Window, is_counter: bool, is_rate: bool) -> Option<f64> {
    let (times, values) = (window.times, window.values);
    let last = values.len() - 1;
    if last == 0 {
        return None;
    }
    let mut result = values[last] - values[0];
    if is_counter {
        result += window.total.unwrap_or_else(|| lost_by_resets(values));
    }
    let mut to_start = seconds(times[0] - window.start);
    let mut to_end = seconds(window.end - times[last]);
    let sampled = seconds(times[last] - times[0]);
    let spacing = sampled / last as f64;
    // A series that begins or ends further from the edge than its samples are apart begins or ends there: it is
    // continued by half of a spacing only.
    let threshold = spacing * 1.1;
    if to_start >= threshold {
        to_start = spacing / 2.0;
    }
    if is_counter && result > 0.0 && values[0] >= 0.0 {
        // A counter starts at zero, so it cannot be continued to before that.
        to_start = to_start.min(sampled * (values[0] / result));
    }
    if to_end >= threshold {
        to_end = spacing / 2.0;
    }
    let mut factor = (sampled + to_start + to_end) / sampled;
    if is_rate {
        factor /= seconds(window.end - window.start);
    }
    Some(result * factor)
}

/// The change between the last two samples.
fn instant(window: &Window, is_rate: bool) -> Option<f64> {
    let (times, values) = (window.times, window.values);
    let last = values.len() - 1;
    if last == 0 || times[last] == times[last - 1] {
        return None;
    }
    let (before, after) = (values[last - 1], values[last]);
    let change = if is_rate && after < before { after } else { after - before };
    Some(if is_rate { change / seconds(times[last] - times[last - 1]) } else { change })
}

/// Slope and value at `origin` of the line through the samples.
fn regression(window: &Window, origin: i64) -> (f64, f64) {
    let first = window.values[0];
    if window.values.iter().all(|&value| value == first) {
        return if first.is_infinite() { (f64::NAN, f64::NAN) } else { (0.0, first) };
    }
    let (mut x1, mut y1, mut xy, mut x2) = (Sum::default(), Sum::default(), Sum::default(), Sum::default());
    for (&time, &y) in window.times.iter().zip(window.values) {
        let x = seconds(time - origin);
        x1 = x1.add(x);
        y1 = y1.add(y);
        xy = xy.add(x * y);
        x2 = x2.add(x * x);
    }
    let n = window.values.len() as f64;
    let (x1, y1, xy, x2) = (x1.value + x1.lost, y1.value + y1.lost, xy.value + xy.lost, x2.value + x2.lost);
    let slope = (xy - x1 * y1 / n) / (x2 - x1 * x1 / n);
    (slope, y1 / n - slope * x1 / n)
}

fn predicted(window: &Window) -> f64 {
    let (slope, now) = regression(window, window.at);
    slope * window.first + now
}

/// Double exponential smoothing with the factors of level (`first`) and trend (`second`).
fn smoothed(window: &Window) -> Option<f64> {
    let values = window.values;
    if values.len() < 2 {
        return None;
    }
    let (mut before, mut level, mut trend) = (0.0, values[0], values[1] - values[0]);
    for (position, &value) in values.iter().enumerate().skip(1) {
        if position > 1 {
            trend = window.second * (level - before) + (1.0 - window.second) * trend;
        }
        (before, level) = (level, window.first * value + (1.0 - window.first) * (level + trend));
    }
    Some(level)
}
