//! Sorts rows that come in spans: neighbouring rows of one series, in order among themselves.
//!
//! The spans are sorted by their first rows, as packed integers. Then they are strung together; where spans
//! of one series overlap in time, they form a knot, and the rows of a knot are sorted by themselves. Sorted
//! parts that follow each other in time have no knots: the work is that of their spans and not of their rows.

use std::ops::Range;

use super::{Columns, packed};
use crate::rows::keys::SeriesId;

/// With fewer rows in a span on average, sorting the rows is as fast as sorting the spans.
const SPAN_ROWS_MIN: usize = 4;

pub struct Spans<'a, S> {
    columns: &'a Columns<'a, S>,
    /// The first row of each span.
    starts: Vec<u32>,
}

impl<'a, S: SeriesId> Spans<'a, S> {
    /// The spans of the rows, unless they are too short to be of use.
    pub fn find(columns: &'a Columns<'a, S>) -> Option<Self> {
        let series = columns.series;
        let spans_max = columns.rows() / SPAN_ROWS_MIN;
        let mut starts = vec![0];
        for row in 1..columns.rows() {
            if series[row] != series[row - 1] || columns.descends_in_series(row) {
                if starts.len() >= spans_max {
                    return None;
                }
                starts.push(row as u32);
            }
        }
        Some(Self { columns, starts })
    }

    /// The order of the rows.
    pub fn order(&self) -> Vec<u32> {
        let series = |row: u32| self.columns.series[row as usize];
        let key = |row: u32| (self.columns.place(row), row);
        let mut order: Vec<u32> = Vec::with_capacity(self.columns.rows());
        let mut knot: Vec<u32> = Vec::new();
        let mut knot_last = 0; // of all rows in the knot, the last by key
        for span in packed::order(&self.columns.take(&self.starts).borrow()) {
            let rows = self.rows(span);
            let is_tied = !knot.is_empty()
                && series(rows.start) == series(knot_last)
                && key(rows.start) < key(knot_last);
            if !is_tied {
                self.untie(&mut knot, &mut order);
            }
            if !is_tied || key(knot_last) < key(rows.end - 1) {
                knot_last = rows.end - 1;
            }
            knot.push(span);
        }
        self.untie(&mut knot, &mut order);
        order
    }

    fn rows(&self, span: u32) -> Range<u32> {
        let next = self.starts.get(span as usize + 1);
        self.starts[span as usize]..next.map_or(self.columns.rows() as u32, |&start| start)
    }

    /// Appends the rows of a knot to `order` and empties it.
    fn untie(&self, knot: &mut Vec<u32>, order: &mut Vec<u32>) {
        // Rows with equal keys keep their order, so they must go into the sort in the order of their numbers.
        knot.sort_unstable();
        let start = order.len();
        order.extend(knot.iter().flat_map(|&span| self.rows(span)));
        if knot.len() > 1 {
            let rows = order.split_off(start);
            let sorted = packed::order(&self.columns.take(&rows).borrow());
            order.extend(sorted.into_iter().map(|position| rows[position as usize]));
        }
        knot.clear();
    }
}
