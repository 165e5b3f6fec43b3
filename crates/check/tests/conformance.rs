//! Every registered scheme, by being registered, is held to the conformance suite.

use check::conformance;
use ftl::schemes;

#[test]
fn every_scheme_conforms() {
    for info in schemes::ALL {
        let mut gathered = 0;
        for seed in 1..=6 {
            match conformance(info.name, seed) {
                Ok(report) => {
                    println!("{}: {report:?}", info.name);
                    gathered += report.collections_group;
                }
                Err(failure) => panic!("{failure}"),
            }
        }
        assert_eq!(gathered > 0, info.name.starts_with("learnedftl"), "{}", info.name);
    }
}
