//! The `ftl` command.

fn main() -> std::process::ExitCode {
    ftlcli::commands::main()
}
