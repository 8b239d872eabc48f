//! Numbers as text: `-12.5e3`, `42i`, `7u`.
//!
//! A float is the nearest one to the text. Up to 2^53 and 22 powers of ten, one multiplication or division of two
//! exact floats is that already; everything else goes to the standard library.

use std::ops::Range;

use super::columns::Value;

const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];
const EXACT_MAX: u64 = 1 << 53;
/// So many digits cannot overflow 64 bits, signed or not.
const DIGITS_SAFE: usize = 18;

/// What is wrong with a number, and how far into it.
pub struct BadNumber {
    pub at: usize,
    pub expected: &'static str,
}

/// What a number is, and the bits of its value.
#[derive(Clone, Copy, Default)]
pub enum NumberKind {
    #[default]
    Float,
    Int,
    Uint,
}

#[derive(Clone, Copy, Default)]
pub struct Number {
    kind: NumberKind,
    bits: u64,
}

impl From<Number> for Value<'_> {
    #[inline(always)]
    fn from(number: Number) -> Self {
        match number.kind {
            NumberKind::Float => Value::Float(f64::from_bits(number.bits)),
            NumberKind::Int => Value::Int(number.bits as i64),
            NumberKind::Uint => Value::Uint(number.bits),
        }
    }
}

const OUT_OF_RANGE: BadNumber = BadNumber { at: 0, expected: "a number that fits its type" };

/// Reads the number that `text` begins with; returns its length.
#[inline(always)]
pub fn parse_number(text: &[u8], number: &mut Number) -> Result<usize, BadNumber> {
    let is_negative = text.first() == Some(&b'-');
    let start = usize::from(is_negative || text.first() == Some(&b'+'));
    let mut mantissa = 0;
    let whole = digits(&text[start..], &mut mantissa);
    let end = start + whole;
    match text.get(end) {
        Some(b'i') if whole > 0 => {
            let value = match whole <= DIGITS_SAFE {
                true if is_negative => -(mantissa as i64),
                true => mantissa as i64,
                false => standard(&text[..end]).ok_or(OUT_OF_RANGE)?,
            };
            *number = Number { kind: NumberKind::Int, bits: value as u64 };
            Ok(end + 1)
        }
        Some(b'u') if whole > 0 => {
            let value = match whole <= DIGITS_SAFE {
                _ if is_negative => return Err(OUT_OF_RANGE),
                true => mantissa,
                false => standard(&text[..end]).ok_or(OUT_OF_RANGE)?,
            };
            *number = Number { kind: NumberKind::Uint, bits: value };
            Ok(end + 1)
        }
        _ => {
            let (value, length) = parse_float(text, mantissa, start..end)?;
            let bits = value.to_bits() | u64::from(is_negative) << 63;
            *number = Number { kind: NumberKind::Float, bits };
            Ok(length)
        }
    }
}

/// Reads the rest of a float, without its sign, whose whole digits have been read.
#[inline(always)]
fn parse_float(text: &[u8], mut mantissa: u64, whole: Range<usize>) -> Result<(f64, usize), BadNumber> {
    let (mut at, mut count, mut power) = (whole.end, whole.len(), 0_i64);
    if text.get(at) == Some(&b'.') {
        let fraction = digits(&text[at + 1..], &mut mantissa);
        at += 1 + fraction;
        count += fraction;
        power = -(fraction as i64);
    }
    if count == 0 {
        return Err(BadNumber { at, expected: "a digit" });
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1;
        let is_down = text.get(at) == Some(&b'-');
        at += usize::from(is_down || text.get(at) == Some(&b'+'));
        let mut exponent = 0;
        let length = digits(&text[at..], &mut exponent);
        if length == 0 {
            return Err(BadNumber { at, expected: "a digit of the exponent" });
        }
        at += length;
        // Longer exponents are for the standard library.
        let exponent = if length <= 4 { exponent as i64 } else { i64::from(u32::MAX) };
        power += if is_down { -exponent } else { exponent };
    }
    let is_exact = count <= DIGITS_SAFE && mantissa <= EXACT_MAX && (-22..=22).contains(&power);
    if is_exact {
        let (value, scale) = (mantissa as f64, POWERS[power.unsigned_abs() as usize]);
        return Ok((if power < 0 { value / scale } else { value * scale }, at));
    }
    match standard::<f64>(&text[whole.start..at]) {
        Some(value) if value.is_finite() => Ok((value, at)),
        _ => Err(OUT_OF_RANGE),
    }
}

/// Reads an integer with an optional minus; None if there is no digit, or it does not fit.
#[inline]
pub fn parse_time(text: &[u8]) -> Option<(Option<i64>, usize)> {
    let is_negative = text.first() == Some(&b'-');
    let start = usize::from(is_negative);
    let mut magnitude = 0;
    let length = digits(&text[start..], &mut magnitude);
    if length == 0 {
        return None;
    }
    let end = start + length;
    let value = match length <= DIGITS_SAFE {
        true => Some(if is_negative { -(magnitude as i64) } else { magnitude as i64 }),
        false => standard(&text[..end]),
    };
    Some((value, end))
}

/// Adds the digits that `text` begins with to a number, which may overflow; returns how many they are.
#[inline]
fn digits(text: &[u8], number: &mut u64) -> usize {
    let mut length = 0;
    while let Some(digit) = text.get(length).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10) {
        *number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
        length += 1;
    }
    length
}

fn standard<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
