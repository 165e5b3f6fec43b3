//! The `ftl` command.

fn main() -> std::process::ExitCode {
    pages::huge();
    ftlcli::commands::main()
}

/// Huge pages for large tables. Tables of a hundred megabytes are read at random; in small pages, the
/// processor would spend much of its time on address translation of its own.
mod pages {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    const TUNABLES: &str = "GLIBC_TUNABLES";
    const HUGE: &str = "glibc.malloc.hugetlb=1";

    /// Makes the C library ask the kernel for huge pages. It reads this setting before `main`, so the program
    /// starts itself once more with it. Another C library ignores it, and all works as before.
    pub fn huge() {
        let given = std::env::var(TUNABLES).unwrap_or_default();
        if given.contains("glibc.malloc.hugetlb") {
            return;
        }
        let tunables = if given.is_empty() { HUGE.to_owned() } else { format!("{given}:{HUGE}") };
        let Ok(program) = std::env::current_exe() else { return };
        let mut arguments = std::env::args_os();
        let mut again = Command::new(program);
        if let Some(name) = arguments.next() {
            again.arg0(name);
        }
        // It comes back only when it fails, and then this process goes on in small pages.
        let _ = again.args(arguments).env(TUNABLES, tunables).exec();
    }
}
