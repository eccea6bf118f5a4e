//! The paper's grid: its axes, cells, cost and tables.

use grpo_lambda_decoder::model::{Architecture::Qwen2, ModelConfig, ModelShape};
use grpo_lambda_printed::{Benchmark, Column};
use grpo_lambda_studies::reproduce::axes::{PaperBenchmark, benchmarks, datasets, models};
use grpo_lambda_studies::reproduce::cost::{
    Assumptions, PlanLine, REACHED, WorkEstimate, bytes, disk, evaluated, plan, run, time, trained,
};
use grpo_lambda_studies::reproduce::grid::{Cell, CellFilter, Tables};
use grpo_lambda_studies::reproduce::readiness::asked;
use grpo_lambda_studies::reproduce::run::{CellScore, CellScores, CellStatus, Count};
use grpo_lambda_studies::reproduce::table::{Field, PaperTable};
use grpo_lambda_trainer::config::{Config as Preset, PRESETS};
use grpo_lambda_trainer::eval::{
    self,
    completion::{CompletionRecord, RecordedFinish, ResponseOutcome},
};
use grpo_lambda_trainer::plan::cards::cards;
use grpo_lambda_trainer::plan::memory;
use grpo_lambda_trainer::plan::synthetic::{ALLOWANCE, predict};
use grpo_lambda_trainer::problems::MaxLengths;

/// The axes span the printed runs: no more, no fewer, in the printed order.
#[test]
fn the_axes_are_those_of_the_printed_tables() {
    assert_eq!((models().len(), datasets().len(), benchmarks().len()), (4, 4, 5));
    for model in models() {
        assert_eq!(model.printed().name(), model.name);
        assert!(PRESETS.iter().any(|p| p.name == model.preset), "{}", model.preset);
        assert!(model.shape().num_hidden_layers > 0);
    }
    assert!(datasets().iter().all(|d| d.printed().name() == d.name));
    assert!(Benchmark::ALL.into_iter().all(|b| benchmarks().iter().any(|own| own.printed() == b)));
    assert_eq!(benchmarks().iter().map(PaperBenchmark::items).sum::<u64>(), 30 + 500 + 83 + 675 + 272);
}

fn cells(table: &str) -> Vec<Cell> {
    Tables::parse(table).expect("a table").cells()
}

#[test]
fn a_table_has_the_cells_that_are_printed() {
    // Columns times data sets; Table 1: GRPO and recent/ε-trace, with two λ for the small models.
    let counts = ["3", "4", "5", "6", "all", "1"].map(|t| cells(t).len());
    assert_eq!(counts, [36, 36, 12, 8, 92, 4 * (3 + 3 + 2 + 2)]);
    let all = cells("all");
    let mut slugs: Vec<String> = all.iter().map(Cell::slug).collect();
    slugs.sort();
    slugs.dedup();
    assert_eq!(slugs.len(), 92, "every cell has a directory of its own");
    assert!(cells("1").iter().all(|c| all.contains(c)));
    assert!(slugs.contains(&"qwen-1.5b/gsm8k/both-weight-0.98".to_owned()), "{slugs:?}");
}

#[test]
fn only_keeps_what_is_named() {
    let table = cells("3");
    let kept = |text: &str| {
        let only = CellFilter::parse(text, &table).expect("of the table");
        table.iter().filter(|c| only.keeps(c)).count()
    };
    assert_eq!(kept("dataset=gsm8k"), 9);
    assert_eq!(kept("dataset=gsm8k,style=both"), 4);
    assert_eq!(kept("dataset=gsm8k,style=both,style=grpo"), 5);
    assert_eq!(kept("update=ε-trace,lambda=0.98"), 8);
    assert_eq!(kept("model=Qwen-1.5B"), 36);
}

fn shape() -> ModelConfig {
    Qwen2.config(ModelShape { vocab: 50, hidden: 32, layers: 2, heads: 4, kv_heads: 2 })
}

fn tiny(overrides: &[&str]) -> Preset {
    Preset::resolve("tiny", overrides).expect("accepted")
}

fn assumptions() -> Assumptions {
    let base = Assumptions::new(cards()[0], 0.5);
    Assumptions { prompt_tokens: 3, demonstration_tokens: 5, eval_tokens: 7, ..base }
}

fn reinforced(steps: &str, more: &[&str]) -> WorkEstimate {
    let shape = shape();
    let sizes = [steps, "rl.prompts_per_step=2", "rl.group_size=4", "rl.max_new_tokens=6"];
    let all = [&sizes[..], &["method.name=grpo"], more].concat();
    run(&shape, &tiny(&all), &assumptions()).expect("counted").reinforced
}

