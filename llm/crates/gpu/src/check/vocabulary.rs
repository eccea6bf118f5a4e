//! Kernels over the vocabulary: log-probabilities and their gradient, and drawing tokens.

use super::Extent;
use super::array::TestArray;
use super::case::{Case, Checker, Result};
use crate::kernels::{LogProb, LogProbBackward, Sample, SampleState, Status};

/// Tokens and vocabulary; the last is that of Qwen2.5.
const SMALL: [(usize, usize); 4] = [(1, 1), (3, 11), (2, 1029), (1, 151_936)];

pub(super) fn check(checker: &mut Checker) {
    let mut sizes = checker.extent.of(&SMALL);
    let mut draws = sizes.clone();
    if checker.extent == Extent::Full {
        sizes.push(((128, 151_936), true));
        draws.push(((16, 151_936), true));
    }
    for ((n, vocabulary), timed) in sizes {
        for entropy in [false, true] {
            log_prob(checker, n, vocabulary, entropy, timed && entropy);
        }
        log_prob_backward(checker, n, vocabulary, timed);
    }
    for ((n, vocabulary), timed) in draws {
        for greedy in [false, true] {
            sample(checker, n, vocabulary, greedy, timed);
        }
    }
    states(checker);
    cut_off(checker);
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

fn lines(logits: &TestArray<f32>, vocabulary: usize) -> Vec<Line<'_>> {
    logits.initial.chunks_exact(vocabulary).map(Line::new).collect()
}

fn log_prob(checker: &mut Checker, n: usize, vocabulary: usize, entropy: bool, timed: bool) {
    let sizes = format!("{n} x {vocabulary}{}", if entropy { " with entropy" } else { "" });
    checker.case("log_prob", sizes, |c| {
        let logits = c.random(n * vocabulary, 3.0)?;
        let (targets, out) = (c.below(n, vocabulary)?, c.blank(4 * n)?);
        let kernel = LogProb {
            logits: logits.ptr(),
            targets: targets.ptr(),
            out: out.ptr_mut(),
            tokens: n as u32,
            vocabulary: vocabulary as u32,
            inverse_temperature: INVERSE,
            entropy,
        };
        c.launch(kernel)?;
        let lines = lines(&logits, vocabulary);
        c.expect(&out, vocabulary.div_ceil(1024), |i| {
            let (line, target) = (&lines[i / 4], targets.initial[i / 4] as usize);
            Some(match i % 4 {
                0 => (line.log_p(target), line.size(target)),
                1 if !entropy => (0.0, 0.0),
                1 => (line.entropy(), 1.0 + 2.0 * line.log_sum + line.max.abs()),
                2 => (line.max, line.max.abs()),
                _ => (line.log_sum, 1.0 + line.log_sum),
            })
        })?;
        c.time(timed, logits.bytes(), kernel)
    });
}

fn log_prob_backward(checker: &mut Checker, n: usize, vocabulary: usize, timed: bool) {
    checker.case("log_prob_backward", format!("{n} x {vocabulary}"), |c| {
        let logits = c.random(n * vocabulary, 3.0)?;
        let (targets, slopes) = (c.below(n, vocabulary)?, c.random(n, 1.0)?);
        let lines = lines(&logits, vocabulary);
        let saved = lines.iter().flat_map(|line| [0.0, 0.0, line.max, line.log_sum]).collect();
        let (saved, out) = (c.array(saved)?, c.blank(n * vocabulary)?);
        let kernel = LogProbBackward {
            logits: logits.ptr(),
            targets: targets.ptr(),
            saved: saved.ptr(),
            slopes: slopes.ptr(),
            dlogits: out.ptr_mut(),
            tokens: n as u32,
            vocabulary: vocabulary as u32,
            inverse_temperature: INVERSE,
        };
        c.launch(kernel)?;
        c.expect(&out, 1, |i| {
            let (t, j) = (i / vocabulary, i % vocabulary);
            let (p, slope) = (lines[t].log_p(j).exp(), slopes.initial[t] * f64::from(INVERSE));
            let chosen = f64::from(u8::from(targets.initial[t] as usize == j));
            Some((slope * (chosen - p), slope.abs() * (chosen + p * (1.0 + lines[t].size(j)))))
        })?;
        c.time(timed, logits.bytes() + out.bytes(), kernel)
    });
}

/// Most tokens of a response.
const MOST: usize = 64;

