//! The cells of a row, one after the other, with what stands before each of them.
//!
//! Rows that lie next to each other mostly are of one series, so cells next to each other mostly are what they were in
//! the row before: tags come in runs. As long as all cells of such a part go on, their text is copied in one piece.
//! Integers next to each other are written without asking each column anew what it is.

use std::ops::Range;

use arrow_array::ArrayRef;
use arrow_buffer::ScalarBuffer;
use arrow_schema::Field;

use crate::wire::text::column::{Column, Damaged, Form, Written, plain_integers};
use crate::wire::text::value::{INTEGER_BYTES_MAX, append, put_integer};

/// How far is looked ahead for the end of a run.
const RUN_ROWS_MAX: usize = 4096;
/// A column that has so many runs in a row of less than so many rows is left alone for so many rows.
const SHORT_RUNS_MAX: usize = 4;
const SHORT_ROWS: usize = 4;
const REST_ROWS: usize = 64;

pub struct Line {
    parts: Vec<Part>,
    rows: usize,
}

enum Part {
    Runs(Runs),
    Integers(Integers),
    Other { before: Vec<u8>, column: Column },
}

/// Columns whose values come in runs.
#[derive(Default)]
struct Runs {
    columns: Vec<Run>,
    /// The first row whose text is not what was written last.
    end: usize,
    /// Where that is.
    written: Range<usize>,
}

struct Run {
    before: Vec<u8>,
    column: Column,
    end: usize,
    /// How many of the last runs were short, one after the other.
    short: usize,
}

/// Columns of integers.
#[derive(Default)]
struct Integers {
    columns: Vec<(Vec<u8>, ScalarBuffer<i64>)>,
    /// How many bytes they take at most.
    bytes_max: usize,
}

impl Line {
    pub fn new(rows: usize) -> Self {
        Self { parts: Vec::new(), rows }
    }

    /// How many cells a row has.
    pub fn cells(&self) -> usize {
        let count = |part: &Part| match part {
            Part::Runs(runs) => runs.columns.len(),
            Part::Integers(integers) => integers.columns.len(),
            Part::Other { .. } => 1,
        };
        self.parts.iter().map(count).sum()
    }

    /// Adds a column, and what stands before its cells. `Err` names the type when it has no text.
    pub fn add(
        &mut self,
        before: Vec<u8>,
        field: &Field,
        array: &ArrayRef,
        form: Form,
    ) -> Result<(), String> {
        if let Some(values) = plain_integers(array, form) {
            if !matches!(self.parts.last(), Some(Part::Integers(_))) {
                self.parts.push(Part::Integers(Integers::default()));
            }
            if let Some(Part::Integers(integers)) = self.parts.last_mut() {
                integers.bytes_max += before.len() + INTEGER_BYTES_MAX;
                integers.columns.push((before, values));
            }
            return Ok(());
        }
        let column = Column::open(field, array, form)?;
        if self.rows == 0 || column.run_end(0, 1).is_none() {
            self.parts.push(Part::Other { before, column });
            return Ok(());
        }
        if !matches!(self.parts.last(), Some(Part::Runs(_))) {
            self.parts.push(Part::Runs(Runs::default()));
        }
        if let Some(Part::Runs(runs)) = self.parts.last_mut() {
            runs.columns.push(Run { before, column, end: 0, short: 0 });
        }
        Ok(())
    }

    /// Appends the cells of a row; rows are asked for in ascending order, and `out` only grows meanwhile.
    pub fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written {
        for part in &mut self.parts {
            match part {
                Part::Runs(runs) => runs.write(row, self.rows, out)?,
                Part::Integers(integers) => integers.write(row, out)?,
                Part::Other { before, column } => {
                    append(before, out);
                    column.write(row, out)?;
                }
            }
        }
        Ok(())
    }
}

impl Runs {
    fn write(&mut self, row: usize, rows: usize, out: &mut Vec<u8>) -> Written {
        if row < self.end {
            out.extend_from_within(self.written.clone());
            return Ok(());
        }
        let start = out.len();
        self.end = usize::MAX;
        for each in &mut self.columns {
            append(&each.before, out);
            each.column.write(row, out)?;
            if row >= each.end {
                each.look(row, rows);
            }
            self.end = self.end.min(each.end);
        }
        self.written = start..out.len();
        Ok(())
    }
}

impl Run {
    /// Finds the end of the run that begins at a row.
    fn look(&mut self, row: usize, rows: usize) {
        if self.short == SHORT_RUNS_MAX {
            if !row.is_multiple_of(REST_ROWS) {
                self.end = row + 1;
                return;
            }
            self.short = 0;
        }
        self.end = self.column.run_end(row, rows.min(row + RUN_ROWS_MAX)).unwrap_or(row + 1);
        self.short = if self.end - row < SHORT_ROWS { self.short + 1 } else { 0 };
    }
}

impl Integers {
    fn write(&self, row: usize, out: &mut Vec<u8>) -> Written {
        out.reserve(self.bytes_max);
        let mut length = out.len();
        // SAFETY: `bytes_max` bytes are reserved: for each column what stands before it and the longest integer. All
        // bytes before the new length have been written.
        unsafe {
            for (before, values) in &self.columns {
                let value = *values.get(row).ok_or(Damaged)?;
                let to = out.as_mut_ptr().add(length);
                if let [only] = before[..] {
                    *to = only;
                } else {
                    std::ptr::copy_nonoverlapping(before.as_ptr(), to, before.len());
                }
                length += before.len() + put_integer(value, to.add(before.len()));
            }
            out.set_len(length);
        }
        Ok(())
    }
}
