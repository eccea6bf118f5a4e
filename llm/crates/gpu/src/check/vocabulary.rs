//! Kernels over the vocabulary: log-probabilities and their gradient, and drawing tokens.

use grpo_lambda::systematic::Code;
use grpo_lambda_decoder::truncation::Truncation;

use super::Extent;
use super::array::TestArray;
use super::case::{Case, Checker, Result};
use crate::kernels::{LogProb, LogProbBackward, Sample, SampleState, Status};

/// Tokens and vocabulary; the last is that of Qwen2.5.
const SMALL: [(usize, usize); 4] = [(1, 1), (4, 11), (2, 1029), (1, 151_936)];

pub(super) fn check(checker: &mut Checker) {
    for (n, vocabulary) in checker.extent.sizes(&SMALL) {
        for either in [false, true] {
            log_prob(checker, n, vocabulary, either);
            sample(checker, n, vocabulary, either);
        }
        log_prob_backward(checker, n, vocabulary);
    }
    for greedy in [false, true] {
        states(checker, greedy);
    }
    ends(checker);
    [5, 70, 2000].into_iter().for_each(|vocabulary| coded(checker, vocabulary));
    for vocabulary in [5, 5000] {
        CUTS.into_iter().for_each(|cut| cut_off(checker, vocabulary, cut));
    }
    if checker.extent != Extent::Odd {
        // So many that a lane has several of a part of a part.
        cut_off(checker, SMALL[3].1, EARLY);
    }
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
    /// The size of the numbers from which `f32` computes [`Line::log_p`].
    fn size(&self, token: usize) -> f64 {
        let logit = if self.logits[token] == f64::NEG_INFINITY { 0.0 } else { self.logits[token] };
        1.0 + logit.abs() * f64::from(INVERSE) + self.max.abs() + self.log_sum.abs()
    }
    fn entropy(&self) -> f64 {
        let log_ps = (0..self.logits.len()).map(|j| self.log_p(j));
        log_ps.map(|l| if l == f64::NEG_INFINITY { 0.0 } else { -l * l.exp() }).sum()
    }
    fn probabilities(&self) -> Vec<f64> {
        (0..self.logits.len()).map(|j| self.log_p(j).exp()).collect()
    }
}

fn lines(logits: &TestArray<f32>, vocabulary: usize) -> Vec<Line<'_>> {
    logits.initial.chunks_exact(vocabulary).map(Line::new).collect()
}

/// Logits with one that has no probability; of four lines one has a NaN and one an infinity, which spoil no other.
fn logits(c: &mut Case<'_>, n: usize, vocabulary: usize) -> Result<TestArray<f32>> {
    let mut numbers = c.random::<f32>(n * vocabulary, 3.0)?.initial;
    if vocabulary > 10 {
        numbers[vocabulary - 1] = f64::NEG_INFINITY;
    }
    if n == 4 {
        (numbers[vocabulary + 5], numbers[2 * vocabulary + 7]) = (f64::NAN, f64::INFINITY);
    }
    c.array(numbers)
}

fn log_prob(checker: &mut Checker, n: usize, vocabulary: usize, entropy: bool) {
    let sizes = format!("{n} x {vocabulary}{}", if entropy { " with entropy" } else { "" });
    checker.case("log_prob", sizes, |c| {
        let logits = logits(c, n, vocabulary)?;
        let (targets, out) = (c.below(n, vocabulary)?, c.blank(4 * n)?);
        c.launch(LogProb {
            logits: logits.ptr(),
            targets: targets.ptr(),
            out: out.ptr_mut(),
            tokens: n as u32,
            vocabulary: vocabulary as u32,
            inverse_temperature: INVERSE,
            entropy,
        })?;
        let lines = lines(&logits, vocabulary);
        c.expect(&out, vocabulary.div_ceil(1024), |i| {
            let (line, target) = (&lines[i / 4], targets.initial[i / 4] as usize);
            Some(match i % 4 {
                0 => (line.log_p(target), line.size(target)),
                1 if !entropy => (0.0, 0.0),
                1 => (line.entropy(), 1.0 + 2.0 * line.log_sum + line.max.abs()),
                // They make a NaN of the two before.
                _ if !line.log_sum.is_finite() => return None,
                2 => (line.max, line.max.abs()),
                _ => (line.log_sum, 1.0 + line.log_sum),
            })
        })
    });
}

