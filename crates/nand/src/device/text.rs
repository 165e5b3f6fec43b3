//! A device as the text that describes it.

use super::DeviceSpec;
use crate::timing::Policy;

impl DeviceSpec {
    /// The device file of this device: [`DeviceSpec::parse`] of it gives the same device.
    pub fn to_toml(&self) -> String {
        let g = &self.geometry;
        // Digits alone would be an integer, and TOML's end at 2^63.
        let float = |value: f64| if value < 1e15 { value.to_string() } else { format!("{value:e}") };
        let us = |ns: u64| float(ns as f64 / 1e3);
        let text = |text: &str| toml::Value::from(text).to_string();
        let policy = match self.policy {
            Policy::Fcfs => "fcfs",
            Policy::HostReadsFirst => "host-reads-first",
            Policy::Suspend => "suspend",
        };
        let given =
            |key: &str, value: Option<u64>| value.map_or(String::new(), |value| format!("{key} = {value}\n"));
        let sram = given("sram", self.sram_bytes);
        let endurance = given("endurance", self.endurance.map(u64::from));
        let e = &self.energy;
        format!(
            "name = {}\nwhat = {}\nexported = {}\n{sram}{endurance}factory_bad_ppm = {}\npolicy = \"{policy}\"\n\
             \n[geometry]\nchannels = {}\nluns_per_channel = {}\nplanes_per_lun = {}\nblocks_per_plane = {}\n\
             pages_per_block = {}\npage_bytes = {}\noob_bytes = {}\n\
             \n[times]\nread_us = {}\nprogram_us = {}\nerase_us = {}\nsuspend_us = {}\nchannel_mb_s = {}\n\
             \n[host]\noverhead_us = {}\ncpus = {}\n\n[controller]\ncores = {}\n\
             \n[energy]\nsupply_v = {}\nread_ma = {}\nprogram_ma = {}\nerase_ma = {}\ntransfer_ma = {}\nidle_ma = {}\n",
            text(&self.name),
            text(&self.what),
            self.exported_bytes(),
            self.factory_bad_ppm,
            g.channels,
            g.luns_per_channel,
            g.planes_per_lun,
            g.blocks_per_plane,
            g.pages_per_block,
            g.page_bytes,
            g.oob_bytes,
            us(self.read_ns),
            us(self.program_ns),
            us(self.erase_ns),
            us(self.suspend_ns),
            float(self.channel_mb_s),
            us(self.host_overhead_ns),
            self.host_cpus,
            self.controller_cores,
            float(e.supply_v),
            float(e.read_ma),
            float(e.program_ma),
            float(e.erase_ma),
            float(e.transfer_ma),
            float(e.idle_ma),
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::DeviceSpec;

    #[test]
    fn the_text_of_a_device_describes_it() {
        for name in DeviceSpec::presets() {
            let mut device = DeviceSpec::named(name).unwrap();
            device.what = "a \"quoted\" line\nand another".to_owned();
            assert_eq!(DeviceSpec::parse("text", &device.to_toml()).unwrap(), device, "{name}");
        }
    }
}
