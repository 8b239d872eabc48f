//! One pass over a body; the grammar is at the head of `line_protocol`.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::RwLockReadGuard;

use super::columns::{Finished, Rows, Value};
use super::number::{Number, parse_number, parse_time};
use super::series::{DecodedKey, Known, Measurement, SeriesTable};

/// A body that cannot be read.
pub struct Bad {
    pub line: usize,
    /// Of characters, from 1.
    pub column: usize,
    pub message: String,
}

/// What to make of times.
pub struct Times {
    pub factor: i64,
    /// For lines without one, in nanoseconds.
    pub default: i64,
}

/// What one body may take.
pub struct Limits {
    /// Values of all columns, counting those that rows lack.
    pub cells: usize,
    /// Bytes of new keys.
    pub learnt_bytes: usize,
}

pub fn parse_body(
    body: &[u8],
    table: &SeriesTable,
    times: &Times,
    limits: &Limits,
) -> Result<Vec<Finished>, Bad> {
    if body.len() > i32::MAX as usize {
        return Err(Bad { line: 1, column: 1, message: "the body is over 2 GiB".into() });
    }
    if let Err(error) = std::str::from_utf8(body) {
        return Err(not_text(body, error.valid_up_to()));
    }
    Scan::new(body, table, times, limits).run()
}

fn not_text(body: &[u8], at: usize) -> Bad {
    let before = &body[..at];
    let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |found| found + 1);
    Bad {
        line: 1 + before.iter().filter(|&&byte| byte == b'\n').count(),
        column: column_of(&body[start..at]),
        message: format!("expected UTF-8, found the byte 0x{:02X}", body[at]),
    }
}

fn column_of(before: &[u8]) -> usize {
    1 + before.iter().filter(|&&byte| byte & 0xC0 != 0x80).count()
}

type Guard<'a> = RwLockReadGuard<'a, Known>;

struct Scan<'a> {
    body: &'a [u8],
    table: &'a SeriesTable,
    times: &'a Times,
    at: usize,
    line: usize,
    line_start: usize,
    limits: &'a Limits,
    by_measurement: HashMap<u32, usize>,
    learnt_bytes: usize,
    cells: usize,
    /// The last timestamp as written, and what it meant: lines of one time follow each other.
    last_time: (&'a [u8], i64),
}

impl<'a> Scan<'a> {
    fn new(body: &'a [u8], table: &'a SeriesTable, times: &'a Times, limits: &'a Limits) -> Self {
        Self {
            body,
            table,
            times,
            at: 0,
            line: 1,
            line_start: 0,
            limits,
            by_measurement: HashMap::new(),
            learnt_bytes: 0,
            cells: 0,
            last_time: (b"", 0),
        }
    }

    fn run(mut self) -> Result<Vec<Finished>, Bad> {
        let mut tables: Vec<Rows> = Vec::new();
        let mut known = self.table.read();
        // Lines come in the order of their series again and again: the next key is likely the one learnt next.
        let mut likely = 0;
        let mut place = 0;
        while self.skip_to_line() {
            let position = match known.key(likely) {
                Some(key) if self.starts_with_key(key) => {
                    self.at += key.len();
                    likely
                }
                _ => {
                    let (position, again) = self.key(known)?;
                    known = again;
                    position
                }
            };
            likely = position + 1;
            let entry = known.entry(position);
            if tables.get(place).is_none_or(|rows| rows.measurement != entry.measurement) {
                place = self.place_of(entry.measurement, &known, &mut tables);
            }
            let (rows, line) = (&mut tables[place], self.line);
            let measurement = &known.measurements[entry.measurement as usize];
            if let Err(name) = rows.begin(entry, measurement) {
                return Err(
                    self.bad_at(self.line_start, format!("{name:?} is a tag here and a field before"))
                );
            }
            self.fields(rows, measurement)?;
            let time = self.time()?;
            rows.end(time, line);
            self.cells += rows.columns.len();
            self.check_cells()?;
        }
        // Nobody has made columns of the tags yet.
        self.cells += tables.iter().map(Rows::tag_cells).sum::<usize>();
        self.check_cells()?;
        let finish = |rows: Rows| {
            let measurement = &known.measurements[rows.measurement as usize];
            rows.finish(measurement)
        };
        Ok(tables.into_iter().map(finish).collect())
    }