#[test]
fn the_shares_that_were_reached_are_those_of_the_page() {
    let page = include_str!("../../../../docs/gpu.md");
    let (_, steps) = page.split_once("| share of the rates |").expect("the table of steps");
    let shares: Vec<u32> = steps
        .lines()
        .skip(2)
        .map_while(|line| line.strip_suffix(" % |")?.rsplit_once(' ')?.1.parse().ok())
        .collect();
    let ends = (shares.iter().min().expect("steps"), shares.iter().max().expect("steps"));
    assert_eq!(REACHED, format!("{} to {} %", ends.0, ends.1));
}

#[test]
fn rl_costs_its_steps_and_what_each_of_them_does() {
    let base = reinforced("rl.steps=10", &[]);
    assert_eq!(base.sampled, 10.0 * 8.0 * 6.0);
    assert_eq!(reinforced("rl.steps=20", &[]).work, base.work.times(2));
    let operations = |more: &[&str]| reinforced("rl.steps=10", more).work.operations - base.work.operations;
    // A reference is a forward pass more, computing layers again about another; another inner update is a pass with its
    // backward, about three.
    let pass = operations(&["method.beta=0.04"]);
    assert!(pass > 0.0);
    let again = operations(&["memory.recompute_layers=true"]) / pass;
    assert!((0.5..=1.0).contains(&again), "{again}");
    let inner = operations(&["rl.inner_updates=2"]) / pass;
    assert!((2.5..=3.5).contains(&inner), "{inner}");
    assert_eq!(base.hours(&assumptions()), base.work.seconds / 0.5 / 3600.0);
}

#[test]
fn a_method_that_no_card_runs_is_counted_without_its_own_extra_inputs() {
    let shape = shape();
    let all = grpo_lambda::methods::REGISTRY.iter().map(|m| format!("method.name={}", m.name));
    let configs = all.filter_map(|name| Preset::resolve("tiny", &[name.as_str()]).ok());
    let whole: Vec<bool> =
        configs.map(|config| run(&shape, &config, &assumptions()).expect("counted").whole).collect();
    assert!(whole.contains(&true) && whole.contains(&false), "{whole:?}");
}

#[test]
fn lora_trains_the_pairs_of_its_targets_only() {
    let shape = shape(); // heads of 8, two of keys
    let p = tiny(&["lora.rank=3", "lora.targets=q_proj,down_proj", "method.name=grpo"]);
    let f = shape.intermediate_size as f64;
    let pairs = 2.0 * 3.0 * ((32.0 + 32.0) + (32.0 + f));
    assert_eq!(trained(&shape, p.lora.as_ref()), pairs);
    let numbers: usize = shape.parameter_shapes().iter().map(|(_, s)| s.iter().product::<usize>()).sum();
    assert_eq!(trained(&shape, None), numbers as f64);
    // Weights, the optimiser's copies of the pairs and the pairs themselves; the base once.
    let kept = (p.checkpoint.keep + 1) as f64;
    let copies = if p.adam.compensated { 4.0 } else { 3.0 };
    let bytes = 4.0 * (kept * (numbers as f64 + (copies + 1.0) * pairs) + numbers as f64);
    assert_eq!((disk(&shape, &p, false), disk(&shape, &p, true)), (bytes, bytes));
}

#[test]
fn a_checkpoint_takes_what_a_run_writes() {
    // weights + 4 of the optimiser, two kept and one being written, and the reference once: 4 x (5 x 3 + 1) bytes a
    // parameter.
    let shape = shape();
    let p = tiny(&["method.beta=0.04", "checkpoint.keep=2"]);
    assert_eq!(disk(&shape, &p, true), 64.0 * trained(&shape, None));
}

#[test]
fn an_evaluation_is_one_response_to_each_of_the_five_benchmarks_problems() {
    let found = evaluated(&shape(), &assumptions()).expect("counted");
    assert_eq!(found.sampled, (30 + 500 + 83 + 675 + 272) as f64 * 7.0);
    assert!(found.work.seconds > 0.0 && found.disk == 0.0);
}

#[test]
fn sizes_and_times_are_spelled_for_people() {
    assert_eq!([bytes(12.0), bytes(1.5e9), bytes(3e15)], ["12 B", "1.5 GB", "3000 TB"]);
    assert_eq!([time(2.0), time(0.01)], ["2 h", "36 s"]);
}

