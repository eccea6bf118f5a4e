//! [`fill`]: the runs of an experiment that its file lacks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use grpo_lambda_stats::table::Cell;

use super::lab::Result;
use super::store::Results;

/// Work that gives rows of these keys.
pub(crate) struct Job<W> {
    pub(crate) keys: Vec<Vec<Cell>>,
    pub(crate) what: W,
}

impl<W> Job<W> {
    /// Work that gives one row.
    pub(crate) fn one(key: Vec<Cell>, what: W) -> Job<W> {
        Job { keys: vec![key], what }
    }
}

/// Does the jobs of every seed that lack a row, seed after seed; the jobs of a seed share its start, which is not
/// made where nothing is missing. Every row is in the file before the next job begins. As many seeds as there are
/// threads are under way at a time, each on a thread of its own.
///
/// # Errors
/// The first error of a seed; no seed is begun after it.
pub(crate) fn fill<W, S>(
    results: &Results,
    seeds: &[u64],
    jobs: impl Fn(u64) -> Vec<Job<W>> + Sync,
    start: impl Fn(u64) -> Result<S> + Sync,
    run: impl Fn(&S, &W) -> Result<Vec<Vec<Cell>>> + Sync,
) -> Result<()> {
    let of_seed = |seed: u64| -> Result<()> {
        let mut left = jobs(seed);
        left.retain(|job| !job.keys.iter().all(|key| results.has(key)));
        if left.is_empty() {
            return Ok(());
        }
        let start = start(seed)?;
        for job in &left {
            for row in run(&start, &job.what)? {
                results.add(row)?;
            }
        }
        Ok(())
    };
    let (next, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || -> Result<()> {
        while !stopped.load(Ordering::Relaxed) {
            let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            of_seed(*seed).inspect_err(|_| stopped.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    // A run takes one thread; without a pool of its own it would share that of all.
    let alone = || match rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build() {
        Ok(pool) => pool.install(work),
        Err(_) => work(),
    };
    let workers = rayon::current_num_threads().min(seeds.len());
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..workers).map(|_| scope.spawn(alone)).collect();
        let ended = all
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default, serde::Serialize)]
    struct Row {
        seed: u64,
        part: String,
        value: f64,
    }

    #[test]
    fn only_what_is_missing_runs_and_an_error_ends_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.csv");
        let results = Results::open::<Row>(&path, "x", 2).expect("new");
        let key = |seed: u64, part: &str| vec![(seed as usize).into(), part.into()];
        let jobs =
            |seed| ["a", "b"].map(|part| Job::one(key(seed, part), (seed, part))).into_iter().collect();
        let starts = AtomicUsize::new(0);
        let start = |seed| {
            starts.fetch_add(1, Ordering::Relaxed);
            Ok(seed as f64)
        };
        let run = |start: &f64, (seed, part): &(u64, &str)| match (seed, *part) {
            (3, "b") => Err(crate::LabError::NoRate { file: "x".to_owned(), method: "b".to_owned() }),
            _ => Ok(vec![[key(*seed, part), vec![(*start).into()]].concat()]),
        };
        results.add([key(1, "a"), vec![9.0.into()]].concat()).expect("written");
        fill(&results, &[1, 2], jobs, start, run).expect("it runs");
        assert_eq!(starts.load(Ordering::Relaxed), 2);
        fill(&results, &[1, 2], jobs, start, run).expect("nothing is left");
        assert_eq!(starts.load(Ordering::Relaxed), 2);
        assert!(fill(&results, &[3], jobs, start, run).is_err());
        // The row of before is kept, and the row of before the error is there.
        let text = std::fs::read_to_string(&path).expect("written");
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(rows, ["1,a,9", "1,b,1", "2,a,2", "2,b,2", "3,a,3"]);
    }
}
