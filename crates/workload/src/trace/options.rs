//! How a trace is to be read.

use std::ops::Range;

use super::columns::Columns;
use super::format::Format;
use crate::{InputError, Request};

/// What to do with addresses when the trace's device is not ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AddressMap {
    /// Take them as they are; a request outside the device is an error.
    #[default]
    AsIs,
    /// Modulo the device; a request across the end is moved back so that it ends there.
    Wrap,
    /// Multiply by device / span of the trace and round down to 4 KiB (the offset within 4 KiB is kept); a
    /// request across the end is moved back.
    Scale,
}

/// A request that does not fit a device, however its address is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The request ends beyond the device, and addresses are taken as they are.
    #[error(
        "the {} of {} bytes at {} ends beyond the device of {device} bytes; use a larger device, or wrap or \
         scale the addresses",
        .request.kind.name(), .request.bytes, .request.offset
    )]
    BeyondEnd {
        /// What was asked.
        request: Request,
        /// Bytes of the device.
        device: u64,
    },
    /// The request alone is larger than the device.
    #[error(
        "the {} of {} bytes is larger than the device of {device} bytes; use a larger device",
        .request.kind.name(), .request.bytes
    )]
    TooLarge {
        /// What was asked.
        request: Request,
        /// Bytes of the device.
        device: u64,
    },
}

impl AddressMap {
    /// Where a request begins on a device of `device` bytes; `span`: the first byte past the last request.
    ///
    /// # Errors
    /// [`Misfit`]: the request does not fit the device.
    pub fn place(self, request: &Request, device: u64, span: u64) -> Result<u64, Misfit> {
        let Request { offset, bytes, .. } = *request;
        let mapped = match self {
            AddressMap::AsIs if request.end() > device => {
                return Err(Misfit::BeyondEnd { request: *request, device })
            }
            AddressMap::AsIs => return Ok(offset),
            AddressMap::Wrap => offset % device.max(1),
            AddressMap::Scale => {
                let page = u128::from(offset / 4096) * u128::from(device) / u128::from(span.max(1));
                page as u64 * 4096 + offset % 4096
            }
        };
        let last = device.checked_sub(bytes).ok_or(Misfit::TooLarge { request: *request, device })?;
        Ok(mapped.min(last))
    }
}

/// A positive fraction, for scaling time without floating point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    numerator: u64,
    denominator: u64,
}

impl Ratio {
    /// One: nothing changes.
    pub const ONE: Ratio = Ratio { numerator: 1, denominator: 1 };

    /// `numerator / denominator`, both at least 1.
    pub fn new(numerator: u64, denominator: u64) -> Option<Ratio> {
        (numerator > 0 && denominator > 0).then_some(Ratio { numerator, denominator })
    }

    /// Reads `2`, `0.25` or `1/3`. What 64 bits cannot hold of the digits behind the point is rounded.
    pub fn parse(text: &str) -> Result<Ratio, InputError> {
        let wrong = || {
            InputError::in_file(
                "",
                format!("{text:?} is not a time scale; write a positive number such as 0.5, 2 or 1/3"),
            )
        };
        let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
        let whole =
            |t: &str| if t.is_empty() { Some(0) } else { t.parse::<u64>().ok().filter(|_| digits(t)) };
        let trimmed = text.trim();
        let pair = match (trimmed.split_once('/'), trimmed.split_once('.')) {
            (Some((n, d)), _) => whole(n).zip(whole(d)),
            (None, Some((n, part))) if digits(part) => whole(n).map(|n| decimal(n, part)),
            (None, Some(_)) => None,
            (None, None) => whole(trimmed).map(|n| (n, 1)),
        };
        pair.and_then(|(n, d)| Ratio::new(n, d)).ok_or_else(wrong)
    }

    /// `value` times the fraction, rounded down; at most `u64::MAX`.
    pub fn apply(self, value: u64) -> u64 {
        if self == Ratio::ONE {
            return value;
        }
        let scaled = u128::from(value) * u128::from(self.numerator) / u128::from(self.denominator);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

/// A whole number and the digits behind its point as a fraction, with as many digits as 64 bits hold.
fn decimal(whole: u64, part: &str) -> (u64, u64) {
    let part = part.trim_end_matches('0').as_bytes();
    let (mut numerator, mut denominator) = (whole, 1u64);
    for digit in part.iter().map(|digit| u64::from(digit - b'0')) {
        let more = numerator.checked_mul(10).and_then(|tens| tens.checked_add(digit));
        let Some((more, unit)) = more.zip(denominator.checked_mul(10)) else {
            return (numerator.saturating_add(u64::from(digit >= 5)), denominator);
        };
        (numerator, denominator) = (more, unit);
    }
    (numerator, denominator)
}

/// How a trace is to be read. `TraceOptions::default()` takes everything as it is.
#[derive(Debug, Clone)]
pub struct TraceOptions {
    /// The format, instead of recognising it.
    pub format: Option<Format>,
    /// The columns of a table, instead of a format.
    pub columns: Option<Columns>,
    /// A row that is not understood is an error instead of being counted and left out.
    pub strict: bool,
    /// Arrival times are multiplied by this: 2 is half as fast, 0.5 twice as fast.
    pub time_scale: Ratio,
    /// A pause longer than this (recorded time, before `time_scale`) is cut to it.
    pub max_gap_ns: Option<u64>,
    /// The size of the device that the trace is for; without it addresses are not checked.
    pub device_bytes: Option<u64>,
    /// What to do with addresses; `Wrap` and `Scale` need `device_bytes`.
    pub address: AddressMap,
    /// Keep only the requests to this device, named as in the trace (`0`, or `prxy,0` for MSR), at its own
    /// addresses.
    pub device: Option<String>,
    /// Keep only requests that arrive in this range of recorded time from the first row; arrivals count from
    /// its start.
    pub time_window_ns: Option<Range<u64>>,
    /// Keep only these rows (good rows, from 0); arrivals count from the first.
    pub rows: Option<Range<u64>>,
}

impl Default for TraceOptions {
    fn default() -> Self {
        TraceOptions {
            format: None,
            columns: None,
            strict: false,
            time_scale: Ratio::ONE,
            max_gap_ns: None,
            device_bytes: None,
            address: AddressMap::AsIs,
            device: None,
            time_window_ns: None,
            rows: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios() {
        let apply = |text: &str, value| Ratio::parse(text).map(|r| r.apply(value)).ok();
        assert_eq!(apply("0.25", 1000), Some(250));
        assert_eq!(apply("2", 1000), Some(2000));
        assert_eq!(apply("1/3", 1000), Some(333));
        assert_eq!(apply("2", u64::MAX), Some(u64::MAX));
        assert_eq!(apply("3600000000", 1000), Some(3_600_000_000_000));
        assert_eq!(apply("0.30000000000000004", 1_000_000_000), Some(300_000_000));
        assert_eq!(apply("0.3333333333333333148296162562473909929394722", 3_000_000_000), Some(999_999_999));
        assert_eq!(apply("18446744073709551615.96", 1), Some(u64::MAX));
        for text in
            ["", "0", "-1", "+1", "1.+2", "18446744073709551616", "1e3", "0.0", "1/0", "x", "1.2.3", ".", "/"]
        {
            assert_eq!(apply(text, 1), None, "{text:?}");
        }
        let text = Ratio::parse("fast").map_err(|e| e.to_string());
        assert_eq!(
            text,
            Err("\"fast\" is not a time scale; write a positive number such as 0.5, 2 or 1/3".into())
        );
    }
}