#[test]
fn a_benchmark_with_a_bad_row_is_not_called_missing() {
    let data = tempfile::tempdir().expect("a directory");
    let state = || asked("aime24", data.path()).state.expect_err("no benchmark");
    assert!(state().starts_with("no aime24.jsonl in "), "{}", state());
    std::fs::write(data.path().join("aime24.json"), "[{\"problem\": 3}]").expect("written");
    assert!(!state().contains("no aime24.jsonl") && state().contains("aime24.json"), "{}", state());
}

/// Scores with this share of right answers to each benchmark.
fn scores(share: f64) -> CellScores {
    let score = |b: &PaperBenchmark| {
        let right = (share * b.items() as f64).round() as u64;
        let decontaminated = Some(Count { right: right / 2, n: b.items() / 2 });
        let (benchmark, all) = (b.name.clone(), Count { right, n: b.items() });
        CellScore { benchmark, all, decontaminated, tokens: Some([100.0, 120.5, 141.0]) }
    };
    CellScores {
        checkpoint: "run/x".into(),
        how: "greedy".into(),
        scores: benchmarks().iter().map(score).collect(),
    }
}

#[test]
fn scores_survive_their_file_and_a_damaged_one_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    assert_eq!(CellScores::read(dir.path()), Ok(None));
    let mut scores = scores(0.5);
    scores.write(dir.path()).expect("writable");
    assert_eq!(CellScores::read(dir.path()), Ok(Some(scores.clone())));
    for (broken, expected) in [
        ("{", "not the scores of a cell"),
        ("{\"checkpoint\":\"x\",\"how\":\"\",\"scores\":[]}", "not of the five benchmarks"),
    ] {
        std::fs::write(dir.path().join("scores.json"), broken).expect("writable");
        let error = CellScores::read(dir.path()).expect_err("refused");
        assert!(error.contains(expected) && error.contains("remove it"), "{error}");
    }
    scores.scores[0].all.right = 31;
    scores.write(dir.path()).expect("writable");
    assert!(CellScores::read(dir.path()).expect_err("refused").contains("AIME: 31 right answers of 30"));
}

fn filled(table: &str, share: impl Fn(&Cell) -> f64) -> Vec<(Cell, CellStatus)> {
    cells(table).into_iter().map(|c| (c, CellStatus::Done(scores(share(&c))))).collect()
}

fn table(number: usize, done: &[(Cell, CellStatus)]) -> PaperTable {
    PaperTable::new(number, done).expect("a table")
}

#[test]
fn a_table_has_the_papers_shape_with_or_without_ours() {
    for (name, columns) in [("3", 9), ("4", 9), ("5", 3), ("6", 2)] {
        let (number, fields) = (name.parse().expect("a number"), columns * 6 * 4);
        assert_eq!(table(number, &[]).filled(), (0, fields));
        assert_eq!(table(number, &filled(name, |_| 0.5)).filled(), (fields, fields));
    }
    assert_eq!(table(1, &filled("1", |_| 0.5)).filled(), (48, 48));
    assert!(PaperTable::new(2, &[]).is_none());
}

#[test]
fn cells_and_caveats_are_those_of_the_paper_and_its_audit() {
    let fields: Vec<Field> = [3, 4, 5, 6].into_iter().flat_map(|n| table(n, &[]).fields).collect();
    let caveats = |average: bool| {
        fields.iter().filter(|f| (f.row == "AVG") == average && f.paper.caveat.is_some()).count()
    };
    assert_eq!(caveats(false), 5, "the audit has five scores that are no k/N");
    assert_eq!(caveats(true), 5, "and five averages that are no mean");
    // Table 5, gsm8k, both/ε-trace: .033 .524 .277 .179 .132, printed AVG .277.
    let five = table(5, &[]).fields;
    let own: Vec<&Field> = five
        .iter()
        .filter(|f| (f.block.as_str(), f.column.as_str()) == ("gsm8k", "both/ε-trace/0.99"))
        .collect();
    let values: Vec<f64> = own.iter().map(|f| f.paper.value).collect();
    assert_eq!(values, [0.033, 0.524, 0.277, 0.179, 0.132, 0.277]);
    assert_eq!(
        own[5].paper.caveat.as_deref(),
        Some("printed average 0.277, but the mean of its five scores is 0.229")
    );
}

