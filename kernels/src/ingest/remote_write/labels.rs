//! The labels of a series as a sender writes them, made into what identifies it.
//!
//! `__name__` is the metric. Labels that choose a database or a physical table do that and are not stored. The others
//! are put in the order of their names and written as one text, in the form of `docs/format/labels.md`: equal sets
//! of labels have equal texts.
//!
//! Refused: a series without a metric, a name that is not `[a-zA-Z_][a-zA-Z0-9_]*`, the same name twice, and, unless
//! the reader is lossy, text that is not UTF-8. A lossy reader puts U+FFFD in place of what is wrong.

use std::borrow::Cow;

use crate::wire::protobuf::{Fields, Malformed, malformed};

const METRIC: &[u8] = b"__name__";
const DATABASE: [&[u8]; 4] = [b"__database__", b"__schema__", b"x_greptime_database", b"x_tsdb_database"];
const PHYSICAL: [&[u8]; 3] = [b"__physical_table__", b"x_greptime_physical_table", b"x_tsdb_physical_table"];

const PAIR_END: u8 = 0;
const NAME_END: u8 = 1;
const ESCAPE: u8 = 2;
/// What stands behind the escape for each of the three bytes above.
const ESCAPED: [u8; 3] = [3, 4, 5];

/// What identifies a series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    pub metric: String,
    pub database: Option<String>,
    pub physical_table: Option<String>,
    pub labels: String,
}

impl Series {
    /// Bytes that are equal for equal series only.
    pub fn identity(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.labels.len() + self.metric.len() + 16);
        for part in [Some(&self.metric), self.database.as_ref(), self.physical_table.as_ref()] {
            match part {
                Some(text) => {
                    out.extend((text.len() as u64 + 1).to_le_bytes());
                    out.extend(text.as_bytes());
                }
                None => out.extend(0u64.to_le_bytes()),
            }
        }
        out.extend(self.labels.as_bytes());
        out
    }

    pub fn bytes(&self) -> usize {
        let chosen = [&self.database, &self.physical_table];
        let chosen: usize = chosen.iter().map(|part| part.as_ref().map_or(0, String::len)).sum();
        size_of::<Self>() + self.metric.len() + self.labels.len() + chosen
    }
}

/// One label as it came.
pub type Pair<'a> = (&'a [u8], &'a [u8]);

/// Reads a message `Label`.
pub fn read_label(message: &[u8]) -> Result<Pair<'_>, Malformed> {
    let (mut name, mut value) = (&message[..0], &message[..0]);
    let mut fields = Fields::of(message);
    while let Some((number, content)) = fields.next()? {
        match number {
            1 => name = content.bytes("the name of a label")?,
            2 => value = content.bytes("the value of a label")?,
            _ => {}
        }
    }
    Ok((name, value))
}

/// Reads the labels of a series from bytes that hold fields `Label` of number 1 and nothing else.
pub fn read_series(key: &[u8], is_strict: bool) -> Result<Series, Malformed> {
    let mut pairs = Vec::new();
    let mut fields = Fields::of(key);
    while let Some((_, value)) = fields.next()? {
        pairs.push(read_label(value.bytes("a label")?)?);
    }
    make_series(pairs, is_strict)
}

fn make_series(mut pairs: Vec<Pair<'_>>, is_strict: bool) -> Result<Series, Malformed> {
    pairs.sort_unstable();
    let mut series = Series::default();
    let mut labels = Vec::new();
    let mut before: &[u8] = b"";
    for (name, value) in pairs {
        check_name(name)?;
        if before == name {
            return malformed(format!("it has the label {} twice", show(name)));
        }
        before = name;
        let value = read_text(value, name, is_strict)?;
        if name == METRIC {
            series.metric = value.into_owned();
        } else if DATABASE.contains(&name) {
            choose(&mut series.database, &value);
        } else if PHYSICAL.contains(&name) {
            choose(&mut series.physical_table, &value);
        } else {
            put_pair(name, value.as_bytes(), &mut labels);
        }
    }
    if series.metric.is_empty() {
        return malformed("it has no metric: the label __name__ is missing or empty");
    }
    series.labels = String::from_utf8(labels).expect("names are ASCII, values were checked");
    Ok(series)
}

/// Takes what a special label says; an empty one says nothing, and of several the last in order of names counts.
fn choose(chosen: &mut Option<String>, value: &str) {
    if !value.is_empty() {
        *chosen = Some(value.to_owned());
    }
}

fn check_name(name: &[u8]) -> Result<(), Malformed> {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    if name.first().is_none_or(u8::is_ascii_digit) || !name.iter().all(is_word) {
        return malformed(format!("the label name {} is not of the form [a-zA-Z_][a-zA-Z0-9_]*", show(name)));
    }
    Ok(())
}

fn read_text<'a>(value: &'a [u8], name: &[u8], is_strict: bool) -> Result<Cow<'a, str>, Malformed> {
    match std::str::from_utf8(value) {
        Ok(text) => Ok(Cow::Borrowed(text)),
        Err(_) if !is_strict => Ok(String::from_utf8_lossy(value)),
        Err(error) => malformed(format!(
            "the value of the label {} is not UTF-8 from its byte {} on",
            show(name),
            error.valid_up_to()
        )),
    }
}

fn put_pair(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.push(NAME_END);
    if value.iter().any(|byte| *byte <= ESCAPE) {
        for &byte in value {
            match ESCAPED.get(usize::from(byte)) {
                Some(&escaped) => out.extend([ESCAPE, escaped]),
                None => out.push(byte),
            }
        }
    } else {
        out.extend_from_slice(value);
    }
    out.push(PAIR_END);
}

/// The labels that a text holds.
pub fn read_text_pairs(text: &str) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
    text.split_terminator(char::from(PAIR_END)).map(|pair| {
        let (name, value) = pair.split_once(char::from(NAME_END)).unwrap_or((pair, ""));
        (name, unescape(value))
    })
}

fn unescape(value: &str) -> Cow<'_, str> {
    if !value.contains(char::from(ESCAPE)) {
        return Cow::Borrowed(value);
    }
    let mut out = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\u{2}' => out.extend(characters.next().and_then(|next| char::from_u32(u32::from(next) - 3))),
            _ => out.push(character),
        }
    }
    Cow::Owned(out)
}

/// A name for a message; long ones are cut.
fn show(name: &[u8]) -> String {
    const SHOWN_MAX: usize = 64;
    format!("{:?}", String::from_utf8_lossy(&name[..name.len().min(SHOWN_MAX)]))
}
