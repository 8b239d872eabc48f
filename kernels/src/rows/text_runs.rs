//! What a text is made of, as full-text indexes see it: words, and pieces of words.
//!
//! A text is cut into runs:
//!
//!     "disk №42-пять failed"     disk   №   42   пять   failed
//!
//! - letters and digits of ASCII: the run as a whole is a word, and all its pieces of three characters count;
//! - characters beyond ASCII: all pieces of `gram` characters count. No table of letters decides here, so that versions
//!   of Unicode cannot disagree;
//! - everything else separates runs.
//!
//! Words of up to 16 bytes, which most are, have a hash of their own (`mix`), longer ones and pieces xxh3-64. The hashes are
//! part of the format of data files.
//!
//! A text that holds another has all pieces of the runs of that one, and as words those runs that cannot be a part of
//! a longer one. So a missing piece means that the text is not there.

use std::ops::Range;

use twox_hash::XxHash3_64;

const WORD_SEED: u64 = 0;
const PIECE_SEED: u64 = 1;
const CODE_SEED: u64 = 2;

/// The bit that small letters and digits have, and capital letters do not.
const SMALL: u64 = 0x2020_2020_2020_2020;
const MIX_LOW: u64 = 0x9e37_79b9_7f4a_7c15;
const MIX_HIGH: u64 = 0xc2b2_ae3d_27d4_eb4f;

/// There are so many pieces of three characters, with small and capital letters taken as one.
pub const CODES: usize = 36 * 36 * 36;

const LETTER: u8 = 10;
const BEYOND: u8 = 254;
const OTHER: u8 = 255;
/// Digits and letters by number, in any case; characters beyond ASCII; everything else.
const CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut found = [OTHER; 256];
    let mut byte = 0;
    while byte < 256 {
        found[byte] = match byte as u8 {
            digit @ b'0'..=b'9' => digit - b'0',
            letter @ b'a'..=b'z' => letter - b'a' + LETTER,
            letter @ b'A'..=b'Z' => letter - b'A' + LETTER,
            0x80.. => BEYOND,
            _ => OTHER,
        };
        byte += 1;
    }
    found
}

/// How an index looks at texts.
#[derive(Clone, Copy)]
pub struct Analyzer {
    /// How many characters beyond ASCII are one piece.
    pub gram: usize,
    /// Words are the same in capital and small letters of ASCII.
    pub folds_case: bool,
}

/// Takes what a text is made of.
pub trait Sink {
    /// A word; `range` is where it stands in the text.
    fn word(&mut self, hash: u64, range: Range<usize>);
    /// A piece of characters beyond ASCII.
    fn piece(&mut self, hash: u64);
    /// A piece of three letters or digits, below `CODES`.
    fn code(&mut self, code: usize);
}

impl Analyzer {
    /// Goes through a text; `scratch` is memory that is used again.
    pub fn visit(self, text: &[u8], scratch: &mut Vec<u8>, sink: &mut impl Sink) {
        let mut at = 0;
        while at < text.len() {
            let class = CLASSES[usize::from(text[at])];
            let start = at;
            match class {
                OTHER => at += 1,
                BEYOND => {
                    at += length(&text[start..], |class| class == BEYOND);
                    self.pieces(&text[start..at], sink);
                }
                _ => {
                    at += length(&text[start..], |class| class < BEYOND);
                    sink.word(self.hash_word(&text[start..at], scratch), start..at);
                    codes(&text[start..at], sink);
                }
            }
        }
    }

    fn hash_word(self, word: &[u8], scratch: &mut Vec<u8>) -> u64 {
        let fold = if self.folds_case { SMALL } else { 0 };
        if let Some((low, high)) = ends(word) {
            return mix(low | fold, high | fold, word.len() as u64);
        }
        if !self.folds_case {
            return XxHash3_64::oneshot_with_seed(WORD_SEED, word);
        }
        scratch.clear();
        scratch.extend(word.iter().map(u8::to_ascii_lowercase));
        XxHash3_64::oneshot_with_seed(WORD_SEED, scratch)
    }

    /// Visits the pieces of a run of characters of several bytes each.
    fn pieces(self, run: &[u8], sink: &mut impl Sink) {
        let starts = |&at: &usize| run[at] & 0xc0 != 0x80;
        let mut ends = (0..run.len()).filter(starts).skip(self.gram).chain([run.len()]);
        for start in (0..run.len()).filter(starts) {
            let Some(end) = ends.next() else { break };
            if end == run.len() && count(&run[start..]) < self.gram {
                break;
            }
            sink.piece(XxHash3_64::oneshot_with_seed(PIECE_SEED, &run[start..end]));
        }
    }
}

/// The first and the last bytes of a word of up to 16, which together are all of it.
fn ends(word: &[u8]) -> Option<(u64, u64)> {
    match word.len() {
        8..=16 => Some((u64::from_le_bytes(*word.first_chunk()?), u64::from_le_bytes(*word.last_chunk()?))),
        4..=7 => Some((
            u64::from(u32::from_le_bytes(*word.first_chunk()?)),
            u64::from(u32::from_le_bytes(*word.last_chunk()?)),
        )),
        1..=3 => {
            let [first, middle, last] = [word[0], word[word.len() / 2], word[word.len() - 1]].map(u64::from);
            Some((first | middle << 8 | last << 16, 0))
        }
        _ => None,
    }
}

/// The hash of a short word: one multiplication, and the finish of splitmix64.
fn mix(low: u64, high: u64, length: u64) -> u64 {
    let product = u128::from(low ^ MIX_LOW) * u128::from(high ^ MIX_HIGH ^ length << 56);
    let mut hash = product as u64 ^ (product >> 64) as u64;
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

fn count(run: &[u8]) -> usize {
    run.iter().filter(|&&byte| byte & 0xc0 != 0x80).count()
}

fn length(text: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    text.iter().position(|&byte| !belongs(CLASSES[usize::from(byte)])).unwrap_or(text.len())
}

fn codes(run: &[u8], sink: &mut impl Sink) {
    for piece in run.windows(3) {
        let [first, second, third] =
            [piece[0], piece[1], piece[2]].map(|byte| usize::from(CLASSES[usize::from(byte)]));
        sink.code((first * 36 + second) * 36 + third);
    }
}

/// The hash that stands for a piece of three letters or digits among words.
pub fn hash_code(code: usize) -> u64 {
    XxHash3_64::oneshot_with_seed(CODE_SEED, &(code as u32).to_le_bytes())
}
