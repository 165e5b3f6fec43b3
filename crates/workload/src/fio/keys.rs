//! What we do with each of fio's keys.

/// How a key of a job file is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    /// We honour it.
    Honoured,
    /// It cannot change which requests reach a device, or when: accepted without a word.
    Harmless,
    /// Accepted, with this remark.
    Remark(&'static str),
    /// It would change the experiment: refused unless its value is one of those that switch it off. The text
    /// says what would be right.
    Refused { off: &'static [&'static str], instead: &'static str },
}

use Treatment::{Harmless, Honoured, Refused, Remark};

const ZERO: &[&str] = &["0", "false"];
const NONE: &[&str] = &["none", "0"];
const NEVER: &[&str] = &[];

/// The one name of a key that fio knows by several.
pub(super) fn canonical(key: &str) -> &str {
    match key {
        "readwrite" => "rw",
        "blocksize" => "bs",
        "blocksize_range" => "bsrange",
        "blocksize_unaligned" => "bs_unaligned",
        "blockalign" => "ba",
        "io_limit" => "io_size",
        "wait_for_previous" => "stonewall",
        "timeout" => "runtime",
        "startdelay" | "start_delay" => "startdelay",
        "iodepth_batch_submit" => "iodepth_batch",
        "iodepth_batch_complete_min" => "iodepth_batch_complete",
        "zone_size" => "zonesize",
        "zone_range" => "zonerange",
        "zone_skip" => "zoneskip",
        "fill_fs" => "fill_device",
        "steadystate" => "ss",
        other => other,
    }
}

/// The treatment of a key by its canonical name; `None` for a key that we do not know.
pub(super) fn treatment(key: &str) -> Option<Treatment> {
    if HONOURED.contains(&key) {
        return Some(Honoured);
    }
    if let Some((_, treatment)) = OTHERS.iter().find(|(name, _)| *name == key) {
        return Some(*treatment);
    }
    let begins = |prefixes: &[&str]| prefixes.iter().any(|p| key.starts_with(p));
    if begins(&["replay_", "merge_blktrace", "read_iolog"]) {
        return Some(Refused { off: NEVER, instead: "give the recorded requests as a trace (--trace FILE)" });
    }
    if begins(&["ss_"]) {
        return Some(Remark("has no effect, steady-state detection is not part of a run"));
    }
    (HARMLESS.contains(&key) || begins(HARMLESS_PREFIXES)).then_some(Harmless)
}

/// The keys that we honour, by canonical name.
pub(super) const HONOURED: &[&str] = &[
    "rw",
    "bs",
    "bsrange",
    "bssplit",
    "size",
    "offset",
    "offset_increment",
    "offset_align",
    "io_size",
    "number_ios",
    "loops",
    "numjobs",
    "iodepth",
    "rwmixread",
    "rwmixwrite",
    "runtime",
    "time_based",
    "random_distribution",
    "norandommap",
    "randseed",
    "thinktime",
    "thinktime_blocks",
    "rate_iops",
    "group_reporting",
    "stonewall",
    "fsync",
    "fdatasync",
    "end_fsync",
    "fsync_on_close",
    "kb_base",
    "name",
];

const HARMLESS: &[&str] = &[
    "description",
    "directory",
    "filename",
    "filename_format",
    "unique_filename",
    "lockfile",
    "thread",
    "invalidate",
    "ioscheduler",
    "create_serialize",
    "create_fsync",
    "create_on_open",
    "allow_file_create",
    "allow_mounted_write",
    "unlink",
    "fallocate",
    "fadvise_hint",
    "randrepeat",
    "allrandrepeat",
    "random_generator",
    "softrandommap",
    "overwrite",
    "zero_buffers",
    "refill_buffers",
    "scramble_buffers",
    "iomem",
    "mem",
    "iomem_align",
    "mem_align",
    "hugepage-size",
    "lockmem",
    "nice",
    "uid",
    "gid",
    "thread_id",
    "new_group",
    "stats",
    "per_job_logs",
    "disk_util",
    "clocksource",
    "gtod_reduce",
    "gtod_cpu",
    "job_start_clock_id",
    "unit_base",
    "unified_rw_reporting",
    "clat_percentiles",
    "lat_percentiles",
    "slat_percentiles",
    "percentile_list",
    "significant_figures",
    "ignore_error",
    "error_dump",
    "continue_on_error",
    "exitall_on_error",
    "hipri",
    "hipri_percentage",
    "fixedbufs",
    "registerfiles",
    "sqthread_poll",
    "sqthread_poll_cpu",
    "nonvectored",
    "uncached",
    "userspace_reap",
    "cmd_type",
    "md_per_io_size",
    "profile",
    "rate_cycle",
    "rate_ignore_thinktime",
    "bwavgtime",
    "iopsavgtime",
    "openfiles",
    "zonesize",
    "zonerange",
    "zoneskip",
    "zonecapacity",
    "latency_window",
    "latency_percentile",
    "latency_run",
    "do_verify",
    "experimental_verify",
];

