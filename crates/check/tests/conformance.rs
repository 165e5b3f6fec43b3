//! Every registered scheme, by being registered, is held to the conformance suite.

use check::conformance;
use ftl::schemes;

#[test]
fn every_scheme_conforms() {
    for info in schemes::ALL {
        for seed in 1..=6 {
            match conformance(info.name, seed) {
                Ok(report) => {
                    println!("{}: {report:?}", info.name);
                    assert_eq!(
                        report.collections_group > 0,
                        info.name.starts_with("learnedftl"),
                        "{report:?}"
                    );
                }
                Err(failure) => panic!("{failure}"),
            }
        }
    }
}
