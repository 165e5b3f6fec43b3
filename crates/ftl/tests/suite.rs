//! Every test of this folder in one program: the schemes are compiled for them once, and while a test waits
//! another one runs.

mod full;
mod leaftl;
mod lftl;
mod page_level;
mod stats;