/// The keys below `verify` and `trim_percentage` say nothing unless these are set, and they are refused.
const HARMLESS_PREFIXES: &[&str] = &[
    "verify_",
    "trim_",
    "buffer_",
    "dedupe_",
    "log_",
    "write_bw",
    "write_lat",
    "write_iops",
    "write_hist",
    "disable_",
    "numa_",
    "cpus_",
    "cgroup",
];

const NO_BATCH: Treatment =
    Refused { off: &["0", "1"], instead: "requests are issued one by one, leave it out" };
const NO_ZBD: Treatment = Refused { off: ZERO, instead: "zoned devices are not simulated, leave it out" };
const NO_RATE: Treatment = Refused { off: ZERO, instead: "use rate_iops=N, the rate in requests per second" };
const NO_SYNC: Treatment = Refused {
    off: NONE,
    instead: "use fsync=1, which flushes after every write, as a synchronous write does",
};
const ONE_FILE: Treatment =
    Refused { off: &["1"], instead: "a job runs on the one device, set offset and size" };

const NO_VERIFY: Treatment =
    Refused { off: NONE, instead: "read-back checks belong to the simulator (--verify), leave it out" };

/// Engines that pass read, write and trim to a block device as they are.
const BLOCK_ENGINES: &[&str] = &[
    "sync",
    "psync",
    "vsync",
    "pvsync",
    "pvsync2",
    "io_uring",
    "io_uring_cmd",
    "libaio",
    "posixaio",
    "solarisaio",
    "windowsaio",
    "mmap",
    "sg",
    "null",
    "libblkio",
    "xnvme",
    "nbd",
    "spdk",
    "splice",
];

