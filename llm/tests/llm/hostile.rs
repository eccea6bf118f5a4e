//! Files that a stranger wrote: each is refused with one line and exit code 2, in bounded memory and time, or read as what it is.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{Done, Place, TINY_MODEL, assert_has, run, train, words};
use crate::long;

/// Runs `llm-train` where more than 5 GiB of address space besides a stack is refused, as on a small machine.
#[track_caller]
fn limited(place: &Place, line: &str) -> Done {
    within(place, 6_000_000, line)
}

/// Runs `llm-train` with so many KiB of address space.
#[track_caller]
fn within(place: &Place, kib: usize, line: &str) -> Done {
    let started = Instant::now();
    let mut command = Command::new("sh");
    let script = format!("ulimit -v {kib}; exec \"$0\" \"$@\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_llm-train-tested")]).args(words(line));
    let done = run(command.current_dir(place.0.path()), "");
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}: {}", started.elapsed(), done.stderr);
    done
}

const ROW: &str = "{\"problem\": \"1+1?\", \"answer\": \"2\"}\n";

/// Doubles `ns.x` by `what` forty times, then shows it by `end`.
fn doubling(start: &str, what: &str, end: &str) -> String {
    format!(
        "{{% set ns = namespace(x={start}) %}}{{% for i in range(40) %}}{{% set ns.x = {what} %}}{{% endfor %}}{end}"
    )
}

#[test]
fn chat_templates_without_bounds_are_refused() {
    let place = Place::new();
    place.write("data.jsonl", ROW);
    let long = |n: usize| format!("{{{{ 1{} }}}}", "+1".repeat(n));
    let mut tried = 0;
    for (template, expected) in [
        (doubling("'ab'", "ns.x ~ ns.x", "{{ ns.x }}"), "it takes more than 256 MiB of memory"),
        (doubling("'ab'", "ns.x + ns.x", "{{ ns.x }}"), "it takes more than "),
        (doubling("[1]", "ns.x + ns.x", "{{ ns.x }}"), ""),
        (doubling("'a'", "ns.x|replace('a', 'aaaaaaaa')", "{{ ns.x }}"), "it takes more than "),
        (doubling("['ab']", "[ns.x|join(ns.x|join)]", "{{ ns.x }}"), ""),
        (doubling("'ab'", "[ns.x, ns.x]|join", "{{ ns.x }}"), "it takes more than "),
        (doubling("[1]", "[ns.x, ns.x]", "{{ ns.x }}"), "it takes more than "),
        (doubling("[1]", "[ns.x, ns.x]", "{{ ns.x|tojson }}"), "it takes more than "),
        ("{{ 'a\nb'|indent(1000000000) }}".to_owned(), "it takes more than "),
        ("{{ '%1000000000d'|format(1) }}".to_owned(), ""),
        ("{{ 'a' * 1000000000 }}".to_owned(), ""),
        ("{{ 'a'.ljust(1000000000) }}{{ 'a'.center(1000000000) }}".to_owned(), ""),
        ("{{ range(100000)|list * 100000 }}".to_owned(), ""),
        (
            "{% set a = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set a.x = [a.x, a.x] %}{% set a.y = [a.y, a.y] %}{% endfor %}\
             {{ a.x == a.y }}"
                .to_owned(),
            "it takes more than 10 seconds",
        ),
        ("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}".to_owned(), "too many steps"),
        (
            "{% set a = namespace(x=[1]) %}{% for i in range(100000) %}{% set a.x = [a.x] %}{% endfor %}{{ a.x }}".to_owned(),
            "",
        ),
        (long(20_000), ""),
        (long(60_000), ""),
        (long(100_000), "bytes long; a chat template may have 131072"),
        ("{{ ".to_owned() + &"(".repeat(60_000), ""),
        ("{{ ".to_owned() + &"not ".repeat(30_000) + "1 }}", ""),
        ("{{ ".to_owned() + &"-".repeat(100_000) + "1 }}", ""),
        ("{{ ".to_owned() + &"[".repeat(100_000), ""),
        ("{{ a".to_owned() + &".a".repeat(60_000) + " }}", ""),
        ("{{ a".to_owned() + &"|e".repeat(60_000) + " }}", ""),
        ("{% if 1 %}".repeat(13_000), ""),
        ("{% if 1 %}".to_owned() + &"{% elif 1 %}".repeat(10_000) + "{% endif %}", ""),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}".to_owned(), ""),
    ]
    .into_iter()
    .step_by(long::of(2, 1))
    {
        place.write("template.jinja", format!("{template}{{{{ messages[-1].content }}}}"));
        let done = limited(&place, "data data.jsonl --template template.jinja --show 0");
        let shown: String = template.chars().take(120).collect();
        assert!(done.code == Some(2) || done.code == Some(0), "{shown}: {:?} {}", done.code, done.stderr);
        if done.code == Some(2) || !expected.is_empty() {
            done.refused(2, &format!("template.jinja: … {expected}"));
        }
        tried += 1;
    }
    assert_eq!(tried, long::of(14, 28));
}

