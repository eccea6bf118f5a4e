//! Long chains with sparse errors, on which credit is known to matter: which methods assign it?
//!
//! `paper/protocols/chain.toml` says what is run and was written first. The runs go on for as long as they are given, in the protocol's order; each row is
//! in the file before the next run begins. A rate's run waits for the earlier rates of its arm and seed, so that rows do not depend on the number of
//! workers.

mod credit;
mod protocol;
mod quality;
mod run;
mod task;
mod verdict;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use grpo_lambda_stats::mean;
use grpo_lambda_trainer::run::progress::{format_duration, say};

use super::lab::LabError;
use super::store::Results;
use protocol::{Arm, Cell, Protocol};
pub use quality::quality;
use run::{Outcome, Start, tokens_to};
use verdict::{Reading, Row, Stage};

/// The first columns, which say whose a row is.
const KEYS: usize = 5;

/// A planned run. An evaluation has the rate that selection chose.
#[derive(Clone, Copy)]
struct Planned {
    stage: Stage,
    cell: &'static Cell,
    arm: &'static Arm,
    seed: u64,
    rate: Option<f64>,
}

/// All runs in their order: the gate's selection, the other selections, the gate's evaluation, the others, and the further cells alike.
fn plan(protocol: &'static Protocol) -> Vec<Planned> {
    let mut all = Vec::new();
    for cell in &protocol.cells {
        for stage in [Stage::Selection, Stage::Evaluation] {
            for gate in [true, false] {
                let arms = || protocol.arms_of(cell).filter(move |a| a.is_of_gate() == gate);
                let seeds = match stage {
                    Stage::Selection => &protocol.seeds.selection,
                    Stage::Evaluation => &protocol.seeds.evaluation,
                };
                for &seed in seeds {
                    for arm in arms() {
                        let planned = |rate| Planned { stage, cell, arm, seed, rate };
                        match stage {
                            Stage::Selection => all.extend(protocol.rates.all().map(|r| planned(Some(r)))),
                            Stage::Evaluation => all.push(planned(None)),
                        }
                    }
                }
            }
        }
    }
    all
}

impl Planned {
    /// The key of the start that this run shares with others.
    fn start(&self) -> (&'static str, u64) {
        (&self.cell.name, self.seed)
    }

    /// True of the runs without which it is not known whether any other is made.
    fn decides_on_gate(&self) -> bool {
        let first = Protocol::committed().cells.first().map(|cell| &cell.name);
        self.stage == Stage::Selection && first == Some(&self.cell.name) && self.arm.is_of_gate()
    }

    fn is_done(&self, reading: Reading<'_>) -> bool {
        match self.rate {
            Some(rate) => reading.selection(self.cell, &self.arm.name, rate, self.seed).is_some(),
            None => reading.evaluation(self.cell, &self.arm.name, self.seed).is_some(),
        }
    }

    /// The rate, once the rows that decide on this run are there.
    fn ready(&self, reading: Reading<'_>) -> Option<f64> {
        let earlier = |rate: f64| {
            let mut before = reading.protocol.rates.all().take_while(|r| *r != rate);
            before.all(|r| reading.selection(self.cell, &self.arm.name, r, self.seed).is_some())
        };
        match self.rate {
            Some(rate) => Some(rate).filter(|rate| earlier(*rate)),
            None => reading.chosen(self.cell, &self.arm.name),
        }
    }

    /// The fewest tokens with which an earlier rate of this arm and seed reached the target.
    fn fewest_tokens(&self, reading: Reading<'_>) -> f64 {
        let reached = |rate| reading.selection(self.cell, &self.arm.name, rate, self.seed)?.reached;
        let rates =
            self.rate.iter().flat_map(|own| reading.protocol.rates.all().take_while(move |r| r != own));
        rates.filter_map(reached).fold(f64::INFINITY, f64::min)
    }

