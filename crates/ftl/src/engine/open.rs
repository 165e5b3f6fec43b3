//! How the engine takes over an array.

use super::collector::Collector;
use super::{Copies, Ftl, Parts, Placement, Predict};
use crate::checkpoint::Journal;
use crate::flash::Flash;
use crate::mapping::{Mapping, Pages};
use crate::recover::Recovery;
use crate::scheme::{Config, ConfigError, OpenError};
use nand::Nand;
use std::marker::PhantomData;

impl<M: Mapping, P: Placement<M>, G: Predict<M>> Ftl<M, P, G> {
    /// As [`crate::Scheme::open`].
    pub(crate) fn take_over<N: Nand>(flash: &mut Flash<N>, config: &Config) -> Result<Self, OpenError> {
        config.check_parameters(&M::INFO)?;
        let geometry = flash.nand().geometry().clone();
        let mut pages = M::Pages::new(config.exported_pages, geometry.page_bytes);
        pages.provide_buffer(&M::INFO, config)?;
        M::shape(&mut pages, &geometry, config)?;
        reserve_room(flash, pages.most_pages(), config)?;
        let mut mapping = M::new(flash, &pages, config)?;
        let mut journal = Journal::new(geometry.page_bytes);
        let units = pages.units();
        let mut recovery = Recovery::scan(flash, &mut journal, units.lpns(), units.count())?;
        recovery.begin("erase");
        recovery.erase_obsolete(&journal)?;
        recovery.begin("restore");
        mapping.restore(&mut recovery, &mut pages)?;
        let placement = P::open(flash, &mut mapping, config)?;
        flash.keep_reserve(config.foreground_superblocks);
        flash.space.level_wear(config.wear_gap);
        let background = config.background_superblocks + placement.spare_wanted();
        let parts = Parts { mapping, pages, placement };
        let copies = P::Copies::new(flash, &parts);
        Ok(Ftl {
            collector: Collector::new(config.victims, copies, units.size()),
            parts,
            journal,
            foreground: config.foreground_superblocks,
            background,
            foreground_only: config.foreground_only,
            reads: 0,
            exported_pages: config.exported_pages,
            due: 0,
            is_leveling: false,
            guess: PhantomData,
        })
    }
}

/// Superblocks beside the free ones that hold less than they could: one that each of the four streams writes,
/// a second metadata superblock while a checkpoint replaces another, and one that a power cut left half
/// written.
const BESIDE_THE_RESERVE: u32 = 6;

/// Refuses a configuration in which collection could run out of room beside a mapping table of up to
/// `table_pages` translation pages, and tells `flash` what it needs and what is left over. A device that was
/// used and has too little room now is worn out: blocks have become bad since it was new.
fn reserve_room<N: Nand>(flash: &mut Flash<N>, table_pages: u32, config: &Config) -> Result<(), ConfigError> {
    if config.foreground_superblocks < 3 || config.background_superblocks < config.foreground_superblocks {
        return Err(ConfigError(format!(
            "collection thresholds: foreground {} and background {} superblocks; foreground must be at least 3 and \
             background at least foreground",
            config.foreground_superblocks, config.background_superblocks
        )));
    }
    let superblock = u64::from(flash.nand().geometry().superblock_pages());
    let reserve = u64::from(config.foreground_superblocks + BESIDE_THE_RESERVE) * superblock;
    let needed = u64::from(config.exported_pages) + u64::from(table_pages) + reserve;
    let usable = flash.space.usable_pages();
    if config.exported_pages == 0 || !flash.needs_more(needed) {
        let most = usable.saturating_sub(reserve + u64::from(table_pages));
        let instead = match most {
            0 => "give the device more blocks".to_owned(),
            most => format!("export from 1 to about {most} pages"),
        };
        return Err(ConfigError(format!(
            "over-provisioning: {} pages are exported, {table_pages} hold the mapping table and {reserve} are needed \
             for collection, of {usable} usable; {instead}",
            config.exported_pages
        )));
    }
    flash.space.spare = (usable.saturating_sub(needed) / superblock) as u32;
    let most = config.foreground_superblocks + BESIDE_THE_RESERVE + flash.space.spare;
    if config.background_superblocks > most {
        return Err(ConfigError(format!(
            "collection thresholds: background {} superblocks, but beside what is exported there are {most}, so \
             collection would never rest; give fewer",
            config.background_superblocks
        )));
    }
    Ok(())
}
