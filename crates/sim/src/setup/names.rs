//! The names of a structure's keys, as its `Deserialize` tells them to a reader.

use serde::de::{self, Visitor};
use serde::{forward_to_deserialize_any, Deserializer};

/// A reader that takes down the keys and reads nothing.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The keys, aliases included.
    pub(super) found: &'static [&'static str],
}

impl<'de> Deserializer<'de> for &mut Names {
    type Error = de::value::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.found = fields;
        self.deserialize_any(visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("nothing is read"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
