//! Single values as text, appended to a buffer: numbers, strings in JSON and in CSV, decimals.
//!
//! What comes out is always valid UTF-8: bytes of a string that are not become the replacement character. A float is
//! the shortest text that reads back as the same number and always looks like one (`1024.0`, `1e+16`).

use arrow_buffer::i256;

const DIGIT_PAIRS: [u8; 200] = digit_pairs();
/// Numbers below 100, to be copied with both bytes: of one digit the second is of no use.
const SHORT: [[u8; 2]; 100] = short_numbers();
const HEX: &[u8; 16] = b"0123456789abcdef";

const fn digit_pairs() -> [u8; 200] {
    let mut pairs = [0; 200];
    let mut number = 0;
    while number < 100 {
        pairs[2 * number] = b'0' + (number / 10) as u8;
        pairs[2 * number + 1] = b'0' + (number % 10) as u8;
        number += 1;
    }
    pairs
}

const fn short_numbers() -> [[u8; 2]; 100] {
    let mut numbers = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        let last = b'0' + (number % 10) as u8;
        numbers[number] = if number < 10 { [last, 0] } else { [b'0' + (number / 10) as u8, last] };
        number += 1;
    }
    numbers
}

/// Appends bytes; the few of a usual cell without a call, which would take longer than the copy.
#[inline]
pub fn append(bytes: &[u8], out: &mut Vec<u8>) {
    let length = bytes.len();
    if length > 32 {
        out.extend_from_slice(bytes);
        return;
    }
    out.reserve(32);
    let from = bytes.as_ptr();
    // SAFETY: 32 bytes behind the end are reserved and at most that many are written, read from inside of `bytes`:
    // each arm copies its first and its last n bytes, which overlap unless it is 2n long. The first `length`
    // bytes behind the end are then initialised.
    unsafe {
        let to = out.as_mut_ptr().add(out.len());
        match length {
            16.. => copy_ends::<16>(from, to, length),
            8.. => copy_ends::<8>(from, to, length),
            4.. => copy_ends::<4>(from, to, length),
            2.. => copy_ends::<2>(from, to, length),
            1 => *to = *from,
            0 => {}
        }
        out.set_len(out.len() + length);
    }
}

/// # Safety
/// `from` is readable and `to` writable for `length` bytes, which are N at least; they do not overlap.
#[inline]
unsafe fn copy_ends<const N: usize>(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: both copies stay inside of `length` bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, N);
        std::ptr::copy_nonoverlapping(from.add(length - N), to.add(length - N), N);
    }
}

/// How many bytes an integer takes at most.
pub const INTEGER_BYTES_MAX: usize = 20;

#[inline]
pub fn integer(value: i64, out: &mut Vec<u8>) {
    out.reserve(INTEGER_BYTES_MAX);
    // SAFETY: that many bytes are reserved, and what `put_integer` has written is initialised.
    unsafe {
        let to = out.as_mut_ptr().add(out.len());
        let written = put_integer(value, to);
        out.set_len(out.len() + written);
    }
}

pub fn unsigned(value: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let start = put_digits(value, &mut digits);
    append(&digits[start..], out);
}

/// Writes an integer and returns how many bytes it has.
///
/// # Safety
/// `INTEGER_BYTES_MAX` bytes are writable at `to`.
#[inline]
pub unsafe fn put_integer(value: i64, to: *mut u8) -> usize {
    // SAFETY: at most 20 bytes are written: a sign and the 19 digits of the longest, or two.
    unsafe {
        if let Some(pair) = SHORT.get(value as usize) {
            std::ptr::copy_nonoverlapping(pair.as_ptr(), to, 2);
            return if value < 10 { 1 } else { 2 };
        }
        let mut digits = [0; 20];
        let start = put_digits(value.unsigned_abs(), &mut digits);
        let sign = usize::from(value < 0);
        *to = b'-';
        std::ptr::copy_nonoverlapping(digits.as_ptr().add(start), to.add(sign), digits.len() - start);
        sign + digits.len() - start
    }
}

