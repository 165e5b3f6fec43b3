//! The `ftl` command: what it understands, and the tables and reports that it shows.

pub mod commands;
pub mod report;
pub mod table;
