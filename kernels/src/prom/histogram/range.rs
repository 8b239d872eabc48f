//! From samples, some of which are histograms, to a matrix of series and steps.
//!
//! As `prom_range`, with a second matrix: for each cell the number of a histogram in a new pool, or -1 for a float. For
//! each series there are flags that tell what is to be said about it.

use std::sync::Arc;

use crate::prom::histogram::combine::is_reset;
use crate::prom::histogram::value::Histogram;
use crate::prom::histogram::window::{Found, Scratch, Window};
use crate::prom::histogram::{extended, window};
use crate::prom::{extended as prom_extended, window as prom_window};

pub struct Samples<'a> {
    pub offsets: &'a [i64],
    pub times: &'a [i64],
    pub values: &'a [f64],
    pub cells: &'a [i32],
    pub pool: &'a [Arc<Histogram>],
}

pub struct Steps<'a> {
    pub ends: &'a [i64],
    pub ats: &'a [i64],
    pub first: &'a [f64],
    pub second: &'a [f64],
    pub range: i64,
    pub lookback: i64,
}

/// What is said by `anchored` and `smoothed`.
#[derive(Clone, Copy, PartialEq)]
pub enum Extension {
    None,
    Anchored,
    Smoothed,
}

#[derive(Default)]
pub struct Matrix {
    pub values: Vec<f64>,
    pub present: Vec<u8>,
    pub cells: Vec<i32>,
    pub flags: Vec<u32>,
    pub pool: Vec<Arc<Histogram>>,
}

/// Fills a matrix; `None` if the function is not known.
pub fn evaluate(function: &str, samples: &Samples, steps: &Steps, extension: Extension) -> Option<Matrix> {
    let (rows, columns) = (samples.offsets.len().saturating_sub(1), steps.ends.len());
    let mut out = Matrix {
        values: vec![0.0; rows * columns],
        present: vec![0; rows * columns],
        cells: vec![-1; rows * columns],
        flags: vec![0; rows],
        pool: Vec::new(),
    };
    let mut scratch = Scratch::default();
    for row in 0..rows {
        evaluate_row(function, samples, steps, extension, row, &mut out, &mut scratch)?;
    }
    Some(out)
}

fn evaluate_row(
    function: &str,
    samples: &Samples,
    steps: &Steps,
    extension: Extension,
    row: usize,
    out: &mut Matrix,
    scratch: &mut Scratch,
) -> Option<()> {
    let (from, to) = (samples.offsets[row] as usize, samples.offsets[row + 1] as usize);
    let (times, values, cells) =
        (&samples.times[from..to], &samples.values[from..to], &samples.cells[from..to]);
    let resets = find_resets(function, extension, cells, samples.pool);
    let is_rising = !values.windows(2).any(|pair| pair[1] < pair[0]);
    let total = if matches!(function, "rate" | "increase") && is_rising { Some(-0.0) } else { None };
    let behind = if extension == Extension::None { 0 } else { steps.lookback };
    let ahead = if extension == Extension::Smoothed { steps.lookback } else { 0 };
    let (mut low, mut high, mut histograms) = (0, 0, 0);
    for column in 0..steps.ends.len() {
        let end = steps.ends[column];
        let start = end.saturating_sub(steps.range);
        while high < times.len() && times[high] <= end.saturating_add(ahead) {
            histograms += usize::from(cells[high] >= 0);
            high += 1;
        }
        while low < high && times[low] <= start.saturating_sub(behind) {
            histograms -= usize::from(cells[low] >= 0);
            low += 1;
        }
        if low == high {
            continue;
        }
        let found = if histograms == 0 {
            let floats = prom_window::Window {
                times: &times[low..high],
                values: &values[low..high],
                start,
                end,
                at: steps.ats[column],
                first: steps.first[column],
                second: steps.second[column],
                total,
            };
            of_floats(function, &floats, extension, &mut scratch.spare)?
        } else {
            let mixed = Window {
                times: &times[low..high],
                values: &values[low..high],
                cells: &cells[low..high],
                pool: samples.pool,
                histograms,
                resets: resets.get(low..high).unwrap_or(&[]),
                start,
                end,
                at: steps.ats[column],
                first: steps.first[column],
                second: steps.second[column],
            };
            match extension {
                Extension::None => window::apply(function, &mixed, &mut out.flags[row], scratch)?,
                _ => {
                    extended::apply(function, &mixed, extension == Extension::Smoothed, &mut out.flags[row])?
                }
            }
        };
        store(out, row * steps.ends.len() + column, found);
    }
    Some(())
}

/// Between which samples of a series the counter was reset: the same in all windows, so it is found out once.
fn find_resets(function: &str, extension: Extension, cells: &[i32], pool: &[Arc<Histogram>]) -> Vec<bool> {
    if !matches!(function, "rate" | "increase") || extension != Extension::None {
        return Vec::new();
    }
    let get = |cell: i32| usize::try_from(cell).ok().map(|cell| &pool[cell]);
    let is_reset_at = |position: usize| match (get(cells[position - 1]), get(cells[position])) {
        (Some(before), Some(after)) => is_reset(before, after),
        _ => false,
    };
    (0..cells.len()).map(|position| position > 0 && is_reset_at(position)).collect()
}

fn of_floats(
    function: &str,
    window: &prom_window::Window,
    extension: Extension,
    spare: &mut Vec<f64>,
) -> Option<Found> {
    let found = match extension {
        Extension::None => prom_window::find(function)?(window, spare),
        _ => prom_extended::find(function)?(window, extension == Extension::Smoothed, spare),
    };
    Some(found.map_or(Found::Nothing, Found::Number))
}

fn store(out: &mut Matrix, cell: usize, found: Found) {
    match found {
        Found::Nothing => return,
        Found::Number(value) => out.values[cell] = value,
        Found::Histogram(histogram) => {
            (out.values[cell], out.cells[cell]) = (f64::NAN, out.pool.len() as i32);
            out.pool.push(histogram);
        }
    }
    out.present[cell] = 1;
}
