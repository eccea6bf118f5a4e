//! Claim `equation`: what a method says it optimises is what it computes, with the numbers of its settings.

use grpo_lambda::equation::BatchSize;
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{MethodSpec, Provenance, REGISTRY, evaluate, parse};
use grpo_lambda::settings::{Kind, Param};

const SIZE: BatchSize = BatchSize { groups: 16, group_size: 8, max_len: 64 };

fn text(method: &str, settings: &str) -> String {
    let configured = parse(method, settings).unwrap_or_else(|e| panic!("{method} {settings}: {e}"));
    let equation = configured.method.equation(&SIZE);
    equation.unwrap_or_else(|| panic!("{method} does not describe itself")).to_string()
}

/// The methods and settings whose equations are recorded, in the order of the registry: the headings of the record, and a method without one at
/// its samples.
fn recorded_cases(record: &str) -> Vec<(&str, &str)> {
    let headings = record.lines().filter_map(|line| line.strip_prefix("# "));
    let cases: Vec<_> = headings.map(|heading| heading.split_once(' ').unwrap_or((heading, ""))).collect();
    let rows = |spec: &MethodSpec| {
        let own: Vec<_> = cases.iter().copied().filter(|(name, _)| *name == spec.name).collect();
        let samples = || spec.samples.iter().map(|settings| (spec.name, *settings)).collect();
        if own.is_empty() { samples() } else { own }
    };
    REGISTRY.iter().flat_map(|spec| rows(spec)).collect()
}

/// `UPDATE_DOCS=1` rewrites the record.
#[test]
fn the_equations_are_the_recorded_ones() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/equations.txt");
    let record = std::fs::read_to_string(path).expect("the record");
    let block = |(name, settings): (&str, &str)| {
        format!("{}\n{}\n\n", format!("# {name} {settings}").trim_end(), text(name, settings).trim_end())
    };
    let blocks: Vec<String> = recorded_cases(&record).into_iter().map(block).collect();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(path, blocks.concat()).expect("written");
    }
    for block in &blocks {
        assert!(record.contains(block.as_str()), "not in {path}; run once with UPDATE_DOCS=1:\n{block}");
    }
    assert_eq!(blocks.concat(), record, "{path}: run once with UPDATE_DOCS=1");
}

/// A row of a table of settings.
fn row(p: &Param) -> String {
    format!("| `{}` | {} | {} | {} |\n", p.key, p.default, p.kind, p.about.replace('|', "\\|"))
}

/// A paragraph in lines of at most 120 characters.
fn wrapped(text: &str) -> String {
    let (mut lines, mut length) = (String::new(), 0);
    for word in text.split(' ') {
        let word_length = word.chars().count();
        let breaks = length > 0 && length + 1 + word_length > 120;
        lines += if breaks { "\n" } else { ["", " "][usize::from(length > 0)] };
        length = if breaks { word_length } else { length + word_length + 1 };
        lines += word;
    }
    lines + "\n"
}

/// The page of all methods: the settings that many methods share once, then each method with its own.
fn page() -> String {
    const HEAD: &str = "| setting | default | values | meaning |\n| --- | --- | --- | --- |\n";
    let same = |p: &Param, q: &Param| q.key == p.key && q.about == p.about && q.kind == p.kind;
    let mut groups: Vec<(Param, usize)> = Vec::new();
    for p in REGISTRY.iter().flat_map(|spec| (spec.params)()) {
        match groups.iter_mut().find(|(q, _)| same(&p, q)) {
            Some((_, count)) => *count += 1,
            None => groups.push((p, 1)),
        }
    }
    groups.retain(|(_, count)| *count >= 8);
    let rows: String = groups.iter().map(|(p, _)| row(p)).collect();
    let mut page = format!("# Settings that many methods share\n\n{HEAD}{rows}{SHARED}");
    for spec in REGISTRY {
        let MethodSpec { title, about, source, .. } = spec;
        let configured = parse(spec.name, "").expect("the defaults");
        let needs: Vec<&str> = configured.extra_inputs().iter().map(|kind| kind.name()).collect();
        let params = (spec.params)();
        let shared = |p: &&Param| groups.iter().any(|(q, _)| same(p, q));
        let own: String = params.iter().filter(|p| !shared(p)).map(row).collect();
        let lacks = groups.iter().filter(|(q, _)| !params.iter().any(|p| same(p, q)));
        let lacks: Vec<String> = lacks.map(|(q, _)| format!("`{}`", q.key)).collect();
        let lacks = lacks.join(", ").replace(OF_DEVIATION, "`std_*`");
        let other = |p: &&Param| groups.iter().any(|(q, _)| same(p, q) && p.default != q.default);
        let other: Vec<String> =
            params.iter().filter(other).map(|p| format!("`{}={}`", p.key, p.default)).collect();
        let module = spec.name.trim_end_matches("_reconstructed");
        let name = if module == spec.name { String::new() } else { format!("`{}`: ", spec.name) };
        let provenance = match spec.provenance {
            Provenance::Published => String::new(),
            other => format!(" ({})", other.name()),
        };
        let mut text = format!("{name}{about}. Source: {source}{provenance}.");
        let lists = [("It needs", needs.join(", ")), ("It sets", other.join(", ")), ("It lacks", lacks)];
        for (head, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
            text += &format!(" {head} {list}.");
        }
        let table = if own.is_empty() { own } else { format!("\n{HEAD}{own}") };
        page += &format!("\n## [`{module}`]: {title}\n\n{}{table}", wrapped(&text));
    }
    page
}