/// Engines with which fio itself keeps one request in flight, whatever the iodepth.
pub(super) const SYNCHRONOUS_ENGINES: &[&str] =
    &["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "splice"];

const OTHERS: &[(&str, Treatment)] = &[
    ("verify", NO_VERIFY),
    ("verify_only", NO_VERIFY),
    ("trim_percentage", Refused { off: ZERO, instead: "use a job of its own with rw=trim or rw=randtrim" }),
    (
        "ba",
        Refused {
            off: NEVER,
            instead: "addresses are aligned to the smallest block size of their direction",
        },
    ),
    ("bs_unaligned", Refused { off: ZERO, instead: "use bsrange or bssplit with multiples of 512" }),
    ("bs_is_seq_rand", Refused { off: ZERO, instead: "give read and write sizes in bs=READ,WRITE" }),
    (
        "buffered",
        Refused { off: ZERO, instead: "there is no page cache between host and device, use direct=1" },
    ),
    (
        "percentage_random",
        Refused { off: &["100"], instead: "use one job for the random share and one for the sequential" },
    ),
    ("rw_sequencer", Refused { off: &["sequential"], instead: "use plain rw=... without a sequence length" }),
    ("sync", NO_SYNC),
    ("sync_file_range", Refused { off: NEVER, instead: "use fdatasync=N to flush after N writes" }),
    ("write_barrier", Refused { off: ZERO, instead: "use fdatasync=N to flush after N writes" }),
    ("iodepth_batch", NO_BATCH),
    ("iodepth_batch_complete", NO_BATCH),
    ("iodepth_batch_complete_max", NO_BATCH),
    ("iodepth_low", Refused { off: NEVER, instead: "the queue is kept at iodepth, leave it out" }),
    ("serialize_overlap", Refused { off: ZERO, instead: "overlapping requests are allowed, leave it out" }),
    (
        "io_submit_mode",
        Refused {
            off: &["inline"],
            instead: "for open-loop submission use rate_iops=N with a large iodepth",
        },
    ),
    (
        "thinktime_spin",
        Remark("counts as thinking without the processor, as no host processor is charged for it"),
    ),
    (
        "thinktime_blocks_type",
        Refused { off: &["complete"], instead: "think times count completed requests" },
    ),
    ("thinktime_iotime", Refused { off: ZERO, instead: "use thinktime with thinktime_blocks=N" }),
    ("rate", NO_RATE),
    ("rate_min", NO_RATE),
    ("rate_iops_min", Refused { off: ZERO, instead: "a job never aborts for being slow, leave it out" }),
    ("rate_process", Refused { off: &["linear"], instead: "use rate_process=linear" }),
    ("latency_target", Refused { off: ZERO, instead: "set iodepth and read the latency from the result" }),
    ("max_latency", Remark("has no effect, a slow request does not end the job")),
    ("startdelay", Refused { off: ZERO, instead: "use stonewall to start one job after another" }),
    (
        "ramp_time",
        Refused {
            off: ZERO,
            instead: "put the warm-up in a section whose name starts with warmup, with stonewall after it",
        },
    ),
    ("zonemode", Refused { off: &["none"], instead: "use random_distribution=zoned for uneven access" }),
    ("read_beyond_wp", NO_ZBD),
    ("max_open_zones", NO_ZBD),
    ("job_max_open_zones", NO_ZBD),
    ("ignore_zone_limits", NO_ZBD),
    ("zone_reset_threshold", NO_ZBD),
    ("zone_reset_frequency", NO_ZBD),
    ("nrfiles", ONE_FILE),
    ("file_service_type", Remark("has no effect, a job has the one device")),
    ("filesize", Refused { off: NEVER, instead: "use size=N for the region of the device" }),
    ("file_append", Refused { off: ZERO, instead: "use offset=N" }),
    ("fill_device", Refused { off: ZERO, instead: "use rw=write with size=100%" }),
    ("opendir", Refused { off: NEVER, instead: "a job runs on the one device, leave it out" }),
    ("pre_read", Refused { off: ZERO, instead: "use a section named warmup... with rw=read" }),
    ("create_only", Refused { off: ZERO, instead: "leave it out to run the job" }),
    ("unlink_each_loop", Refused { off: ZERO, instead: "use a job with rw=trim to discard the region" }),
    ("wait_for", Refused { off: NEVER, instead: "use stonewall, which waits for all jobs before" }),
    ("flow", Refused { off: ZERO, instead: "use rate_iops to set the share of each job" }),
    ("flow_id", Remark("has no effect without flow")),
    ("flow_sleep", Remark("has no effect without flow")),
    ("exitall", Refused { off: ZERO, instead: "give the jobs the same runtime with time_based" }),
    ("exit_what", Remark("has no effect without exitall")),
    ("exec_prerun", Remark("is not run")),
    ("exec_postrun", Remark("is not run")),
    ("prio", Remark("has no effect, requests have no priority")),
    ("prioclass", Remark("has no effect, requests have no priority")),
    ("cmdprio", Remark("has no effect, requests have no priority")),
    ("cmdprio_class", Remark("has no effect, requests have no priority")),
    ("cmdprio_percentage", Remark("has no effect, requests have no priority")),
    ("cmdprio_bssplit", Remark("has no effect, requests have no priority")),
    ("write_hint", Remark("has no effect, the schemes take no lifetime hints")),
    ("write_iolog", Remark("is not written, a trace of the run can be had from the command line")),
    ("ss", Remark("has no effect, steady-state detection is not part of a run")),
    ("cpumask", Harmless),
    (
        "ioengine",
        Refused { off: BLOCK_ENGINES, instead: "use an engine for block devices, such as ioengine=libaio" },
    ),
    (
        "direct",
        Refused {
            off: &["", "1", "true"],
            instead: "there is no page cache between host and device, use direct=1",
        },
    ),
    (
        "cpuload",
        Refused {
            off: NEVER,
            instead: "jobs that burn the processor are not simulated, leave the section out",
        },
    ),
];

/// The honoured key nearest to a misspelt one, if it is near.
pub(super) fn nearest(key: &str) -> Option<&'static str> {
    let also = ["readwrite", "blocksize", "wait_for_previous"];
    HONOURED
        .iter()
        .chain(also.iter())
        .map(|known| (distance(key, known), *known))
        .filter(|(d, known)| *d <= 2 && *d < known.len())
        .min()
        .map(|(_, known)| known)
}

/// Edits (insert, delete, replace, swap of neighbours counts two) between two short words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replace = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_one_treatment() {
        let mut all: Vec<&str> =
            HONOURED.iter().chain(HARMLESS).copied().chain(OTHERS.iter().map(|o| o.0)).collect();
        all.sort_unstable();
        for pair in all.windows(2) {
            assert_ne!(pair[0], pair[1], "twice in the table");
        }
    }

    #[test]
    fn a_typing_slip_finds_its_key() {
        assert_eq!(nearest("rwmixraed"), Some("rwmixread"));
        assert_eq!(nearest("blksize"), Some("blocksize"));
        assert_eq!(nearest("io_dept"), Some("iodepth"));
        assert_eq!(nearest("something_else"), None);
    }
}
