//! The devices that are checked: tiny, nearly full, and of every shape.

use crate::dice::Dice;
use ftl::{schemes, Config, OpenError, Scheme};
use nand::timing::NoClock;
use nand::{DeviceSpec, Geometry, Nand, SimNand, SimOptions};
use std::collections::BTreeMap;

/// Superblocks that hold neither what the host sees nor its mapping: what collection needs, and little more.
const SPARE_SUPERBLOCKS: u32 = 9;

/// An array and the configuration of a scheme on it.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub device: DeviceSpec,
    pub options: SimOptions,
    pub config: Config,
    /// Bad blocks of its arrays when they are new.
    pub born_bad: u32,
}

/// What may fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ills {
    /// Factory bad blocks, and programs and erases that fail.
    pub wear: bool,
    /// Data pages that cannot be read, and metadata pages that can at the second attempt.
    pub decay: bool,
}

impl Ills {
    /// How often what may fail does.
    pub fn options(self) -> SimOptions {
        let per_million = |wanted: bool, ppm: u32| if wanted { ppm } else { 0 };
        SimOptions {
            factory_bad_ppm: Some(per_million(self.wear, 20_000)),
            program_fail_ppm: per_million(self.wear, 500),
            erase_fail_ppm: per_million(self.wear, 500),
            uncorrectable_ppm: per_million(self.decay, 1_000),
            metadata_retry_ppm: per_million(self.decay, 5_000),
            keep_stale: true,
            ..SimOptions::default()
        }
    }
}

/// Values of parameters, by scheme, with which it does often what it does else after long loads alone.
const EAGER: &[(&str, &str, &[&str])] = &[
    ("learnedftl", "price", &["0.1", "0.5", "6"]),
    ("tide", "merges", &["2", "4", "1"]),
    ("tide", "sequence", &["2", "4", "0"]),
    ("tide", "width", &["2", "1", "0"]),
];

/// Schemes that do more with more memory than the least they can be opened with: tide's log is as large as
/// the memory for its map, and without a large one no sequence is written straight to its home.
const MORE_MEMORY: &[&str] = &["tide"];

impl Shape {
    /// A shape by chance, on which `S` can be opened.
    pub fn random<S: Scheme>(
        dice: &mut Dice,
        ills: Ills,
        parameters: &BTreeMap<String, String>,
    ) -> Result<Shape, String> {
        let (channels, luns_per_channel, planes_per_lun) =
            [(2, 2, 1), (4, 1, 1), (1, 2, 2)][dice.below(3) as usize];
        let geometry = Geometry {
            channels,
            luns_per_channel,
            planes_per_lun,
            blocks_per_plane: dice.between(26, 38),
            pages_per_block: 8,
            page_bytes: 512,
            oob_bytes: 64,
        };
        let options = SimOptions { seed: dice.any(), ..ills.options() };
        // What fails later takes room away; the odd pages make the last translation page a short one.
        let margin = if ills.wear { 5 * geometry.superblock_pages() } else { 0 };
        let fresh = SimNand::new(&DeviceSpec::tiny(geometry.clone(), 1), NoClock::new(), options.clone());
        let usable = geometry.pages() - fresh.bad_blocks() * geometry.pages_per_block;
        // Some schemes do more where there is more room.
        let room = SPARE_SUPERBLOCKS + [0, 4][dice.below(2) as usize];
        let spare = room * geometry.superblock_pages() + dice.below(64) + margin;
        let entries = geometry.page_bytes / 4;
        let exported = (usable - spare) * entries / (entries + 2);
        let mut config = Config::new(exported, u64::from(dice.between(256, 1024)));
        config.parameters.clone_from(parameters);
        // Wear is levelled in half of them, and in some all the time.
        config.wear_gap = [0, 0, 1, 3][Dice::branch(options.seed, 1).below(4) as usize];
        for &(scheme, name, values) in EAGER {
            if scheme == S::INFO.name && !parameters.contains_key(name) {
                let value = values[dice.below(values.len() as u32) as usize];
                config.parameters.insert(name.to_owned(), value.to_owned());
            }
        }
        if MORE_MEMORY.contains(&S::INFO.name) {
            let more = config.cache_bytes * [1, 4, 16][dice.below(3) as usize];
            config.cache_bytes = more.min(u64::from(exported) * 8);
        }
        let device = DeviceSpec::tiny(geometry, exported);
        Shape { device, options, config, born_bad: 0 }.fitted::<S>()
    }