/// The settings of a standard deviation, which many methods lack together.
const OF_DEVIATION: &str = "`std_preset`, `std_ddof`, `std_epsilon`";

/// The text between the shared settings and the methods.
const SHARED: &str = "
The table has the defaults of `grpo`. For each method below, *sets* lists the shared settings whose default differs,
*lacks* those that the method does not have, and *needs* its inputs besides rewards and log-probabilities.

# The methods

The documentation of a method's module has its equation and, where a closed form is known, its expected update.
`tests/fixtures/equations.txt` has the equations at the default settings. Every source has public code, unless brackets
after it say otherwise.
";

/// `UPDATE_DOCS=1` rewrites the page.
#[test]
fn the_page_of_methods_is_theirs() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../src/methods/README.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(path, page()).expect("written");
    }
    assert!(
        std::fs::read_to_string(path).is_ok_and(|text| text == page()),
        "{path}: run once with UPDATE_DOCS=1"
    );
}

/// Values of a setting other than its default.
fn others(p: &Param) -> Vec<String> {
    let inside = |min: f64, max: f64| match (min.is_finite(), max.is_finite()) {
        (true, true) => min + 0.618 * (max - min),
        (true, false) => min + 5.25,
        (false, true) => max - 0.618,
        (false, false) => 0.618,
    };
    match p.kind {
        Kind::Number { min, max } | Kind::OptionalNumber { min, max } => {
            vec![inside(min, max).to_string()]
        }
        Kind::Choice(words) => words.iter().map(|w| (*w).to_owned()).collect(),
        Kind::Flag => vec!["true".to_owned(), "false".to_owned()],
    }
    .into_iter()
    .filter(|v| *v != p.default)
    .collect()
}

/// Whatever is set and has an effect is seen: a method whose description leaves a setting out fails here.
#[test]
fn every_setting_with_an_effect_shows() {
    for spec in REGISTRY {
        let params = (spec.params)();
        for p in &params {
            let mut given = String::new();
            let other = |key: &str| params.iter().find(|o| o.key == key).expect("declared");
            let idle = p.idle_under.iter().all(|(key, silence)| silence.covers(&other(key).default));
            if let Some((key, silence)) = p.idle_under.first().filter(|_| idle) {
                let awake = others(other(key)).into_iter().find(|v| !silence.covers(v));
                given = format!("{key}={} ", awake.expect("a value under which it has an effect"));
            }
            if p.key == "reject_low" {
                given += "reject_high=1000 "; // a lower bound lies below it
            }
            let before = text(spec.name, &given);
            for value in others(p) {
                // The presets' own ddof, spelt out.
                if p.key == "std_ddof" && value == "1" {
                    continue;
                }
                let settings = format!("{given}{}={value}", p.key);
                assert_ne!(text(spec.name, &settings), before, "{}: {settings} does not show", spec.name);
            }
        }
    }
}

#[test]
fn a_trace_is_shown_as_its_weights_are() {
    let len = 7;
    let q: f64 = 0.5;
    for (settings, shown, entry) in [
        (
            "",
            "0.5^(t-k) for k <= t",
            Box::new(|t: usize, k: usize| q.powi((t - k) as i32)) as Box<dyn Fn(_, _) -> f64>,
        ),
        (
            "style=both",
            "max(0.5^(t-k), 0.5^k)",
            Box::new(|t, k| q.powi((t - k) as i32).max(q.powi(k as i32))),
        ),
        (
            "matrix=row_index floor=0.2",
            "max(0.2, 0.5^(t-k)) for k <= t",
            Box::new(|t, k| q.powi((t - k) as i32).max(0.2)),
        ),
    ] {
        assert!(text("grpo_lambda", &format!("lambda=0.5 {settings}")).contains(shown), "{shown}");
        // The loss off policy at advantage 1 without clipping: sum_t exp(z_t), so its slope in x_k at 0 is the column sum.
        let sums = parse("grpo_lambda", &format!("lambda=0.5 clamp=none clip=none scale=none {settings}"));
        let method = sums.expect("valid").method;
        let response = |reward| Response::graded(vec![-1.0; len], reward);
        let group = Group { responses: vec![response(1.0), response(0.0)] };
        let batch = evaluate(method.as_ref(), &[group], &vec![vec![-1.0; len]; 2]);
        for k in 0..len {
            let column: f64 = (k..len).map(|t| entry(t, k)).sum();
            let found = -batch.dlogps[0][k] * (2 * len) as f64 / 0.5;
            assert!((found - column).abs() < 1e-12, "{settings} {k}: {found} {column}");
        }
    }
}
