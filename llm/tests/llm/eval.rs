//! `llm-train eval` and `llm-train compare A B` as a user starts them.

use std::path::Path;
use std::time::Duration;

use grpo_lambda_decoder::generate::{Sampler, SamplingParams, SamplingRequest};
use grpo_lambda_decoder::model::weights::{self, SaveDtype};
use grpo_lambda_decoder::model::{Architecture::Qwen2, Decoder, ModelConfig, ModelShape};
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_grade::Prediction;
use grpo_lambda_trainer::eval::completion::{CompletionRecord, RecordedFinish, ResponseOutcome};
use grpo_lambda_trainer::eval::settings::Settings;
use grpo_lambda_trainer::input::stops::Stops;
use grpo_lambda_trainer::input::task::{Split, Task, TaskSource};
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use serde_json::Value;

use crate::common::{Done, Place, assert_has, checkpoint, killed_until_done, published, shape, words};
use crate::long;

/// Evaluations of the checkpoint `model`.
impl Place {
    fn eval(&self, out: &str, more: &str) -> Done {
        self.run(&format!("eval --model model --out {out} --threads 1 {more}"))
    }

    fn completions(&self, out: &str, benchmark: &str) -> Vec<CompletionRecord> {
        self.lines(&format!("{out}/{benchmark}/completions.jsonl"))
    }
}

/// Everything an evaluation writes that must not depend on how often it was interrupted; without the line that names the command.
fn contents(directory: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()) {
        let name = entry.file_name().unwrap().to_str().unwrap().to_owned();
        if entry.is_dir() {
            found.extend(contents(&entry).into_iter().map(|(inner, text)| (format!("{name}/{inner}"), text)));
        } else if !["lock", "accuracy.png"].contains(&name.as_str()) {
            let text = std::fs::read_to_string(&entry).unwrap();
            let lines = text.lines().filter(|line| !line.starts_with("# "));
            found.push((name, lines.collect::<Vec<_>>().join("\n")));
        }
    }
    found.sort();
    found
}

const SMALL: &str = "--benchmarks tiny:stories --limit 40 --max-new-tokens 12";

#[test]
fn greedy_answers_are_those_of_the_decoder_and_graded_equally() {
    let place = Place::new();
    let model = place.model("model");
    place.eval("out", SMALL).says("tiny:stories");
    let found = place.completions("out", "tiny-stories");
    // The same by another route: the task itself and single rollouts.
    let tokens = ModelTokenizer::tiny();
    let config = grpo_lambda_trainer::config::Config::resolve("tiny", &[""; 0]).unwrap();
    let TaskSource::Embedded(task) = config.task else { panic!("the preset tiny is embedded") };
    let problems = task.distinct(0, Split::Test, 40);
    assert_eq!(found.len(), 40);
    let sampling = SamplingParams::new(12, 0.0);
    for (problem, completion) in problems.iter().zip(&found) {
        let prompt = tokens.prompt(&problem.prompt).unwrap();
        let address = |_, _| Address::new(0, Purpose::Evaluation);
        let alone = model
            .generate(&SamplingRequest::new(&[prompt.ids()], 1, tokens.eos(), sampling, &address))
            .unwrap();
        let text = tokens.text(&alone[0][0].tokens).unwrap();
        assert_eq!((completion.text.as_str(), completion.tokens), (text.as_str(), alone[0][0].tokens.len()));
        let verdict = problem.gold.grade(&Prediction::boxed(&text));
        assert_eq!(completion.verdict, ResponseOutcome::from(&verdict));
    }
    let summary = place.json("out/summary.json");
    let right = found.iter().filter(|c| c.verdict == ResponseOutcome::Right).count();
    let counted = found.iter().filter(|c| c.verdict.score().is_some()).count();
    let accuracy = &summary["benchmarks"][0]["accuracy"];
    assert_eq!(accuracy["value"].as_f64().unwrap(), right as f64 / counted as f64);
    let wilson = grpo_lambda_stats::wilson(right as u64, counted as u64, 0.95).unwrap();
    assert_eq!(accuracy["interval"], serde_json::json!([wilson.low, wilson.high]));
}

