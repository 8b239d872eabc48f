//! Text that should be JSON, copied into a larger JSON text.
//!
//! What is copied is checked to the last byte, so that one broken value cannot break the answer it stands in: it
//! becomes a string instead. White space between tokens is dropped, and the escape of half a surrogate pair, which
//! strict readers refuse, becomes that of the replacement character.

use crate::wire::text::value::json_string;

const DEPTH_MAX: usize = 128;

/// Appends `text` as the JSON value it says, or as a string if it says none.
pub fn embed(text: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let is_json = std::str::from_utf8(text).is_ok() && {
        let mut reader = Reader { text, at: 0 };
        reader.document(out).is_some()
    };
    if !is_json {
        out.truncate(start);
        json_string(text, out);
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

/// Every method appends what it reads and returns `None` at the first byte that is not JSON.
impl Reader<'_> {
    fn document(&mut self, out: &mut Vec<u8>) -> Option<()> {
        self.value(0, out)?;
        self.skip_blank();
        (self.at == self.text.len()).then_some(())
    }

    fn value(&mut self, depth: usize, out: &mut Vec<u8>) -> Option<()> {
        self.skip_blank();
        match self.peek()? {
            b'{' => self.items(b'}', depth + 1, out),
            b'[' => self.items(b']', depth + 1, out),
            b'"' => self.string(out),
            b't' => self.word(b"true", out),
            b'f' => self.word(b"false", out),
            b'n' => self.word(b"null", out),
            _ => self.number(out),
        }
    }

    /// An object or an array, which `close` ends.
    fn items(&mut self, close: u8, depth: usize, out: &mut Vec<u8>) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.copy(out);
        self.skip_blank();
        if self.peek()? == close {
            self.copy(out);
            return Some(());
        }
        loop {
            if close == b'}' {
                self.skip_blank();
                self.string(out)?;
                self.skip_blank();
                (self.peek()? == b':').then(|| self.copy(out))?;
            }
            self.value(depth, out)?;
            self.skip_blank();
            let next = self.peek()?;
            self.copy(out);
            match next {
                b',' => {}
                _ if next == close => return Some(()),
                _ => return None,
            }
        }
    }

    fn string(&mut self, out: &mut Vec<u8>) -> Option<()> {
        if self.peek()? != b'"' {
            return None;
        }
        self.copy(out);
        loop {
            match self.peek()? {
                b'"' => {
                    self.copy(out);
                    return Some(());
                }
                b'\\' => self.escape(out)?,
                0x00..0x20 => return None,
                _ => self.copy(out),
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let kind = *self.text.get(self.at + 1)?;
        if kind != b'u' {
            if !matches!(kind, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') {
                return None;
            }
            self.copy(out);
            self.copy(out);
            return Some(());
        }
        let length = match self.unit(self.at)? {
            0xd800..0xdc00 => match self.unit(self.at + 6) {
                Some(0xdc00..0xe000) => 12,
                _ => 0,
            },
            0xdc00..0xe000 => 0,
            _ => 6,
        };
        if length == 0 {
            out.extend_from_slice(b"\\ufffd");
            self.at += 6;
        } else {
            out.extend_from_slice(&self.text[self.at..self.at + length]);
            self.at += length;
        }
        Some(())
    }

    /// The code unit of a `\uXXXX` at `at`.
    fn unit(&self, at: usize) -> Option<u32> {
        let escape = self.text.get(at..at + 6)?;
        let digits = escape.strip_prefix(b"\\u")?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }

    fn word(&mut self, word: &[u8], out: &mut Vec<u8>) -> Option<()> {
        if !self.text[self.at..].starts_with(word) {
            return None;
        }
        out.extend_from_slice(word);
        self.at += word.len();
        Some(())
    }

    fn number(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let start = self.at;
        self.accept(b"-");
        match self.peek()? {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if self.accept(b".") {
            self.digits()?;
        }
        if self.accept(b"eE") {
            self.accept(b"+-");
            self.digits()?;
        }
        out.extend_from_slice(&self.text[start..self.at]);
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let count = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        (count > 0).then_some(())
    }

    fn accept(&mut self, any_of: &[u8]) -> bool {
        let is_there = self.peek().is_some_and(|byte| any_of.contains(&byte));
        self.at += usize::from(is_there);
        is_there
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn copy(&mut self, out: &mut Vec<u8>) {
        out.push(self.text[self.at]);
        self.at += 1;
    }

    fn skip_blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }
}
