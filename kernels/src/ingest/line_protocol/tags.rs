//! The tags of series, read back by their numbers: as columns, or packed for a log.

use arrow_data::ArrayData;

use super::columns::{Column, Value};
use super::series::{Measurement, TagValue};
use crate::ingest::packing::Packing;

/// The tags of some series, one column for each tag that one of them has; None for a number that was never given.
pub fn tag_columns(measurement: &Measurement, series: &[u32]) -> Option<Vec<(String, ArrayData)>> {
    let mut columns: Vec<Option<Column>> = measurement.tags.iter().map(|_| None).collect();
    for (row, &number) in series.iter().enumerate() {
        for &TagValue { tag, value } in measurement.series.get(number as usize)?.iter() {
            let known = &measurement.tags[tag as usize];
            let value = Value::Text(known.value(value));
            columns[tag as usize]
                .get_or_insert_with(|| Column::new(known.name.clone(), Vec::new(), &value, series.len()))
                .push(row, &value);
        }
    }
    Some(columns.into_iter().flatten().map(|column| column.finish(series.len())).collect())
}

/// The named tags of some series, one packed column after the other. None for a number that was never given.
pub fn pack_tags(measurement: &Measurement, series: &[u32], names: &[String]) -> Option<Vec<u8>> {
    let mut places = vec![usize::MAX; measurement.tags.len()];
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let tag = measurement.find_tag(name);
        if let Some(tag) = tag {
            places[tag as usize] = columns.len();
        }
        let values = tag.map_or(0, |tag| measurement.tags[tag as usize].values());
        columns.push(Packing::new(values, series.len()));
    }
    for (row, &number) in series.iter().enumerate() {
        for &TagValue { tag, value } in measurement.series.get(number as usize)?.iter() {
            if let Some(column) = columns.get_mut(places[tag as usize]) {
                column.set(row, value);
            }
        }
    }
    let mut packed = Vec::new();
    for (name, column) in names.iter().zip(&columns) {
        let tag = measurement.find_tag(name);
        column.write(
            |value| tag.map_or(&b""[..], |tag| measurement.tags[tag as usize].value(value)),
            &mut packed,
        );
    }
    Some(packed)
}