#[test]
fn an_evaluation_killed_again_and_again_ends_in_the_bytes_of_an_unbroken_one() {
    let place = Place::with_model();
    let more = "--benchmarks tiny:stories,tiny:addition --samples 3 --max-new-tokens 24 --batch 6";
    place.eval("whole", more).output();
    let start = || place.command(&format!("eval --model model --out broken --threads 2 {more}"));
    let kills = killed_until_done(start, Duration::from_millis(long::of(120, 40)), |round| {
        // A kill may also strike in the middle of a line.
        let log = place.at("broken/tiny-stories/completions.jsonl");
        if round % 2 == 1
            && let Ok(text) = std::fs::read(&log)
            && text.len() > 100
        {
            std::fs::write(&log, &text[..text.len() - 37]).unwrap();
        }
    });
    assert!(kills >= 2, "only {kills} kills: the evaluation is too short to be interrupted");
    let (whole, broken) = (contents(&place.at("whole")), contents(&place.at("broken")));
    assert_eq!(whole.len(), broken.len());
    for ((name, a), (_, b)) in whole.iter().zip(&broken) {
        assert!(a == b, "{name} differs after {kills} kills");
    }
    // What is done is not done again.
    let again = place.eval("broken", more);
    assert!(!again.stderr.contains("ETA") && again.code == Some(0), "{}", again.stderr);
}

#[test]
fn threads_and_batches_change_no_byte() {
    let place = Place::with_model();
    let sampled =
        |limit: usize| format!("--benchmarks tiny:addition --limit {limit} --samples 4 --max-new-tokens 10");
    place.eval("one", &sampled(30)).output();
    for (out, more) in [("batch", "--batch 9 --threads 1"), ("threads", "--batch 500 --threads 4")] {
        place.run(&format!("eval --model model --out {out} {} {more}", sampled(30))).output();
        assert_eq!(contents(&place.at("one")), contents(&place.at(out)), "{out}");
    }
    let found = place.completions("one", "tiny-addition");
    assert!(found.chunks(4).any(|c| c.iter().any(|x| x.text != c[0].text)), "samples of a problem differ");
    // The first problems of a longer evaluation are those of a shorter one.
    place.eval("ten", &sampled(10)).output();
    assert_eq!(place.completions("ten", "tiny-addition"), found[..40]);
}

#[test]
fn other_settings_on_the_same_directory_are_refused_by_name() {
    let place = Place::with_model();
    place.eval("out", SMALL).output();
    for (more, expected) in [
        ("--max-new-tokens 13", "max_new_tokens: 12 -> 13"),
        ("--samples 2", "samples: 1 -> 2"),
        ("--seed 7", "seed: 0 -> 7"),
        ("--context 100", "context: 4096 -> 100"),
        ("--limit 20", "problems of tiny:stories: 40 -> 20"),
        ("--benchmarks tiny:addition", "benchmarks: tiny:stories -> tiny:addition"),
        ("--extract any", "extract: \"boxed\" -> \"any\""),
    ] {
        // The later of two options would be refused as given twice, so the small ones are replaced.
        let small = words(SMALL);
        let kept = small.chunks(2).filter(|pair| !more.starts_with(pair[0])).map(|pair| pair.join(" "));
        let args = kept.chain([more.to_owned()]).collect::<Vec<_>>().join(" ");
        place.eval("out", &args).refused(2, &format!("other settings … {expected} … --out"));
    }
    // Another model.
    let mut other = shape();
    other.intermediate_size = 32;
    checkpoint(&place.at("model"), &other, usize::MAX);
    place.eval("out", SMALL).refused(2, "weights: ");
    std::fs::create_dir(place.at("thesis")).unwrap();
    std::fs::write(place.at("thesis/thesis.tex"), "x").unwrap();
    place.eval("thesis", SMALL).refused(2, "thesis is not an evaluation");
}

