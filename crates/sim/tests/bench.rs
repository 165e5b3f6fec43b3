//! The simulator's own speed: that a bench measures everything.

use nand::DeviceSpec;
use sim::bench::{bench, BenchOptions};

#[test]
fn a_bench_of_a_small_device_measures_everything() {
    let small = DeviceSpec::named("tpftl-512m").expect("a preset");
    let options = BenchOptions {
        effort: 0.005,
        device: small.clone(),
        small: Some(small),
        precondition_bytes: 512 << 20,
        ..BenchOptions::standard().expect("presets")
    };
    let mut told = 0;
    let report = bench(&options, &mut |_| told += 1).expect("a bench");
    assert_eq!(report.schemes.len(), ftl::schemes::ALL.len() - ftl::schemes::LOG_BLOCK.len());
    assert_eq!(told, 5 * report.schemes.len());
    for scheme in &report.schemes {
        assert!(scheme.reads_queued.requests_per_s > 0.0 && scheme.reads_reserved.flash_ops_per_s > 0.0);
        // A few pages may all stay in LeaFTL's buffer.
        let least = if scheme.scheme == "leaftl" { 0.0 } else { 1.0 };
        assert!(scheme.writes_no_clock.write_amplification.is_some_and(|wa| wa >= least), "{scheme:?}");
        assert_eq!(scheme.writes_no_clock.simulated_iops, None);
    }
    // However short: collection is under way.
    let page = report.schemes.iter().find(|it| it.scheme == "page").expect("the page map");
    assert!(page.writes_no_clock.write_amplification.is_some_and(|wa| wa > 2.0), "{page:?}");
}
