//! Kernels over the vocabulary: log-probabilities and their gradient, and drawing tokens.

use grpo_lambda_decoder::device::DeviceError;

use super::Extent;
use super::trial::{Bench, Case, Kind, Numbers};
use crate::kernels::{Kernels, SampleState};

/// Tokens and vocabulary; the last is that of Qwen2.5.
const SMALL: [(usize, usize); 4] = [(1, 1), (3, 11), (2, 1029), (1, 151_936)];

pub(super) fn check(bench: &mut Bench) {
    let mut sizes = bench.extent.of(&SMALL);
    let mut draws = sizes.clone();
    if bench.extent == Extent::Full {
        sizes.push(((128, 151_936), true));
        draws.push(((16, 151_936), true));
    }
    for ((n, vocabulary), timed) in sizes {
        for entropy in [false, true] {
            log_prob(bench, n, vocabulary, entropy, timed && entropy);
        }
        log_prob_backward(bench, n, vocabulary, timed);
    }
    for ((n, vocabulary), timed) in draws {
        for greedy in [false, true] {
            sample(bench, n, vocabulary, greedy, timed);
        }
    }
    states(bench);
    advance(bench);
}

/// The inverse of a temperature that is no power of two.
const INVERSE: f32 = 1.25;

/// A line of logits at [`INVERSE`].
struct Line<'a> {
    logits: &'a [f64],
    max: f64,
    log_sum: f64,
}

impl<'a> Line<'a> {
    fn new(logits: &'a [f64]) -> Self {
        let z = |x: &f64| x * f64::from(INVERSE);
        let max = logits.iter().map(z).fold(f64::NEG_INFINITY, f64::max);
        let log_sum = logits.iter().map(|x| (z(x) - max).exp()).sum::<f64>().ln();
        Line { logits, max, log_sum }
    }
    fn log_p(&self, token: usize) -> f64 {
        self.logits[token] * f64::from(INVERSE) - self.max - self.log_sum
    }
    /// What `f32` computes [`Line::log_p`] from.
    fn size(&self, token: usize) -> f64 {
        1.0 + self.logits[token].abs() * f64::from(INVERSE) + self.max.abs() + self.log_sum.abs()
    }
    fn entropy(&self) -> f64 {
        (0..self.logits.len()).map(|j| self.log_p(j)).map(|l| -l * l.exp()).sum()
    }
    fn largest(&self) -> usize {
        let better = |a: usize, b: usize| if self.logits[b] > self.logits[a] { b } else { a };
        (0..self.logits.len()).fold(0, better)
    }
}

fn lines(logits: &Numbers, vocabulary: usize) -> Vec<Line<'_>> {
    logits.at_start.chunks_exact(vocabulary).map(Line::new).collect()
}

fn log_prob(bench: &mut Bench, n: usize, vocabulary: usize, entropy: bool, timed: bool) {
    let sizes = format!("{n} x {vocabulary}{}", if entropy { " with entropy" } else { "" });
    bench.case("log_prob", sizes, |c| {
        let logits = c.random(Kind::F32, n * vocabulary, 3.0)?;
        let (targets, out) = (c.below(n, vocabulary)?, c.blank(Kind::F32, 4 * n)?);
        let launch = |k: &Kernels| {
            let (n, v) = (n as u32, vocabulary as u32);
            k.log_prob(logits.at(), targets.at(), out.at(), n, v, INVERSE, entropy)
        };
        launch(c.kernels)?;
        let lines = lines(&logits, vocabulary);
        c.expect(&out, vocabulary.div_ceil(1024), |i| {
            let (line, target) = (&lines[i / 4], targets.at_start[i / 4] as usize);
            Some(match i % 4 {
                0 => (line.log_p(target), line.size(target)),
                1 if !entropy => (0.0, 0.0),
                1 => (line.entropy(), 1.0 + 2.0 * line.log_sum + line.max.abs()),
                2 => (line.max, line.max.abs()),
                _ => (line.log_sum, 1.0 + line.log_sum),
            })
        })?;
        c.time(timed, logits.bytes(), launch)
    });
}

