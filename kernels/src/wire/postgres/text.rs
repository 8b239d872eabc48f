//! Single values as PostgreSQL writes them in text: floats, dates, times, intervals, bytes, items of an array.
//!
//! A client chooses between several forms for dates, intervals and bytes; [`Style`] holds its choice. Timestamps
//! always have six decimals. Floats are the shortest text that reads back as the same number, with an exponent where
//! PostgreSQL has one: below 1e-4 and from 1e15 on (1e6 for the narrow ones).

use crate::wire::text::value as text;

const HEX: &[u8; 16] = b"0123456789abcdef";
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const US_PER_SECOND: i64 = 1_000_000;
pub const US_PER_DAY: i64 = 86_400 * US_PER_SECOND;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DateStyle {
    Iso,
    Sql,
    Postgres,
    German,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum IntervalStyle {
    Postgres,
    Verbose,
    SqlStandard,
    Iso,
}

/// The forms a client has chosen.
#[derive(Clone, Copy)]
pub struct Style {
    pub date: DateStyle,
    pub is_day_first: bool,
    pub interval: IntervalStyle,
    pub is_escaped: bool,
}

impl Style {
    /// Reads `iso,mdy,postgres,hex`; `Err` names the part that is unknown.
    pub fn parse(words: &str) -> Result<Self, String> {
        let mut style = Self {
            date: DateStyle::Iso,
            is_day_first: false,
            interval: IntervalStyle::Postgres,
            is_escaped: false,
        };
        let mut parts = words.split(',');
        let mut next = || parts.next().unwrap_or("");
        style.date = match next() {
            "iso" => DateStyle::Iso,
            "sql" => DateStyle::Sql,
            "postgres" => DateStyle::Postgres,
            "german" => DateStyle::German,
            other => return Err(other.into()),
        };
        style.is_day_first = next() == "dmy";
        style.interval = match next() {
            "postgres" => IntervalStyle::Postgres,
            "postgres_verbose" => IntervalStyle::Verbose,
            "sql_standard" => IntervalStyle::SqlStandard,
            "iso_8601" => IntervalStyle::Iso,
            other => return Err(other.into()),
        };
        style.is_escaped = next() == "escape";
        Ok(style)
    }
}

pub fn float(value: f64, out: &mut Vec<u8>) {
    if value.is_finite() {
        let start = out.len();
        text::float(value, b"", out);
        finish_float(value.abs(), 1e15, start, out);
    } else {
        special_float(value, out);
    }
}

pub fn short_float(value: f32, out: &mut Vec<u8>) {
    if value.is_finite() {
        let start = out.len();
        text::short_float(value, b"", out);
        finish_float(f64::from(value.abs()), 1e6, start, out);
    } else {
        special_float(f64::from(value), out);
    }
}

fn special_float(value: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(if value.is_nan() {
        b"NaN"
    } else if value > 0.0 {
        b"Infinity"
    } else {
        b"-Infinity"
    });
}

/// Gives the text of a finite float that begins at `start` PostgreSQL's layout.
fn finish_float(magnitude: f64, large: f64, start: usize, out: &mut Vec<u8>) {
    let is_plain = magnitude == 0.0 || (1e-4..large).contains(&magnitude);
    if is_plain && !out[start..].contains(&b'e') {
        if out.ends_with(b".0") {
            out.truncate(out.len() - 2);
        }
        return;
    }
    let written = out.split_off(start);
    let written = std::str::from_utf8(&written).unwrap_or("0");
    let (mantissa, exponent) = written.split_once('e').unwrap_or((written, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let leading = all.len() - all.trim_start_matches('0').len();
    let digits = all[leading..].trim_end_matches('0');
    // The value is 0.digits times ten to this power.
    let point = exponent + whole.len() as i32 - leading as i32;
    out.extend_from_slice(sign.as_bytes());
    if is_plain {
        plain_digits(digits, point, out);
    } else {
        scientific_digits(digits, point - 1, out);
    }
}

fn plain_digits(digits: &str, point: i32, out: &mut Vec<u8>) {
    let length = digits.len() as i32;
    if point <= 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + point.unsigned_abs() as usize, b'0');
        out.extend_from_slice(digits.as_bytes());
    } else if point >= length {
        out.extend_from_slice(digits.as_bytes());
        out.resize(out.len() + (point - length) as usize, b'0');
    } else {
        let (whole, fraction) = digits.split_at(point as usize);
        out.extend_from_slice(format!("{whole}.{fraction}").as_bytes());
    }
}

fn scientific_digits(digits: &str, exponent: i32, out: &mut Vec<u8>) {
    let (first, rest) = digits.split_at(digits.len().min(1));
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    let magnitude = exponent.unsigned_abs();
    out.extend_from_slice(format!("{first}{point}{rest}e{sign}{magnitude:02}").as_bytes());
}

fn padded(value: i64, width: usize, out: &mut Vec<u8>) {
    let start = out.len();
    text::unsigned(value.unsigned_abs(), out);
    let length = out.len() - start;
    if length < width {
        out.resize(start + width, b'0');
        out[start..].rotate_right(width - length);
    }
}

fn two(value: i64, out: &mut Vec<u8>) {
    out.push(b'0' + (value / 10) as u8);
    out.push(b'0' + (value % 10) as u8);
}

/// Year, month and day of a day since the epoch, in the calendar of today carried on in both directions.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

pub fn date(days: i64, style: Style, out: &mut Vec<u8>) {
    let (year, month, day) = civil(days);
    let shown = if year > 0 { year } else { 1 - year };
    write_date(shown, month, day, style, out);
    if year <= 0 {
        out.extend_from_slice(b" BC");
    }
}

fn write_date(year: i64, month: i64, day: i64, style: Style, out: &mut Vec<u8>) {
    let (separator, day_first) = match style.date {
        DateStyle::Iso => {
            padded(year, 4, out);
            out.push(b'-');
            two(month, out);
            out.push(b'-');
            two(day, out);
            return;
        }
        DateStyle::Sql => (b'/', style.is_day_first),
        DateStyle::Postgres => (b'-', style.is_day_first),
        DateStyle::German => (b'.', true),
    };
    let (first, second) = if day_first { (day, month) } else { (month, day) };
    two(first, out);
    out.push(separator);
    two(second, out);
    out.push(separator);
    padded(year, 4, out);
}

/// Microseconds since the epoch.
pub fn timestamp(micros: i64, style: Style, out: &mut Vec<u8>) {
    let (days, time) = (micros.div_euclid(US_PER_DAY), micros.rem_euclid(US_PER_DAY));
    let (year, month, day) = civil(days);
    let shown = if year > 0 { year } else { 1 - year };
    if style.date == DateStyle::Postgres {
        out.extend_from_slice(DAYS[days.rem_euclid(7) as usize].as_bytes());
        out.push(b' ');
        let name = MONTHS[(month - 1) as usize].as_bytes();
        if style.is_day_first {
            two(day, out);
            out.push(b' ');
            out.extend_from_slice(name);
        } else {
            out.extend_from_slice(name);
            out.push(b' ');
            two(day, out);
        }
        out.push(b' ');
        clock(time, out);
        out.push(b'.');
        padded(time % US_PER_SECOND, 6, out);
        out.push(b' ');
        padded(shown, 4, out);
    } else {
        write_date(shown, month, day, style, out);
        out.push(b' ');
        clock(time, out);
        out.push(b'.');
        padded(time % US_PER_SECOND, 6, out);
    }
    if year <= 0 {
        out.extend_from_slice(b" BC");
    }
}

/// `HH:MM:SS` of microseconds that are not negative.
fn clock(micros: i64, out: &mut Vec<u8>) {
    let seconds = micros / US_PER_SECOND;
    padded(seconds / 3_600, 2, out);
    out.push(b':');
    two(seconds / 60 % 60, out);
    out.push(b':');
    two(seconds % 60, out);
}

/// The decimals of a second, without zeros at the end; nothing when there are none.
fn decimals(micros: i64, out: &mut Vec<u8>) {
    if micros % US_PER_SECOND == 0 {
        return;
    }
    out.push(b'.');
    padded(micros % US_PER_SECOND, 6, out);
    while out.last() == Some(&b'0') {
        out.pop();
    }
}

/// Microseconds since midnight.
pub fn time(micros: i64, out: &mut Vec<u8>) {
    clock(micros.unsigned_abs() as i64, out);
    decimals(micros.unsigned_abs() as i64, out);
}

/// An interval of months, days and microseconds, which have signs of their own.
#[derive(Clone, Copy)]
pub struct Interval {
    pub months: i32,
    pub days: i32,
    pub micros: i64,
}

pub fn interval(value: Interval, style: Style, out: &mut Vec<u8>) {
    match style.interval {
        IntervalStyle::Postgres => postgres_interval(value, out),
        IntervalStyle::Verbose => verbose_interval(value, out),
        IntervalStyle::SqlStandard => standard_interval(value, out),
        IntervalStyle::Iso => iso_interval(value, out),
    }
}

/// `1 year 2 mons -3 days +04:05:06.5`: a part behind a negative one says that it is not.
fn postgres_interval(value: Interval, out: &mut Vec<u8>) {
    let (years, months) = (i64::from(value.months / 12), i64::from(value.months % 12));
    let start = out.len();
    let mut was_negative = false;
    for (count, one, many) in
        [(years, "year", "years"), (months, "mon", "mons"), (i64::from(value.days), "day", "days")]
    {
        if count == 0 {
            continue;
        }
        let space = if out.len() > start { " " } else { "" };
        let plus = if was_negative && count > 0 { "+" } else { "" };
        let unit = if count == 1 { one } else { many };
        out.extend_from_slice(format!("{space}{plus}{count} {unit}").as_bytes());
        was_negative = count < 0;
    }
    if value.micros != 0 || out.len() == start {
        if out.len() > start {
            out.push(b' ');
        }
        if value.micros < 0 {
            out.push(b'-');
        } else if was_negative {
            out.push(b'+');
        }
        wide_clock(value.micros, out);
    }
}

fn wide_clock(micros: i64, out: &mut Vec<u8>) {
    let magnitude = micros.unsigned_abs().min(i64::MAX as u64) as i64;
    clock(magnitude, out);
    decimals(magnitude, out);
}

/// `@ 1 year 2 mons 3 days 4 hours 5 mins 6.5 secs ago`.
fn verbose_interval(value: Interval, out: &mut Vec<u8>) {
    let seconds = value.micros / US_PER_SECOND;
    let parts = [
        (i64::from(value.months / 12), "year"),
        (i64::from(value.months % 12), "mon"),
        (i64::from(value.days), "day"),
        (seconds / 3_600, "hour"),
        (seconds / 60 % 60, "min"),
    ];
    let rest = value.micros % (60 * US_PER_SECOND);
    let is_ago = parts.iter().map(|part| part.0).find(|count| *count != 0).unwrap_or(rest) < 0;
    let sign = if is_ago { -1 } else { 1 };
    out.push(b'@');
    let start = out.len();
    for (count, unit) in parts.iter().filter(|part| part.0 != 0) {
        let count = count * sign;
        let plural = if count.abs() == 1 { "" } else { "s" };
        out.extend_from_slice(format!(" {count} {unit}{plural}").as_bytes());
    }
    if rest != 0 {
        out.push(b' ');
        if rest * sign < 0 {
            out.push(b'-');
        }
        text::integer(rest.abs() / US_PER_SECOND, out);
        decimals(rest.abs(), out);
        out.extend_from_slice(if rest.abs() == US_PER_SECOND { b" sec" } else { b" secs" });
    }
    if out.len() == start {
        out.extend_from_slice(b" 0");
    } else if is_ago {
        out.extend_from_slice(b" ago");
    }
}

/// `1-2`, `3 4:05:06`, or all parts with their signs, `+1-2 +3 +4:05:06`, where several are there.
fn standard_interval(value: Interval, out: &mut Vec<u8>) {
    let Interval { months, days, micros } = value;
    let has = [months != 0, days != 0, micros != 0];
    let has_negative = months < 0 || days < 0 || micros < 0;
    let has_positive = months > 0 || days > 0 || micros > 0;
    if !has.contains(&true) {
        out.push(b'0');
    } else if (has_negative && has_positive) || (has[0] && (has[1] || has[2])) {
        let sign = |is_negative: bool| if is_negative { '-' } else { '+' };
        let (year, month) = ((months / 12).abs(), (months % 12).abs());
        let head = format!("{}{year}-{month} {}{} ", sign(months < 0), sign(days < 0), days.unsigned_abs());
        out.extend_from_slice(head.as_bytes());
        out.push(sign(micros < 0) as u8);
        short_clock(micros, out);
    } else {
        if has_negative {
            out.push(b'-');
        }
        if has[0] {
            out.extend_from_slice(format!("{}-{}", (months / 12).abs(), (months % 12).abs()).as_bytes());
            return;
        }
        if has[1] {
            out.extend_from_slice(format!("{} ", days.unsigned_abs()).as_bytes());
        }
        short_clock(micros, out);
    }
}

fn short_clock(micros: i64, out: &mut Vec<u8>) {
    let start = out.len();
    wide_clock(micros, out);
    if out[start] == b'0' {
        out.remove(start);
    }
}

/// `P1Y2M3DT4H5M6.5S`.
fn iso_interval(value: Interval, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(b'P');
    let seconds = value.micros / US_PER_SECOND;
    let write = |count: i64, unit: u8, out: &mut Vec<u8>| {
        if count != 0 {
            text::integer(count, out);
            out.push(unit);
        }
    };
    write(i64::from(value.months / 12), b'Y', out);
    write(i64::from(value.months % 12), b'M', out);
    write(i64::from(value.days), b'D', out);
    if value.micros != 0 {
        out.push(b'T');
        write(seconds / 3_600, b'H', out);
        write(seconds / 60 % 60, b'M', out);
        let rest = value.micros % (60 * US_PER_SECOND);
        if rest != 0 {
            if rest < 0 {
                out.push(b'-');
            }
            text::integer(rest.abs() / US_PER_SECOND, out);
            decimals(rest.abs(), out);
            out.push(b'S');
        }
    }
    if out.len() == start + 1 {
        out.extend_from_slice(b"T0S");
    }
}

pub fn bytes(value: &[u8], style: Style, out: &mut Vec<u8>) {
    if !style.is_escaped {
        out.reserve(2 + 2 * value.len());
        out.extend_from_slice(b"\\x");
        for byte in value {
            out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
        return;
    }
    for &byte in value {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x20..0x7f => out.push(byte),
            _ => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
        }
    }
}

/// An item of an array, in quotes if it would be misread without.
pub fn array_item(item: &[u8], out: &mut Vec<u8>) {
    let is_special = |byte: &u8| matches!(byte, b'{' | b'}' | b'"' | b',' | b'\\' | b' ' | b'\t'..=b'\r');
    if !item.is_empty() && !item.eq_ignore_ascii_case(b"null") && !item.iter().any(is_special) {
        out.extend_from_slice(item);
        return;
    }
    out.push(b'"');
    for &byte in item {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}