#[test]
fn templates_whose_values_contain_themselves_are_refused_wherever_that_shows() {
    let place = Place::new();
    place.write("data.jsonl", ROW);
    let start = "{% set ns = namespace() %}{% set ns.a = ns %}{% set ms = namespace() %}{% set ms.a = [ms] %}\
                 {% set ks = namespace() %}{% set ks.a = ks %}";
    for end in [
        "{{ ns }}",
        "{{ ms }}",
        "{{ ns|tojson }}",
        "{{ ns|string }}",
        "{{ ns == ks }}",
        "{{ [ns, ks]|sort }}",
        "{{ [ns, ks]|unique }}",
        "{{ [ns, ks]|max }}",
        "{{ [ns, ks]|min }}",
        "{{ [{'k': ns}, {'k': ks}]|groupby('k') }}",
        "{{ {ns: 1, ks: 2} }}",
        "{{ [ns]|join }}",
        "{{ 'a' in [ns, ks] or ns in [ks] }}",
        "{{ '%s'|format(ns) }}",
        // Never shown, but kilobytes of each prompt stay.
        "{% set ns.x = messages[0].content * 1000 %}{{ 1 }}",
    ] {
        place.write("template.jinja", start.to_owned() + end);
        let done = limited(&place, "data data.jsonl --template template.jinja --show 0");
        assert_eq!(done.code, Some(2), "{end}: {}", done.stderr);
        done.refused(2, "template.jinja: … contains itself");
    }
}

#[test]
fn a_prompt_that_no_context_holds_is_refused_before_it_is_tokenised() {
    let place = Place::with_model();
    place.write("data.jsonl", ROW);
    let swollen = "{% set ns = namespace(x='a ') %}{% for i in range(25) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}{{ messages[-1].content }}";
    place.write("template.jinja", swollen);
    let done = limited(&place, "data data.jsonl --template template.jinja --model model");
    done.refused(2, "a text of 67108868 bytes … bytes are tokenised for this model's context");
}

#[test]
fn little_address_space_is_enough_or_refused_on_one_line() {
    let place = Place::new();
    let tiny = TINY_MODEL.join(" ");
    let line = format!("train --run run task.kind=addition sft.steps=2 rl.steps=1 eval.n=2 {tiny}");
    let mut out_of_memory = 0;
    for kib in [80_000, 90_000, 100_000] {
        let done = within(&place, kib, &line);
        if done.code != Some(0) {
            out_of_memory += usize::from(done.error().starts_with("out of memory: the system refused "));
        }
    }
    assert!(out_of_memory > 0);
    within(&place, 400_000, &line).output();
    let place = Place::with_model();
    place.write("data.jsonl", ROW);
    within(&place, 400_000, "data data.jsonl --model model --show 0").output();
    place.write("template.jinja", "{{ messages[0].content }}");
    within(&place, 400_000, "data data.jsonl --template template.jinja --show 0")
        .refused(2, "template.jinja: no thread for it could be started");
}