    /// The shape on which golden digests are taken: it must not change.
    pub fn fixed<S: Scheme>(scheme: &str) -> Result<Shape, String> {
        let geometry = Geometry {
            channels: 2,
            luns_per_channel: 2,
            planes_per_lun: 1,
            blocks_per_plane: 32,
            pages_per_block: 8,
            page_bytes: 512,
            oob_bytes: 64,
        };
        let exported = 750;
        let options = SimOptions { keep_stale: true, ..SimOptions::default() };
        let mut config = Config::new(exported, 512);
        config.parameters = schemes::parameters(scheme, &config.parameters);
        for &(_, name, values) in EAGER.iter().filter(|(scheme, ..)| *scheme == S::INFO.name) {
            config.parameters.insert(name.to_owned(), values[0].to_owned());
        }
        Shape { device: DeviceSpec::tiny(geometry, exported), options, config, born_bad: 0 }.fitted::<S>()
    }

    /// The shape as the scheme takes it, or why it does not.
    pub fn fitted<S: Scheme>(mut self) -> Result<Shape, String> {
        self.fit::<S>()?;
        self.born_bad = self.array().bad_blocks();
        Ok(self)
    }

    /// Exports less, and allows more memory, until the scheme agrees; more than twice a table's memory only
    /// where nothing else helps.
    fn fit<S: Scheme>(&mut self) -> Result<(), String> {
        let full_table = u64::from(self.config.exported_pages) * 16 + 4096;
        let mut refusal = String::new();
        let steps =
            [full_table, 4 * full_table].into_iter().flat_map(|most| (0..8).map(move |less| (most, less)));
        for (most, less) in steps {
            let exported = self.config.exported_pages * (16 - less) / 16;
            let mut cache = self.config.cache_bytes;
            while cache <= most {
                let config = Config { exported_pages: exported, cache_bytes: cache, ..self.config.clone() };
                match ftl::Device::<S, _>::open(self.array(), &config) {
                    Ok(_) => {
                        self.config = config;
                        return Ok(());
                    }
                    Err(OpenError::Config(error)) => refusal = error.to_string(),
                    Err(error) => return Err(format!("open of a fresh array: {error}")),
                }
                cache += cache / 2;
            }
        }
        Err(format!("no configuration fits a tiny array: {refusal}"))
    }

    /// What it is, for a finding.
    pub fn in_words(&self) -> String {
        let (g, config) = (&self.device.geometry, &self.config);
        let mut words = format!(
            "{} channels of {} luns of {} planes, {} superblocks, {} pages of {} bytes a block, {} of {} pages exported, {} \
             bytes of memory, collection at {} and {}, victims {:?}, wear gap {}, {} blocks bad at first",
            g.channels,
            g.luns_per_channel,
            g.planes_per_lun,
            g.superblocks(),
            g.pages_per_block,
            g.page_bytes,
            config.exported_pages,
            g.pages(),
            config.cache_bytes,
            config.background_superblocks,
            config.foreground_superblocks,
            config.victims,
            config.wear_gap,
            self.born_bad
        );
        for (name, value) in &config.parameters {
            words += &format!(", {name}={value}");
        }
        words
    }

    /// For [`crate::host::Host::mortal`]: whether its devices may come to their end.
    pub fn mortal(&self, may_end: bool) -> Option<u32> {
        may_end.then_some(self.born_bad)
    }

    /// The array, fresh.
    pub fn array(&self) -> SimNand<NoClock> {
        SimNand::new(&self.device, NoClock::new(), self.options.clone())
    }
}
