//! The file of a form as the body of a request: it ends at the next delimiter, and verified means
//! that the form is complete.

use std::ops::RangeInclusive;

use memchr::memmem;

use super::multipart::{MultipartReader, PartError};
use super::{FILE, malformed, wrong_number_of_files};
use crate::base::limits::FORM_FIELDS_MAX_BYTES;
use crate::s3::{Body, BodyRead, ErrorCode, S3Error};

/// The reader of a file.
pub(super) struct FileBody<'c> {
    form: MultipartReader<'c>,
    /// Unread bytes of the form that belong to the file.
    content: usize,
    /// Whether the delimiter follows them.
    delimited: bool,
    /// The end, or the error of all later reads.
    outcome: Option<Result<(), S3Error>>,
}

impl<'c> FileBody<'c> {
    /// The file that begins at the next byte of `form`.
    pub(super) fn new(form: MultipartReader<'c>) -> Self {
        Self { form, content: 0, delimited: false, outcome: None }
    }

    fn next(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        while self.content == 0 {
            if self.delimited {
                self.form.consume(self.form.delimiter().len());
                self.finish()?;
                self.outcome = Some(Ok(()));
                return Ok(0);
            }
            self.search()?;
        }
        let count = self.content.min(buf.len());
        buf[..count].copy_from_slice(&self.form.unread()[..count]);
        self.form.consume(count);
        self.content -= count;
        Ok(count)
    }

    /// Searches the unread bytes for the delimiter, and reads more of them where all could belong
    /// to it.
    fn search(&mut self) -> Result<(), S3Error> {
        let unread = self.form.unread();
        if let Some(found) = memmem::find(unread, self.form.delimiter()) {
            self.content = found;
            self.delimited = true;
            return Ok(());
        }
        self.content = unread.len().saturating_sub(self.form.delimiter().len() - 1);
        if self.content == 0 && !self.form.fill()? {
            return Err(malformed());
        }
        Ok(())
    }

    /// Reads the rest of the form. Fields after the file are ignored, within the limit of the
    /// fields before it.
    fn finish(&mut self) -> Result<(), S3Error> {
        let mut budget = FORM_FIELDS_MAX_BYTES;
        while let Some(head) = self.form.next_part(&mut budget).map_err(rest_error)? {
            if head.name.eq_ignore_ascii_case(FILE) {
                return Err(wrong_number_of_files(2));
            }
            self.form.value(&mut budget).map_err(rest_error)?;
        }
        self.form.skip_epilogue(budget).map_err(rest_error)
    }
}

impl BodyRead for FileBody<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        match &self.outcome {
            Some(outcome) => outcome.clone().map(|()| 0),
            None => self.next(buf).inspect_err(|error| self.outcome = Some(Err(error.clone()))),
        }
    }
}

/// An error behind the file.
fn rest_error(error: PartError) -> S3Error {
    match error {
        PartError::TooLong | PartError::Malformed => malformed(),
        PartError::Body(error) => error,
    }
}

/// A body whose length must be within a range.
pub struct SizeLimitedBody<'c> {
    inner: Box<dyn BodyRead + 'c>,
    range: RangeInclusive<u64>,
    read: u64,
}

impl SizeLimitedBody<'_> {
    /// Limits the length of `body` to `range`. Reading fails with `EntityTooLarge` beyond it, and
    /// with `EntityTooSmall` at the end before it.
    pub fn wrap(body: &mut Body<'_>, range: RangeInclusive<u64>) {
        let plain = std::mem::replace(body, Body::none());
        let reader = Box::new(SizeLimitedBody { inner: plain.reader, range, read: 0 });
        *body = Body { reader, ..plain };
    }
}

impl BodyRead for SizeLimitedBody<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        let read = self.inner.read(buf)?;
        self.read += read as u64;
        if self.read > *self.range.end() {
            return Err(S3Error::new(ErrorCode::EntityTooLarge)
                .message("Your proposed upload exceeds the maximum allowed size")
                .element("MaxSizeAllowed", self.range.end().to_string()));
        }
        if read == 0 && self.read < *self.range.start() {
            return Err(S3Error::new(ErrorCode::EntityTooSmall)
                .message("Your proposed upload is smaller than the minimum allowed size")
                .element("ProposedSize", self.read.to_string())
                .element("MinSizeAllowed", self.range.start().to_string()));
        }
        Ok(read)
    }
}