#[test]
fn tokenizers_that_panic_or_swell_are_refused() {
    let place = Place::with_model();
    place.write("data.jsonl", "{\"problem\": \"1 + 1 = ?\", \"answer\": \"2\"}\n");
    let file = place.at("model/tokenizer.json");
    let whole: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let replace = |content: &str| serde_json::json!({"type": "Replace", "pattern": {"String": "1"}, "content": content});
    let thousand = "1".repeat(1000);
    for (field, value) in [
        (
            "post_processor",
            serde_json::json!({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[NONE]", "type_id": 0}}],
                "pair": [], "special_tokens": {}}),
        ),
        ("decoder", serde_json::json!({"type": "Nothing"})),
        (
            "normalizer",
            serde_json::json!({"type": "Sequence", "normalizers": [replace(&thousand), replace(&thousand), replace(&thousand), replace(&thousand)]}),
        ),
    ] {
        let mut spoilt = whole.clone();
        spoilt[field] = value;
        fs::write(&file, spoilt.to_string()).unwrap();
        let done = limited(&place, "data data.jsonl --model model --show 0");
        done.refused(2, "");
    }
    // Bytes cut anywhere, and bytes flipped anywhere.
    let text = whole.to_string().into_bytes();
    for i in (0..text.len()).step_by(text.len() / 12 + 1) {
        let mut flipped = text.clone();
        flipped[i] ^= 0x15;
        for spoilt in [&text[..i], &flipped] {
            fs::write(&file, spoilt).unwrap();
            let done = limited(&place, "data data.jsonl --model model --show 0");
            assert!(matches!(done.code, Some(0 | 2)), "byte {i}: {:?} {}", done.code, done.stderr);
        }
    }
}

#[test]
fn absurd_shapes_are_refused_before_memory_is_taken() {
    let place = Place::with_model();
    let file = place.at("model/config.json");
    let whole: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    for command in ["train --dry-run model.checkpoint=model", "score --model model"] {
        place.refuses_each(include_str!("refused/shapes.txt"), |change, _| {
            let (field, value) = change.split_once(' ').unwrap();
            let mut spoilt = whole.clone();
            spoilt[field] = serde_json::from_str(value).unwrap();
            fs::write(&file, spoilt.to_string()).unwrap();
            let done = limited(&place, command);
            done.tells("config.json");
            done
        });
    }
}

#[test]
fn a_name_that_a_spreadsheet_takes_for_a_formula_is_refused() {
    let place = Place::new();
    place.model("model");
    place.write("=cmd.jsonl", ROW);
    limited(&place, "eval --model model --benchmarks =cmd.jsonl --out out")
        .refused(2, "--benchmarks: `=cmd`: a spreadsheet takes … rename the file");
}

/// A Parquet file of `rows` rows whose problems are one text of `length` bytes, which a dictionary holds once.
pub(super) fn bomb(path: &Path, rows: usize, length: usize) {
    use parquet::basic::{Compression, ZstdLevel};
    use parquet::data_type::{ByteArray, ByteArrayType};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    let schema = "message row { required binary problem (UTF8); required binary answer (UTF8); }";
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).unwrap()))
        .set_dictionary_page_size_limit(1 << 30)
        .set_statistics_enabled(parquet::file::properties::EnabledStatistics::None)
        .build();
    let file = fs::File::create(path).unwrap();
    let schema = parse_message_type(schema).unwrap().into();
    let mut writer = SerializedFileWriter::new(file, schema, properties.into()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for text in ["7".repeat(length), "7".to_owned()] {
        let value = ByteArray::from(text.into_bytes());
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&vec![value; rows], None, None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

#[test]
fn parquet_that_unpacks_to_a_multiple_of_itself_is_refused_and_repetition_is_not() {
    let place = Place::new();
    let (bombs, fair) = (place.at("bomb.parquet"), place.at("fair.parquet"));
    bomb(&bombs, 3000, 1 << 16);
    let size = fs::metadata(&bombs).unwrap().len();
    assert!(size < 20_000, "{size} bytes that unpack to 200 MB");
    let done = limited(&place, "data bomb.parquet --show 0");
    done.refused(2, "bomb.parquet: row … unpacks to more than … 1000 times");
    // One page of more memory than there is.
    let page = place.at("page.parquet");
    bomb(&page, 1, 150 << 20);
    assert!(fs::metadata(&page).unwrap().len() < 100_000);
    limited(&place, "data page.parquet --show 0").refused(2, "page.parquet: … MiB of memory");
    bomb(&fair, 300, 1000);
    limited(&place, "data fair.parquet --show 0").says("rows      300");
}

#[test]
#[cfg(unix)]
fn pipes_and_devices_are_no_files() {
    let place = Place::with_model();
    let fifo = place.at("fifo.jsonl").display().to_string();
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", place.at("zero.jsonl")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", place.at("zero.parquet")).unwrap();
    place.write("data.jsonl", ROW);
    for line in [
        "data fifo.jsonl",
        "data zero.jsonl",
        "data zero.parquet",
        "data data.jsonl --template fifo.jsonl",
        "grade --input /dev/zero",
        "train --dry-run --preset fifo.jsonl",
        "train --dry-run --preset /dev/zero",
        "doctor fifo.jsonl",
        "doctor /dev/zero",
    ] {
        limited(&place, line).refused(2, "");
    }
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        let file = place.at("model").join(name);
        let whole = fs::read(&file).unwrap();
        for what in ["/dev/zero", &fifo] {
            fs::remove_file(&file).unwrap();
            std::os::unix::fs::symlink(what, &file).unwrap();
            limited(&place, "generate --model model --prompt 1")
                .refused(2, &format!("{name} … must be a regular file"));
        }
        fs::remove_file(&file).unwrap();
        fs::write(&file, whole).unwrap();
    }
}

