//! Prints the sample trace that is shipped: `cargo run -p ftlkit-workload --example sample >
//! examples/oltp-sample.spc`.

use std::io::{stdout, BufWriter, Write};

use workload::synth::{Synth, SAMPLE};
use workload::trace::write_spc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = BufWriter::new(stdout().lock());
    write_spc(&mut out, Synth::open(SAMPLE.0, SAMPLE.1, SAMPLE.2)?)?;
    Ok(out.flush()?)
}
