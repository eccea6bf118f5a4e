//! This grader and Math-Verify 0.9.0 side by side: labelled cases, recorded verdicts, and the tables made of both.
//!
//! `GRADE_WRITE=1 cargo test -p grpo-lambda-grade --test pool agreement` writes the tables again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use grpo_lambda_grade::{Grader, Rules, Verdict};
use serde::Deserialize;

use crate::data::{Case, benchmarks, golds, here, lines, text};

/// The reference of a line of `cases/*.txt`, and its answers with their labels.
fn labelled(line: &str) -> (String, Vec<(Option<bool>, String)>) {
    let marks = [(" == ", Some(true)), (" <> ", Some(false)), (" ?? ", None)];
    let line = line.replace('⏎', "\n");
    let places = |(mark, label)| line.match_indices(mark).map(move |(at, _)| (at, label)).collect::<Vec<_>>();
    let mut found = marks.map(places).concat();
    found.sort();
    let mut ends = found.iter().map(|(at, _)| *at).chain([line.len()]);
    let gold = line[..ends.next().unwrap()].to_owned();
    (gold, found.iter().zip(ends).map(|((at, label), end)| (*label, line[at + 4..end].to_owned())).collect())
}

fn case(class: &str, why: &str, gold: &str, answer: &str, equal: Option<bool>) -> Case {
    let [class, why, gold, answer] = [class, why, gold, answer].map(str::to_owned);
    Case { class, gold, answer, equal, why, source: String::new() }
}

/// The cases of `cases/*.txt`, as `cases.py` reads them.
fn written() -> Vec<Case> {
    let files = std::fs::read_dir(here("cases")).unwrap().map(|file| file.unwrap().path());
    let files: BTreeSet<PathBuf> = files.collect();
    let mut out = Vec::new();
    for file in files {
        let (mut class, mut why, mut pairs, mut layout) = (String::new(), String::new(), Vec::new(), false);
        for line in text(&file).lines().filter(|l| !l.trim().is_empty()) {
            let header = line.strip_prefix("### ").or(line.strip_prefix("## "));
            if let Some((name, reason)) = header.and_then(|header| header.split_once(": ")) {
                (layout, class, why) = (line.starts_with("###"), name.to_owned(), reason.to_owned());
                pairs.clear();
                continue;
            }
            if let Some(pair) = line.strip_prefix("@@ ") {
                pairs.push(labelled(pair));
                continue;
            }
            let case = |gold: &str, answer: &str, equal| case(&class, &why, gold, answer, equal);
            if layout {
                for (gold, answers) in &pairs {
                    let answer = line.replace('⏎', "\n").replace('@', gold);
                    out.push(case(gold, &answer, answers[0].0.map(|_| true)));
                    let wrong = answers.iter().filter(|(label, _)| *label == Some(false));
                    out.extend(wrong.map(|(_, wrong)| case(wrong, &answer, Some(false))));
                }
                continue;
            }
            let (gold, answers) = labelled(line);
            out.extend(answers.iter().map(|(equal, answer)| case(&gold, answer, *equal)));
        }
    }
    out
}

/// Every reference of five benchmarks in the forms of `forms.txt`. `None` without the benchmarks.
fn references() -> Option<Vec<Case>> {
    let forms = text(&here("forms.txt"));
    let mut out = Vec::new();
    for gold in golds(&benchmarks()?) {
        let bare = gold.strip_prefix('$').and_then(|g| g.strip_suffix('$')).unwrap_or(&gold);
        if bare.replace("\\$", "").contains('$') {
            continue;
        }
        let digit = bare.find(|c: char| c.is_ascii_digit());
        for (number, form) in forms.lines().enumerate() {
            let write = |text: &str| form.replace('⏎', "\n").replace('@', text);
            let class = format!("form {}", number + 1);
            out.push(case(&class, "the reference itself", &gold, &write(bare), Some(true)));
            if let Some(at) = digit.filter(|_| number < 2) {
                let next = (bare.as_bytes()[at] - b'0' + 1) % 10;
                let other = write(&format!("{}{next}{}", &bare[..at], &bare[at + 1..]));
                out.push(case("digit changed", "another number", &gold, &other, Some(false)));
            }
        }
    }
    Some(out)
}

/// The verdicts of Math-Verify on a suite.
#[derive(Deserialize)]
struct Peer {
    /// A character for each case: 1 equal, 0 not, e an exception or a timeout.
    verdicts: String,
    milliseconds: BTreeMap<String, f64>,
}

impl Peer {
    fn verdict(&self, case: usize) -> u8 {
        self.verdicts.as_bytes()[case]
    }
}

