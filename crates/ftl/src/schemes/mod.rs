//! One paper, one file; this list is the registry. To add a scheme: write its file and add one line to
//! `schemes!`.

pub mod adapt;
pub mod bast;
pub mod block;
pub mod cdftl;
pub mod dftl;
pub mod fast;
pub mod faster;
pub mod fifo;
pub mod hcftl;
pub mod last;
pub mod lazyftl;
pub mod leaftl;
pub mod learnedftl;
pub mod lftl;
pub mod page;
pub mod sftl;
pub mod tide;
pub mod tpftl;
pub mod waftl;
pub mod zftl;

use crate::scheme::Alias;
use crate::{Info, Scheme};
use std::collections::BTreeMap;

/// The log-block schemes among [`ALL`].
pub const LOG_BLOCK: &[&str] = &["block", "bast", "fast", "last", "faster", "waftl", "adapt"];

/// Something done with a scheme whose name is only known at run time: one monomorphised body for each scheme.
pub trait Visitor {
    /// What comes of it.
    type Out;
    /// Does it with `S`.
    fn visit<S: Scheme + Clone + Send + 'static>(self) -> Self::Out;
}

macro_rules! schemes {
    ($($scheme:ty $(= $alias:path)?),* $(,)?) => {
        /// Every name of a scheme, in the order of the list.
        pub const ALL: &[&Info] = &[$(&<$scheme as Scheme>::INFO, $(&$alias.info,)?)*];
        const ALIASES: &[Alias] = &[$($($alias,)?)*];

        /// Runs `visitor` with the scheme called `name`; `None` when there is none of that name.
        pub fn with<V: Visitor>(name: &str, visitor: V) -> Option<V::Out> {
            $(if name == <$scheme as Scheme>::INFO.name $(|| name == $alias.info.name)? {
                return Some(visitor.visit::<$scheme>());
            })*
            None
        }
    };
}

/// The parameters of the scheme called `name`: those that are `given`, and those that the name stands for.
pub fn parameters(name: &str, given: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let meant = ALIASES.iter().filter(|alias| alias.info.name == name).flat_map(|alias| alias.parameters);
    let meant = meant.map(|&(key, value)| (key.to_owned(), value.to_owned()));
    meant.chain(given.clone()).collect()
}

schemes![
    page::PageMap,
    dftl::Dftl,
    tpftl::Tpftl,
    fifo::Fifo,
    cdftl::Cdftl,
    sftl::Sftl,
    zftl::Zftl,
    hcftl::Hcftl,
    lazyftl::LazyFtl,
    learnedftl::LearnedFtl = learnedftl::IDEAL,
    leaftl::Leaftl,
    lftl::Lftl,
    block::BlockFtl,
    bast::BastFtl,
    fast::FastFtl,
    last::LastFtl,
    faster::FasterFtl,
    waftl::WaftlFtl,
    adapt::AdaptFtl,
    tide::TideFtl,
];