/// Writes digits up to the end of an array and returns where they begin.
fn put_digits(mut value: u64, digits: &mut [u8; 20]) -> usize {
    let mut start = digits.len();
    // Eight at a time: the pairs of such a block do not wait for each other, as they do when each is what is left.
    while value >= 100_000_000 {
        let block = (value % 100_000_000) as u32;
        value /= 100_000_000;
        start -= 8;
        let (high, low) = (block / 10_000, block % 10_000);
        for (at, pair) in [high / 100, high % 100, low / 100, low % 100].into_iter().enumerate() {
            put_pair(digits, start + 2 * at, pair);
        }
    }
    let mut value = value as u32;
    while value >= 100 {
        start -= 2;
        put_pair(digits, start, value % 100);
        value /= 100;
    }
    if value >= 10 {
        start -= 2;
        put_pair(digits, start, value);
    } else {
        start -= 1;
        digits[start] = b'0' + value as u8;
    }
    start
}

fn put_pair(digits: &mut [u8; 20], at: usize, pair: u32) {
    let from = 2 * pair as usize;
    digits[at..at + 2].copy_from_slice(&DIGIT_PAIRS[from..from + 2]);
}

pub fn wide_integer(value: i128, out: &mut Vec<u8>) {
    match i64::try_from(value) {
        Ok(small) => integer(small, out),
        Err(_) => out.extend_from_slice(value.to_string().as_bytes()),
    }
}

/// An interval in words, those parts that are not zero: `14 mons 3 days 4 hours 5 mins 6.000100000 secs`.
pub fn interval(months: i32, days: i32, nanoseconds: i64, quote: &[u8], out: &mut Vec<u8>) {
    let (seconds, fraction) = (nanoseconds / 1_000_000_000, (nanoseconds % 1_000_000_000).unsigned_abs());
    let parts = [
        (i64::from(months), "mons"),
        (i64::from(days), "days"),
        (seconds / 3_600, "hours"),
        (seconds / 60 % 60, "mins"),
    ];
    out.extend_from_slice(quote);
    let start = out.len();
    for (count, unit) in parts.iter().filter(|(count, _)| *count != 0) {
        write_part(format_args!("{count} {unit}"), start, out);
    }
    if seconds % 60 != 0 || fraction != 0 {
        let sign = if nanoseconds < 0 { "-" } else { "" };
        let whole = (seconds % 60).unsigned_abs();
        write_part(format_args!("{sign}{whole}.{fraction:09} secs"), start, out);
    }
    if out.len() == start {
        out.extend_from_slice(b"0 secs");
    }
    out.extend_from_slice(quote);
}

fn write_part(part: std::fmt::Arguments<'_>, start: usize, out: &mut Vec<u8>) {
    if out.len() > start {
        out.push(b' ');
    }
    out.extend_from_slice(part.to_string().as_bytes());
}

/// A float, or `other` in the place of those that JSON cannot say.
pub fn float(value: f64, other: &[u8], out: &mut Vec<u8>) {
    if !value.is_finite() {
        out.extend_from_slice(other);
    } else if !few_decimals(value, out) {
        append(zmij::Buffer::new().format_finite(value).as_bytes(), out);
    }
}

