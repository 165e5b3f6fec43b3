//! Fields of a line, as numbers, with the column of the first that is wrong.

/// Why a row was not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bad {
    /// Counted from 1, in bytes.
    pub(super) column: u64,
    pub(super) what: String,
}

/// Walks through a line field by field.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    line: &'a [u8],
    at: usize,
    /// Where the field returned last began.
    begin: usize,
    separator: Separator,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    Comma,
    /// This byte; fields may stand in quotes.
    Byte(u8),
    /// Any run of blanks and tabs.
    Space,
}

impl<'a> Fields<'a> {
    pub(super) fn new(line: &'a [u8], separator: Separator) -> Self {
        Fields { line, at: 0, begin: 0, separator }
    }

    pub(super) fn at(line: &'a [u8], at: usize, separator: Separator) -> Self {
        Fields { line, at, begin: at, separator }
    }

    /// Where the field returned last begins, from 0.
    pub(super) fn begin(&self) -> usize {
        self.begin
    }

    /// An error at the field returned last.
    #[cold]
    pub(super) fn bad(&self, what: impl Into<String>) -> Bad {
        Bad { column: self.begin as u64 + 1, what: what.into() }
    }

    #[cold]
    fn wrong(&self, field: &[u8], name: &str, right: &str) -> Bad {
        let shown = String::from_utf8_lossy(&field[..field.len().min(40)]).into_owned();
        if shown.is_empty() {
            return self.bad(format!("the {name} is missing"));
        }
        self.bad(format!("the {name} is {shown:?} and not {right}"))
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        match self.separator {
            Separator::Comma => self.until(b','),
            Separator::Byte(separator) => self.until(separator).map(unquoted),
            Separator::Space => {
                while self.line.get(self.at).is_some_and(u8::is_ascii_whitespace) {
                    self.at += 1;
                }
                self.begin = self.at;
                while self.line.get(self.at).is_some_and(|b| !b.is_ascii_whitespace()) {
                    self.at += 1;
                }
                (self.begin < self.at).then(|| &self.line[self.begin..self.at])
            }
        }
    }

    #[inline]
    fn until(&mut self, separator: u8) -> Option<&'a [u8]> {
        if self.at > self.line.len() {
            self.begin = self.line.len();
            return None;
        }
        self.begin = self.at;
        let rest = &self.line[self.at..];
        let length = rest.iter().position(|b| *b == separator).unwrap_or(rest.len());
        self.at += length + 1;
        Some(rest[..length].trim_ascii())
    }

    pub(super) fn text(&mut self, name: &str) -> Result<&'a [u8], Bad> {
        match self.next() {
            Some(field) if !field.is_empty() => Ok(field),
            _ => Err(self.wrong(b"", name, "")),
        }
    }

    #[inline]
    pub(super) fn skip(&mut self, count: usize) {
        for _ in 0..count {
            self.next();
        }
    }

    #[inline]
    pub(super) fn whole(&mut self, name: &str) -> Result<u64, Bad> {
        let field = self.next().unwrap_or(b"");
        integer(field).ok_or_else(|| self.wrong(field, name, "a whole number"))
    }

    /// A whole number times `unit`.
    #[inline]
    pub(super) fn scaled(&mut self, name: &str, unit: u64) -> Result<u64, Bad> {
        let value = self.whole(name)?;
        value.checked_mul(unit).ok_or_else(|| self.bad(format!("the {name} is too large")))
    }

    /// A decimal number times 10^`power`, rounded; seconds are nanoseconds with a power of 9.
    #[inline]
    pub(super) fn decimal(&mut self, name: &str, power: u32) -> Result<u64, Bad> {
        let field = self.next().unwrap_or(b"");
        decimal(field, power).ok_or_else(|| self.wrong(field, name, "a decimal number"))
    }

    pub(super) fn hexadecimal(&mut self, name: &str) -> Result<u64, Bad> {
        let field = self.next().unwrap_or(b"");
        let digits = field.strip_prefix(b"0x").unwrap_or(field);
        let value = std::str::from_utf8(digits).ok().and_then(|t| u64::from_str_radix(t, 16).ok());
        value.ok_or_else(|| self.wrong(field, name, "a hexadecimal number"))
    }

    /// Maps a field by `find`, or says which words it may be.
    #[inline]
    pub(super) fn one_of<T>(
        &mut self,
        name: &str,
        right: &str,
        find: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<T, Bad> {
        let field = self.next().unwrap_or(b"");
        find(field).ok_or_else(|| self.wrong(field, name, right))
    }
}

fn unquoted(field: &[u8]) -> &[u8] {
    field.strip_prefix(b"\"").and_then(|field| field.strip_suffix(b"\"")).unwrap_or(field)
}

/// A whole number in decimal digits.
#[inline]
pub(super) fn integer(field: &[u8]) -> Option<u64> {
    if field.is_empty() || field.len() > 20 {
        return None;
    }
    let mut value = 0u64;
    if field.len() < 20 {
        // 19 digits cannot overflow.
        for b in field {
            let digit = b.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + u64::from(digit);
        }
        return Some(value);
    }
    for b in field {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// A decimal number times 10^`power`, rounded half up at the digit after.
#[inline]
pub(super) fn decimal(field: &[u8], power: u32) -> Option<u64> {
    let point = field.iter().position(|b| *b == b'.').unwrap_or(field.len());
    let whole = if point == 0 { 0 } else { integer(&field[..point])? };
    let fraction = field.get(point + 1..).unwrap_or(b"");
    if point == 0 && fraction.is_empty() {
        return None;
    }
    let mut part = 0u64;
    let mut up = 0;
    for i in 0..power as usize {
        let digit = fraction.get(i).map_or(0, |b| b.wrapping_sub(b'0'));
        if digit > 9 {
            return None;
        }
        part = part * 10 + u64::from(digit);
    }
    for (i, b) in fraction.iter().enumerate().skip(power as usize) {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        if i == power as usize {
            up = u64::from(digit >= 5);
        }
    }
    whole.checked_mul(10u64.pow(power))?.checked_add(part + up)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(integer(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(integer(b"18446744073709551616"), None);
        assert_eq!(integer(b""), None);
        assert_eq!(integer(b"-1"), None);
        assert_eq!(decimal(b"1.5", 9), Some(1_500_000_000));
        assert_eq!(decimal(b"159273.83748699998", 9), Some(159_273_837_487_000));
        assert_eq!(decimal(b"0.0000000004", 9), Some(0));
        assert_eq!(decimal(b"7", 6), Some(7_000_000));
        assert_eq!(decimal(b".5", 3), Some(500));
        for text in ["", ".", "1.2.3", "1e5", "-1.0", "1.x", "99999999999999999999.0"] {
            assert_eq!(decimal(text.as_bytes(), 9), None, "{text}");
        }
    }

    #[test]
    fn fields_know_their_column() {
        let mut f = Fields::new(b"12, 34,x", Separator::Comma);
        assert_eq!((f.whole("a"), f.whole("b")), (Ok(12), Ok(34)));
        assert_eq!(
            f.whole("c").map_err(|b| (b.column, b.what)),
            Err((8, "the c is \"x\" and not a whole number".into()))
        );
        assert_eq!(f.whole("d").map_err(|b| b.what), Err("the d is missing".into()));
        let mut f = Fields::new(b"  a\t\tbc ", Separator::Space);
        assert_eq!((f.next(), f.next(), f.next()), (Some(&b"a"[..]), Some(&b"bc"[..]), None));
    }
}
