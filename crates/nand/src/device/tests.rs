//! Presets' numbers and every sentence for a wrong file.
#![allow(clippy::unwrap_used)]

use super::*;

const GIB: u64 = 1 << 30;

fn sound() -> String {
    "name = \"mine\"
what = \"a test\"
exported = \"12MiB\"

[geometry]
channels = 2
luns_per_channel = 2
planes_per_lun = 1
blocks_per_plane = 16
pages_per_block = 64
page_bytes = 4096
oob_bytes = 64

[times]
read_us = 40
program_us = 200
erase_us = 2000
"
    .into()
}

#[track_caller]
fn refused(from: &str, to: &str, sentence: &str) {
    let text = sound().replacen(from, to, 1);
    assert_ne!(text, sound(), "nothing replaced");
    assert_eq!(DeviceSpec::parse("my.toml", &text).unwrap_err().to_string(), sentence);
}

#[test]
fn presets_have_the_papers_numbers() {
    let numbers = |name: &str| {
        let d = DeviceSpec::named(name).unwrap();
        let g = &d.geometry;
        assert_eq!(d.name, name);
        assert_eq!(d.raw_bytes(), d.exported_bytes() + d.over_provisioning_bytes());
        assert_eq!(DeviceSpec::load(name).unwrap(), d);
        let shape = (g.dies(), g.pages_per_block, g.page_bytes);
        (shape, (d.read_ns, d.program_ns, d.erase_ns), d.raw_bytes(), d.exported_bytes())
    };
    let femu_times = (40_000, 200_000, 2_000_000);
    assert_eq!(numbers("femu-32g"), ((64, 512, 4096), femu_times, 32 * GIB, 30 * GIB));
    assert_eq!(numbers("ufs-32g"), ((64, 512, 4096), femu_times, 259 * GIB / 8, 30 * GIB));
    assert_eq!(numbers("d4"), ((32, 256, 4096), femu_times, 4 * GIB, 838_860 * 4096));
    let tpftl_times = (25_000, 200_000, 1_500_000);
    assert_eq!(numbers("tpftl-512m"), ((1, 64, 4096), tpftl_times, 2356 * 64 * 4096, GIB / 2));
    assert_eq!(numbers("tpftl-16g"), ((1, 64, 4096), tpftl_times, 75_367 * 64 * 4096, 16 * GIB));
    let slc_times = (130_900, 405_900, 2_000_000);
    assert_eq!(numbers("flashsim-slc"), ((1, 64, 2048), slc_times, 68_813 * 64 * 2048, 8 * GIB));
    let slow = DeviceSpec::named("slow-512m").unwrap();
    assert_eq!((slow.geometry.dies(), slow.read_ns, slow.program_ns), (8, 2_000_000, 4_000_000));
    assert_eq!(DeviceSpec::presets().len(), 7);
}

#[test]
fn spare_space_is_as_the_papers_say() {
    let spare_of_exported = |name: &str| {
        let d = DeviceSpec::named(name).unwrap();
        d.over_provisioning_bytes() as f64 / d.exported_bytes() as f64
    };
    for (name, share) in [("tpftl-512m", 0.15), ("tpftl-16g", 0.15), ("flashsim-slc", 0.05)] {
        let found = spare_of_exported(name);
        assert!(found >= share && found < share + 0.0005, "{name}: {found}");
    }
    let d4 = DeviceSpec::named("d4").unwrap();
    assert!((d4.utilisation() - 0.8).abs() < 1e-6);
    assert_eq!(DeviceSpec::named("femu-32g").unwrap().utilisation(), 0.9375);
}

#[test]
fn the_mobile_device_has_bad_blocks_and_still_32_gib() {
    let d = DeviceSpec::named("ufs-32g").unwrap();
    assert_eq!((d.factory_bad_blocks(), d.sram_bytes), (166, Some(2 << 20)));
    let good = d.raw_bytes() - u64::from(d.factory_bad_blocks()) * (2 << 20);
    assert!(good >= 32 * GIB, "{good}");
}

#[test]
fn a_transfer_carries_page_and_oob() {
    let d4 = DeviceSpec::named("d4").unwrap();
    assert_eq!(d4.times().transfer_ns, 10_400);
    let femu = DeviceSpec::named("femu-32g").unwrap();
    assert_eq!(femu.times().transfer_ns, 0);
    assert_eq!((femu.times().read_ns, femu.times().controller_cores), (40_000, 1));
}

