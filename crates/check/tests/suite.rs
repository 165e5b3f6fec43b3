//! Every test of this folder in one program: the schemes are compiled for them once, and while a test waits
//! another one runs.

mod canaries;
mod conformance;
mod damage;
mod golden;
mod image;
mod power_cut;
mod sabotage;
mod toy;
mod wear;
mod worn;

/// The seed that `FTL_CHECK_SEED` gives, or a fresh one, printed.
fn seed_given_or_fresh() -> u64 {
    let given = std::env::var("FTL_CHECK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(check::fresh_seed);
    println!("fresh seed {seed}");
    seed
}
