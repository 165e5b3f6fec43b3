//! The results folder of a study.
//!
//! | file | holds |
//! | --- | --- |
//! | `points/ID.json` | what a point found, or why it failed: written when it has ended, as a whole |
//! | `results.json` | all runs, as `ftl compare --json` writes them: for `ftl report` and `ftl diff` |
//! | `table.csv`, `table.parquet` | a row for each point and phase |

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sim::results::{pretty, to_json, to_value};

use crate::ended::{Ended, Stored};
use crate::error::StudyError;
use crate::file::Study;
use crate::point::Point;
use crate::table::Table;

/// Layout of a point's file.
const SCHEMA: u32 = 1;

#[derive(Serialize, Deserialize)]
struct PointFile {
    schema: u32,
    by: String,
    scheme: String,
    seed: u64,
    options: serde_json::Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    finding: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<serde_json::Value>,
}

/// A results folder.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The results folder at `path`, which is made if there is none. The folder that it lies in must be
    /// there.
    ///
    /// # Errors
    /// [`StudyError::Io`].
    pub fn create(path: &Path) -> Result<Folder, StudyError> {
        for folder in [path, &path.join("points")] {
            match fs::create_dir(folder) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && !folder.is_dir() => {
                    let error = io::Error::new(ErrorKind::NotADirectory, "it is a file; name a folder");
                    return Err(StudyError::writing(folder)(error));
                }
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(StudyError::writing(folder)(error));
                }
                _ => {}
            }
        }
        Ok(Folder { path: path.to_owned() })
    }

    /// The results folder at `path`, whether it is there or not.
    pub fn at(path: &Path) -> Folder {
        Folder { path: path.to_owned() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self, point: &Point) -> PathBuf {
        self.path.join("points").join(format!("{}.json", point.id))
    }

    /// What is stored of a point; `None`: it has not ended.
    ///
    /// # Errors
    /// [`StudyError::Result`] for a file that nobody wrote as a whole, or another version did.
    pub fn load(&self, point: &Point) -> Result<Option<Stored>, StudyError> {
        let path = self.file(point);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StudyError::reading(&path)(error)),
        };
        let wrong = |what: String| StudyError::Result { path: path.clone(), what };
        let stored: PointFile = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if stored.schema != SCHEMA {
            return Err(wrong(format!("its layout is {}, and this version writes {SCHEMA}", stored.schema)));
        }
        let theirs = (&stored.scheme, stored.seed, &stored.options);
        if theirs != (&point.scheme.to_string(), point.seed, point.options()) {
            return Err(wrong("it belongs to a point with other options".to_owned()));
        }
        let ended = match (stored.run, stored.error) {
            (Some(run), None) => {
                Ended::Run(serde_json::from_value(run).map_err(|error| wrong(error.to_string()))?)
            }
            (None, Some(reason)) => Ended::Failed { reason, finding: stored.finding },
            _ => return Err(wrong("it must have either `run` or `error`".to_owned())),
        };
        Ok(Some(Stored { ended, by: stored.by }))
    }

    /// Whether a point has a run stored: one that failed may do better next time.
    ///
    /// # Errors
    /// As [`Folder::load`].
    pub fn has(&self, point: &Point) -> Result<bool, StudyError> {
        Ok(self.load(point)?.is_some_and(|stored| stored.ended.run().is_some()))
    }

    /// Stores how a point ended. `by`: version and commit of this program.
    ///
    /// # Errors
    /// [`StudyError::Io`].
    pub fn store(&self, point: &Point, ended: &Ended, by: &str) -> Result<(), StudyError> {
        let path = self.file(point);
        let (run, error, finding) = match ended {
            Ended::Run(run) => (Some(to_value(run).map_err(|error| unwritable(&path, &error))?), None, false),
            Ended::Failed { reason, finding } => (None, Some(reason.clone()), *finding),
        };
        let file = PointFile {
            schema: SCHEMA,
            by: by.to_owned(),
            scheme: point.scheme.to_string(),
            seed: point.seed,
            options: point.options().clone(),
            error,
            finding,
            run,
        };
        let value = serde_json::to_value(&file).map_err(|error| unwritable(&path, &error))?;
        write(&path, pretty(&value).as_bytes())
    }

    /// Takes over results of the study's points that `other` has and this folder has not: those of points
    /// that have ended, and of points that failed here and not there. Returns how many.
    ///
    /// # Errors
    /// [`StudyError::Io`] and [`StudyError::Result`].
    pub fn merge(&self, study: &Study, other: &Folder) -> Result<usize, StudyError> {
        if !other.path.join("points").is_dir() {
            let error =
                std::io::Error::new(ErrorKind::NotFound, "it has no folder `points`; name a results folder");
            return Err(StudyError::reading(&other.path)(error));
        }
        let mut taken = 0;
        for point in &study.points {
            let Some(theirs) = other.load(point)? else { continue };
            let wanted = match self.load(point)? {
                None => true,
                Some(ours) => ours.ended.run().is_none() && theirs.ended.run().is_some(),
            };
            if wanted {
                self.store(point, &theirs.ended, &theirs.by)?;
                taken += 1;
            }
        }
        Ok(taken)
    }

    /// What is stored of each point, in the order of the study.
    ///
    /// # Errors
    /// As [`Folder::load`].
    pub fn load_all(&self, study: &Study) -> Result<Vec<Option<Stored>>, StudyError> {
        study.points.iter().map(|point| self.load(point)).collect()
    }

    /// Writes the files that hold all points that have ended. They depend on the results alone, and not on
    /// when and where each came in.
    ///
    /// # Errors
    /// [`StudyError::Io`].
    pub fn write_whole(&self, study: &Study, stored: &[Option<Stored>]) -> Result<(), StudyError> {
        let runs = stored.iter().flatten().filter_map(|stored| stored.ended.run());
        let path = self.path.join("results.json");
        let text = to_json(runs).map_err(|error| unwritable(&path, &error))?;
        write(&path, text.as_bytes())?;
        let table = Table::new(study, stored);
        for (name, bytes) in [("table.csv", table.csv()), ("table.parquet", table.parquet())] {
            let path = self.path.join(name);
            write(&path, &bytes.map_err(StudyError::writing(&path))?)?;
        }
        Ok(())
    }
}

fn unwritable(path: &Path, error: &(impl ToString + ?Sized)) -> StudyError {
    StudyError::writing(path)(std::io::Error::other(error.to_string()))
}

/// Writes a file as a whole: it has its name when its last byte is in it.
fn write(path: &Path, bytes: &[u8]) -> Result<(), StudyError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let written = || {
        // Readable by whom the umask allows, as any other file.
        let permissions = fs::Permissions::from_mode(0o666);
        let mut file =
            tempfile::Builder::new().prefix(".ftl-").permissions(permissions).tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    written().map_err(StudyError::writing(path))
}
