//! Makes the files of `data/` part of the program, so that a paper is added by adding files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let manifest =
        env::var_os("CARGO_MANIFEST_DIR").ok_or_else(|| io::Error::other("no CARGO_MANIFEST_DIR"))?;
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("no OUT_DIR"))?;
    let papers = Path::new(&manifest).join("data");
    println!("cargo:rerun-if-changed={}", papers.display());
    let mut list = String::from("&[\n");
    for folder in sorted(&papers)?.into_iter().filter(|path| path.is_dir()) {
        for file in
            sorted(&folder)?.into_iter().filter(|path| path.extension().is_some_and(|end| end == "toml"))
        {
            let name = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
            let (paper, figure) = (name(&folder).unwrap_or_default(), name(&file).unwrap_or_default());
            // Writing to a string cannot fail.
            let _ =
                writeln!(list, "({paper:?}, {figure:?}, include_str!({:?})),", file.display().to_string());
        }
    }
    list.push(']');
    fs::write(Path::new(&out).join("papers.rs"), list)
}

fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
    paths.sort();
    Ok(paths)
}
