//! The grader: a pool of cases written by hand, the references of five benchmarks, and anything as input.
//!
//! The benchmarks are read from `../shared/data` beside the repository, or from the folder `GRPO_LAMBDA_DATA`.
#![allow(clippy::unwrap_used)] // a test that cannot read its data should stop there

mod agreement;
mod data;
mod guesses;
mod kinds;
mod metamorphic;
mod real;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

use cpu_time::ThreadTime;
use data::{Case, benchmarks, golds, here, lines, text, written};
use grpo_lambda_grade::{Answer, Extraction, Gold, Grader, Prediction, Reason, Rule, Rules, Verdict};
use proptest::prelude::*;
use rayon::prelude::*;
use serde_json::Value;

/// The verdict of the strict rules, by which an expression is its value.
fn verdict(gold: &str, answer: &str) -> Verdict {
    let grader = Grader { rules: Rules::STRICT.with(Rule::Evaluated), ..Grader::default() };
    let gold = grader.reference(&Gold::math(gold).unwrap());
    gold.grade(&Prediction::extract(answer, Extraction::Auto))
}

#[test]
fn the_pool_is_graded_as_written_in_every_class() {
    let pool: Vec<Case> = lines(&here("pool.jsonl"));
    assert!(pool.len() >= 400);
    let mut classes: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for case in &pool {
        assert!(!case.source.is_empty());
        let found = verdict(&case.gold, &case.answer);
        let right = found.equal == case.equal;
        let (agreed, all) = classes.entry(&case.class).or_default();
        (*agreed, *all) = (*agreed + usize::from(right), *all + 1);
        if !right {
            wrong.push(format!("{case:?} found {found:?}"));
        }
        // Swapping the two changes nothing.
        if !case.answer.trim().is_empty() {
            let turned = verdict(&case.answer, &case.gold);
            assert_eq!(turned.equal, found.equal, "turned round: {case:?}");
        }
    }
    for (class, (agreed, all)) in &classes {
        println!("{class}: {agreed} of {all}");
    }
    assert!(wrong.is_empty(), "{} of {} wrong:\n{}", wrong.len(), pool.len(), wrong.join("\n"));
}

#[test]
fn the_reference_solutions_of_math500_answer_their_problems() {
    let Some(folder) = benchmarks() else { return };
    let solutions: Vec<Value> = lines(&folder.join("math500_reference_solutions.jsonl"));
    assert_eq!(solutions.len(), 500);
    for line in &solutions {
        let (gold, solution) = (written(&line["answer"]), line["solution"].as_str().unwrap());
        assert!(Gold::math(&gold).unwrap().grade(&Prediction::boxed(solution)).is_equal(), "{gold}");
    }
}

/// `golds_equal.txt` lists, one group a line, the spellings of the benchmarks that are graded equal. Each line was read
/// and found to be one value; a pair that is not in it fails here.
#[test]
fn a_benchmark_reference_equals_itself_and_only_other_spellings_of_its_value() {
    let Some(folder) = benchmarks() else { return };
    let golds = Vec::from_iter(golds(&folder));
    let read: Vec<Answer> = golds.iter().map(|g| Answer::read(g)).collect();
    let mut unreadable = BTreeSet::new();
    for i in 0..golds.len() {
        assert!(read[i].compare(&Answer::read(&format!(" {} ", golds[i]))).is_equal());
        if let Some(Reason::Unreadable(_)) = read[i].compare(&Answer::read("\\frac{355}{113}")).why {
            unreadable.insert(golds[i].clone());
        }
    }
    let pair = |i: usize, j: usize| format!("{:?} = {:?}", golds[j], golds[i]);
    let equal = |i: usize| {
        (0..i).filter(|j| read[i].compare(&read[*j]).is_equal()).map(move |j| (i, j)).collect::<Vec<_>>()
    };
    let pairs: Vec<(usize, usize)> = (0..golds.len()).into_par_iter().flat_map_iter(equal).collect();
    let found: BTreeSet<String> = pairs.into_iter().map(|(i, j)| pair(i, j)).collect();
    println!("{} references, {} pairs of equal value, unreadable: {unreadable:?}", golds.len(), found.len());
    let listed: BTreeSet<String> = text(&here("golds_equal.txt")).lines().map(str::to_owned).collect();
    let new: Vec<_> = found.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(new.is_empty() && gone.is_empty(), "not in the list: {new:#?}\nno longer equal: {gone:#?}");
    assert!(unreadable.len() <= 8, "{unreadable:?}");
}

#[test]
fn a_box_is_found_before_many_that_are_never_closed() {
    let many = format!(r"\boxed{{7}} {}", r"\boxed{ é".repeat(50_000));
    let start = ThreadTime::now();
    assert_eq!(Prediction::boxed(&many).answer(), Some("7"));
    assert!(start.elapsed() < Duration::from_secs(1));
    let golds = Gold::any_of(["a", r"\frac12"]).unwrap();
    assert!(golds.grade(&Prediction::boxed(r"\boxed{0.5}")).is_equal());
    assert!(Gold::any_of([]).is_err() && Gold::math("  ").is_err());
}

