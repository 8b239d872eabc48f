//! Runs, cut where the bucket of time changes, and the cells they belong to.

use crate::rows::times::TimeSlice;

/// Neighbouring rows of one chunk that are of one group and one bucket.
#[derive(Clone, Copy)]
pub struct Run {
    pub start: u32,
    pub stop: u32,
    pub cell: u32,
    pub group: i64,
    pub bucket: i64,
}

/// Cells are found in a table when it has at most this many places for each run; else they are sorted.
const PLACES_PER_RUN: i128 = 4;
const PLACES_MIN: i128 = 4096;

/// Leaves of a stretch, whose times ascend, the rows from `first` to `last`.
pub fn narrow(whole: Run, times: impl TimeSlice, first: i64, last: i64) -> Run {
    let (start, stop) = (whole.start as usize, whole.stop as usize);
    if start == stop || (times.at(start) >= first && times.at(stop - 1) <= last) {
        return whole;
    }
    let stretch = times.part(start..stop);
    let low = stretch.seek(first);
    let rest = stretch.part(low..stretch.len());
    let high = low + last.checked_add(1).map_or(rest.len(), |end| rest.seek(end));
    Run { start: (start + low) as u32, stop: (start + high) as u32, ..whole }
}

/// Cuts a stretch of rows into runs; without a width it is one.
pub fn cut_stretch(runs: &mut Vec<Run>, whole: Run, times: impl TimeSlice, origin: i64, width: i64) {
    if width == 0 {
        if whole.start < whole.stop {
            runs.push(whole);
        }
        return;
    }
    let (mut start, stop) = (whole.start as usize, whole.stop as usize);
    let mut step = 1;
    let mut following: Option<(i64, i64)> = None;
    while start < stop {
        // Measurements come in even steps: mostly the next row is of the next bucket, which needs no division.
        let (bucket, end) = match following {
            Some((bucket, end)) if times.at(start) < end => (bucket, Some(end)),
            _ => bucket_of(times.at(start), origin, width),
        };
        let until = match end {
            Some(end) => find_end(times, start, stop, end, step),
            None => stop,
        };
        step = until - start;
        runs.push(Run { start: start as u32, stop: until as u32, bucket, ..whole });
        following = end.and_then(|end| Some((bucket + 1, end.checked_add(width)?)));
        start = until;
    }
}

/// Returns the bucket of a time, and where it ends, if a time can be there.
fn bucket_of(time: i64, origin: i64, width: i64) -> (i64, Option<i64>) {
    let bucket = (i128::from(time) - i128::from(origin)).div_euclid(i128::from(width));
    let end = i128::from(origin) + (bucket + 1) * i128::from(width);
    // With an origin from 0 to before the width, a bucket's number is never larger than the time itself.
    (bucket as i64, i64::try_from(end).ok())
}

/// Returns the first row from `start` whose time is not before `end`; `step` is a guess how far away it is.
fn find_end(times: impl TimeSlice, start: usize, stop: usize, end: i64, step: usize) -> usize {
    let guess = (start + step).min(stop);
    let (mut low, mut high) = (start + 1, stop);
    if times.at(guess - 1) < end {
        if guess == stop || times.at(guess) >= end {
            return guess;
        }
        low = guess + 1;
        let mut reach = step;
        while low + reach < stop && times.at(low + reach) < end {
            low += reach + 1;
            reach *= 2;
        }
        high = stop.min(low + reach);
    } else {
        high = high.min(guess);
    }
    low = low.min(high);
    low + times.part(low..high).partition_point(|time| time < end)
}

/// Gives every run the number of its cell; returns group and bucket of each cell, ascending.
pub fn number_cells(runs: &mut [Run]) -> (Vec<i64>, Vec<i64>) {
    let Some(first) = runs.first() else { return (vec![], vec![]) };
    let mut low = (first.group, first.bucket);
    let mut high = low;
    for run in runs.iter() {
        low = (low.0.min(run.group), low.1.min(run.bucket));
        high = (high.0.max(run.group), high.1.max(run.bucket));
    }
    let buckets = i128::from(high.1) - i128::from(low.1) + 1;
    let groups = i128::from(high.0) - i128::from(low.0) + 1;
    let places = groups.saturating_mul(buckets);
    if places <= PLACES_MIN.max(runs.len() as i128 * PLACES_PER_RUN) {
        number_by_place(runs, low, buckets as usize, places as usize)
    } else {
        number_by_order(runs)
    }
}

fn number_by_place(runs: &mut [Run], low: (i64, i64), buckets: usize, places: usize) -> (Vec<i64>, Vec<i64>) {
    let place = |run: &Run| (run.group - low.0) as usize * buckets + (run.bucket - low.1) as usize;
    let mut numbers = vec![u32::MAX; places];
    for run in runs.iter() {
        numbers[place(run)] = 0;
    }
    let (mut found_groups, mut found_buckets) = (vec![], vec![]);
    for (at, number) in numbers.iter_mut().enumerate() {
        if *number == 0 {
            *number = found_groups.len() as u32;
            found_groups.push(low.0 + (at / buckets) as i64);
            found_buckets.push(low.1 + (at % buckets) as i64);
        }
    }
    for run in runs.iter_mut() {
        run.cell = numbers[place(run)];
    }
    (found_groups, found_buckets)
}

fn number_by_order(runs: &mut [Run]) -> (Vec<i64>, Vec<i64>) {
    let mut order: Vec<u32> = (0..runs.len() as u32).collect();
    order.sort_unstable_by_key(|&at| (runs[at as usize].group, runs[at as usize].bucket));
    let (mut groups, mut buckets): (Vec<i64>, Vec<i64>) = (vec![], vec![]);
    for at in order {
        let run = &mut runs[at as usize];
        if groups.last() != Some(&run.group) || buckets.last() != Some(&run.bucket) {
            groups.push(run.group);
            buckets.push(run.bucket);
        }
        run.cell = (groups.len() - 1) as u32;
    }
    (groups, buckets)
}
