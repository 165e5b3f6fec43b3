//! A device whose blocks fail one after the other: it says that it is full, and what was written stays
//! readable.

use ftl::schemes::{self, Visitor};
use ftl::{Config, Device, HostError, HostOp, Scheme, Seen};
use nand::timing::NoClock;
use nand::{Done, Fault, Geometry, Lpn, SimNand, SimOptions};

const EXPORTED: u32 = 900;

/// Every twentieth erase fails.
fn array() -> SimNand<NoClock> {
    let geometry = Geometry {
        channels: 2,
        luns_per_channel: 2,
        planes_per_lun: 1,
        blocks_per_plane: 60,
        pages_per_block: 8,
        page_bytes: 512,
        oob_bytes: 64,
    };
    let options = SimOptions { erase_fail_ppm: 50_000, ..SimOptions::default() };
    SimNand::new(&nand::Device::tiny(geometry, EXPORTED), NoClock::new(), options)
}

/// What became of a device that was written to until it was full.
struct Full {
    message: String,
    /// Pages that read as they were written last, and pages for whose mapping there was no room.
    readable: u32,
    refused: u32,
}

struct WriteUntilFull;

impl Visitor for WriteUntilFull {
    type Out = Full;

    fn visit<S: Scheme + Clone + Send + 'static>(self) -> Full {
        let mut device: Device<S, _> =
            Device::open(array(), &Config::new(EXPORTED, 64 << 10)).expect("it fits");
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
            matches!(error, HostError::Fault(fault @ Fault::NoSpace { .. }) if !fault.is_fatal()),
            "{error}"
        );
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
fn a_full_device_says_so_and_reads_go_on() {
    for info in schemes::ALL {
        let full = schemes::with(info.name, WriteUntilFull).expect("it is registered");
        assert!(
            full.message.starts_with("the flash is full (superblocks: "),
            "{}: {}",
            info.name,
            full.message
        );
        assert_eq!((full.readable, full.refused), (EXPORTED, 0), "{}", info.name);
    }
}