/// Cases on which verdict and label agree, and those that are accepted and rejected wrongly; `null` of ours agrees with
/// a label that is not `true` as Math-Verify's `false` does.
type Tally = [usize; 3];

fn tally(found: impl Iterator<Item = bool>, cases: &[Case]) -> Tally {
    let mut tally = Tally::default();
    for (found, case) in found.zip(cases) {
        tally[match (found, case.equal == Some(true)) {
            (true, false) => 1,
            (false, true) => 2,
            _ => 0,
        }] += 1;
    }
    tally
}

struct Suite {
    name: &'static str,
    cases: Vec<Case>,
    verdicts: Vec<Verdict>,
    strict: Vec<Verdict>,
    peer: Peer,
}

fn graded(name: &'static str, cases: Vec<Case>) -> Suite {
    let pairs: Vec<(&str, &str)> = cases.iter().map(|c| (c.gold.as_str(), c.answer.as_str())).collect();
    let verdicts = Grader::free().grade_all(&pairs);
    let strict = Grader::default().grade_all(&pairs);
    let peer: Peer = serde_json::from_str(&text(&here("peer").join(name).with_extension("json"))).unwrap();
    assert_eq!(peer.verdicts.len(), cases.len(), "peer/{name}.json is of another suite: run peer.py {name}");
    Suite { name, cases, verdicts, strict, peer }
}

fn suites() -> Vec<Suite> {
    let mut all = vec![
        graded("pool", lines(&here("pool.jsonl"))),
        graded("cases", written()),
        graded("hendrycks", lines(&here("hendrycks_math.jsonl"))),
    ];
    all.extend(references().map(|cases| graded("references", cases)));
    all
}

/// Our tally and that of Math-Verify.
fn tallies(suite: &Suite) -> (Tally, Tally) {
    let (ours, theirs) = (suite.verdicts.iter().map(Verdict::is_equal), suite.peer.verdicts.bytes());
    (tally(ours, &suite.cases), tally(theirs.map(|verdict| verdict == b'1'), &suite.cases))
}

/// Agreement by suite as a table of the page.
fn by_suite(suites: &[Suite]) -> String {
    let mut out = String::from(
        "| suite | cases | ours: agree | accepts wrongly | rejects wrongly | by a lenient rule | \
         strict mode: accepts wrongly | \
         Math-Verify: agree | accepts wrongly | rejects wrongly | ms a case, mean | 99th percentile |\n",
    );
    out += &format!("|{}\n", " --- |".repeat(12));
    for suite in suites {
        let (ours, theirs) = tallies(suite);
        let ms = &suite.peer.milliseconds;
        let lenient = suite.verdicts.iter().filter(|v| !v.lenient_rules().is_empty()).count();
        let strict = suite.strict.iter().zip(&suite.cases);
        let accepted = strict.filter(|(v, c)| v.is_equal() && c.equal != Some(true)).count();
        let counts = [&[suite.cases.len()], &ours[..], &[lenient, accepted], &theirs].concat();
        let mut cells: Vec<String> = counts.iter().map(usize::to_string).collect();
        cells.extend([ms["mean"].to_string(), ms["p99"].to_string()]);
        writeln!(out, "| {} | {} |", suite.name, cells.join(" | ")).unwrap();
    }
    format!("## Agreement\n\n{out}\n")
}

/// A case on which the two graders differ, as a row of the table of all of them.
fn disputes(suite: &Suite) -> impl Iterator<Item = [String; 8]> {
    let plain = |text: &str| text.replace('\n', "⏎").replace('\t', " ");
    let differs = |i: &usize| suite.verdicts[*i].is_equal() != (suite.peer.verdict(*i) == b'1');
    (0..suite.cases.len()).filter(differs).map(move |i| {
        let case = &suite.cases[i];
        let label = case.equal.map_or("open".to_owned(), |equal| equal.to_string());
        let theirs = match suite.peer.verdict(i) {
            b'1' => "true",
            b'e' => "error",
            _ => "false",
        };
        let (ours, theirs) = (suite.verdicts[i].to_string(), theirs.to_owned());
        let [class, gold, answer] = [&case.class, &case.gold, &case.answer].map(|text| plain(text));
        [suite.name.to_owned(), class, gold, answer, label, plain(&ours), theirs, plain(&case.why)]
    })
}

/// Classes that the page shows.
const CLASSES: usize = 15;