#[test]
fn a_data_set_commands_no_terminal() {
    let place = Place::new();
    let evil = "{\"problem\": \"\\u001b]0;owned\\u0007\\u001b[2J 1+1\\u202e?\", \"answer\": \"2\"}\n";
    place.write("data.jsonl", evil);
    let done = limited(&place, "data data.jsonl");
    let shown = done.output();
    assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{shown:?}");
    assert!(shown.contains("\\u{1b}[2J 1+1\\u{202e}?"), "{shown}");
    place.write("spoilt.jsonl", "{\"prob\\u001b[2Jlem\": \"x\", \"answer\": \"2\"}\n");
    let done = limited(&place, "data spoilt.jsonl");
    assert!(!done.stderr.contains('\u{1b}'), "{:?}", done.stderr);
    done.refused(2, "prob\\u{1b}[2Jlem");
}

#[test]
fn the_column_that_a_refusal_asks_for_is_taken() {
    let place = Place::new();
    place.write("data.jsonl", "{\"question\": \"1+1\", \"rationale\": \"2\"}\n");
    limited(&place, "data data.jsonl")
        .refused(2, "rationale: no \\boxed{} … name it with --column answer=NAME");
    let done = limited(&place, "data data.jsonl --column answer=rationale --show 0");
    done.says("answer `rationale`, no solution");
}

#[test]
fn an_adapter_that_makes_numbers_of_no_size_is_refused() {
    let place = Place::new();
    let settings = "task.kind=addition sft.steps=0 rl.steps=1 rl.prompts_per_step=1 rl.group_size=2 rl.max_new_tokens=2 eval.n=1 lora.rank=2";
    train(&place.at("run"), &[&words(settings)]).output();
    // Without the manifest of the run, as a stranger's adapter.
    fs::create_dir(place.at("adapter")).unwrap();
    for name in ["adapter/adapter_config.json", "adapter/adapter_model.safetensors"] {
        fs::copy(place.at("run/checkpoints/step-00000001").join(name), place.at(name)).unwrap();
    }
    let mut config = place.json("adapter/adapter_config.json");
    let merge = |expected: &str| {
        let base = "run/checkpoints/step-00000001/reference";
        place.run(&format!("export --model {base} --adapter adapter --out merged")).refused(2, expected);
        assert!(!place.at("merged").exists(), "nothing is left");
    };
    config["lora_alpha"] = serde_json::json!(1e308);
    place.write("adapter/adapter_config.json", config.to_string());
    merge("adapter_config.json: field `lora_alpha` is 1e+308: expected a number from -1e6 to 1e6");
    config["lora_alpha"] = serde_json::json!(1e6);
    place.write("adapter/adapter_config.json", config.to_string());
    let tensors = place.at("adapter/adapter_model.safetensors");
    let mut bytes = fs::read(&tensors).unwrap();
    // The second half of the file: the largest f32 there is, in both matrices' places.
    let half = bytes.len() / 8 * 4;
    bytes[half..].chunks_exact_mut(4).for_each(|number| number.copy_from_slice(&f32::MAX.to_le_bytes()));
    fs::write(&tensors, bytes).unwrap();
    merge("the merged ` … is damaged");
}

