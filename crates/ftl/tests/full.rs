//! A device whose blocks fail one after the other: it says that it is worn out and turns read-only, and what
//! was written stays readable, also when it is opened again.

use ftl::schemes::{self, Visitor};
use ftl::{Config, Device, HostError, HostOp, OpenError, Scheme, Seen};
use nand::timing::NoClock;
use nand::{Done, Fault, Geometry, Lpn, SimNand, SimOptions};

const EXPORTED: u32 = 900;

/// Whether a scheme merges; the end of its devices is another one.
fn merges(scheme: &str) -> bool {
    schemes::LOG_BLOCK.contains(&scheme) || scheme == "tide"
}

/// Programs and erases fail, so many in a million.
fn array(program_fail_ppm: u32, erase_fail_ppm: u32, seed: u64) -> SimNand<NoClock> {
    let geometry = Geometry {
        channels: 2,
        luns_per_channel: 2,
        planes_per_lun: 1,
        blocks_per_plane: 60,
        pages_per_block: 8,
        page_bytes: 512,
        oob_bytes: 64,
    };
    let options = SimOptions { seed, program_fail_ppm, erase_fail_ppm, ..SimOptions::default() };
    SimNand::new(&nand::DeviceSpec::tiny(geometry, EXPORTED), NoClock::new(), options)
}

/// What became of a device that was written to until it was full.
struct Full {
    message: String,
    /// Pages that read as they were written last, and pages for whose mapping there was no room.
    readable: u32,
    refused: u32,
}

/// Writes until the device is worn out: which fails how often.
struct WriteUntilFull {
    program_fail_ppm: u32,
    erase_fail_ppm: u32,
    seed: u64,
    reopen: bool,
}

impl Visitor for WriteUntilFull {
    type Out = Full;

    fn visit<S: Scheme + Clone + Send + 'static>(self) -> Full {
        let config = Config::new(EXPORTED, 64 << 10);
        let mut device: Device<S, _> =
            Device::open(array(self.program_fail_ppm, self.erase_fail_ppm, self.seed), &config)
                .expect("it fits");
        let mut written = vec![None; EXPORTED as usize];
        let mut next = 0;
        let error = loop {
            let lpn = next * 389 % EXPORTED;
            next += 1;
            assert!(next < 1_000_000, "{}: never full", S::INFO.name);
            let mut version = None;
            let request = device.request(HostOp::Write, Lpn(lpn), 1, Done::READY, &mut |_, seen| {
                if let Seen::Written(as_version) = seen {
                    version = Some(as_version);
                }
            });
            if let Err(error) = request {
                break error;
            }
            written[lpn as usize] = version.or(written[lpn as usize]);
        };
        assert!(
            matches!(error, HostError::Fault(fault @ Fault::WornOut { .. }) if !fault.is_fatal()),
            "{error}"
        );
        let again = device.request(HostOp::Write, Lpn(0), 1, Done::READY, &mut |_, _| {});
        assert!(matches!(again, Err(HostError::Fault(Fault::WornOut { .. }))), "{again:?}");
        if self.reopen {
            device.power_off().expect("a worn device is switched off");
            let nand = device.into_nand();
            for wrong in [
                Config { exported_pages: 0, ..config.clone() },
                Config { background_superblocks: 0, ..config.clone() },
            ] {
                let refused = Device::<S, _>::open(nand.clone(), &wrong);
                assert!(matches!(refused, Err(OpenError::Config(_))), "{}: {wrong:?}", S::INFO.name);
            }
            device = Device::open(nand, &config).expect("a worn device opens");
            assert!(device.is_worn(), "{}", S::INFO.name);
        }
        let (mut readable, mut refused) = (0, 0);
        for (lpn, &version) in (0..).zip(&written) {
            let request = device.request(HostOp::Read, Lpn(lpn), 1, Done::READY, &mut |_, seen| match seen {
                Seen::Read(oob) => {
                    assert!(oob.map(|oob| oob.version) >= version, "{}: LPN {lpn} is stale", S::INFO.name);
                    readable += 1;
                }
                _ => refused += 1,
            });
            assert!(!matches!(request, Err(HostError::Fault(Fault::Medium))), "{}", S::INFO.name);
        }
        assert!(!device.idle().is_err_and(|fault| fault.is_fatal()), "{}", S::INFO.name);
        Full { message: error.to_string(), readable, refused }
    }
}

#[test]
fn a_worn_device_says_so_and_reads_go_on() {
    for info in schemes::ALL {
        let run = WriteUntilFull { program_fail_ppm: 0, erase_fail_ppm: 50_000, seed: 1, reopen: false };
        let full = schemes::with(info.name, run).expect("it is registered");
        assert!(
            full.message.starts_with("the device is worn out: ")
                && full.message.contains(" of its 240 blocks"),
            "{}: {}",
            info.name,
            full.message
        );
        assert_eq!((full.readable, full.refused), (EXPORTED, 0), "{}", info.name);
    }
}

#[test]
fn a_device_of_failing_programs_ends_the_same_way_and_opens_again() {
    for info in schemes::ALL.iter().filter(|info| !merges(info.name)) {
        for seed in 0..4 {
            let (program_fail_ppm, erase_fail_ppm) = [(500, 20_000), (2_000, 1_000)][seed as usize % 2];
            let run = WriteUntilFull { program_fail_ppm, erase_fail_ppm, seed, reopen: true };
            let full = schemes::with(info.name, run).expect("it is registered");
            assert!(full.message.starts_with("the device is worn out: "), "{}", full.message);
            assert_eq!((full.readable, full.refused), (EXPORTED, 0), "{} with seed {seed}", info.name);
        }
    }
}
