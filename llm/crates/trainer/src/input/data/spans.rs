//! The place of each row in a JSON file, found in one pass that holds one row.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::DataError;

/// The place of a row's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowSpan {
    /// Number of its file.
    pub(super) file: u32,
    pub(super) length: u32,
    pub(super) start: u64,
    /// Its line, or row, from 1.
    pub(super) line: u64,
}

/// A row's text with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawRow {
    pub(super) text: Vec<u8>,
    pub(super) start: u64,
    pub(super) line: u64,
}

impl RawRow {
    /// Its place in file 0.
    pub(super) fn span(&self) -> RowSpan {
        RowSpan { file: 0, length: self.text.len() as u32, start: self.start, line: self.line }
    }
}

/// An error that ends the reading of a file.
#[derive(Debug)]
pub(super) enum SpanError {
    Io(io::Error),
    Damaged(String),
}

impl From<io::Error> for SpanError {
    fn from(error: io::Error) -> Self {
        SpanError::Io(error)
    }
}

impl SpanError {
    pub(super) fn into_data_error(self, path: &Path) -> DataError {
        match self {
            SpanError::Io(source) => DataError::Read { path: path.to_owned(), source },
            SpanError::Damaged(problem) => DataError::Damaged { path: path.to_owned(), problem },
        }
    }
}

/// Longest row in bytes, more than any problem has; a file of another kind is refused before it fills the memory.
const LONGEST: usize = 1 << 28;

/// The rows of a file: the elements of its array, or its lines that are not blank.
pub(super) fn rows(mut file: File, array: bool) -> io::Result<RowReader> {
    file.seek(SeekFrom::Start(0))?;
    let input = BufReader::with_capacity(1 << 16, file);
    Ok(RowReader { bytes: Bytes { input, at: 0, line: 1 }, array, state: State::Start })
}

/// An iterator over the rows of a file.
pub(super) struct RowReader {
    bytes: Bytes,
    array: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    /// After an element of the array.
    Between,
    Done,
}

/// A file's bytes with their place.
struct Bytes {
    input: BufReader<File>,
    at: u64,
    line: u64,
}

impl Bytes {
    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.input.fill_buf()?.first().copied())
    }

    fn next(&mut self) -> io::Result<Option<u8>> {
        let byte = self.peek()?;
        if let Some(byte) = byte {
            self.input.consume(1);
            self.at += 1;
            self.line += u64::from(byte == b'\n');
        }
        Ok(byte)
    }

    fn skip_blanks(&mut self) -> io::Result<Option<u8>> {
        while let Some(byte) = self.peek()? {
            if !byte.is_ascii_whitespace() {
                return Ok(Some(byte));
            }
            self.next()?;
        }
        Ok(None)
    }

    /// Passes over a byte-order mark.
    fn skip_mark(&mut self) -> io::Result<()> {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        if self.input.fill_buf()?.starts_with(MARK) {
            self.input.consume(MARK.len());
            self.at += MARK.len() as u64;
        }
        Ok(())
    }
}

fn damaged<T>(problem: String) -> Result<T, SpanError> {
    Err(SpanError::Damaged(problem))
}

impl RowReader {
    fn line(&mut self) -> Result<Option<RawRow>, SpanError> {
        let bytes = &mut self.bytes;
        if self.state == State::Start {
            bytes.skip_mark()?;
            self.state = State::Between;
        }
        if bytes.skip_blanks()?.is_none() {
            return Ok(None);
        }
        let (start, line) = (bytes.at, bytes.line);
        let mut text = Vec::new();
        let read = (&mut bytes.input).take(LONGEST as u64).read_until(b'\n', &mut text)?;
        bytes.at += read as u64;
        bytes.line += u64::from(text.ends_with(b"\n"));
        if text.len() >= LONGEST {
            return damaged(format!(
                "line {line} has more than {LONGEST} bytes; is this a file of JSON lines?"
            ));
        }
        let end = text.trim_ascii_end().len();
        text.truncate(end);
        Ok(Some(RawRow { text, start, line }))
    }

    fn element(&mut self) -> Result<Option<RawRow>, SpanError> {
        let is_there = if self.state == State::Start { self.enter()? } else { self.pass_comma()? };
        if !is_there {
            return Ok(None);
        }
        self.state = State::Between;
        self.value().map(Some)
    }

    /// Passes over the bracket that opens the array. True if a row follows.
    fn enter(&mut self) -> Result<bool, SpanError> {
        let bytes = &mut self.bytes;
        bytes.skip_mark()?;
        match bytes.skip_blanks()? {
            None => return Ok(false),
            Some(b'[') => bytes.next()?,
            Some(_) => {
                return damaged(
                    "not a JSON array of rows, as in [{..}, {..}]; rows without brackets around them are JSON lines: name the file .jsonl"
                        .to_owned(),
                );
            }
        };
        Ok(bytes.skip_blanks()? != Some(b']'))
    }

    /// Passes over the text between two rows, or the array's end. True if a row follows.
    fn pass_comma(&mut self) -> Result<bool, SpanError> {
        let bytes = &mut self.bytes;
        match bytes.skip_blanks()? {
            Some(b']') => {
                bytes.next()?;
                match bytes.skip_blanks()? {
                    None => Ok(false),
                    Some(_) => damaged(format!("line {}: text after the end of the array", bytes.line)),
                }
            }
            Some(b',') => {
                bytes.next()?;
                bytes.skip_blanks()?;
                Ok(true)
            }
            Some(_) => damaged(format!("line {}: a comma is missing between two rows", bytes.line)),
            None => damaged(format!("cut short: the array of rows is not closed by line {}", bytes.line)),
        }
    }

    /// Reads a value up to the comma, bracket or brace after it.
    fn value(&mut self) -> Result<RawRow, SpanError> {
        let bytes = &mut self.bytes;
        let (start, line) = (bytes.at, bytes.line);
        let mut place = Nesting::default();
        let mut text = Vec::new();
        loop {
            let Some(byte) = bytes.peek()? else {
                // This row is complete; the missing end of the array is reported with the next one.
                if place.is_outside() && !text.trim_ascii().is_empty() {
                    break;
                }
                return damaged(format!("cut short: the row that begins at line {line} has no end"));
            };
            if place.is_outside() && matches!(byte, b',' | b']' | b'}') {
                break;
            }
            place.pass(byte);
            text.push(byte);
            bytes.next()?;
            if text.len() >= LONGEST {
                return damaged(format!("the row that begins at line {line} has more than {LONGEST} bytes"));
            }
        }
        if bytes.peek()? == Some(b'}') {
            return damaged(format!("line {}: a closing brace without an opening one", bytes.line));
        }
        let end = text.trim_ascii_end().len();
        text.truncate(end);
        Ok(RawRow { text, start, line })
    }
}

/// A reader's place in a JSON value.
#[derive(Default)]
struct Nesting {
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl Nesting {
    /// True if neither a bracket nor a text is open.
    fn is_outside(&self) -> bool {
        self.depth == 0 && !self.in_text
    }

    fn pass(&mut self, byte: u8) {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_text => self.escaped = true,
            b'"' => self.in_text = !self.in_text,
            b'{' | b'[' if !self.in_text => self.depth += 1,
            b'}' | b']' if !self.in_text => self.depth -= 1,
            _ => {}
        }
    }
}

impl Iterator for RowReader {
    type Item = Result<RawRow, SpanError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state == State::Done {
            return None;
        }
        let found = if self.array { self.element() } else { self.line() };
        if !matches!(found, Ok(Some(_))) {
            self.state = State::Done;
        }
        found.transpose()
    }
}