fn log_prob_backward(bench: &mut Bench, n: usize, vocabulary: usize, timed: bool) {
    bench.case("log_prob_backward", format!("{n} x {vocabulary}"), |c| {
        let logits = c.random(Kind::F32, n * vocabulary, 3.0)?;
        let (targets, slopes) = (c.below(n, vocabulary)?, c.random(Kind::F32, n, 1.0)?);
        let lines = lines(&logits, vocabulary);
        let saved = lines.iter().flat_map(|line| [0.0, 0.0, line.max, line.log_sum]).collect();
        let (saved, out) = (c.of(Kind::F32, saved)?, c.blank(c.real(), n * vocabulary)?);
        let launch = |k: &Kernels| {
            let (n, v, logits, targets) = (n as u32, vocabulary as u32, logits.at(), targets.at());
            k.log_prob_backward(logits, targets, saved.at(), slopes.at(), out.at(), n, v, INVERSE)
        };
        launch(c.kernels)?;
        c.expect(&out, 1, |i| {
            let (t, j) = (i / vocabulary, i % vocabulary);
            let (p, slope) = (lines[t].log_p(j).exp(), slopes.at_start[t] * f64::from(INVERSE));
            let chosen = f64::from(u8::from(targets.at_start[t] as usize == j));
            Some((slope * (chosen - p), slope.abs() * (chosen + p * (1.0 + lines[t].size(j)))))
        })?;
        c.time(timed, logits.bytes() + out.bytes(), launch)
    });
}

/// Positions of a response.
const MOST: usize = 64;

/// The arrays of a [`SampleState`].
struct Rows {
    rows: usize,
    lengths: Numbers,
    produced: Numbers,
    done: Numbers,
    limits: Numbers,
    next: Numbers,
    uniforms: Numbers,
    tokens: Numbers,
    logps: Numbers,
    entropies: Numbers,
    ends: Numbers,
    live: Numbers,
}

impl Rows {
    /// Rows with `[tokens so far, done, limit]`; `uniforms` of the position that each is at.
    fn new(c: &Case<'_>, rows: &[[usize; 3]], uniforms: &[f64], ends: &[f64]) -> Result<Self, DeviceError> {
        let n = rows.len();
        let column = |j: usize| c.of(Kind::U32, rows.iter().map(|row| row[j] as f64).collect());
        let mut all = vec![0.5; n * MOST];
        for (row, (state, u)) in rows.iter().zip(uniforms).enumerate() {
            all[row * MOST + state[0].min(MOST - 1)] = *u;
        }
        Ok(Rows {
            rows: n,
            lengths: c.of(Kind::U32, (0..n).map(|row| 7.0 + row as f64).collect())?,
            produced: column(0)?,
            done: column(1)?,
            limits: column(2)?,
            next: c.blank(Kind::U32, n)?,
            uniforms: c.of(Kind::F64, all)?,
            tokens: c.blank(Kind::U32, n * MOST)?,
            logps: c.blank(Kind::F32, n * MOST)?,
            entropies: c.blank(Kind::F32, n * MOST)?,
            ends: c.of(Kind::U32, ends.to_vec())?,
            live: c.blank(Kind::U32, 1)?,
        })
    }
    fn state(&self) -> SampleState {
        SampleState {
            rows: self.rows as u32,
            most: MOST as u32,
            lengths: self.lengths.at(),
            produced: self.produced.at(),
            done: self.done.at(),
            limits: self.limits.at(),
            next: self.next.at(),
            uniforms: self.uniforms.at(),
            tokens: self.tokens.at(),
            logps: self.logps.at(),
            entropies: self.entropies.at(),
            ends: self.ends.at(),
            ends_len: self.ends.at_start.len() as u32,
            live: self.live.at(),
        }
    }
}

/// A token drawn from a line, and the middle of its part of the cumulative sum: so far from its neighbours' parts that `f32` draws it as well.
fn draw(c: &mut Case<'_>, line: &Line<'_>) -> (usize, f64) {
    loop {
        let (u, mut below) = (c.unit(), 0.0);
        for token in 0..line.logits.len() {
            let p = line.log_p(token).exp();
            if u < below + p {
                if p > 1e-5 {
                    return (token, below + p / 2.0);
                }
                break;
            }
            below += p;
        }
    }
}

