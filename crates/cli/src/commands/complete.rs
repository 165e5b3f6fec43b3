//! The commands of the feature `complete`: what stands on live devices, the checker and the papers'
//! experiments.

use clap::Subcommand;

use super::repeat::Again;
use super::stop::Stop;
use super::{bench, check, live, mount, paper, scrub, stored, study, vhost};

/// What is left out without the feature.
#[derive(Subcommand)]
pub(crate) enum Complete {
    /// Run many points from one file, and go on where it was stopped
    Study(study::StudyArgs),
    /// Run the experiments of a paper and put its numbers beside ours
    Paper(paper::PaperArgs),
    /// Show stored results again: tables, CSV, a page with plots
    Report(stored::ReportArgs),
    /// Set two stored results side by side
    Diff(stored::DiffArgs),
    /// Measure the simulator's own speed
    Bench(bench::BenchArgs),
    /// Cut the power again and again and see whether anything is lost
    Check(check::CheckArgs),
    /// Make the image of a live device
    Create(live::CreateArgs),
    /// Say what an image is
    Info(live::InfoArgs),
    /// Make an image of another scheme or device with the same content
    Convert(live::ConvertArgs),
    /// Read and verify all of an image; mend it, or copy out what can be read
    Scrub(scrub::ScrubArgs),
    /// Serve images as block devices (NBD)
    Serve(live::ServeArgs),
    /// Make an image a file, or a loop device, for any program (FUSE)
    Mount(mount::MountArgs),
    /// Make an image a disk of a virtual machine (vhost-user-blk)
    Vhost(vhost::VhostArgs),
}

impl Complete {
    /// Does what was asked; `again` knows the command line.
    pub(crate) fn run(self, again: &Again) -> Result<(), Stop> {
        match self {
            Complete::Study(args) => study::study(&args, again),
            Complete::Paper(args) => paper::paper(args, again),
            Complete::Report(args) => stored::report(&args, again),
            Complete::Diff(args) => stored::diff(&args),
            Complete::Bench(args) => bench::bench(args),
            Complete::Check(args) => check::check(args),
            Complete::Create(args) => live::create(args),
            Complete::Info(args) => live::info(args),
            Complete::Convert(args) => live::convert(args),
            Complete::Scrub(args) => scrub::scrub(&args),
            Complete::Serve(args) => live::serve(args),
            Complete::Mount(args) => mount::mount(args),
            Complete::Vhost(args) => vhost::vhost(args),
        }
    }
}

impl From<papers::PaperError> for Stop {
    fn from(error: papers::PaperError) -> Stop {
        Stop::user(error)
    }
}

impl From<papers::live::Failure> for Stop {
    fn from(error: papers::live::Failure) -> Stop {
        Stop::user(error)
    }
}