    /// Goes to the next line that has something; false at the end of the body.
    fn skip_to_line(&mut self) -> bool {
        loop {
            self.skip_spaces();
            match self.peek() {
                None => return false,
                Some(b'#') => {
                    let rest = &self.body[self.at..];
                    self.at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
                }
                Some(_) if self.is_line_end() => {}
                Some(_) => return true,
            }
            self.end_line();
        }
    }

    /// Refuses a body whose lines have so little in common that its columns would be mostly empty and huge.
    #[inline]
    fn check_cells(&self) -> Result<(), Bad> {
        match self.cells > self.limits.cells {
            true => {
                Err(self
                    .bad("the lines of the body have too many different fields or tags; send smaller bodies"))
            }
            false => Ok(()),
        }
    }

    fn place_of(&mut self, measurement: u32, known: &Known, tables: &mut Vec<Rows>) -> usize {
        if let Some(&place) = self.by_measurement.get(&measurement) {
            return place;
        }
        let place = tables.len();
        // Only the first is set aside memory for, as if all lines were as long as its first: bodies are of one
        // measurement, or of many small ones.
        let line_bytes = (self.at - self.line_start)
            + self.body[self.at..].iter().position(|&byte| byte == b'\n').unwrap_or(0)
            + 1;
        let lines =
            if place == 0 { self.body.len() / line_bytes + self.body.len() / line_bytes / 16 + 1 } else { 0 };
        let series = known.measurements[measurement as usize].series.len();
        tables.push(Rows::new(measurement, series, self.body.len(), lines));
        self.by_measurement.insert(measurement, place);
        place
    }

    #[inline]
    fn starts_with_key(&self, key: &[u8]) -> bool {
        let rest = &self.body[self.at..];
        rest.len() > key.len() && rest[key.len()] == b' ' && rest.starts_with(key)
    }

    /// Finds the key that begins here, or learns it, and goes behind it.
    fn key(&mut self, known: Guard<'a>) -> Result<(usize, Guard<'a>), Bad> {
        let Some(end) = key_end(self.body, self.at) else {
            // No fields follow: say so, unless the key itself is wrong before.
            self.decode_key()?;
            return Err(self.bad("expected a space and fields behind the tags"));
        };
        let key = &self.body[self.at..end];
        let hash = self.table.hash(key);
        if let Some(position) = known.find(hash, key) {
            self.at = end;
            return Ok((position, known));
        }
        let decoded = self.decode_key()?;
        drop(known);
        let (position, bytes) = self.table.learn(hash, key, decoded);
        self.learnt_bytes += bytes;
        if self.learnt_bytes > self.limits.learnt_bytes {
            return Err(self.bad("the body names more new series than can be kept; send smaller bodies"));
        }
        Ok((position, self.table.read()))
    }

    fn decode_key(&mut self) -> Result<DecodedKey, Bad> {
        let measurement = self.name(b", ");
        if measurement.is_empty() {
            return Err(self.bad("expected the name of a measurement"));
        }
        let measurement = text_of(&measurement);
        let mut tags: Vec<(String, String)> = Vec::new();
        let mut names: HashSet<String> = HashSet::new();
        while self.peek() == Some(b',') {
            self.at += 1;
            let start = self.at;
            let name = self.name(b",= ");
            if name.is_empty() {
                return Err(self.bad("expected the name of a tag"));
            }
            let name = text_of(&name);
            if self.peek() != Some(b'=') {
                return Err(self.bad("expected '=' behind the name of a tag"));
            }
            if !names.insert(name.clone()) {
                return Err(self.bad_at(start, format!("the tag {name:?} is here twice")));
            }
            self.at += 1;
            let value = self.name(b",= ");
            if value.is_empty() {
                return Err(self.bad("expected the value of a tag; leave the tag out if it has none"));
            }
            tags.push((name, text_of(&value)));
            if self.peek() == Some(b'=') {
                return Err(
                    self.bad("expected ',' or a space behind the value of a tag; write '=' in it as '\\='")
                );
            }
        }
        Ok(DecodedKey { measurement, tags })
    }