#[test]
fn no_case_is_slow_however_large() {
    let table = text(&here("bombs.tsv"));
    let bomb = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let times = fields[4].parse().unwrap();
        [fields[0], &fields[1].repeat(times), fields[2], &fields[3].repeat(times)].concat()
    };
    let bombs: Vec<String> = table.lines().skip(1).map(bomb).collect();
    let others = ["1", "x", "\\sqrt{2}", "1,2", "(1,2)\\cup(3,4)"];
    let mut slowest = (Duration::ZERO, String::new());
    for (i, a) in bombs.iter().enumerate() {
        let near = format!("{a} ");
        let variant = a.replacen('1', "2", 1);
        for b in others.into_iter().chain([near.as_str(), &variant, &bombs[(i + 1) % bombs.len()]]) {
            let start = ThreadTime::now();
            let found = verdict(a, b);
            let spent = start.elapsed();
            if spent > slowest.0 {
                slowest =
                    (spent, format!("{} / {}: {found:?}", &a[..a.len().min(30)], &b[..b.len().min(30)]));
            }
        }
        assert!(verdict(a, a).is_equal());
    }
    println!("slowest: {slowest:?}");
    assert!(slowest.0 < Duration::from_secs(2), "{slowest:?}");
}

/// Pieces of LaTeX, so that random strings of them reach beyond the lexer; forms of expressions; their atoms.
static PIECES: LazyLock<[Vec<&str>; 3]> = LazyLock::new(|| {
    let mut lines = include_str!("pieces.txt").lines().map(|line| line.split('·').collect());
    [(); 3].map(|()| lines.next().unwrap())
});

fn latex() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(PIECES[0].clone()), 0..24)
        .prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn anything_is_graded_without_panic_the_same_both_ways(a in latex(), b in latex(), c in any::<String>()) {
        let [x, y, z] = [&a, &b, &c].map(|text| Answer::read(text));
        prop_assert_eq!(x.compare(&y).equal, y.compare(&x).equal, "{} and {}", a, b);
        prop_assert_eq!(x.compare(&z).equal, z.compare(&x).equal, "{} and {}", a, c);
        let lenient = |text: &str| Answer::read_by(text, Rules::LENIENT);
        for (p, q) in [(&a, &b), (&b, &a), (&a, &c)] {
            let (strict, free) = (Answer::read(p).compare(&Answer::read(q)), lenient(p).compare(&lenient(q)));
            prop_assert!(!strict.is_equal() || free.is_equal(), "lenient refuses what strict accepts: {} and {}", p, q);
        }
        for (text, read) in [(&a, &x), (&c, &z)] {
            let found = read.compare(&Answer::read(text));
            prop_assert!(found.is_equal() || found.no_answer(), "{text}: {found:?}");
            Prediction::extract(text, Extraction::Any);
        }
    }

    #[test]
    fn an_expression_equals_itself_however_it_is_written_and_nothing_a_little_larger(
        p in -30i64..30, q in 1i64..30, r in 2i64..40, k in 1i64..9,
    ) {
        let a = format!("\\frac{{{p}}}{{{q}}}+{k}\\sqrt{{{r}}}x");
        let b = format!("x*sqrt({})+({}/{})", r * k * k, p * k, q * k);
        prop_assert_eq!(verdict(&a, &b).equal, Some(true), "{} and {}", a, b);
        prop_assert_eq!(verdict(&a, &format!("{b}+10^{{-25}}")).equal, Some(false));
        let equation = format!("{p}x+{q}y={r}");
        let scaled = format!("{}={}x+{}y", -r * k, -p * k, -q * k);
        prop_assert_eq!(verdict(&equation, &scaled).equal, Some(true), "{} and {}", equation, scaled);
        let other = format!("{}={}x+{}y", -r * k, -p * k, -q * k - 1);
        prop_assert_eq!(verdict(&equation, &other).equal, Some(false), "{} and {}", equation, other);
    }
}

/// Adds a well-formed expression of at most this depth.
fn expression(next: &mut impl FnMut(usize) -> usize, depth: usize, out: &mut String) {
    let [_, forms, atoms] = &*PIECES;
    if depth == 0 || next(4) == 0 {
        *out += atoms[next(atoms.len())];
        return;
    }
    for (i, part) in forms[next(forms.len())].split('@').enumerate() {
        if i > 0 {
            expression(next, depth - 1, out);
        }
        *out += part;
    }
}

/// Ten million random inputs, or `INPUTS` of them, other ones for another `SEED`; the counts and the results stand in
/// `tests/pool/README.md`. `cargo test -p grpo-lambda-grade --test pool ten_million -- --ignored --nocapture`
#[test]
#[ignore = "takes many minutes"]
fn ten_million_inputs_panic_nowhere_and_none_is_slow() {
    let set = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let wanted = set("INPUTS").unwrap_or(10_000_000);
    let mut state = 0x5eed_u64.wrapping_add(set("SEED").unwrap_or(0).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize) % below
    };
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut slowest = (Duration::ZERO, String::new());
    for round in 0..wanted / 2 {
        let mut input = || {
            let mut text = String::new();
            if round % 2 == 0 {
                expression(&mut next, 3, &mut text);
                return text;
            }
            for _ in 0..next(16) {
                match next(20) {
                    0 => text.push(char::from_u32(next(0x3000) as u32).unwrap_or(' ')),
                    _ => text += PIECES[0][next(PIECES[0].len())],
                }
            }
            text
        };
        let (a, b) = (input(), input());
        let start = ThreadTime::now();
        let found = match round % 4 {
            // The strict rules, the lenient ones, and both texts in prose.
            0 | 1 => Answer::read(&a).compare(&Answer::read(&b)),
            2 => Answer::read_by(&a, Rules::LENIENT).compare(&Answer::read_by(&b, Rules::LENIENT)),
            _ => Grader::free().grade_text(&a, &format!("So the answer is {b}, as {a} says.")),
        };
        let spent = start.elapsed();
        if spent > slowest.0 {
            slowest = (spent, format!("{a:?} and {b:?}"));
        }
        *counts.entry(found.name()).or_default() += 1;
    }
    println!("{wanted} inputs: {counts:?}, slowest by processor time {slowest:?}");
    assert!(slowest.0 < Duration::from_secs(2));
}