/// The arrays of a [`SampleState`].
struct Rows {
    rows: usize,
    lengths: TestArray<u32>,
    produced: TestArray<u32>,
    status: TestArray<u32>,
    limits: TestArray<u32>,
    next: TestArray<u32>,
    uniforms: TestArray<f64>,
    tokens: TestArray<u32>,
    logps: TestArray<f32>,
    entropies: TestArray<f32>,
    eos: TestArray<u32>,
}

/// Where a row begins: tokens so far, status, limit.
type Start = (usize, Status, usize);

impl Rows {
    /// Rows that begin so; `uniforms` are of the position that each is at.
    fn new(c: &Case<'_>, rows: &[Start], uniforms: &[f64], eos: &[usize]) -> Result<Self> {
        let n = rows.len();
        let mut all = vec![0.5; n * MOST];
        for (row, ((produced, ..), u)) in rows.iter().zip(uniforms).enumerate() {
            all[row * MOST + (*produced).min(MOST - 1)] = *u;
        }
        Ok(Rows {
            rows: n,
            lengths: c.integers((0..n).map(|row| 7 + row))?,
            produced: c.integers(rows.iter().map(|row| row.0))?,
            status: c.integers(rows.iter().map(|row| row.1 as usize))?,
            limits: c.integers(rows.iter().map(|row| row.2))?,
            next: c.blank(n)?,
            uniforms: c.array(all)?,
            tokens: c.blank(n * MOST)?,
            logps: c.blank(n * MOST)?,
            entropies: c.blank(n * MOST)?,
            eos: c.integers(eos.iter().copied())?,
        })
    }
    fn state(&self) -> SampleState {
        SampleState {
            rows: self.rows as u32,
            max_new_tokens: MOST as u32,
            lengths: self.lengths.ptr_mut(),
            produced: self.produced.ptr_mut(),
            status: self.status.ptr_mut(),
            limits: self.limits.ptr(),
            next: self.next.ptr_mut(),
            uniforms: self.uniforms.ptr(),
            tokens: self.tokens.ptr_mut(),
            logps: self.logps.ptr_mut(),
            entropies: self.entropies.ptr_mut(),
            eos: self.eos.ptr(),
            eos_len: self.eos.initial.len() as u32,
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

/// What active rows draw, through lines in another order, and what stays of one that has no line.
fn sample(checker: &mut Checker, n: usize, vocabulary: usize, greedy: bool, timed: bool) {
    let sizes = format!("{n} x {vocabulary}{}", if greedy { " greedy" } else { "" });
    checker.case("sample", sizes, |c| {
        let logits = c.random(n * vocabulary, 3.0)?;
        let source: Vec<usize> = (0..n).rev().collect();
        let lines = lines(&logits, vocabulary);
        let drawn: Vec<(usize, f64)> = source
            .iter()
            .map(|line| match greedy {
                true => (lines[*line].largest(), 0.0),
                false => draw(c, &lines[*line]),
            })
            .collect();
        let uniforms: Vec<f64> = drawn.iter().map(|d| d.1).chain([0.5]).collect();
        let state = Rows::new(c, &vec![(2, Status::Active, MOST); n + 1], &uniforms, &[])?;
        let from = c.integers(source.iter().copied().chain([Sample::NO_LINE as usize]))?;
        let kernel = Sample {
            logits: logits.ptr(),
            source: Some(from.ptr()),
            vocabulary: vocabulary as u32,
            inverse_temperature: INVERSE,
            greedy,
            advance: true,
            min_new_tokens: 0,
            top_k: None,
            top_p: None,
            state: state.state(),
        };
        c.launch(kernel)?;
        let here = |i: usize| (i % MOST == 2 && i / MOST < n).then_some(i / MOST);
        c.exact(&state.tokens, |i| Some(here(i).map_or(f64::from(u32::MAX), |row| drawn[row].0 as f64)))?;
        c.exact(&state.next, |row| Some(drawn.get(row).map_or(state.next.initial[row], |d| d.0 as f64)))?;
        c.exact(&state.produced, |row| Some(if row < n { 3.0 } else { 2.0 }))?;
        c.exact(&state.lengths, |row| Some(state.lengths.initial[row] + f64::from(u8::from(row < n))))?;
        c.exact(&state.status, |_| Some(0.0))?;
        let serial = vocabulary.div_ceil(1024);
        c.expect(&state.logps, serial, |i| {
            let (row, line) = here(i).map(|row| (row, &lines[source[row]]))?;
            Some((line.log_p(drawn[row].0), line.size(drawn[row].0)))
        })?;
        c.exact(&state.logps, |i| here(i).is_none().then_some(f64::NAN))?;
        c.expect(&state.entropies, serial, |i| {
            let line = here(i).map(|row| &lines[source[row]])?;
            Some((line.entropy(), 1.0 + 2.0 * line.log_sum + line.max.abs()))
        })?;
        c.time(timed, logits.bytes(), kernel)
    });
}

/// The least likely of the tokens that are left: of the likeliest three, of the fewest with nine tenths of the mass, and of those that end
/// nothing.
fn cut_off(checker: &mut Checker) {
    let cuts = [
        ("the likeliest three", 0, Some(3), None),
        ("nine tenths", 0, None, Some(0.9)),
        ("no end", 9, None, None),
    ];
    for (name, min_new_tokens, top_k, top_p) in cuts {
        checker.case("sample", name.to_owned(), |c| {
            // Each token is half as likely as the one before it; the last is all that is left beside the fourth.
            let (vocabulary, ends) = (6, [0, 1, 2, 4, 5]);
            let logits: Vec<f64> = (0..vocabulary).map(|i| -(i as f64) * 2.0f64.ln()).collect();
            let logits = c.array(logits)?;
            let state = Rows::new(c, &[(2, Status::Active, MOST)], &[0.999], &ends)?;
            let p = c.array(vec![top_p.unwrap_or(1.0)])?;
            c.launch(Sample {
                logits: logits.ptr(),
                source: None,
                vocabulary: vocabulary as u32,
                inverse_temperature: 1.0,
                greedy: false,
                advance: false,
                min_new_tokens,
                top_k,
                top_p: top_p.map(|_| p.ptr()),
                state: state.state(),
            })?;
            // Of 63 parts: 32, 16, 8 are 56; 32, 16, 8, 4 are 60, more than nine tenths.
            let (token, share) = if min_new_tokens > 0 {
                (3, 1.0)
            } else if top_k.is_some() {
                (2, 8.0 / 56.0)
            } else {
                (3, 4.0 / 60.0)
            };
            let at = 2;
            c.exact(&state.tokens, |i| Some(if i == at { f64::from(token) } else { f64::from(u32::MAX) }))?;
            c.expect(&state.logps, 1, |i| (i == at).then_some((f64::ln(share), 8.0)))
        });
    }
}

/// Rows that have ended, are at their limit, end now, are truncated now, and one of NaN.
fn states(checker: &mut Checker) {
    use Status::{Active, Ended, NotNumbers, Truncated};
    checker.case("sample", "every state of a row".to_owned(), |c| {
        let (vocabulary, end) = (19, 4);
        let mut logits: Vec<f64> = c.random::<f32>(7 * vocabulary, 1.0)?.initial;
        for row in 0..7 {
            logits[row * vocabulary + if row == 4 { end } else { 9 }] = 20.0;
        }
        logits[6 * vocabulary + 3] = f64::NAN;
        let logits = c.array(logits)?;
        // Ended by an end token, by its limit, at its limit, active, ends now, reaches its limit now, NaN.
        let rows = [
            (1, Ended, 9),
            (2, Truncated, 2),
            (5, Active, 5),
            (0, Active, 9),
            (3, Active, 9),
            (4, Active, 5),
            (1, Active, 9),
        ];
        let state = Rows::new(c, &rows, &[0.5; 7], &[1, end])?;
        c.launch(Sample {
            logits: logits.ptr(),
            source: None,
            vocabulary: vocabulary as u32,
            inverse_temperature: INVERSE,
            greedy: false,
            advance: false,
            min_new_tokens: 0,
            top_k: None,
            top_p: None,
            state: state.state(),
        })?;
        let after = [Ended, Truncated, Truncated, Active, Ended, Truncated, NotNumbers];
        c.exact(&state.status, |row| Some(f64::from(after[row] as u32)))?;
        c.exact(&state.produced, |row| Some([1.0, 2.0, 5.0, 1.0, 4.0, 5.0, 1.0][row]))?;
        let drew = |row: usize| [3, 4, 5].contains(&row);
        let token = |row: usize| if row == 4 { end as f64 } else { 9.0 };
        c.exact(&state.next, |row| Some(if drew(row) { token(row) } else { f64::from(u32::MAX) }))?;
        c.exact(&state.tokens, |i| {
            let (row, at) = (i / MOST, i % MOST);
            Some(if drew(row) && at == rows[row].0 { token(row) } else { f64::from(u32::MAX) })
        })?;
        c.untouched(&state.lengths)?;
        c.untouched(&state.limits)
    });
}