fn log_prob_backward(checker: &mut Checker, n: usize, vocabulary: usize) {
    checker.case("log_prob_backward", format!("{n} x {vocabulary}"), |c| {
        let logits = logits(c, n, vocabulary)?;
        let (targets, slopes) = (c.below(n, vocabulary)?, c.random(n, 1.0)?);
        let lines = lines(&logits, vocabulary);
        let saved = lines.iter().flat_map(|line| [0.0, 0.0, line.max, line.log_sum]).collect();
        let (saved, out) = (c.array(saved)?, c.blank(n * vocabulary)?);
        c.launch(LogProbBackward {
            logits: logits.ptr(),
            targets: targets.ptr(),
            saved: saved.ptr(),
            slopes: slopes.ptr(),
            dlogits: out.ptr_mut(),
            tokens: n as u32,
            vocabulary: vocabulary as u32,
            inverse_temperature: INVERSE,
        })?;
        c.expect(&out, 1, |i| {
            let (t, j) = (i / vocabulary, i % vocabulary);
            let (p, slope) = (lines[t].log_p(j).exp(), slopes.initial[t] * f64::from(INVERSE));
            let chosen = f64::from(u8::from(targets.initial[t] as usize == j));
            Some((slope * (chosen - p), slope.abs() * (chosen + p * (1.0 + lines[t].size(j)))))
        })
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
    codes: TestArray<f64>,
    tokens: TestArray<u32>,
    logps: TestArray<f32>,
    entropies: TestArray<f32>,
    eos: TestArray<u32>,
}

/// The start of a row: tokens so far, status, limit.
type Start = (usize, Status, usize);

impl Rows {
    /// Rows with these starts; `uniforms` are of the position that each is at.
    fn new(c: &Case<'_>, rows: &[Start], uniforms: &[f64], eos: &[usize]) -> Result<Self> {
        let n = rows.len();
        let mut all = vec![0.9; n * MOST];
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
            codes: c.array(vec![0.0; n])?,
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
            uniforms: self.uniforms.ptr_mut(),
            codes: self.codes.ptr_mut(),
            tokens: self.tokens.ptr_mut(),
            logps: self.logps.ptr_mut(),
            entropies: self.entropies.ptr_mut(),
            eos: self.eos.ptr(),
            eos_len: self.eos.initial.len() as u32,
        }
    }

    /// Expects that no row was decoded from a code.
    fn undecoded(&self, c: &mut Case<'_>) -> Result {
        c.untouched(&self.uniforms)?;
        c.untouched(&self.codes)
    }
}

/// The first of the largest numbers.
fn largest(x: &[f64]) -> usize {
    (0..x.len()).fold(0, |a, b| if x[b] > x[a] { b } else { a })
}

/// A token drawn with these probabilities, and the middle of its part of the cumulative sum: far enough from its neighbours' parts for `f32` to
/// draw it, too.
fn draw(c: &mut Case<'_>, probabilities: &[f64]) -> (usize, f64) {
    loop {
        let (u, mut below) = (c.unit(), 0.0);
        for (token, p) in probabilities.iter().enumerate() {
            if u < below + p {
                if *p > 1e-5 {
                    return (token, below + p / 2.0);
                }
                break;
            }
            below += p;
        }
    }
}

/// Draws of active rows from lines in another order, with the log-probabilities of training, to the bit; a row without a line stays.
fn sample(checker: &mut Checker, n: usize, vocabulary: usize, greedy: bool) {
    let sizes = format!("{n} x {vocabulary}{}", if greedy { " greedy" } else { "" });
    checker.case("sample", sizes, |c| {
        let mut numbers = c.random::<f32>(n * vocabulary, 3.0)?.initial;
        if greedy {
            // Ties: the first of equals is taken.
            numbers.iter_mut().for_each(|x| *x = x.round());
        }
        let logits = c.array(numbers)?;
        let source: Vec<usize> = (0..n).rev().collect();
        let lines = lines(&logits, vocabulary);
        let drawn: Vec<(usize, f64)> = source
            .iter()
            .map(|line| match greedy {
                true => (largest(lines[*line].logits), 0.0),
                false => draw(c, &lines[*line].probabilities()),
            })
            .collect();
        let uniforms: Vec<f64> = drawn.iter().map(|d| d.1).chain([0.5]).collect();
        let state = Rows::new(c, &vec![(2, Status::Active, MOST); n + 1], &uniforms, &[])?;
        let from = c.integers(source.iter().copied().chain([Sample::NO_LINE as usize]))?;
        c.launch(Sample {
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
        })?;
        let here = |i: usize| (i % MOST == 2 && i / MOST < n).then_some(i / MOST);
        c.exact(&state.tokens, |i| Some(here(i).map_or(f64::from(u32::MAX), |row| drawn[row].0 as f64)))?;
        c.exact(&state.next, |row| Some(drawn.get(row).map_or(state.next.initial[row], |d| d.0 as f64)))?;
        c.exact(&state.produced, |row| Some(if row < n { 3.0 } else { 2.0 }))?;
        c.exact(&state.lengths, |row| Some(state.lengths.initial[row] + f64::from(u8::from(row < n))))?;
        c.exact(&state.status, |_| Some(0.0))?;
        state.undecoded(c)?;
        let serial = vocabulary.div_ceil(1024);
        c.expect(&state.logps, serial, |i| {
            let (row, line) = here(i).map(|row| (row, &lines[source[row]]))?;
            Some((line.log_p(drawn[row].0), line.size(drawn[row].0)))
        })?;
        let trained = trained(c, &logits, vocabulary, &source, &drawn)?;
        let number =
            |i: usize, which: usize| here(i).map_or(f64::NAN, |row| trained[4 * source[row] + which]);
        c.exact(&state.logps, |i| Some(number(i, 0)))?;
        c.exact(&state.entropies, |i| Some(number(i, 1)))?;
        c.expect(&state.entropies, serial, |i| {
            let line = here(i).map(|row| &lines[source[row]])?;
            Some((line.entropy(), 1.0 + 2.0 * line.log_sum + line.max.abs()))
        })
    });
}

/// Draws of rows that are decoded from a code: what is left of it is the number of the next token, unless the token uses it up.
fn coded(checker: &mut Checker, vocabulary: usize) {
    checker.case("sample", format!("{vocabulary} from codes"), |c| {
        let n = 6;
        let logits = c.random::<f32>(n * vocabulary, 2.0)?;
        let lines = lines(&logits, vocabulary);
        let drawn: Vec<(usize, f64)> = lines.iter().map(|line| draw(c, &line.probabilities())).collect();
        let uniforms: Vec<f64> = drawn.iter().map(|drawn| drawn.1).collect();
        let codes: Vec<f64> = (0..n).map(|row| [1.0, 1.5 * Code::LEAST, 0.0][row % 3]).collect();
        let rows = Rows::new(c, &vec![(2, Status::Active, MOST); n], &uniforms, &[])?;
        let state = Rows { codes: c.array(codes.clone())?, ..rows };
        c.launch(plain(&logits, &state))?;
        c.exact(&state.next, |row| Some(drawn[row].0 as f64))?;
        let share = |row: usize| lines[row].log_p(drawn[row].0).exp();
        let left = |row: usize| codes[row] * share(row);
        c.compare(&state.codes, |row| Some((left(row), 1e-6 * left(row))))?;
        // Draws are in the middle of their token's share.
        let goes_on = |i: usize| i % MOST == 3 && left(i / MOST) >= Code::LEAST;
        c.compare(&state.uniforms, |i| {
            Some(if goes_on(i) { (0.5, 1e-6 / share(i / MOST)) } else { (state.uniforms.initial[i], 0.0) })
        })
    });
}

/// The output of [`LogProb`] for the tokens drawn.
fn trained(
    c: &Case<'_>,
    logits: &TestArray<f32>,
    vocabulary: usize,
    source: &[usize],
    drawn: &[(usize, f64)],
) -> Result<Vec<f64>> {
    let mut targets = vec![0; source.len()];
    source.iter().zip(drawn).for_each(|(line, drawn)| targets[*line] = drawn.0);
    let (targets, out) = (c.integers(targets)?, c.blank(4 * source.len())?);
    c.launch(LogProb {
        logits: logits.ptr(),
        targets: targets.ptr(),
        out: out.ptr_mut(),
        tokens: source.len() as u32,
        vocabulary: vocabulary as u32,
        inverse_temperature: INVERSE,
        entropy: true,
    })?;
    out.read()
}

/// A draw from these logits, each row from its own line.
fn plain(logits: &TestArray<f32>, state: &Rows) -> Sample {
    Sample {
        logits: logits.ptr(),
        source: None,
        vocabulary: (logits.initial.len() / state.rows) as u32,
        inverse_temperature: INVERSE,
        greedy: false,
        advance: false,
        min_new_tokens: 0,
        top_k: None,
        top_p: None,
        state: state.state(),
    }
}

/// Uniform numbers at both ends, with tokens at both ends that cannot be drawn.
fn ends(checker: &mut Checker) {
    for vocabulary in [5, 70, 2000] {
        checker.case("sample", format!("{vocabulary} at both ends"), |c| {
            let none = |i: usize| i < 2 || i + 2 >= vocabulary;
            let line = (0..vocabulary).map(|i| if none(i) { f64::NEG_INFINITY } else { 0.5 });
            let logits = c.array(line.clone().chain(line).collect())?;
            let uniforms = [0.0, 1.0 - f64::EPSILON / 2.0];
            let state = Rows::new(c, &[(0, Status::Active, MOST); 2], &uniforms, &[])?;
            c.launch(plain(&logits, &state))?;
            state.undecoded(c)?;
            c.exact(&state.next, |row| Some([2.0, vocabulary as f64 - 3.0][row]))
        });
    }
}

/// A cut: the likeliest tokens, the share of probability, true if it is too early to end, true to take the likeliest.
type Cut = (Option<usize>, Option<f64>, bool, bool);

const EARLY: Cut = (None, None, true, false);
const CUTS: [Cut; 6] = [
    (Some(1), None, false, false),
    (Some(3), None, false, false),
    (Some(40), Some(0.8), false, false),
    (None, Some(0.35), true, false),
    EARLY,
    (Some(2), None, true, true),
];

/// Draws from a flat line, a peaked one, one whose ties are cut through, and one of end tokens alone, as on the CPU.
fn cut_off(checker: &mut Checker, vocabulary: usize, (top_k, top_p, early, greedy): Cut) {
    let name = format!("{vocabulary} cut to {top_k:?} {top_p:?}{}", if early { " early" } else { "" });
    checker.case("sample", name, |c| {
        let ends: &[usize] = if vocabulary == 5 { &[1, 4] } else { &[1, 4, 40, 41, 42, 300, 301] };
        let mut lines = Vec::new();
        for spread in [0.3, 3.0, 2.0] {
            lines.push(c.random::<f32>(vocabulary, spread)?.initial);
        }
        lines[2].iter_mut().for_each(|x| *x = x.round());
        lines
            .push((0..vocabulary).map(|i| if ends.contains(&i) { 1.0 } else { f64::NEG_INFINITY }).collect());
        // Of every line: the token, its uniform number and log-probability, and the entropy.
        let mut drawn = Vec::new();
        for logits in &lines {
            let line = Line::new(logits);
            let mut scores: Vec<f32> = (0..vocabulary).map(|j| line.log_p(j) as f32).collect();
            if early {
                ends.iter().for_each(|end| scores[*end] = f32::NEG_INFINITY);
            }
            Truncation { top_k, top_p }.apply(&mut scores);
            let left: f64 = scores.iter().map(|x| f64::from(*x).exp()).sum();
            let shares: Vec<f64> = scores.iter().map(|x| f64::from(*x).exp() / left).collect();
            drawn.push((left > 0.0).then(|| {
                let (token, u) = if greedy { (largest(&shares), 0.0) } else { draw(c, &shares) };
                (token, u, shares[token].ln(), line.entropy())
            }));
        }
        let uniforms: Vec<f64> = drawn.iter().map(|drawn| drawn.map_or(0.5, |drawn| drawn.1)).collect();
        let logits = c.array(lines.concat())?;
        let state = Rows::new(c, &[(0, Status::Active, MOST); 4], &uniforms, ends)?;
        let p = c.array(vec![top_p.unwrap_or(1.0)])?;
        c.launch(Sample {
            greedy,
            min_new_tokens: u32::from(early),
            top_k: top_k.map(|k| k as u32),
            top_p: top_p.map(|_| p.ptr()),
            ..plain(&logits, &state)
        })?;
        let token = |row: usize| Some(drawn[row].map_or(f64::from(u32::MAX), |drawn| drawn.0 as f64));
        let status = |row: usize| match drawn[row] {
            None => Status::NotNumbers,
            Some(drawn) if ends.contains(&drawn.0) => Status::Ended,
            Some(_) => Status::Active,
        };
        let here = |i: usize| drawn[i / MOST].filter(|_| i.is_multiple_of(MOST));
        c.exact(&state.tokens, |i| Some(here(i).map_or(f64::from(u32::MAX), |drawn| drawn.0 as f64)))?;
        c.exact(&state.next, token)?;
        c.exact(&state.produced, |row| Some(f64::from(u8::from(drawn[row].is_some()))))?;
        c.exact(&state.status, |row| Some(f64::from(status(row) as u32)))?;
        state.undecoded(c)?;
        let close = |value: f64| (value, 1e-6 * (1.0 + value.abs()));
        c.compare(&state.logps, |i| Some(here(i).map_or((f64::NAN, 0.0), |drawn| close(drawn.2))))?;
        c.compare(&state.entropies, |i| Some(here(i).map_or((f64::NAN, 0.0), |drawn| close(drawn.3))))?;
        c.untouched(&state.lengths)
    });
}

/// Rows that have ended, are at their limit, end now, are truncated now, and some without a distribution: with a NaN, an infinity, and nothing
/// but minus infinity.
fn states(checker: &mut Checker, greedy: bool) {
    use Status::{Active, Ended, NotNumbers, Truncated};
    let name = format!("every state of a row{}", if greedy { " greedy" } else { "" });
    checker.case("sample", name, |c| {
        let (vocabulary, end) = (19, 4);
        let mut logits: Vec<f64> = c.random::<f32>(9 * vocabulary, 1.0)?.initial;
        for row in 0..7 {
            logits[row * vocabulary + if row == 4 { end } else { 9 }] = 20.0;
        }
        (logits[6 * vocabulary + 3], logits[7 * vocabulary + 3]) = (f64::NAN, f64::INFINITY);
        logits[8 * vocabulary..].fill(f64::NEG_INFINITY);
        let logits = c.array(logits)?;
        // Ended by an end token, by its limit, at its limit, active, ends now, reaches its limit now, and no distribution.
        let rows = [
            (1, Ended, 9),
            (2, Truncated, 2),
            (5, Active, 5),
            (0, Active, 9),
            (3, Active, 9),
            (4, Active, 5),
            (1, Active, 9),
            (1, Active, 9),
            (1, Active, 9),
        ];
        let state = Rows::new(c, &rows, &[0.5; 9], &[1, end])?;
        c.launch(Sample { greedy, ..plain(&logits, &state) })?;
        let after =
            [Ended, Truncated, Truncated, Active, Ended, Truncated, NotNumbers, NotNumbers, NotNumbers];
        c.exact(&state.status, |row| Some(f64::from(after[row] as u32)))?;
        state.undecoded(c)?;
        c.exact(&state.produced, |row| Some([1.0, 2.0, 5.0, 1.0, 4.0, 5.0, 1.0, 1.0, 1.0][row]))?;
        let drew = |row: usize| [3, 4, 5].contains(&row);
        let token = |row: usize| if row == 4 { end as f64 } else { 9.0 };
        c.exact(&state.next, |row| Some(if drew(row) { token(row) } else { f64::from(u32::MAX) }))?;
        let here = |i: usize| drew(i / MOST) && i % MOST == rows[i / MOST].0;
        c.exact(&state.tokens, |i| Some(if here(i) { token(i / MOST) } else { f64::from(u32::MAX) }))?;
        c.exact(&state.logps, |i| (!here(i)).then_some(f64::NAN))?;
        c.exact(&state.entropies, |i| (!here(i)).then_some(f64::NAN))?;
        c.untouched(&state.lengths)?;
        c.untouched(&state.limits)
    });
}