#[test]
fn a_damaged_line_is_named_with_file_and_line() {
    let place = Place::with_model();
    place.eval("out", SMALL).output();
    let path = "out/tiny-stories/completions.jsonl";
    let sound = place.read(path);
    let lines: Vec<&str> = sound.lines().collect();
    let with = |number: usize, line: &str| {
        let mut lines = lines.clone();
        lines[number - 1] = line;
        std::fs::write(place.at(path), lines.join("\n") + "\n").unwrap();
    };
    with(7, "{\"problem\": \"6\", \"sam");
    place.eval("out", SMALL).refused(2, "completions.jsonl:7: not a line of llm-train eval");
    with(3, &lines[2].replace("\"sample\":0", "\"sample\":0,\"mood\":\"good\""));
    place.eval("out", SMALL).refused(2, "completions.jsonl:3: … unknown field `mood`");
    with(5, &lines[4].replace("\"tokens\":", "\"tokens\":1"));
    place.eval("out", SMALL).refused(2, "completions.jsonl:5: its checksum is not that of the line");
    with(9, lines[9]);
    place.eval("out", SMALL).refused(2, "completions.jsonl:9: problem 9, sample 0; here should be problem 8");
    std::fs::write(place.at(path), format!("{sound}{}\n", lines[0])).unwrap();
    place.eval("out", SMALL).refused(2, "completions.jsonl:41: a line beyond the 40");
    // A last line without its end is an interruption, not damage.
    std::fs::write(place.at(path), &sound[..sound.len() - 20]).unwrap();
    place.eval("out", SMALL).output();
    assert_eq!(place.read(path), sound);
    std::fs::write(place.at("out/eval.toml"), "not = [toml").unwrap();
    place.eval("out", SMALL).refused(2, "eval.toml: ");
}

#[test]
fn wrong_input_is_refused_in_a_line_and_leaves_nothing() {
    let place = Place::with_model();
    std::fs::create_dir(place.at("data")).unwrap();
    place.write("data/aime24.jsonl", "{\"problem\": \"1+1\", \"answers\": [\"2\"]}\n");
    place.write("data/empty.jsonl", "");
    place.write("data/broken.jsonl", "{\"problem\": \"1+1\", \"answers\": [\"2\"]}\n{\"problem\": \"\n");
    place.refuses(include_str!("refused/eval.txt"));
    std::fs::remove_file(place.at("model/tokenizer.json")).unwrap();
    place.eval("out", SMALL).refused(2, "tokenizer.json");
    place.run("eval --model no/such/model").refused(2, "--model no/such/model: no such directory");
}

#[test]
fn problems_that_the_tokenizer_cannot_spell_are_warned_of() {
    let place = Place::with_model();
    place.write("greek.jsonl", "{\"problem\": \"Find $\\u03b1$ for \\u03c9 = 7.\", \"answer\": \"2\"}\n");
    let done = place.eval("out", "--benchmarks greek.jsonl --max-new-tokens 5");
    done.output();
    done.tells("warning: greek: 1 of 1 problems do not read back from their tokens");
    assert!(!place.eval("tiny", SMALL).stderr.contains("warning"));
}

#[test]
fn rules_decide_what_counts_as_right_and_the_report_says_how_much_rests_on_lenient_ones() {
    use grpo_lambda_grade::Rules;
    let place = Place::with_model();
    // The model's own words under any rules: greedy responses do not depend on them.
    let judged = |out: &str, rules: &str| {
        let given = if out == "default" { String::new() } else { format!("--rules {rules}") };
        place.eval(out, &format!("--benchmarks tiny:addition --limit 10 {given}")).output();
        let toml = place.read(&format!("{out}/eval.toml"));
        let canonical = Rules::parse(rules).unwrap().spelled();
        assert!(toml.contains(&format!("rules = \"{canonical}\"")), "{toml}");
        place.completions(out, "tiny-addition").into_iter().map(|c| c.text).collect::<Vec<_>>()
    };
    let strict = judged("strict", "strict");
    assert_eq!(strict, judged("lenient", "lenient,-solutions"));
    assert_eq!(strict, judged("default", "lenient"));
    let word = "--benchmarks tiny:addition --limit 10 --rules";
    place.eval("strict", &format!("{word} lenient")).refused(2, "rules");
    place.eval("other", &format!("{word} lenient,-no_such")).refused(2, "-no_such");
    place
        .eval("other", "--protocol paper --benchmarks tiny:addition --rules lenient")
        .refused(2, "the protocol paper compares answers by the strict rules");
}

