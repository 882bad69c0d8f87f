//! The histogram log of a run: interval log format 1.3 of HdrHistogram (`HistogramLogWriter` and `HistogramLogReader` of
//! the Java library), each histogram in the V2 encoding, compressed with DEFLATE, in base64.
//!
//! `HistogramLogAnalyzer`, `HistogramLogProcessor`, HdrHistogram's plotter and the readers of its other libraries take it as it is.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriter, IntervalLogWriterBuilder, IntervalLogWriterError, Tag};
use std::io::{self, Error, ErrorKind, Write};
use std::time::Duration;

/// Nanoseconds of the unit of `Interval_Max`, a millisecond: what the Java library writes for nanoseconds, too.
const MAX_UNIT_NS: f64 = 1e6;

/// What a line of the log is about; readers take the lines of one tag, or those without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Latency of requests that count: no tag.
    Latency,
    /// From sending to the answer, of the same requests: `service`.
    Service,
    /// Latency before measuring began, which is in no figure: `warmup`.
    WarmUp,
}

/// A line of the log.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// What it is about.
    pub about: About,
    /// When it began, in seconds from the start of measuring: negative for the warm-up.
    pub start_s: f64,
    /// Its length in seconds.
    pub length_s: f64,
    /// Its times in nanoseconds.
    pub times: &'a Histogram<u64>,
}

type Lines<'a, W> = IntervalLogWriter<'a, 'a, W, V2DeflateSerializer>;

/// Writes the log of a run whose measuring began `start_unix_s` seconds after 1970. Lines are written in the order given;
/// readers expect them by their start.
///
/// The log's `StartTime` is that start, and lines carry seconds since 1970 with three digits. A reader that takes what follows
/// `StartTime`, as readers do unless told otherwise (`-start -10` tells `HistogramLogProcessor`), leaves the warm-up out even
/// where it ignores tags. The line that begins with measuring bears the same number as `StartTime`, so that no rounding can
/// leave that out, too.
///
/// # Errors
/// What `out` returns. `InvalidInput` where a time is not finite, a line begins before 1970 or has a negative length, or a
/// count is over the format's 2^63 - 1.
pub fn log<W: Write + ?Sized>(out: &mut W, start_unix_s: f64, lines: &[Line<'_>]) -> io::Result<()> {
    header(out, start_unix_s)?;
    append(out, start_unix_s, lines)
}

/// Writes more lines behind those of a [`log`] of the same run: an hour's histograms need not be kept until its end.
///
/// # Errors
/// As [`log`].
pub fn append<W: Write + ?Sized>(mut out: &mut W, start_unix_s: f64, lines: &[Line<'_>]) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    let mut log = builder.with_max_value_divisor(MAX_UNIT_NS).begin_log_with(&mut out, &mut serializer)?;
    lines.iter().try_for_each(|line| write_line(&mut log, start_unix_s, line))
}

/// What the library's writer leaves out, or writes in a form that the Java library of this version does not.
fn header<W: Write + ?Sized>(out: &mut W, start_unix_s: f64) -> io::Result<()> {
    let start = seconds(start_unix_s)?.as_secs_f64();
    writeln!(out, "#[Histogram log format version 1.3]")?;
    writeln!(out, "#Values are nanoseconds; Interval_Max alone is in milliseconds, that is divided by {MAX_UNIT_NS}.")?;
    writeln!(out, "#No tag: latency. Tag=service: from sending to the answer, of the same requests.")?;
    writeln!(out, "#Tag=warmup: latency before measuring began at StartTime, which counts in no figure.")?;
    writeln!(out, "#[StartTime: {start:.3} (seconds since epoch)]")?;
    writeln!(out, "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"")
}

fn write_line<W: Write>(log: &mut Lines<'_, W>, start_unix_s: f64, line: &Line<'_>) -> io::Result<()> {
    let tag = match line.about {
        About::Latency => None,
        About::Service => Tag::new("service"),
        About::WarmUp => Tag::new("warmup"),
    };
    let (start, length) = (seconds(start_unix_s + line.start_s)?, seconds(line.length_s)?);
    log.write_histogram(line.times, start, length, tag).map_err(|error| match error {
        IntervalLogWriterError::IoError(error) => error,
        IntervalLogWriterError::SerializeError(error) => Error::new(ErrorKind::InvalidInput, error),
    })
}

fn seconds(seconds: f64) -> io::Result<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|error| Error::new(ErrorKind::InvalidInput, format!("{seconds} s in a histogram log: {error}")))
}
