//! The `ftl` command.

/// Asks for huge pages (see `.cargo/config.toml`): tables of a hundred megabytes are read at random, and
/// without them the processor spends much of its time on address translation of its own.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    ftlcli::commands::main()
}