#[test]
fn table_1_says_where_it_departs_from_the_others() {
    let fields = table(1, &[]).fields;
    let off: Vec<(&str, &str, &str)> = fields
        .iter()
        .filter(|f| f.paper.caveat.is_some())
        .map(|f| (f.block.as_str(), f.row.as_str(), f.column.as_str()))
        .filter(|(_, _, column)| *column != "Average")
        .collect();
    let of = |column| ("R1-Distill-LLaMA-3B", "GRPO", column);
    assert_eq!(off, [of("MATH"), of("AMC")]);
    let average =
        fields.iter().find(|f| (f.block.as_str(), f.row.as_str(), f.column.as_str()) == of("Average"));
    assert_eq!(average.expect("there").paper.value, 0.142);
}

#[test]
fn an_average_is_known_as_well_as_the_audit_says() {
    // The audit's standard error of a difference of two averages, from p(1 - p)/n: 2.4 points here.
    let fields = table(3, &[]).fields;
    let average = &fields.iter().find(|f| f.row == "AVG").expect("there").paper;
    let ends = average.ends.expect("all scores are printed");
    let se = (ends[1] - ends[0]) / 2.0 / 1.96;
    assert!((se * 2f64.sqrt() - 0.024).abs() < 0.002, "{se}");
    assert!(ends[0] < average.value && average.value < ends[1]);
}

#[test]
fn a_variants_gain_is_its_mean_average_minus_grpos() {
    let cells = filled("6", |c| if c.variant == Column::GRPO { 0.5 } else { 0.6 });
    let gains = table(6, &cells).gains();
    let [(name, Some(ours), printed)] = gains.as_slice() else { panic!("{gains:?}") };
    // Of 83 and 675 problems a tenth is no whole number: .6024, .5060; .6, .5007.
    assert!((ours - 10.0).abs() < 0.2, "{ours}");
    // The audit's gains of the means of five scores: 3.56, 4.46, 0.32 and 0.1 points.
    assert!((printed - (3.56 + 4.46 + 0.32 + 0.1) / 4.0).abs() < 1e-9, "{printed}");
    assert_eq!(name, "recent/ε-trace/0.99");
    assert!(table(1, &[]).gains().is_empty());
}

#[test]
fn a_row_of_table_1_is_the_mean_over_data_sets_and_lambda() {
    // GRPO 0.2 everywhere; recent/ε-trace 0.4 and 0.6 for the two λ.
    let share = |c: &Cell| match c.variant.lam {
        None => 0.2,
        Some(l) if l < 0.985 => 0.4,
        Some(_) => 0.6,
    };
    let full = table(1, &filled("1", share)).fields;
    let value = |row: usize| full[6 * row].ours.expect("filled").value;
    // AIME24 has 30 items, so these shares are whole numbers: 6, 12 and 18.
    assert!((value(0).mid - 0.2).abs() < 1e-12 && (value(1).mid - 0.5).abs() < 1e-12);
    assert!((value(5).mid - 0.6).abs() < 1e-12, "the larger models have one λ");
    // As wide as one run's interval, not as that of four.
    let one = grpo_lambda_stats::wilson(6, 30, 0.95).expect("items").width();
    assert!((value(0).width() - one).abs() < 1e-12);
    let half_filled: Vec<_> = filled("1", share).into_iter().skip(1).collect();
    assert_eq!(table(1, &half_filled).filled(), (42, 48));
}

#[test]
fn both_counts_stand_in_columns_of_their_own() {
    // Half the problems were trained on, and all right answers but a half are to these.
    let full = table(6, &filled("6", |_| 0.5));
    let field = full.fields.iter().find(|f| f.row == "MATH").expect("a field");
    for (score, right) in [(field.ours, 250), (field.decontaminated, 125)] {
        let (score, n) = (score.expect("filled"), 2 * right);
        assert_eq!(score.count, Some(Count { right, n }));
        assert_eq!(Some(score.value), grpo_lambda_stats::wilson(right, n, 0.95));
    }
    let page = full.markdown(&[], "cmd");
    let heads = page.lines().find(|line| line.contains("data set")).expect("a head");
    let heads: Vec<&str> = heads.split('|').map(str::trim).collect();
    assert_eq!(heads[3..7], ["GRPO", "decontaminated", "recent/ε-trace/0.99", "decontaminated"]);
    let csv = full.csv("full", "cmd");
    assert!(csv.contains(",250,500,0.5,0.438491261809,0.561508738191,125,250,0.7"), "{csv}");
    // A benchmark of which nothing is left has the first alone, and so has the average.
    let mut cells = filled("6", |_| 0.5);
    let CellStatus::Done(scores) = &mut cells[0].1 else { panic!("filled") };
    scores.scores[0].decontaminated = None;
    let fields = table(6, &cells).fields;
    let has =
        |row: usize| [fields[2 * row].ours, fields[2 * row].decontaminated].map(|score| score.is_some());
    assert_eq!([0, 1, 5].map(has), [[true, false], [true, true], [true, false]]);
}

