//! A file that is the device, for any program: FUSE, a thin front end.
//!
//! The kernel sends one request at a time to each of a few threads, which leave it with the device and take
//! the next. So as many are in flight as the program has, but for those that still wait in the kernel: of
//! these the device model, without pacing, does not know.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyWrite, Session, TimeOrNow, WriteFlags,
};
use rustix::mount::UnmountFlags;

use crate::error::LiveError;
use crate::export::Export;
use crate::front::{Asked, Front};
use crate::guard::{words, Guard};
use crate::keeper::Keeper;
use crate::loops::Loop;
use crate::request::{IoError, Op, Request};
use crate::stop::Stop;

const FILE: INodeNo = INodeNo(2);
/// The device changes neither its size nor its name.
const FOR_EVER: Duration = Duration::from_secs(24 * 3600);
/// Longest request that the kernel agrees to.
const MOST_BYTES: u32 = 1 << 20;
/// Asynchronous requests that the kernel sends before it waits.
const BACKGROUND: u16 = 512;
/// Bytes made zero in one step.
const ZERO_BYTES: u64 = 1 << 30;
/// Between two tries to unmount what is in use.
const PATIENCE: Duration = Duration::from_millis(100);

const O_DSYNC: i32 = 0o10000;
const FALLOC_KEEP_SIZE: i32 = 1;
const FALLOC_PUNCH_HOLE: i32 = 2;
const FALLOC_ZERO_RANGE: i32 = 16;
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;
const STALE: i32 = 107;

/// A mounted device.
pub struct Mount {
    file: PathBuf,
    dir: PathBuf,
    serving: JoinHandle<io::Result<()>>,
    ended: Arc<AtomicBool>,
    guard: Arc<Guard>,
    keeper: Keeper,
}

/// Says in one sentence why nothing can be mounted on `dir`, where that can be told beforehand.
pub fn possible(dir: &Path) -> Result<(), LiveError> {
    let name = dir.display();
    if !Path::new("/dev/fuse").exists() {
        return Err(LiveError::Refused(
            "/dev/fuse is missing, so nothing can be mounted; load the module fuse, or use ftl serve".into(),
        ));
    }
    match dir.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(LiveError::Refused(format!("{name} is no folder; name one to mount on"))),
        Err(error) if error.raw_os_error() == Some(STALE) => Err(LiveError::Refused(format!(
            "{name}: the mount of a server that died is still there; take it away with: umount {name}"
        ))),
        Err(error) => {
            let what = format!("{name} cannot be mounted on; make the folder first");
            Err(LiveError::Host { what, error })
        }
    }
}

/// Mounts the device on `dir`, where it is the file `name`. When it is unmounted from outside, `stop` is
/// asked for.
pub fn mount(export: Arc<dyn Export>, name: &str, dir: &Path, stop: &Stop) -> Result<Mount, LiveError> {
    possible(dir)?;
    let refused = |error: io::Error| {
        let hint = if rustix::process::geteuid().is_root() {
            ""
        } else {
            "; who is not root needs fusermount3 of the package fuse3"
        };
        LiveError::Host { what: format!("{} cannot be mounted on{hint}", dir.display()), error }
    };
    // A server that the kernel writes its dirty pages to must not wait for that when it needs memory. Refused
    // to users other than root, who cannot get into that position.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let dir = dir.canonicalize().map_err(refused)?;
    let (front, guard) = (Front::new(export.clone()), Guard::new(vec![export.clone()], stop));
    let disk = Disk {
        size: export.exported_bytes(),
        page_bytes: export.page_bytes(),
        front: front.clone(),
        name: name.into(),
        born: SystemTime::now(),
        guard: guard.clone(),
    };
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("ftl".into()),
        MountOption::Subtype("ftl".into()),
        MountOption::NoAtime,
        MountOption::NoExec,
        if export.is_read_only() { MountOption::RO } else { MountOption::RW },
    ];
    config.n_threads = Some(threads());
    config.clone_fd = true;
    let keeper = Keeper::start(&[front], &guard)?;
    let session = match Session::new(disk, &dir, &config) {
        Ok(session) => session,
        Err(error) => {
            keeper.stop();
            return Err(refused(error));
        }
    };
    let ended = Arc::new(AtomicBool::new(false));
    let (over, stop) = (ended.clone(), stop.clone());
    let serve = move || {
        let served = session.run();
        over.store(true, Ordering::Relaxed);
        stop.ask();
        served
    };
    let serving = std::thread::Builder::new().name("fuse".into()).spawn(serve).map_err(refused)?;
    Ok(Mount { file: dir.join(name), dir, serving, ended, guard, keeper })
}