#[test]
fn solved_examples_stand_before_every_problem_and_never_the_problem_itself() {
    let place = Place::with_model();
    bytes_checkpoint(&place.at("model"));
    let row = |problem: &str, solution: &str| {
        format!("{}\n", serde_json::json!({"problem": problem, "solution": solution, "answer": "4"}))
    };
    let shown = row("2+2?", "asked itself, \\boxed{4}")
        + &row("1+3?", "1+3\n\n\n\nis \\boxed{4}")
        + &row("5-1?", "5-1=4");
    place.write("shown.jsonl", shown);
    place.write("asked.jsonl", row("2+2?", "4"));
    let eval = |out: &str, template: &str, k: usize| {
        let shots = format!("--shots-from shown.jsonl --shots {k}");
        place.eval(out, &format!("--benchmarks asked.jsonl --template {template} --max-new-tokens 4 {shots}"))
    };
    let prompt = |out: &str| {
        let problems: Vec<Value> = place.lines(&format!("{out}/asked/problems.jsonl"));
        problems[0]["prompt"].as_str().unwrap().to_owned()
    };
    eval("line", "line", 2).output();
    assert_eq!(prompt("line"), "1+3?\n1+3\n\nis \\boxed{4}\n\n\n5-1?\n5-1=4\n\\boxed{4}\n\n\n2+2?\n");
    eval("no", "no", 1).output();
    assert_eq!(prompt("no"), "1+3?\n1+3\n\nis \\boxed{4}\n\n\n2+2?");
    eval("r1", "r1", 1).output();
    let r1 = prompt("r1");
    assert!(r1.ends_with("User: 1+3?\nAssistant: <think> 1+3\n\n\n\nis \\boxed{4} </think> <answer> 4 </answer>\nUser: 2+2?\nAssistant: <think>"), "{r1}");
    assert_eq!(r1.matches("What follows").count(), 1);
    // Other examples are another evaluation.
    eval("line", "line", 1).refused(2, "shots");
    eval("few", "line", 3).refused(2, "--shots 3 … has 2 solved rows that are not asked");
    place
        .eval("out", "--benchmarks tiny:addition --shots 1 --shots-from shown.jsonl")
        .refused(2, "tiny:addition is asked as it was trained");
}

#[test]
fn a_prompt_that_does_not_fit_is_counted_and_not_wrong() {
    let place = Place::with_model();
    // Sums take five tokens or so, stories more than twenty.
    let out = place.eval("out", "--benchmarks tiny:stories,tiny:addition --limit 20 --context 16");
    let text = out.output();
    assert!(text.contains("20 of 20 prompts leave no room in a context of 16 tokens"), "{text}");
    let found = place.completions("out", "tiny-stories");
    assert!(found.iter().all(|c| c.verdict == ResponseOutcome::NoRoom && c.tokens == 0));
    let summary = place.json("out/summary.json");
    assert_eq!(summary["benchmarks"][0]["accuracy"], Value::Null);
    assert_eq!(summary["average"]["accuracy"], Value::Null, "an average over nothing is not made up");
    // The others end where the context does.
    for (found, problem) in
        place.completions("out", "tiny-addition").iter().zip(Task::Addition.distinct(0, Split::Test, 20))
    {
        let prompt = ModelTokenizer::tiny().prompt(&problem.prompt).unwrap().ids().len();
        let whole = found.tokens + prompt;
        assert!(whole <= 16 && (whole == 16) == (found.finish == RecordedFinish::Length));
    }
}

/// A checkpoint that can read any text: a token for each byte.
fn bytes_checkpoint(directory: &Path) -> Decoder<f32> {
    std::fs::create_dir_all(directory).unwrap();
    let mut vocabulary = serde_json::Map::new();
    // The 256 characters that stand for bytes in byte-level tokenizers.
    let printable = |b: u32| (33..=126).contains(&b) || (161..=172).contains(&b) || (174..=255).contains(&b);
    let mut others = 256..;
    for byte in 0..256u32 {
        let letter = if printable(byte) { byte } else { others.next().unwrap() };
        vocabulary.insert(char::from_u32(letter).unwrap().to_string(), byte.into());
    }
    vocabulary.insert("<|end|>".into(), 256.into());
    let byte_level = serde_json::json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let tokenizer = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
        "added_tokens": [{"id": 256, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
        "pre_tokenizer": byte_level, "post_processor": null, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
                  "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": []}
    });
    std::fs::write(directory.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    std::fs::write(directory.join("generation_config.json"), "{\"eos_token_id\": 256}").unwrap();
    let shape = ModelConfig {
        intermediate_size: 64,
        ..Qwen2.config(ModelShape { vocab: 257, hidden: 32, layers: 2, heads: 2, kv_heads: 1 })
    };
    let parameters = weights::initialise(&shape, 3, 0.3);
    weights::save(directory, &shape, &parameters, SaveDtype::F32, usize::MAX).unwrap();
    Decoder::new(shape, parameters).unwrap()
}

