//! Windows whose edges have a sample of their own: `anchored` and `smoothed` range selectors.
//!
//! The samples reach further than the window, to the left by the lookback and, smoothed, to the right as well. Anchored,
//! the value at an edge is that of the last sample up to it; smoothed, it lies on the line between its neighbours.

use crate::prom::window::{Window, changes, resets};

pub type Function = fn(&Window, bool, &mut Vec<f64>) -> Option<f64>;

pub fn find(name: &str) -> Option<Function> {
    Some(match name {
        "rate" => |w, smooth, _| change(w, smooth, true).map(|v| v / ((w.end - w.start) as f64 / 1000.0)),
        "increase" => |w, smooth, _| change(w, smooth, true),
        "delta" => |w, smooth, _| change(w, smooth, false),
        "changes" => |w, smooth, scratch| extended(w, smooth, scratch).then(|| changes(scratch)),
        "resets" => |w, smooth, scratch| extended(w, smooth, scratch).then(|| resets(scratch)),
        _ => return None,
    })
}

/// The samples that matter: the first is the last one up to the start, the last, smoothed, the first from the end on.
fn bounds(window: &Window, is_smooth: bool) -> Option<(usize, usize)> {
    let times = window.times;
    let mut last = times.len() - 1;
    let first = times[..last].partition_point(|&time| time <= window.start).saturating_sub(1);
    if is_smooth {
        last = times[..last].partition_point(|&time| time < window.end);
    }
    (times[last] > window.start).then_some((first, last))
}

fn between(window: &Window, left: usize, at: i64, is_counter: bool) -> f64 {
    let (times, values) = (window.times, window.values);
    let (mut before, after) = (values[left], values[left + 1]);
    if is_counter && after < before {
        before = 0.0;
    }
    before + (after - before) * (at - times[left]) as f64 / (times[left + 1] - times[left]) as f64
}

/// The values at both edges.
fn edges(window: &Window, first: usize, last: usize, is_smooth: bool, is_counter: bool) -> (f64, f64) {
    let (times, values) = (window.times, window.values);
    let left = if is_smooth && times[first] < window.start {
        between(window, first, window.start, is_counter)
    } else {
        values[first]
    };
    let right = if is_smooth && last > 0 && times[last] > window.end {
        between(window, last - 1, window.end, is_counter)
    } else {
        values[last]
    };
    (left, right)
}

/// The samples strictly inside of the window.
fn inside<'a>(window: &Window<'a>, first: usize, last: usize) -> &'a [f64] {
    let from = first + usize::from(window.times[first] <= window.start);
    let to = last + 1 - usize::from(window.times[last] >= window.end);
    if from < to { &window.values[from..to] } else { &[] }
}

fn change(window: &Window, is_smooth: bool, is_counter: bool) -> Option<f64> {
    let (first, last) = bounds(window, is_smooth)?;
    let (left, right) = edges(window, first, last, is_smooth, is_counter);
    let mut result = right - left;
    if is_counter {
        let mut before = left;
        for &value in inside(window, first, last).iter().chain(std::iter::once(&right)) {
            if value < before {
                result += before;
            }
            before = value;
        }
    }
    Some(result)
}

fn extended(window: &Window, is_smooth: bool, out: &mut Vec<f64>) -> bool {
    let Some((first, last)) = bounds(window, is_smooth) else {
        return false;
    };
    let (left, right) = edges(window, first, last, is_smooth, false);
    out.clear();
    out.push(left);
    out.extend_from_slice(inside(window, first, last));
    out.push(right);
    true
}