impl Mount {
    /// The file that is the device.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Serves until `stop` is asked for and nobody uses the file any more; `busy` is told once when somebody
    /// does. The device stays switched on. Gives the words of a panic, if there was one.
    pub fn run(
        self,
        stop: &Stop,
        attached: Option<&Loop>,
        busy: &mut dyn FnMut(),
    ) -> Result<Option<String>, LiveError> {
        stop.wait(None);
        let mut told = false;
        while !self.ended.load(Ordering::Relaxed) {
            if let Some(attached) = attached {
                attached.detach();
            }
            if unmount(&self.dir)? {
                break;
            }
            if !told {
                busy();
                told = true;
            }
            std::thread::sleep(PATIENCE);
        }
        let served = self.serving.join();
        self.keeper.stop();
        let panic = self.guard.panic();
        let served = served.map_err(|panic| LiveError::Refused(words(panic.as_ref())))?;
        match served {
            Err(error) if panic.is_none() => Err(LiveError::host("serving the file failed")(error)),
            _ => Ok(panic),
        }
    }
}

/// Threads that take requests and give answers: one is in the FTL, the others copy bytes. With more than
/// there are processors, waking and changing them takes longer than what they do.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, |processors| processors.get().clamp(2, 8))
}

/// Whether `dir` is unmounted now; if not, somebody uses it.
fn unmount(dir: &Path) -> Result<bool, LiveError> {
    use rustix::io::Errno;
    match rustix::mount::unmount(dir, UnmountFlags::empty()) {
        // Not mounted: somebody was faster.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(true),
        Err(Errno::BUSY) => Ok(false),
        Err(Errno::PERM) => {
            let unmounted = Command::new("fusermount3").args(["-u", "-q", "--"]).arg(dir).status();
            Ok(unmounted.is_ok_and(|status| status.success()))
        }
        Err(error) => Err(LiveError::host(format!("{} cannot be unmounted", dir.display()))(error)),
    }
}

/// A folder with one file in it.
struct Disk {
    front: Arc<Front>,
    name: OsString,
    size: u64,
    page_bytes: u32,
    born: SystemTime,
    guard: Arc<Guard>,
}

impl Disk {
    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size, nlink) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0o700, 0, 2),
            FILE => (FileType::RegularFile, 0o600, self.size, 1),
            _ => return None,
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: self.born,
            mtime: self.born,
            ctime: self.born,
            crtime: self.born,
            kind,
            perm,
            nlink,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            blksize: self.page_bytes,
            flags: 0,
        })
    }

    /// Sends a request on its way. A panic in the device leaves it locked: what was asked for ends with EIO,
    /// and so does everything after it.
    fn ask(&self, request: Request, reply: impl FnOnce(Result<&[u8], Errno>) + Send + 'static) {
        let reply = Box::new(move |outcome: Result<&[u8], IoError>| reply(outcome.map_err(errno)));
        self.guard.run(|| self.front.carry_out(vec![Asked { request, reply }]));
    }

    /// Makes a range zero, which forgets its pages.
    fn zero(&self, begin: u64, end: u64, reply: ReplyEmpty) {
        let mut at = begin;
        loop {
            let to = end.min(at + ZERO_BYTES);
            let request = Request {
                op: Op::WriteZeroes { allocate: false },
                offset: at,
                length: (to - at) as u32,
                fua: false,
                data: Bytes::new(),
            };
            at = to;
            if at == end {
                return self.ask(request, move |outcome| match outcome {
                    Ok(_) => reply.ok(),
                    Err(error) => reply.error(error),
                });
            }
            let done = self.guard.run(|| self.front.export().request(&request, &mut []));
            if let Err(error) = done.unwrap_or(Err(IoError::Off)) {
                return reply.error(errno(error));
            }
        }
    }

    /// The first byte from `from` on that is allocated, or is not.
    fn seek(&self, from: u64, allocated: bool) -> Result<Option<u64>, IoError> {
        let mut at = from;
        while at < self.size {
            let found = self.front.export().extents(at, self.size - at, 1)?;
            match found.first() {
                Some(extent) if extent.allocated == allocated => return Ok(Some(at)),
                Some(extent) if extent.length > 0 => at += extent.length,
                _ => return Err(IoError::Device),
            }
        }
        Ok(None)
    }
}

fn errno(error: IoError) -> Errno {
    match error {
        IoError::Outside => Errno::EINVAL,
        IoError::NoSpace | IoError::Full => Errno::ENOSPC,
        IoError::ReadOnly => Errno::EROFS,
        IoError::Device | IoError::Off => Errno::EIO,
    }
}