#[test]
fn a_model_that_knows_nothing_scores_nothing_on_the_papers_benchmarks_and_says_how_little_that_shows() {
    let Some(data) = published("benchmarks") else { return };
    let place = Place::with_model();
    bytes_checkpoint(&place.at("bytes"));
    let args =
        "eval --model bytes --out out --protocol paper --limit 6 --max-new-tokens 16 --context 700 --data";
    let done = place.run_with(args, &[data.to_str().unwrap()], "");
    let text = done.output();
    assert!(text.contains("mean of 5 benchmarks: 0.0 % (0.0 to "), "{text}");
    assert!(text.contains("no difference can be significant") || text.contains("6 of 6 problems"), "{text}");
    let summary = place.json("out/summary.json");
    assert_eq!(summary["settings"]["template"], "qwen_math");
    assert_eq!(summary["settings"]["temperature"], 0.0);
    assert!(summary["average"]["accuracy_as_wrong"]["interval"][1].as_f64().unwrap() > 0.1);
    // A token a byte: some problems are longer than 700, and those are not asked.
    let benchmarks = summary["benchmarks"].as_array().unwrap().iter();
    let no_room = benchmarks.map(|b| b["responses"]["prompt too long"].as_u64().unwrap());
    assert!(no_room.sum::<u64>() > 0, "{text}");
}

/// The settings of an evaluation that asks without a template and takes the most probable token.
pub(crate) fn greedy_settings() -> Settings {
    Settings {
        model: String::new(),
        weights: String::new(),
        template: "no".into(),
        system: None,
        template_args: None,
        shots: None,
        template_from: String::new(),
        extract: Default::default(),
        rules: grpo_lambda_grade::Rules::STRICT,
        samples: 1,
        temperature: 0.0,
        truncation: Default::default(),
        max_new_tokens: 60,
        context: 4096,
        seed: 0,
        numbers: "f32".into(),
    }
}

#[test]
fn stop_strings_end_a_response_and_stand_in_it() {
    let place = Place::with_model();
    let model = bytes_checkpoint(&place.at("bytes"));
    let rows = [
        "{\"problem\": \"What is $1+1$?\", \"answers\": [\"2\"]}",
        "{\"problem\": \"2?\", \"answers\": [\"2\"]}\n",
    ];
    let file = place.write("two.jsonl", rows.join("\n"));
    let run = |out: &str, template: &str| {
        let benchmark = format!("--benchmarks two.jsonl --template {template} --max-new-tokens 60");
        place.run(&format!("eval --model bytes --out {out} {benchmark}")).output();
    };
    run("plain", "no");
    run("r1", "r1");
    let prompt: Value = place.lines("r1/two/problems.jsonl").remove(0);
    assert!(prompt["prompt"].as_str().unwrap().ends_with("User: What is $1+1$?\nAssistant: <think>"));
    assert_eq!(prompt["golds"], serde_json::json!(["2"]));
    let toml = place.read("r1/eval.toml");
    assert!(toml.contains("template = \"r1\"") && toml.contains("extract = \"tag\""), "{toml}");
    // The library by itself, with a text that this model does write as the stop string.
    let plain = &place.completions("plain", "two")[0];
    let stop: String = plain.text.chars().skip(20).take(3).collect();
    let tokens = ModelTokenizer::load(&place.at("bytes")).unwrap();
    let problems =
        grpo_lambda_trainer::eval::benchmark::resolve(&[file], None, Path::new("."), Default::default())
            .unwrap();
    let settings = greedy_settings();
    let sampler = grpo_lambda_trainer::eval::sampler::BenchmarkSampler {
        model: &model,
        settings: &settings,
        stops: &Stops::new(&tokens, std::slice::from_ref(&stop)),
        slots: 3,
    };
    let prompts = [tokens.prompt("What is $1+1$?").unwrap()];
    let found = sampler.generate(&problems[0], 0, &prompts, None).unwrap().remove(0).remove(0);
    assert_eq!(found.finish, RecordedFinish::Stop);
    let end = plain.text.find(&stop).unwrap() + stop.len();
    assert_eq!(found.text, plain.text[..end], "up to the stop string and with it");
    assert!(found.tokens < plain.tokens);
}