#[test]
fn a_file_may_leave_out_what_has_a_default() {
    let d = DeviceSpec::parse("my.toml", &sound()).unwrap();
    assert_eq!((d.policy, d.host_overhead_ns, d.host_cpus, d.controller_cores), (Policy::Fcfs, 0, 1, 1));
    assert_eq!((d.factory_bad_ppm, d.sram_bytes, d.channel_mb_s), (0, None, 0.0));
    assert_eq!(d.energy, EnergyModel::default());
    let all = sound()
        .replace("[geometry]", "policy = \"host-reads-first\"\nsram = 65536\nfactory_bad_ppm = 5\n[geometry]")
        + "suspend_us = 1.5\nchannel_mb_s = 800\n[host]\noverhead_us = 2\ncpus = 4\n[controller]\ncores = 3\n";
    let d = DeviceSpec::parse("my.toml", &all).unwrap();
    assert_eq!(
        (d.policy, d.host_overhead_ns, d.host_cpus, d.controller_cores),
        (Policy::HostReadsFirst, 2000, 4, 3)
    );
    assert_eq!((d.factory_bad_ppm, d.sram_bytes, d.suspend_ns), (5, Some(65536), 1500));
    assert_eq!(d.times().transfer_ns, 5200);
}

#[test]
fn exported_capacity_can_be_changed_within_reason() {
    let d = DeviceSpec::parse("my.toml", &sound()).unwrap();
    let other = d.clone().with_exported_bytes(8 << 20).unwrap();
    assert_eq!((other.exported_pages, other.over_provisioning_bytes()), (2048, 8 << 20));
    let error = |bytes| d.clone().with_exported_bytes(bytes).unwrap_err().to_string();
    assert_eq!(
        error(16 << 20),
        "device `mine`: exported is 16777216 bytes, but only 16777216 bytes of flash are good, which leaves no \
         over-provisioning; an FTL needs a few percent, so export at most about 15937536 bytes"
    );
    assert_eq!(
        error(5000),
        "device `mine`: exported is 5000 bytes, which is no multiple of the page (4096 bytes); 4096 would be"
    );
    assert_eq!(error(0), "device `mine`: exported is 0; the host must see at least one page");
    assert!(error(1 << 60).contains("leaves no over-provisioning"));
}

#[test]
fn capacities_and_shapes_that_cannot_be() {
    let all = "exported is 16777216 bytes, but only 16777216 bytes of flash are good, which leaves no \
               over-provisioning; an FTL needs a few percent, so export at most about 15937536 bytes";
    refused("12MiB", "16MiB", &format!("my.toml, line 3: {all}"));
    let bad = "exported is 15728640 bytes, but only 15204352 bytes of flash are good (6 bad blocks left out), which \
               leaves no over-provisioning; an FTL needs a few percent, so export at most about 14442496 bytes";
    refused("\"12MiB\"", "\"15MiB\"\nfactory_bad_ppm = 100000", &format!("my.toml, line 3: {bad}"));
    refused("\"12MiB\"", "0", "my.toml, line 3: exported is 0; the host must see at least one page");
    refused(
        "\"12MiB\"",
        "5000",
        "my.toml, line 3: exported is 5000 bytes, which is no multiple of the page (4096 bytes); 4096 would be",
    );
    refused("channels = 2", "channels = 0", "my.toml, line 6: geometry.channels is 0; it must be at least 1");
    refused(
        "page_bytes = 4096",
        "page_bytes = 4000",
        "my.toml, line 11: geometry.page_bytes is 4000; a power of two from 512 to 65536 is needed",
    );
    refused(
        "blocks_per_plane = 16",
        "blocks_per_plane = 4000000000",
        "my.toml, line 5: geometry has 1024000000000 pages; page numbers are 32-bit, so at most 4294967294 are \
         supported",
    );
}

#[test]
fn a_file_need_not_say_what_the_device_is() {
    let device = DeviceSpec::parse("my.toml", &sound().replacen("what = \"a test\"\n", "", 1)).unwrap();
    assert_eq!(device, DeviceSpec { what: String::new(), ..DeviceSpec::parse("my.toml", &sound()).unwrap() });
}