impl Filesystem for Disk {
    fn init(&mut self, _: &fuser::Request, config: &mut KernelConfig) -> io::Result<()> {
        // A kernel that refuses one of these is slower, nothing else; the bounds are those of the kernel.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_write(MOST_BYTES);
        let _ = config.set_max_background(BACKGROUND);
        let _ = config.set_congestion_threshold(BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE) {
            Some(found) if parent == INodeNo::ROOT && name == self.name => {
                reply.entry(&FOR_EVER, &found, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &fuser::Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(found) => reply.attr(&FOR_EVER, &found),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// Times and owners stay as they are. So does the size: opening for truncation is as with a block device,
    /// which programs that write images rely on; truncating an open file is an error, as with a block device.
    fn setattr(
        &self,
        _: &fuser::Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let resized = handle.is_some() && size.is_some_and(|size| size != self.size);
        match self.attributes(inode) {
            Some(_) if resized => reply.error(Errno::EINVAL),
            Some(found) => reply.attr(&FOR_EVER, &found),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn readdir(&self, _: &fuser::Request, _: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let entries = [
            (INodeNo::ROOT, FileType::Directory, OsStr::new(".")),
            (INodeNo::ROOT, FileType::Directory, OsStr::new("..")),
            (FILE, FileType::RegularFile, self.name.as_os_str()),
        ];
        for (next, (inode, kind, name)) in (1..).zip(entries).skip(usize::try_from(offset).unwrap_or(3)) {
            if reply.add(inode, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn open(&self, _: &fuser::Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let direct = FopenFlags::FOPEN_DIRECT_IO
            | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
            | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(0), direct);
    }

    fn read(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let length = self.size.saturating_sub(offset).min(u64::from(size)) as u32;
        if length == 0 {
            return reply.data(&[]);
        }
        let request = Request { op: Op::Read, offset, length, fua: false, data: Bytes::new() };
        self.ask(request, move |outcome| match outcome {
            Ok(bytes) => reply.data(bytes),
            Err(error) => reply.error(error),
        });
    }

    fn write(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let length = self.size.saturating_sub(offset).min(data.len() as u64) as u32;
        if length == 0 {
            return if data.is_empty() { reply.written(0) } else { reply.error(Errno::ENOSPC) };
        }
        let data = Bytes::copy_from_slice(&data[..length as usize]);
        let fua = flags.0 & O_DSYNC != 0;
        let request = Request { op: Op::Write, offset, length, fua, data };
        self.ask(request, move |outcome| match outcome {
            Ok(_) => reply.written(length),
            Err(error) => reply.error(error),
        });
    }

    fn fsync(&self, _: &fuser::Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let request = Request { op: Op::Flush, offset: 0, length: 0, fua: false, data: Bytes::new() };
        self.ask(request, move |outcome| match outcome {
            Ok(_) => reply.ok(),
            Err(error) => reply.error(error),
        });
    }

    fn fallocate(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let end = offset.saturating_add(length);
        let inside = end.min(self.size);
        match mode {
            // The space is there: a device has what it exports.
            0 | FALLOC_KEEP_SIZE if end <= self.size => reply.ok(),
            0 | FALLOC_KEEP_SIZE => reply.error(Errno::ENOSPC),
            // The size of the file is fixed.
            FALLOC_ZERO_RANGE if end > self.size => reply.error(Errno::ENOSPC),
            _ if mode & !FALLOC_KEEP_SIZE == FALLOC_PUNCH_HOLE
                || mode & !FALLOC_KEEP_SIZE == FALLOC_ZERO_RANGE =>
            {
                if offset >= inside {
                    return reply.ok();
                }
                self.zero(offset, inside, reply);
            }
            _ => reply.error(Errno::EOPNOTSUPP),
        }
    }

    fn lseek(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let from = u64::try_from(offset).ok().filter(|&from| from < self.size);
        let Some(from) = from.filter(|_| [SEEK_DATA, SEEK_HOLE].contains(&whence)) else {
            return reply.error(Errno::ENXIO);
        };
        let found = self.guard.run(|| self.seek(from, whence == SEEK_DATA));
        match found.unwrap_or(Err(IoError::Off)) {
            Ok(Some(at)) => reply.offset(at as i64),
            // Behind the last byte there is a hole.
            Ok(None) if whence == SEEK_HOLE => reply.offset(self.size as i64),
            Ok(None) => reply.error(Errno::ENXIO),
            Err(error) => reply.error(errno(error)),
        }
    }
}
