//! Half-precision floats as they are stored, computed with in integers.

/// A 16-bit float: sign, 5 bits of exponent, 10 of fraction. Never infinite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Half(pub u16);

impl Half {
    /// The number 1: sign 0, exponent 15, fraction 0.
    pub const ONE: Half = Half(0x3c00);

    /// The nearest one; beyond the greatest, the greatest.
    pub fn nearest(value: f64) -> Half {
        let sign = if value < 0.0 { 0x8000 } else { 0 };
        let size = value.abs();
        let mut exponent = 1;
        // The unit of the last place, 2^(exponent - 25).
        let mut unit = 1.0 / f64::from(1u32 << 24);
        while exponent < 30 && size >= 2047.5 * unit {
            exponent += 1;
            unit *= 2.0;
        }
        let significand = ((size / unit + 0.5) as u32).min(2047) as u16;
        if significand < 1024 {
            return Half(sign | significand);
        }
        Half(sign | exponent << 10 | (significand - 1024))
    }

    /// Its size as `significand * 2^(exponent - 25)`, of the bits without the sign.
    #[inline]
    pub(crate) fn parts(self) -> (u32, u32) {
        let (exponent, fraction) = (u32::from(self.0 >> 10 & 31), u32::from(self.0 & 1023));
        if exponent == 0 {
            (fraction, 1)
        } else {
            (1024 + fraction, exponent)
        }
    }

    /// The number that these 16 bits stand for.
    pub fn value(self) -> f64 {
        let (significand, exponent) = self.parts();
        let size = f64::from(significand) * f64::from(1u32 << exponent) / f64::from(1u32 << 25);
        if self.0 & 0x8000 != 0 {
            -size
        } else {
            size
        }
    }

    /// The product with `by` (16 bits), rounded to the nearest integer, halves away from zero.
    pub fn times(self, by: u32) -> i64 {
        let size = (self.size_times(by) + (1 << 24)) >> 25;
        self.signed(size)
    }

    /// The product with `by` (16 bits), rounded to the nearest integer, halves up.
    #[inline]
    pub(crate) fn times_up(self, by: u32) -> i64 {
        (self.signed(self.size_times(by)) + (1 << 24)) >> 25
    }

    /// The product of its size with `by`, in units of 2^-25.
    #[inline]
    fn size_times(self, by: u32) -> i64 {
        let (significand, exponent) = self.parts();
        (i64::from(significand) * i64::from(by)) << exponent
    }

    /// `size` with its sign.
    #[inline]
    fn signed(self, size: i64) -> i64 {
        if self.0 & 0x8000 != 0 {
            -size
        } else {
            size
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    #[test]
    fn products_in_integers_are_those_of_floats() {
        for half in (0..=u16::MAX).filter(|&bits| f16::from_bits(bits).is_finite()).map(Half) {
            for by in [0, 1, 2, 3, 255, 511] {
                let product = f16::from_bits(half.0).to_f64() * f64::from(by);
                assert_eq!(half.times_up(by), (product + 0.5).floor() as i64, "{half:?} * {by}");
                assert_eq!(half.times(by), product.round() as i64, "{half:?} * {by}");
            }
        }
    }
}