    fn row(&self, rate: f64, start: &Start, done: &Outcome, target: f64) -> Row {
        let accuracy = |point: Option<&run::Point>| point.map_or(f64::NAN, |p| p.accuracy);
        let curve: Vec<String> =
            done.curve.iter().map(|p| format!("{}:{:.4}", p.tokens, p.accuracy)).collect();
        Row {
            cell: self.cell.name.clone(),
            stage: self.stage,
            arm: self.arm.name.clone(),
            rate,
            seed: self.seed,
            ended: done.end.name().to_owned(),
            steps: done.steps,
            tokens: done.tokens as u64,
            completed: done.completed as u64,
            reached: tokens_to(&done.curve, target),
            start_steps: start.steps,
            start_accuracy: accuracy(done.curve.first()),
            accuracy: accuracy(done.curve.last()),
            length: done.length,
            seconds: done.seconds,
            curve: curve.join(" "),
        }
    }
}

/// The rows, and the runs under way by their place in the plan.
struct Progress {
    results: Results,
    rows: Vec<Row>,
    busy: Vec<usize>,
    stopped: bool,
}

/// A start that is made by the first run that needs it.
type Shared = Arc<Mutex<Option<Arc<Start>>>>;

struct Campaign {
    protocol: &'static Protocol,
    plan: Vec<Planned>,
    deadline: Instant,
    progress: Mutex<Progress>,
    changed: Condvar,
    starts: Mutex<HashMap<(&'static str, u64), Shared>>,
    /// The folder beside the rows that keeps the starts for the next time.
    kept: PathBuf,
}

/// The command that is written into a file of this protocol's rows.
fn command(protocol: &Protocol) -> String {
    format!("chain FILE MINUTES (protocol {})", protocol.version)
}

/// The file of results, with its rows.
fn open(protocol: &Protocol, path: &Path) -> Result<(Results, Vec<Row>), LabError> {
    let results = Results::open_typed::<Row>(path, &command(protocol), KEYS)?;
    let rows = results.rows()?;
    Ok((results, rows))
}

/// Runs what is missing for so many minutes, one run per worker thread, and reports on the rows that are there. A run is begun only if one of the mean
/// time of those before would end in time. The weights from which runs start lie beside the rows, under the name of `FILE` with the ending
/// `starts.VERSION`: each is made once.
pub fn run(path: &Path, minutes: u64) -> Result<(), LabError> {
    let protocol = Protocol::committed();
    go_on(protocol, path, minutes)?;
    let (_, rows) = open(protocol, path)?;
    Reading { protocol, rows: &rows }.report().iter().for_each(|line| say(line));
    Ok(())
}

fn go_on(protocol: &'static Protocol, path: &Path, minutes: u64) -> Result<(), LabError> {
    let seconds = minutes.checked_mul(60).map(Duration::from_secs);
    let deadline = seconds.and_then(|s| Instant::now().checked_add(s)).ok_or(LabError::Minutes(minutes))?;
    let (results, rows) = open(protocol, path)?;
    let campaign = Campaign {
        protocol,
        plan: plan(protocol),
        deadline,
        progress: Mutex::new(Progress { results, rows, busy: Vec::new(), stopped: false }),
        changed: Condvar::new(),
        starts: Mutex::default(),
        kept: path.with_extension(format!("starts.{}", protocol.version)),
    };
    let workers = rayon::current_num_threads();
    std::thread::scope(|scope| {
        let work = || {
            // A run takes one thread; without a pool of its own it would share that of all.
            match rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build() {
                Ok(alone) => alone.install(|| campaign.work(workers)),
                Err(_) => campaign.work(workers),
            }
        };
        let all: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        all.into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

impl Campaign {
    fn locked(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, workers: usize) -> Result<(), LabError> {
        while let Some((place, rate, fewest_tokens)) = self.next() {
            let planned = &self.plan[place];
            let done = self.execute(planned, rate, fewest_tokens);
            let mut progress = self.locked();
            progress.busy.retain(|p| *p != place);
            let added = done.and_then(|row| {
                progress.results.add_typed(&row)?;
                progress.rows.push(row);
                Ok(())
            });
            progress.stopped |= added.is_err();
            self.changed.notify_all();
            added?;
            self.tell(&progress, workers);
        }
        Ok(())
    }

    /// The next run that can begin, with its rate and the tokens to beat; waits for those under way where it depends on them.
    fn next(&self) -> Option<(usize, f64, f64)> {
        let mut progress = self.locked();
        loop {
            let reading = Reading { protocol: self.protocol, rows: &progress.rows };
            let valid = reading.gate(Stage::Selection).is_some_and(verdict::Gate::is_passed);
            let left = (0..self.plan.len())
                .filter(|i| !progress.busy.contains(i) && !self.plan[*i].is_done(reading))
                .filter(|i| valid || self.plan[*i].decides_on_gate())
                .filter(|i| !self.waits_for_start(&progress.busy, *i));
            let found = left
                .filter_map(|i| Some((i, self.plan[i].ready(reading)?, self.plan[i].fewest_tokens(reading))))
                .next();
            if progress.stopped || Instant::now() + expected(&progress.rows) > self.deadline {
                return None;
            }
            if let Some(found) = found {
                progress.busy.push(found.0);
                return Some(found);
            }
            if progress.busy.is_empty() {
                return None;
            }
            progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// True while another worker makes the start of this run: a run with another start comes first.
    fn waits_for_start(&self, busy: &[usize], place: usize) -> bool {
        let key = self.plan[place].start();
        let starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        let is_made = || starts.get(&key).and_then(|s| Some(s.try_lock().ok()?.is_some())) == Some(true);
        busy.iter().any(|other| self.plan[*other].start() == key) && !is_made()
    }

    fn execute(&self, planned: &Planned, rate: f64, fewest_tokens: f64) -> Result<Row, LabError> {
        let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = starts.entry(planned.start()).or_default().clone();
        drop(starts);
        let start = {
            let mut made = shared.lock().unwrap_or_else(PoisonError::into_inner);
            match &*made {
                Some(start) => start.clone(),
                None => {
                    let folder = self.kept.join(format!("{}-{}", planned.cell.name, planned.seed));
                    let form = self.protocol.form(planned.cell);
                    let fresh = Start::kept(self.protocol, form, planned.seed, &folder)?;
                    let start = made.insert(Arc::new(fresh)).clone();
                    drop(made);
                    self.changed.notify_all();
                    start
                }
            }
        };
        let is_dominated = |run: &Outcome, _: &_| run.steps >= 100 && run.tokens as f64 > fewest_tokens;
        let done = start.run(planned.arm, rate, is_dominated)?;
        Ok(planned.row(rate, &start, &done, self.protocol.exam.target))
    }

    fn tell(&self, progress: &Progress, workers: usize) {
        let Some(row) = progress.rows.last() else { return };
        let reading = Reading { protocol: self.protocol, rows: &progress.rows };
        let left = self.plan.iter().filter(|p| !p.is_done(reading)).count();
        let reached =
            row.reached.map_or(row.ended.clone(), |tokens| format!("{tokens:.0} tokens to the target"));
        let to_go = expected(&progress.rows).mul_f64(left as f64 / workers as f64);
        say(&format!(
            "{} {:?} {} rate {} seed {}: {reached}, {:.3} -> {:.3} in {} steps and {:.0} s; {left} of {} runs left, ETA {}",
            row.cell,
            row.stage,
            row.arm,
            row.rate,
            row.seed,
            row.start_accuracy,
            row.accuracy,
            row.steps,
            row.seconds,
            self.plan.len(),
            format_duration(to_go)
        ));
    }
}

/// The mean time of a run so far; none before the first.
fn expected(rows: &[Row]) -> Duration {
    let seconds: Vec<f64> = rows.iter().map(|r| r.seconds).collect();
    Duration::try_from_secs_f64(mean(&seconds).unwrap_or(0.0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The committed protocol with a model, runs and seeds that take a second.
    fn small(arms: usize) -> &'static Protocol {
        let mut protocol = Protocol::read();
        protocol.cells.truncate(1);
        protocol.arms.truncate(arms);
        let (model, start, rl) = (&mut protocol.model, &mut protocol.start, &mut protocol.rl);
        (model.hidden, model.intermediate, start.most_steps, start.batch) = (16, 16, 2, 2);
        (rl.prompts, rl.group, rl.most_steps) = (2, 4, 2);
        (protocol.exam.prompts, protocol.exam.every) = (2, 1);
        protocol.rates.factors.truncate(2);
        protocol.seeds.selection.truncate(1);
        protocol.seeds.evaluation.truncate(1);
        Box::leak(Box::new(protocol))
    }

    /// The rows of a file without their times.
    fn rows(protocol: &Protocol, path: &Path) -> Vec<Row> {
        let (_, rows) = open(protocol, path).expect("own file");
        rows.into_iter().map(|row| Row { seconds: 0.0, ..row }).collect()
    }

    #[test]
    fn a_stopped_experiment_goes_on_to_the_same_rows_and_a_void_gate_ends_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (whole, cut) = (folder.path().join("whole.csv"), folder.path().join("cut.csv"));
        let protocol = small(4);
        go_on(protocol, &whole, 60).expect("it runs");
        let all = rows(protocol, &whole);
        // Two rates of RLOO and the two controls: none reaches the target, so that the oracle gains nothing and no other arm runs.
        assert_eq!(all.len(), 6);
        assert!(all.iter().all(|row| row.ended == "limit" && row.reached.is_none() && row.arm != "grpo"));
        let text = std::fs::read_to_string(&whole).expect("written");
        for kept in [3, 5, 7] {
            let lines: Vec<&str> = text.lines().take(kept).collect();
            std::fs::write(&cut, lines.join("\n") + "\n").expect("written");
            go_on(protocol, &cut, 60).expect("it runs");
            assert_eq!(rows(protocol, &cut), all, "{kept} lines were left");
        }
        let before = std::fs::read(&whole).expect("there");
        go_on(protocol, &whole, 0).expect("nothing is left");
        assert_eq!(std::fs::read(&whole).expect("there"), before);
    }

    #[test]
    fn every_arm_trains_on_its_evidence() {
        let protocol = small(usize::MAX);
        let start = Start::new(protocol, protocol.form(&protocol.cells[0]), 1).expect("it learns");
        for arm in &protocol.arms {
            let done = start.run(arm, 0.01, |_, _| false).unwrap_or_else(|e| panic!("{}: {e}", arm.name));
            assert_eq!((done.steps, done.curve.len()), (2, 3), "{}", arm.name);
            assert_eq!(done.completed > 0, arm.name == "vine_ppo", "{}", arm.name);
        }
    }

    #[test]
    fn a_run_waits_for_the_rows_that_decide_on_it() {
        let protocol = small(1);
        let plan = plan(protocol);
        let row = |rate: f64, reached| Row {
            cell: protocol.cells[0].name.clone(),
            arm: "rloo".to_owned(),
            rate,
            seed: protocol.seeds.selection[0],
            reached,
            ..Row::default()
        };
        let rates: Vec<f64> = protocol.rates.all().collect();
        let rows = [row(rates[0], Some(900.0)), row(rates[1], Some(800.0))];
        let ready = |n: usize| {
            let reading = Reading { protocol, rows: &rows[..n] };
            plan.iter()
                .map(|p| (p.is_done(reading), p.ready(reading), p.fewest_tokens(reading)))
                .collect::<Vec<_>>()
        };
        let none = f64::INFINITY;
        assert_eq!(ready(0), [(false, Some(rates[0]), none), (false, None, none), (false, None, none)]);
        assert_eq!(
            ready(1),
            [(true, Some(rates[0]), none), (false, Some(rates[1]), 900.0), (false, None, none)]
        );
        assert_eq!(ready(2)[2], (false, Some(rates[1]), none), "the rate with the fewest tokens");
    }
}