/// Most measurements have few digits: writes one with up to three decimals, or says that it is none of these.
///
/// A number below 1e9 in thousandths has at most 12 digits. Decimals of up to 15 digits are all different floats, so
/// one that reads back as `value` is the only one so short, and without its last zeros it is the shortest.
fn few_decimals(value: f64, out: &mut Vec<u8>) -> bool {
    let magnitude = value.abs();
    if magnitude >= 1e9 {
        return false;
    }
    let thousandths = (magnitude * 1000.0 + 0.5) as u64;
    if thousandths as f64 / 1000.0 != magnitude {
        return false;
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    unsigned(thousandths / 1000, out);
    let decimals = (thousandths % 1000) as usize;
    let (first, pair) = (b'0' + (decimals / 100) as u8, 2 * (decimals % 100));
    match &DIGIT_PAIRS[pair..pair + 2] {
        b"00" => append(&[b'.', first], out),
        &[second, b'0'] => append(&[b'.', first, second], out),
        &[second, third, ..] => append(&[b'.', first, second, third], out),
        _ => unreachable!("a pair has two digits"),
    }
    true
}

/// As [`float`]; the text is the shortest for this width, `0.1` and not `0.10000000149011612`.
pub fn short_float(value: f32, other: &[u8], out: &mut Vec<u8>) {
    if value.is_finite() {
        append(zmij::Buffer::new().format_finite(value).as_bytes(), out);
    } else {
        out.extend_from_slice(other);
    }
}

pub fn decimal(value: i128, scale: i8, out: &mut Vec<u8>) {
    let digits = value.unsigned_abs().to_string();
    scaled_digits(value < 0, digits.as_bytes(), scale, out);
}

pub fn wide_decimal(value: i256, scale: i8, out: &mut Vec<u8>) {
    let text = value.to_string();
    let digits = text.strip_prefix('-').unwrap_or(&text);
    scaled_digits(digits.len() < text.len(), digits.as_bytes(), scale, out);
}

pub fn scaled_digits(is_negative: bool, digits: &[u8], scale: i8, out: &mut Vec<u8>) {
    if is_negative {
        out.push(b'-');
    }
    let fraction = usize::from(scale.max(0).unsigned_abs());
    let whole = digits.len().saturating_sub(fraction);
    if whole == 0 {
        out.push(b'0');
    }
    out.extend_from_slice(&digits[..whole]);
    if scale < 0 && digits != b"0" {
        out.resize(out.len() + usize::from(scale.unsigned_abs()), b'0');
    }
    if fraction > 0 {
        out.push(b'.');
        out.resize(out.len() + fraction - (digits.len() - whole), b'0');
        out.extend_from_slice(&digits[whole..]);
    }
}

/// A string in quotes, as JSON has it.
pub fn json_string(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    if has_special(bytes) {
        // Only now is it worth a look at whether the bytes are text at all.
        escape(String::from_utf8_lossy(bytes).as_bytes(), out);
    } else {
        append(bytes, out);
    }
    out.push(b'"');
}

/// Whether a byte keeps a string from being copied as it is: a control character, a quote, a backslash, or one that
/// is not ASCII.
fn has_special(bytes: &[u8]) -> bool {
    let Some(last) = bytes.last_chunk::<8>() else {
        return bytes.iter().any(|&byte| (byte < 0x20) | (byte == b'"') | (byte == b'\\') | (byte >= 0x80));
    };
    let (eights, _) = bytes.as_chunks::<8>();
    (eights.iter().fold(0, |found, eight| found | special_bits(*eight)) | special_bits(*last)) != 0
}

/// The high bit of every byte that is special; which bits are set beside these does not matter to whether any is.
fn special_bits(eight: [u8; 8]) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let word = u64::from_le_bytes(eight);
    let (quote, backslash) = (word ^ (ONES * b'"' as u64), word ^ (ONES * b'\\' as u64));
    // Where no high bit is set before, a subtraction sets one only at and above a byte that is too small.
    let below = word.wrapping_sub(ONES * 0x20) | quote.wrapping_sub(ONES) | backslash.wrapping_sub(ONES);
    (below | word) & HIGH
}

fn escape(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            0x00..0x20 => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            _ => out.push(byte),
        }
    }
}

/// A field of a CSV line: as it is, or in quotes where it would be misread.
pub fn csv_field(bytes: &[u8], out: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(bytes);
    if !text.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\r' | b'\n')) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    out.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}