#[test]
fn texts_of_data_and_models_are_escaped_in_the_report() {
    let place = Place::with_model();
    bytes_checkpoint(&place.at("bytes"));
    let nasty = "</pre><script>alert(1)</script> {{ finding }} &amp;";
    let row = serde_json::json!({"problem": nasty, "answer": "<img src=x onerror=1>"});
    place.write("x\"<b>.jsonl", format!("{row}\n"));
    let words = "eval --model bytes --out out --benchmarks x\"<b>.jsonl --max-new-tokens 20";
    place.run(words).output();
    let page = place.read("out/report.html");
    assert!(!page.contains("<script") && !page.contains("<img") && !page.contains("<b>.jsonl"), "{page}");
    let escaped = ["&lt;script&gt;alert(1)", "&lt;&#x2f;pre&gt;&lt;script&gt;"];
    assert!(escaped.iter().any(|text| page.contains(text)), "{page}");
    assert!(page.contains("{{ finding }}"), "a text is no template");
    // One file: nothing is fetched.
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        let found = page.match_indices(outside).map(|(i, _)| &page[i..page.len().min(i + 60)]);
        let fetched: Vec<&str> =
            found.filter(|t| !t.starts_with("http://www.w3.org/") && !t.starts_with("url(#")).collect();
        assert!(fetched.iter().all(|t| t.starts_with("src=x onerror")), "{fetched:?}");
    }
}

#[test]
fn two_evaluations_are_compared_in_pairs() {
    let place = Place::with_model();
    place.eval("a", "--benchmarks tiny:addition,tiny:stories --limit 24 --max-new-tokens 8").output();
    // B: the same responses, with the verdicts written again: right on eight problems, all others wrong.
    let copy = |name: &str, right: std::ops::Range<usize>| {
        crate::common::copy(&place.at("a"), &place.at(name));
        for benchmark in ["tiny-addition", "tiny-stories"] {
            let mut all = place.completions("a", benchmark);
            all.iter_mut().for_each(|c| c.verdict = ResponseOutcome::Wrong);
            if benchmark == "tiny-addition" {
                all[right.clone()].iter_mut().for_each(|c| c.verdict = ResponseOutcome::Right);
            }
            let lines: String = all.iter().map(|c| serde_json::to_string(c).unwrap() + "\n").collect();
            place.write(&format!("{name}/{benchmark}/completions.jsonl"), lines);
        }
    };
    copy("none", 0..0);
    copy("eight", 0..8);
    let compare = |a: &str, b: &str| place.run(&format!("compare {a} {b}"));
    let text = compare("none", "eight --out paired").output().to_owned();
    assert!(text.contains("B against A: better"), "{text}");
    let json = place.json("paired/paired.json");
    let sums = &json["benchmarks"][0];
    // Eight discordant problems, all B's: 2/2⁸; of two tests the smaller counts twice.
    assert_eq!(sums["difference"]["p"], 2.0 / 256.0);
    assert_eq!(sums["difference"]["p_holm"], 4.0 / 256.0);
    // Every problem is gradable, so that none is counted as wrong.
    assert_eq!(sums["difference_as_wrong"]["value"], sums["difference"]["value"]);
    assert_eq!(sums["problems_better_equal_worse"], serde_json::json!([8, 16, 0]));
    assert_eq!(sums["difference"]["verdict"], "better");
    assert_eq!(json["benchmarks"][1]["difference"]["verdict"], "no difference shown");
    assert!((json["average"]["difference"]["value"].as_f64().unwrap() - 1.0 / 6.0).abs() < 1e-12);
    assert!(place.at("paired/figures/paired.png").exists());
    assert_has(&place.read("paired/paired.csv"), "tiny:addition,24,0,0,0.333333333333");
    // The other way round, and against itself.
    compare("eight", "none").says("B against A: worse");
    compare("a", "a").says("B against A: no difference shown (+0.0 points, 95 % interval");

    place.eval("longer", "--benchmarks tiny:addition --limit 30 --max-new-tokens 8").output();
    place.eval("other", "--benchmarks tiny:stories --limit 24 --max-new-tokens 9").output();
    compare("a", "longer").refused(2, "tiny:addition: its problems in … (24) … (30)");
    compare("longer", "other").refused(2, "no benchmark in common … tiny:addition against tiny:stories");
    let text = compare("a", "other").output().to_owned();
    assert_has(&text, "only A was asked tiny:addition … max_new_tokens is 8 in A and 9 in B");
    let unfinished = place.at("other/tiny-stories/completions.jsonl");
    let sound = std::fs::read_to_string(&unfinished).unwrap();
    std::fs::write(&unfinished, &sound[..sound.len() / 2]).unwrap();
    compare("a", "other").refused(2, "under way … of 24 problems of tiny:stories");
}