#[test]
fn a_score_counts_every_problem_and_what_is_left_of_them() {
    let record = |verdict: &ResponseOutcome| {
        let line = serde_json::json!({"problem": "0", "sample": 0, "verdict": verdict, "reason": "", "answer": null,
            "finish": RecordedFinish::Eos, "tokens": 10, "text": ""});
        vec![serde_json::from_value::<CompletionRecord>(line).expect("a line of completions.jsonl")]
    };
    use ResponseOutcome::{NoAnswer, NoRoom, Right, Unreadable, Wrong};
    let found = |verdicts: &[ResponseOutcome]| {
        eval::score::scores("b", &verdicts.iter().map(record).collect::<Vec<_>>(), &[])
    };
    let all = found(&[Right, Right, Wrong, NoAnswer, Unreadable, NoRoom, Right]);
    let own = found(&[Right, Wrong, Unreadable, NoRoom]);
    let score = CellScore::new("b", &all, Some(&own));
    assert_eq!((score.all, score.decontaminated), (Count { right: 3, n: 7 }, Some(Count { right: 1, n: 2 })));
    let none_left = CellScore::new("b", &all, Some(&found(&[Unreadable])));
    assert_eq!((none_left.decontaminated, CellScore::new("b", &all, None).decontaminated), (None, None));
}

#[test]
fn the_memory_of_a_card_is_that_of_its_step() {
    let (shape, preset, a) = (shape(), tiny(&["method.name=grpo", "sft.steps=2"]), assumptions());
    let longest = MaxLengths { prompt: a.prompt_tokens, example: a.demonstration_tokens };
    let found = run(&shape, &preset, &a).expect("counted");
    let step = predict(&shape, &preset, a.card.dtype, longest).expect("counted");
    let most = found.supervised.memory.max(found.reinforced.memory);
    assert_eq!(most, step.peak().0 + ALLOWANCE);
    assert_eq!((found.supervised + found.reinforced).memory, most);
    // A run that the card cannot hold is marked, and the processor has the trainer's own estimate.
    let line = PlanLine {
        names: ["m", "d", "v"].map(str::to_owned),
        work: found.reinforced,
        hours: 1.0,
        status: "missing",
    };
    let gib = most as f64 / f64::from(1 << 30);
    assert!(plan(std::slice::from_ref(&line), Some(1 << 20)).contains(&format!("{gib:.1} GiB, of 0.0 GiB")));
    let [.., cpu] = cards();
    let on_cpu = run(&shape, &preset, &Assumptions { card: cpu, ..a.clone() }).expect("counted");
    let decided = memory::decided(&preset, &shape, a.prompt_tokens);
    let estimate = memory::estimate(&shape, &memory::StepShape::new(&decided, a.prompt_tokens), None);
    assert_eq!(on_cpu.reinforced.memory, estimate.peak(decided.memory.recompute_layers) as u64);
}

#[test]
fn an_empty_table_shows_the_papers_numbers_and_its_caveats() {
    let empty = table(5, &[]);
    let text = empty.text();
    for expected in [
        "0 of 72 fields filled",
        "(.277) [1]",
        "[1] gsm8k, both/ε-trace/0.99, AVG: printed average 0.277, but the mean of its five scores is 0.229",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let page = empty.markdown(&["TOY MODELS".to_owned()], "cmd --table 5");
    let row = page.lines().find(|l| l.contains("gsm8k") && l.contains("AVG")).expect("a row");
    let row = row.split('|').map(str::trim).collect::<Vec<_>>().join("|");
    assert!(page.contains("- TOY MODELS") && row.starts_with("|gsm8k|AVG|- (.126)|- (.277) [1]|"), "{page}");
    let csv = empty.csv("full", "cmd");
    assert_eq!(csv.lines().count(), 2 + 72);
    let heads = "table,data_set,benchmark,variant,scale,ours,ours_low95,ours_high95,ours_correct,ours_n,decontaminated,";
    assert!(csv.contains(heads), "{csv}");
}
