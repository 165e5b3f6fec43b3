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