#[test]
fn keys_unknown_missing_or_of_the_wrong_type() {
    refused(
        "luns_per_channel",
        "luns",
        "my.toml, line 7: unknown key `luns`; the keys here are `channels`, `luns_per_channel`, `planes_per_lun`, \
         `blocks_per_plane`, `pages_per_block`, `page_bytes`, `oob_bytes`",
    );
    refused("channels = 2\n", "", "my.toml, line 5: [geometry] lacks the key `channels`; add `channels = 8`");
    refused(
        "name = \"mine\"\n",
        "",
        "my.toml, line 1: the device lacks the key `name`; add `name = \"my-ssd\"`",
    );
    refused(
        "channels = 2",
        "channels = \"two\"",
        "my.toml, line 6: geometry.channels: invalid type: string \"two\", expected a whole number from 0 to 4294967295",
    );
    refused(
        "channels = 2",
        "channels = -2",
        "my.toml, line 6: geometry.channels: invalid value: integer `-2`, expected a whole number from 0 to 4294967295",
    );
    refused(
        "read_us = 40",
        "read_us = \"fast\"",
        "my.toml, line 15: times.read_us: invalid type: string \"fast\", expected a number",
    );
    refused(
        "12MiB",
        "12 apples",
        "my.toml, line 3: exported: `12 apples` is no size; write bytes, or a whole number with KiB, MiB, GiB or TiB",
    );
    refused(
        "\"12MiB\"",
        "-1",
        "my.toml, line 3: exported: invalid value: integer `-1`, expected a size: bytes as an integer, or text such as \
         \"30GiB\"",
    );
    refused(
        "[geometry]",
        "policy = \"lifo\"\n[geometry]",
        "my.toml, line 5: policy: unknown variant `lifo`, expected one of `fcfs`, `host-reads-first`, `suspend`",
    );
}

#[test]
fn times_counts_and_currents_out_of_range() {
    refused(
        "read_us = 40",
        "read_us = 0",
        "my.toml, line 15: times.read_us is 0; an operation takes at least 0.001 us",
    );
    refused(
        "erase_us = 2000",
        "erase_us = -1",
        "my.toml, line 17: times.erase_us is -1; it must be a number from 0 to 1000000000",
    );
    refused(
        "erase_us = 2000",
        "erase_us = 2000\nchannel_mb_s = -4",
        "my.toml, line 18: times.channel_mb_s is -4; it must be 0 (off) or a positive number of MB/s",
    );
    refused(
        "[geometry]",
        "[host]\ncpus = 0\n[geometry]",
        "my.toml, line 6: host.cpus is 0; it must be at least 1",
    );
    refused(
        "[geometry]",
        "controller.cores = 0\n[geometry]",
        "my.toml, line 5: controller.cores is 0; it must be at least 1",
    );
    refused(
        "[geometry]",
        "factory_bad_ppm = 1000000\n[geometry]",
        "my.toml, line 5: factory_bad_ppm is 1000000; it must be below 1000000 (parts per million)",
    );
    let energy = "[energy]\nsupply_v = 3.3\nread_ma = nan\nprogram_ma = 1\nerase_ma = 1\ntransfer_ma = 1\nidle_ma = 1\n";
    refused(
        "[geometry]",
        &format!("{energy}[geometry]"),
        "my.toml, line 7: energy.read_ma is NaN; it must be a number, 0 or more",
    );
}

#[test]
fn text_that_is_not_toml() {
    let error = DeviceSpec::parse("my.toml", "name = \"x\"\nwhat what\n").unwrap_err().to_string();
    assert!(error.starts_with("my.toml, line 2: ") && error.contains("a device file is TOML"), "{error}");
    assert!(!error.contains('\n'));
}

#[test]
fn names_that_nothing_has() {
    let error = DeviceSpec::named("femu").unwrap_err().to_string();
    assert_eq!(
        error,
        "device `femu`: no preset has this name; the presets are femu-32g, tpftl-512m, tpftl-16g, flashsim-slc, \
         ufs-32g, d4, slow-512m"
    );
    let error = DeviceSpec::load("/nowhere/ssd.toml").unwrap_err().to_string();
    assert!(error
        .starts_with("device `/nowhere/ssd.toml`: no preset has this name, and as a file it cannot be read"));
}

#[test]
fn sizes_have_units() {
    let sizes =
        [("4096", 4096), ("1_000", 1000), ("2KiB", 2048), ("30 GiB", 30 * GIB), ("5GB", 5_000_000_000)];
    for (text, bytes) in sizes {
        assert_eq!(parse_size(text), Ok(bytes));
    }
    for text in ["", "GiB", "-1", "1.5GiB", "30 GiBs", "99999999999TiB"] {
        assert!(parse_size(text).is_err_and(|e| e.to_string().contains("is no size")), "{text}");
    }
}

#[test]
#[should_panic(expected = "device `tiny`: exported is 81920 bytes")]
fn a_tiny_device_is_checked_too() {
    let geometry = DeviceSpec::parse("my.toml", &sound()).unwrap().geometry;
    let _ = DeviceSpec::tiny(Geometry { blocks_per_plane: 1, pages_per_block: 4, ..geometry }, 20);
}