#[test]
fn a_checkpoint_of_another_run_is_refused_by_every_command() {
    let place = Place::new();
    let settings = "task.kind=addition sft.steps=2 rl.steps=0 sft.batch=2 eval.n=1 checkpoint.every=1";
    let train = |name: &str| train(&place.at(name), &[&words(settings)]);
    train("ours").output();
    train("theirs").output();
    let step = "checkpoints/step-00000002";
    fs::remove_dir_all(place.at("ours").join(step)).unwrap();
    fs::rename(place.at("theirs").join(step), place.at("ours").join(step)).unwrap();
    train("ours").refused(2, "step-00000002: a checkpoint of another run");
    for command in ["generate --prompt 1", "export --out new", "eval"] {
        place.run(&format!("{command} --model ours")).refused(2, "a checkpoint of another run");
    }
}

#[test]
fn the_doctor_says_what_is_wrong_and_exits_with_one() {
    let place = Place::new();
    let row = |i: usize, reward: f64| {
        format!(
            "{{\"step\": {}, \"reward\": {reward}, \"frac_reward_zero_std\": 1.0, \"loss\": NaN, \"completions/clipped_ratio\": 0.0}}",
            i * 10
        )
    };
    let state = |reward: fn(usize) -> f64, nan: bool| {
        let rows: Vec<String> = (1..=12).map(|i| row(i, reward(i))).collect();
        let text = format!("{{\"global_step\": 120, \"log_history\": [{}]}}", rows.join(", "));
        if nan {
            text
        } else {
            text.replace("NaN", "0.01")
                .replace("\"frac_reward_zero_std\": 1.0", "\"frac_reward_zero_std\": 0.2")
        }
    };
    place.write("trainer_state.json", state(|_| 0.0, true));
    let done = place.run("doctor trainer_state.json");
    assert_eq!((done.code, done.stderr.as_str()), (Some(1), ""));
    let findings = "12 steps of RL by TRL: 3 findings … The reward is constant (steps 10 to 120) … 100 % of the groups … \
                    in 12 of 12 steps the loss is not finite … docs/doctor.md#divergence";
    assert_has(&done.stdout, findings);
    // A directory with it, as JSON.
    let done = place.run("doctor . --json");
    assert_eq!(done.code, Some(1));
    let found: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let ids: Vec<&str> =
        found["findings"].as_array().unwrap().iter().map(|f| f["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["constant-reward", "no-variance", "divergence"]);
    assert_eq!((&found["framework"], &found["steps"]), (&"TRL".into(), &12.into()));
    place.write("well.json", state(|i| i as f64 / 20.0, false));
    place.run("doctor well.json").says("nothing is wrong that this log can show");
    place.write("other.toml", "x = 1");
    for (path, expected) in [
        ("absent", "absent: no such file or directory; must be a run directory of llm-train"),
        ("other.toml", "must be a run directory of llm-train"),
    ] {
        place.run(&format!("doctor {path}")).refused(2, &format!("{path} … {expected}"));
    }
    place.write("log", "");
    place.run("doctor log").refused(2, "no step of RL that is known; must be a run directory");
    place.refuses_each(include_str!("refused/logs.txt"), |log, _| {
        place.write("log", log.replace("\\n", "\n"));
        place.run("doctor log")
    });
    // A run of ours, with rewards that are all 0: one token is no answer.
    let settings =
        "task.kind=addition sft.steps=0 rl.steps=12 rl.prompts_per_step=2 rl.max_new_tokens=1 eval.n=2";
    train(&place.at("run"), &[&words(settings)]).output();
    let done = place.run("doctor run");
    assert_eq!(done.code, Some(1), "{}", done.stdout);
    let findings = "12 steps of RL by llm-train … The reward is constant … % of the responses are cut off";
    assert_has(&done.stdout, findings);
}
