//! What an image says beside its device: the scheme it was made for, and the configuration.

use std::collections::BTreeMap;
use std::path::Path;

use ftl::{Config, VictimPolicy};
use nand::DeviceSpec;
use serde::{Deserialize, Serialize};

use crate::error::LiveError;

/// The scheme of an image and its configuration. Written once, when the image is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Registered name of the scheme.
    pub scheme: String,
    /// Memory for mapping structures, bytes.
    pub cache_bytes: u64,
    /// Free superblocks at which a write waits for collection.
    pub foreground_superblocks: u32,
    /// Free superblocks at which collection starts.
    pub background_superblocks: u32,
    /// Victims by cost and benefit instead of greedily.
    pub cost_benefit: bool,
    /// Erases that a block may lag behind before its cold data is moved; 0: it never is. Images without it
    /// are older, or do not level wear.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wear_gap: u32,
    /// Parameters of the scheme by name.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde asks for it
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Settings {
    /// A scheme with default thresholds.
    pub fn new(scheme: &str, cache_bytes: u64) -> Settings {
        Settings {
            scheme: scheme.to_owned(),
            cache_bytes,
            foreground_superblocks: Config::FOREGROUND,
            background_superblocks: Config::BACKGROUND,
            cost_benefit: false,
            wear_gap: 0,
            parameters: BTreeMap::new(),
        }
    }

    /// The scheme's configuration on `device`.
    pub fn config(&self, device: &DeviceSpec) -> Config {
        let mut config = Config::new(device.exported_pages, self.cache_bytes);
        config.foreground_superblocks = self.foreground_superblocks;
        config.background_superblocks = self.background_superblocks;
        config.victims = if self.cost_benefit { VictimPolicy::CostBenefit } else { VictimPolicy::Greedy };
        config.wear_gap = self.wear_gap;
        config.parameters = ftl::schemes::parameters(&self.scheme, &self.parameters);
        config
    }

    /// As text for an image.
    pub(crate) fn text(&self) -> Result<String, LiveError> {
        toml::to_string(self).map_err(|error| LiveError::Refused(error.to_string()))
    }

    /// From the text in the image of this name.
    pub(crate) fn parse(image: &Path, text: &str) -> Result<Settings, LiveError> {
        toml::from_str(text)
            .map_err(|error| LiveError::Settings { image: image.to_owned(), why: error.message().to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_kept_as_text() {
        let mut settings = Settings::new("tpftl", 1 << 20);
        settings.parameters.insert("techniques".into(), "rs".into());
        let text = settings.text().unwrap();
        assert_eq!(Settings::parse(Path::new("x"), &text).unwrap(), settings);
        assert!(!text.contains("wear_gap"), "older versions read images that do not level wear: {text}");
        settings.wear_gap = 16;
        let text = settings.text().unwrap();
        assert_eq!(Settings::parse(Path::new("x"), &text).unwrap(), settings);
        assert_eq!(settings.config(&DeviceSpec::named("tpftl-512m").unwrap()).wear_gap, 16);
        let error = Settings::parse(Path::new("x"), "scheme = 3").unwrap_err().to_string();
        assert!(
            error.starts_with("x: the settings in the image are not understood (invalid type"),
            "{error}"
        );
    }
}