/// The classes with the most disputes.
fn kinds(rows: &[[String; 8]]) -> String {
    let mut kinds: BTreeMap<&str, Vec<&[String; 8]>> = BTreeMap::new();
    rows.iter().for_each(|row| kinds.entry(&row[1]).or_default().push(row));
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.len()));
    let by_label = |rows: &[&[String; 8]]| {
        ["true", "false", "open"].map(|label| rows.iter().filter(|row| row[4] == label).count())
    };
    let [equal, different, open] = by_label(&rows.iter().collect::<Vec<_>>());
    let rest = kinds.len().saturating_sub(CLASSES);
    let mut out = format!(
        "## Kinds\n\nThe graders disagree on {} cases. The label of the suite is *equal* for {equal}, \
         *different* for {different} and open for {open}.\nThe table shows the {CLASSES} classes with the most \
         disputes and the shortest case of each; {rest} more classes have some.\n\n",
        rows.len()
    );
    out += "| class | disputes | label: equal | different | open | reference | answer |\n";
    out += "| --- | --- | --- | --- | --- | --- | --- |\n";
    for (class, rows) in kinds.iter().take(CLASSES) {
        let [equal, different, open] = by_label(rows);
        let cell = |text: &str| format!("`{}`", text.replace('|', "\\|").replace('`', "´"));
        let shortest = rows.iter().min_by_key(|row| row[2].len() + row[3].len()).unwrap();
        let (gold, answer, count) = (cell(&shortest[2]), cell(&shortest[3]), rows.len());
        writeln!(out, "| {class} | {count} | {equal} | {different} | {open} | {gold} | {answer} |").unwrap();
    }
    out
}

/// Compares the sections of a page, after its heading, with those found, or writes them.
fn page(path: &Path, found: &str) {
    let known = text(path);
    let heading = known.split("\n## ").next().unwrap();
    hold(path, &format!("{}\n\n{}\n", heading.trim_end(), found.trim_end()));
}

/// Compares a file with what it should hold, or writes it.
fn hold(path: &Path, fresh: &str) {
    let known = std::fs::read_to_string(path).unwrap_or_default();
    if std::env::var_os("GRADE_WRITE").is_some() {
        std::fs::write(path, fresh).unwrap();
    } else {
        assert!(known == fresh, "{} is not that of a fresh run: GRADE_WRITE=1 writes it", path.display());
    }
}

/// Labels of another convention: the order of lists, which the suite of MATH compares as texts; a number in words,
/// which the strict mode, whose labels those of the pool are, keeps apart from the number.
fn other_convention(case: &Case) -> bool {
    case.class == "list order"
        || (case.gold.as_str(), case.answer.as_str()) == ("5", "five") && case.equal == Some(false)
}

#[test]
fn the_labels_hold_and_the_tables_are_those_of_a_fresh_run() {
    let suites = suites();
    for suite in &suites {
        let (ours, theirs) = tallies(suite);
        println!("{}: ours {ours:?}, Math-Verify {theirs:?}", suite.name);
        assert!(ours[1] <= theirs[1], "{}", suite.name);
        let wrong: Vec<_> = suite
            .cases
            .iter()
            .zip(&suite.verdicts)
            .filter(|(case, found)| found.is_equal() != (case.equal == Some(true)) && !other_convention(case))
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
    if suites.len() < 4 {
        return;
    }
    let rows: Vec<_> = suites.iter().filter(|s| s.name != "references").flat_map(disputes).collect();
    let heading = "suite\tclass\tgold\tanswer\tlabel\tours\tmath_verify\twhy\n".to_owned();
    let table = rows.iter().fold(heading, |table, row| table + &row.join("\t") + "\n");
    hold(&here("disputes.tsv"), &table);
    page(&here("../../../../../paper/grader_disputes.md"), &(by_suite(&suites) + &kinds(&rows)));
}

#[test]
fn the_strict_mode_accepts_nothing_that_the_labels_refuse() {
    let strict = Grader::default();
    assert_eq!(strict.rules, Rules::STRICT);
    for (name, cases) in [("pool", lines(&here("pool.jsonl"))), ("cases", written())] {
        for case in cases.iter().filter(|case| case.equal != Some(true)) {
            let found = strict.grade_text(&case.gold, &case.answer);
            assert!(!found.is_equal(), "{name}: {case:?} found {found}");
        }
    }
}

#[test]
fn the_suites_are_large_and_every_case_has_its_reason() {
    let cases = written();
    assert!(cases.len() >= 2000, "{}", cases.len());
    assert!(cases.iter().all(|case| !case.why.is_empty() && !case.class.is_empty()));
    let differing = cases.iter().filter(|case| case.equal == Some(false)).count();
    assert!(differing * 4 > cases.len(), "a suite that a grader passes by accepting everything: {differing}");
}