/// What rows that are live draw, through lines in another order.
fn sample(bench: &mut Bench, n: usize, vocabulary: usize, greedy: bool, timed: bool) {
    let sizes = format!("{n} x {vocabulary}{}", if greedy { " greedy" } else { "" });
    bench.case("sample", sizes, |c| {
        let logits = c.random(Kind::F32, n * vocabulary, 3.0)?;
        let source: Vec<usize> = (0..n).rev().collect();
        let lines = lines(&logits, vocabulary);
        let drawn: Vec<(usize, f64)> = source
            .iter()
            .map(|line| match greedy {
                true => (lines[*line].largest(), 0.0),
                false => draw(c, &lines[*line]),
            })
            .collect();
        let uniforms: Vec<f64> = drawn.iter().map(|d| d.1).collect();
        let state = Rows::new(c, &vec![[2, 0, MOST]; n], &uniforms, &[])?;
        let from = c.of(Kind::U32, source.iter().map(|s| *s as f64).collect())?;
        let launch = |k: &Kernels| {
            k.sample(logits.at(), from.at(), vocabulary as u32, INVERSE, greedy, &state.state())
        };
        launch(c.kernels)?;
        let here = |i: usize| (i % MOST == 2).then_some(i / MOST);
        c.exact(&state.tokens, |i| Some(here(i).map_or(f64::from(u32::MAX), |row| drawn[row].0 as f64)))?;
        c.exact(&state.next, |row| Some(drawn[row].0 as f64))?;
        c.exact(&state.produced, |_| Some(3.0))?;
        c.exact(&state.done, |_| Some(0.0))?;
        let lone = vocabulary.div_ceil(1024);
        c.expect(&state.logps, lone, |i| {
            let (row, line) = here(i).map(|row| (row, &lines[source[row]]))?;
            Some((line.log_p(drawn[row].0), line.size(drawn[row].0)))
        })?;
        c.exact(&state.logps, |i| here(i).is_none().then_some(f64::NAN))?;
        c.expect(&state.entropies, lone, |i| {
            let line = here(i).map(|row| &lines[source[row]])?;
            Some((line.entropy(), 1.0 + 2.0 * line.log_sum + line.max.abs()))
        })?;
        c.time(timed, logits.bytes(), launch)
    });
}

/// Rows that are done, at their limit, that end, that are cut off, and one of NaN.
fn states(bench: &mut Bench) {
    bench.case("sample", "every state of a row".to_owned(), |c| {
        let (vocabulary, end) = (19, 4);
        let mut logits: Vec<f64> = c.random(Kind::F32, 7 * vocabulary, 1.0)?.at_start;
        for row in 0..7 {
            logits[row * vocabulary + if row == 4 { end } else { 9 }] = 20.0;
        }
        logits[6 * vocabulary + 3] = f64::NAN;
        let logits = c.of(Kind::F32, logits)?;
        // Done by an end token, done by its limit, at its limit, live, ends now, reaches its limit now, NaN.
        let rows = [[1, 1, 9], [2, 2, 2], [5, 0, 5], [0, 0, 9], [3, 0, 9], [4, 0, 5], [1, 0, 9]];
        let state = Rows::new(c, &rows, &[0.5; 7], &[1.0, end as f64])?;
        c.kernels.sample(logits.at(), 0, vocabulary as u32, INVERSE, false, &state.state())?;
        c.exact(&state.done, |row| Some([1.0, 2.0, 2.0, 0.0, 1.0, 2.0, 3.0][row]))?;
        c.exact(&state.produced, |row| Some([1.0, 2.0, 5.0, 1.0, 4.0, 5.0, 1.0][row]))?;
        let drew = |row: usize| [3, 4, 5].contains(&row);
        let token = |row: usize| if row == 4 { end as f64 } else { 9.0 };
        c.exact(&state.next, |row| Some(if drew(row) { token(row) } else { f64::from(u32::MAX) }))?;
        c.exact(&state.tokens, |i| {
            let (row, at) = (i / MOST, i % MOST);
            Some(if drew(row) && at == rows[row][0] { token(row) } else { f64::from(u32::MAX) })
        })?;
        c.untouched(&state.lengths)?;
        c.untouched(&state.limits)
    });
}

fn advance(bench: &mut Bench) {
    for n in [1, 5, 300] {
        bench.case("advance", format!("{n} rows"), |c| {
            let rows: Vec<[usize; 3]> = (0..n).map(|row| [1, row % 4, 9]).collect();
            let state = Rows::new(c, &rows, &vec![0.5; n], &[])?;
            c.kernels.advance(&state.state())?;
            let live = |row: usize| row.is_multiple_of(4);
            c.exact(&state.lengths, |row| Some(7.0 + row as f64 + f64::from(u8::from(live(row)))))?;
            c.exact(&state.live, |_| Some(n.div_ceil(4) as f64))?;
            c.untouched(&state.done)
        });
    }
}
