//! What a check of the invariants finds.

/// Two structures that contradict each other, or the array: a mistake in the scheme, as one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Breach(pub String);

impl From<String> for Breach {
    fn from(what: String) -> Breach {
        Breach(what)
    }
}

impl From<&str> for Breach {
    fn from(what: &str) -> Breach {
        Breach(what.to_owned())
    }
}
