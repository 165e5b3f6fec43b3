//! Every test of this folder in one program: it is compiled and linked once, and while a test waits
//! another one runs.

mod fio;
mod synth;
mod trace;
