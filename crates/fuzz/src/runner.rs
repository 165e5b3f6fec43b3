//! A campaign: inputs of one target, each judged, each repeatable by seed and number.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use check::Dice;

use crate::mutate::mutation;
use crate::Target;

/// Bytes of an input that a finding shows.
const SHOWN_BYTES: usize = 600;
/// The name of the thread on which targets run.
const THREAD: &str = "fuzz";

thread_local! {
    /// Where the last panic of this thread was, and what it said.
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// What one input may take.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// Longest run.
    pub time: Duration,
    /// Most memory.
    pub bytes: u64,
    /// Begins to count memory anew, and gives the most that was held since it was called last.
    pub peak: fn() -> u64,
}

/// An input that a target did not survive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Finding {
    /// The target.
    pub target: &'static str,
    /// The seed of the campaign.
    pub seed: u64,
    /// Which input: of the corpus first, then the mutations.
    pub number: u64,
    /// The input.
    pub input: Vec<u8>,
    /// What went wrong.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { target, seed, number, input, what } = self;
        let shown = &input[..input.len().min(SHOWN_BYTES)];
        let rest = if shown.len() < input.len() { " and more" } else { "" };
        writeln!(f, "target {target}, seed {seed}, input {number}: {what}")?;
        writeln!(f, "the input has {} bytes: \"{}\"{rest}", input.len(), shown.escape_ascii())?;
        write!(
            f,
            "to repeat: FTL_FUZZ_TARGET={target} FTL_FUZZ_SEED={seed} FTL_FUZZ_ONLY={number} cargo test -p ftlkit-fuzz \
             --test corpora"
        )
    }
}

/// Input number `number` of a campaign: those of the corpus as they are, then mutations of them.
pub fn input(target: &Target, corpus: &[Vec<u8>], seed: u64, number: u64) -> Vec<u8> {
    match corpus.get(number as usize) {
        Some(bytes) => bytes.clone(),
        None => mutation(corpus, target.words, &mut Dice::branch(seed, number)),
    }
}

/// From now on panics abort nothing, and those of threads on which targets run are kept. Others are printed
/// as before, if `tells`.
pub(crate) fn quiet(tells: bool) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            LAST.with(|last| *last.borrow_mut() = Some(panic.to_string()));
            if std::thread::current().name() != Some(THREAD) && tells {
                before(panic);
            }
        }));
    });
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}

/// What is wrong with one input; `None`: nothing.
fn judge(target: &Target, bytes: &[u8], bounds: &Bounds) -> Option<String> {
    (bounds.peak)();
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))) {
        return Some(LAST.with(|last| last.take()).unwrap_or_else(|| words(panic.as_ref())));
    }
    let held = (bounds.peak)();
    (held > bounds.bytes).then(|| format!("it held {held} bytes of memory, more than {}", bounds.bytes))
}

/// Runs the inputs with these numbers, until `end` at most. Gives how many ran.
///
/// # Errors
/// The first finding. Where an input does not end, its thread is left behind.
pub fn campaign(
    target: &'static Target,
    corpus: Vec<Vec<u8>>,
    seed: u64,
    numbers: Range<u64>,
    end: Option<Instant>,
    bounds: Bounds,
) -> Result<u64, Finding> {
    quiet(true);
    let corpus = Arc::new(corpus);
    let running = Arc::new(Mutex::new((numbers.start, Instant::now())));
    let (tell, told) = channel();
    let (theirs, now) = (corpus.clone(), running.clone());
    let work = move || {
        let mut done = 0;
        for number in numbers {
            if end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
            let bytes = input(target, &theirs, seed, number);
            *now.lock().unwrap_or_else(PoisonError::into_inner) = (number, Instant::now());
            if let Some(what) = judge(target, &bytes, &bounds) {
                // Nobody listens to a campaign that has been given up.
                let _ = tell.send(Err((number, what)));
                return;
            }
            done += 1;
        }
        let _ = tell.send(Ok(done));
    };
    let finding = |number: u64, what: String| Finding {
        target: target.name,
        seed,
        number,
        input: input(target, &corpus, seed, number),
        what,
    };
    let started = std::thread::Builder::new().name(THREAD.to_owned()).spawn(work);
    if let Err(error) = started {
        return Err(finding(0, format!("no thread can be started: {error}")));
    }
    loop {
        match told.recv_timeout(Duration::from_millis(100)) {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err((number, what))) => return Err(finding(number, what)),
            Err(RecvTimeoutError::Disconnected) => return Err(finding(0, "its thread is gone".to_owned())),
            Err(RecvTimeoutError::Timeout) => {
                let (number, since) = *running.lock().unwrap_or_else(PoisonError::into_inner);
                if since.elapsed() > bounds.time {
                    return Err(finding(number, format!("it has not ended in {:?}", bounds.time)));
                }
            }
        }
    }
}
