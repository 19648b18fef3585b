//! The parts of a multipart body (RFC 2046, section 5.1), read within a fixed buffer.

use memchr::memmem;

use super::parameters;
use crate::base::limits::FORM_BUFFER_BYTES;
use crate::s3::{BodyRead, S3Error};

/// The end of the headers of a part.
const HEADERS_END: &[u8] = b"\r\n\r\n";

/// An error outside of the file.
#[derive(Debug)]
pub(super) enum PartError {
    /// The parts are longer than the budget.
    TooLong,
    /// The body is no multipart body, or a part is not of a form.
    Malformed,
    /// The body cannot be read.
    Body(S3Error),
}

/// The headers of a part.
#[derive(Debug)]
pub(super) struct PartHead {
    /// The name of the field.
    pub(super) name: String,
    /// The name of the file, as sent.
    pub(super) file_name: Option<String>,
}

/// A reader of parts. [`MultipartReader::skip_preamble`] and [`MultipartReader::value`] leave it
/// after a delimiter, as [`MultipartReader::next_part`] requires.
pub(super) struct MultipartReader<'c> {
    inner: Box<dyn BodyRead + 'c>,
    /// A line end, two hyphens and the boundary.
    delimiter: Vec<u8>,
    buffer: Vec<u8>,
    /// The unread bytes in the buffer.
    start: usize,
    end: usize,
}

impl<'c> MultipartReader<'c> {
    /// A reader of the parts of `inner` between delimiters with `boundary`.
    pub(super) fn new(inner: Box<dyn BodyRead + 'c>, boundary: &str) -> Self {
        let delimiter = [b"\r\n--", boundary.as_bytes()].concat();
        let mut buffer = vec![0; FORM_BUFFER_BYTES];
        // The first delimiter may be the first line: every other one follows a line end.
        buffer[..2].copy_from_slice(b"\r\n");
        Self { inner, delimiter, buffer, start: 0, end: 2 }
    }

    /// Skips the text before the first delimiter.
    pub(super) fn skip_preamble(&mut self, budget: &mut usize) -> Result<(), PartError> {
        *budget += 2;
        self.find_delimiter(budget)?;
        Ok(())
    }

    /// Reads the headers of the next part; `None` after the last one. Leaves the reader behind the
    /// headers.
    pub(super) fn next_part(&mut self, budget: &mut usize) -> Result<Option<PartHead>, PartError> {
        while self.unread().len() < 2 {
            self.more()?;
        }
        match &self.unread()[..2] {
            b"--" => {
                self.start += 2;
                Ok(None)
            }
            b"\r\n" => {
                let headers = self.take_until(HEADERS_END, budget)?;
                parse_head(headers).map(Some).ok_or(PartError::Malformed)
            }
            _ => Err(PartError::Malformed),
        }
    }

    /// Reads the rest of a part as text.
    pub(super) fn value(&mut self, budget: &mut usize) -> Result<String, PartError> {
        let value = self.find_delimiter(budget)?;
        std::str::from_utf8(value).map(str::to_owned).map_err(|_| PartError::Malformed)
    }

    /// Reads the body to its end. Must follow the last part.
    pub(super) fn skip_epilogue(&mut self, mut budget: usize) -> Result<(), PartError> {
        loop {
            budget = budget.checked_sub(self.unread().len()).ok_or(PartError::TooLong)?;
            self.start = self.end;
            if !self.fill().map_err(PartError::Body)? {
                return Ok(());
            }
        }
    }

    /// The unread bytes in the buffer.
    pub(super) fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    pub(super) fn delimiter(&self) -> &[u8] {
        &self.delimiter
    }

    /// Marks the next `count` unread bytes as read.
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
    }

    /// Reads more bytes into the buffer, which must not be full of unread bytes; whether there were
    /// any.
    pub(super) fn fill(&mut self) -> Result<bool, S3Error> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let read = self.inner.read(&mut self.buffer[self.end..])?;
        self.end += read;
        Ok(read > 0)
    }

    fn more(&mut self) -> Result<(), PartError> {
        if self.fill().map_err(PartError::Body)? { Ok(()) } else { Err(PartError::Malformed) }
    }

    fn find_delimiter(&mut self, budget: &mut usize) -> Result<&[u8], PartError> {
        let delimiter = std::mem::take(&mut self.delimiter);
        let found = self.position(&delimiter, budget);
        let len = delimiter.len();
        self.delimiter = delimiter;
        self.passed(found?, len)
    }

    fn take_until(&mut self, end: &[u8], budget: &mut usize) -> Result<&[u8], PartError> {
        let found = self.position(end, budget)?;
        self.passed(found, end.len())
    }

    /// The unread bytes before `found`, which become read together with the `len` bytes there.
    fn passed(&mut self, found: usize, len: usize) -> Result<&[u8], PartError> {
        let start = self.start;
        self.start += found + len;
        Ok(&self.buffer[start..start + found])
    }

    /// The position of `end` among the unread bytes. Takes the bytes up to its end from the budget,
    /// which is less than the buffer.
    fn position(&mut self, end: &[u8], budget: &mut usize) -> Result<usize, PartError> {
        let mut searched = 0;
        loop {
            let found = memmem::find(&self.unread()[searched..], end).map(|at| searched + at);
            let needed = found.map_or(self.unread().len(), |at| at + end.len());
            let left = budget.checked_sub(needed).ok_or(PartError::TooLong)?;
            if let Some(found) = found {
                *budget = left;
                return Ok(found);
            }
            searched = self.unread().len().saturating_sub(end.len() - 1);
            self.more()?;
        }
    }
}

/// Parses the headers of a part of a form (RFC 7578, section 4.2). Headers without a meaning are
/// ignored.
fn parse_head(headers: &[u8]) -> Option<PartHead> {
    let text = std::str::from_utf8(headers).ok()?;
    let mut dispositions = text.split("\r\n").filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim_ascii().eq_ignore_ascii_case("content-disposition").then_some(value)
    });
    let disposition = dispositions.next()?;
    if dispositions.next().is_some() {
        return None;
    }
    let kind = disposition.split(';').next().unwrap_or_default().trim_ascii();
    let name = parameters::get(disposition, "name").filter(|name| !name.is_empty())?;
    let file_name = parameters::get(disposition, "filename");
    kind.eq_ignore_ascii_case("form-data").then_some(PartHead { name, file_name })
}
