//! The `ftl` command.

/// Asks the kernel for huge pages: tables of a hundred megabytes are read at random, and without them the
/// processor spends much of its time on address translation of its own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    ftlcli::commands::main()
}