    /// Reads up to one of `ends` or the end of the line; a backslash before one of them makes it part of the name.
    fn name(&mut self, ends: &[u8]) -> Cow<'a, [u8]> {
        let start = self.at;
        let mut decoded: Option<Vec<u8>> = None;
        while let Some(byte) = self.peek() {
            if ends.contains(&byte) || byte == b'\n' {
                break;
            }
            let escape = match byte {
                b'\\' => self.body.get(self.at + 1).copied().filter(|next| ends.contains(next)),
                _ => None,
            };
            if let Some(next) = escape {
                decoded.get_or_insert_with(|| self.body[start..self.at].to_vec()).push(next);
                self.at += 2;
                continue;
            }
            if let Some(decoded) = &mut decoded {
                decoded.push(byte);
            }
            self.at += 1;
        }
        match decoded {
            Some(decoded) => Cow::Owned(decoded),
            None => Cow::Borrowed(&self.body[start..self.at]),
        }
    }

    fn fields(&mut self, table: &mut Rows, measurement: &Measurement) -> Result<(), Bad> {
        self.skip_spaces();
        if self.peek().is_none() || self.is_line_end() {
            return Err(self.bad("expected a field"));
        }
        let row = table.row();
        let mut likely = 0;
        let mut scratch = Vec::new();
        loop {
            let start = self.at;
            let (found, raw, name) = match table.columns.get(likely) {
                Some(column) if self.body[start..].starts_with(&column.raw) => {
                    self.at += column.raw.len();
                    (Some(likely), &self.body[start..self.at], Cow::Borrowed(&b""[..]))
                }
                _ => {
                    let name = self.field_name()?;
                    (table.find(&name), &self.body[start..self.at], name)
                }
            };
            let value_start = self.at;
            let value = self.value(&mut scratch)?;
            if found.is_none() {
                // The rows before this one lack the new column.
                self.cells += row;
                self.check_cells()?;
            }
            let place = match found {
                Some(place) => place,
                None => match table.add_column(text_of(&name), raw.to_vec(), &value, measurement) {
                    Some(place) => place,
                    None => {
                        let message = format!("{:?} is a field here and a tag as well", text_of(&name));
                        return Err(self.bad_at(start, message));
                    }
                },
            };
            let column = &mut table.columns[place];
            if column.len() > row {
                let message = format!("the field {:?} is here twice", column.name);
                return Err(self.bad_at(start, message));
            }
            if !column.push(row, &value) {
                let message = format!(
                    "the field {:?} is a {} here and a {} before; send one type",
                    column.name,
                    value.kind(),
                    column.kind()
                );
                return Err(self.bad_at(value_start, message));
            }
            likely = place + 1;
            match self.peek() {
                Some(b',') => self.at += 1,
                None | Some(b' ') => return Ok(()),
                Some(_) if self.is_line_end() => return Ok(()),
                Some(_) => return Err(self.bad("expected ',' or a space behind the value of a field")),
            }
        }
    }

    /// Reads the name of a field and its `=`.
    fn field_name(&mut self) -> Result<Cow<'a, [u8]>, Bad> {
        let name = self.name(b",= ");
        if name.is_empty() {
            return Err(self.bad("expected the name of a field"));
        }
        if self.peek() != Some(b'=') {
            return Err(self.bad("expected '=' behind the name of a field"));
        }
        self.at += 1;
        Ok(name)
    }

    #[inline(always)]
    fn value<'s>(&mut self, scratch: &'s mut Vec<u8>) -> Result<Value<'s>, Bad>
    where
        'a: 's,
    {
        match self.peek() {
            Some(b'0'..=b'9' | b'-' | b'+' | b'.') => {
                let mut number = Number::default();
                match parse_number(&self.body[self.at..], &mut number) {
                    Ok(length) => self.at += length,
                    Err(bad) => {
                        return Err(self.bad_at(self.at + bad.at, format!("expected {}", bad.expected)));
                    }
                }
                Ok(number.into())
            }
            Some(b'"') => self.text(scratch),
            Some(b't' | b'T' | b'f' | b'F') => self.boolean(),
            _ => Err(self.bad("expected a value: a number, true or false, or text in double quotes")),
        }
    }

    fn boolean(&mut self) -> Result<Value<'static>, Bad> {
        let rest = &self.body[self.at..];
        let length = rest.iter().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(rest.len());
        let value = match &rest[..length] {
            b"t" | b"T" | b"true" | b"True" | b"TRUE" => true,
            b"f" | b"F" | b"false" | b"False" | b"FALSE" => false,
            _ => return Err(self.bad("expected true or false")),
        };
        self.at += length;
        Ok(Value::Bool(value))
    }

    fn text<'s>(&mut self, scratch: &'s mut Vec<u8>) -> Result<Value<'s>, Bad>
    where
        'a: 's,
    {
        let opening = self.bad("expected '\"' at the end of the text");
        let (body, start) = (self.body, self.at + 1);
        let mut at = start;
        let mut is_escaped = false;
        scratch.clear();
        loop {
            let Some(&byte) = body.get(at) else {
                return Err(opening);
            };
            match byte {
                b'"' => break,
                b'\\' if matches!(body.get(at + 1), Some(b'"' | b'\\')) => {
                    if !is_escaped {
                        is_escaped = true;
                        scratch.extend_from_slice(&body[start..at]);
                    }
                    scratch.push(body[at + 1]);
                    at += 2;
                    continue;
                }
                b'\n' => {
                    self.line += 1;
                    self.line_start = at + 1;
                }
                _ => {}
            }
            if is_escaped {
                scratch.push(byte);
            }
            at += 1;
        }
        self.at = at + 1;
        Ok(Value::Text(if is_escaped { scratch } else { &body[start..at] }))
    }

    /// Reads the time, if there is one, and the end of the line.
    #[inline]
    fn time(&mut self) -> Result<i64, Bad> {
        self.skip_spaces();
        if self.peek().is_none() || self.is_line_end() {
            self.end_line();
            return Ok(self.times.default);
        }
        let start = self.at;
        let (text, value) = self.last_time;
        let rest = &self.body[start..];
        let is_same = !text.is_empty()
            && rest.starts_with(text)
            && !rest.get(text.len()).is_some_and(u8::is_ascii_digit);
        let time = match is_same {
            true => {
                self.at += text.len();
                value
            }
            false => self.new_time()?,
        };
        self.skip_spaces();
        if !(self.peek().is_none() || self.is_line_end()) {
            return Err(self.bad("expected the end of the line behind the timestamp"));
        }
        self.end_line();
        Ok(time)
    }

    fn new_time(&mut self) -> Result<i64, Bad> {
        let start = self.at;
        let Some((value, length)) = parse_time(&self.body[start..]) else {
            return Err(self.bad("expected a timestamp, an integer"));
        };
        let Some(time) = value.and_then(|value| value.checked_mul(self.times.factor)) else {
            return Err(
                self.bad("expected a timestamp between the years 1677 and 2262; is the precision right?")
            );
        };
        self.at += length;
        self.last_time = (&self.body[start..self.at], time);
        Ok(time)
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.body.get(self.at).copied()
    }

    #[inline]
    fn skip_spaces(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    /// Whether here is a line feed, or a carriage return before one or at the end of the body.
    #[inline]
    fn is_line_end(&self) -> bool {
        match self.peek() {
            Some(b'\n') => true,
            Some(b'\r') => matches!(self.body.get(self.at + 1), None | Some(b'\n')),
            _ => false,
        }
    }

    /// Goes behind the end of a line, which is here.
    #[inline]
    fn end_line(&mut self) {
        if self.peek() == Some(b'\r') {
            self.at += 1;
        }
        if self.peek() == Some(b'\n') {
            self.at += 1;
            self.line += 1;
            self.line_start = self.at;
        }
    }

    fn bad(&self, message: &str) -> Bad {
        self.bad_at(self.at, message.into())
    }

    fn bad_at(&self, at: usize, message: String) -> Bad {
        // A value with line feeds may have begun lines above.
        let start = self.line_start.min(at);
        let start = match start == self.line_start {
            true => start,
            false => self.body[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |found| found + 1),
        };
        let crossed =
            self.body[start..self.line_start.max(start)].iter().filter(|&&byte| byte == b'\n').count();
        Bad { line: self.line - crossed, column: column_of(&self.body[start..at]), message }
    }
}

/// Where the key that begins at `at` ends: at the first space that is not escaped; None if the line ends before.
fn key_end(body: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += body[at..].iter().position(|byte| matches!(byte, b' ' | b'\\' | b'\n'))?;
        match body[at] {
            b' ' => return Some(at),
            b'\n' => return None,
            _ => at += if body.get(at + 1) == Some(&b' ') { 2 } else { 1 },
        }
        if at >= body.len() {
            return None;
        }
    }
}

fn text_of(bytes: &[u8]) -> String {
    // The body is UTF-8 and names are cut at ASCII, so nothing is ever replaced.
    String::from_utf8_lossy(bytes).into_owned()
}
