//! `sim methods`: every method with its settings, for a reader or as JSON.

use crate::failure::Failure;
use crate::method_args::find;
use crate::program::{named, program};
use crate::terminal;
use grpo_lambda::equation::{BatchSize, Equation};
use grpo_lambda::group::InputKind;
use grpo_lambda::methods::{self, MethodSpec};
use grpo_lambda::settings::{Kind, Param, Settings};
use grpo_lambda_conventions::{self as conventions, Convention};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The command's arguments.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  sim methods\n  sim methods grpo_lambda\n      settings, equation, and what TRL, verl and others call it\n  \
                  sim methods --conventions\n      what frameworks mean by GRPO, Dr. GRPO, DAPO, ..\n  sim methods --json > methods.json"
)]
pub struct MethodsArgs {
    /// Only this method, with its settings
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Print JSON: a list of objects with name, title, about, source, provenance, params, extra_inputs, equation, conventions
    #[arg(long)]
    json: bool,
    /// List what frameworks and papers mean by the same words, and the setting here that reproduces each
    #[arg(long)]
    conventions: bool,
    /// With --conventions: as the table of docs/conventions.md
    #[arg(long, requires = "conventions", conflicts_with_all = ["json", "name"])]
    markdown: bool,
}

/// Prints the list.
///
/// # Errors
/// For an unknown name.
pub fn run(args: &MethodsArgs) -> Result<(), Failure> {
    let specs = match &args.name {
        Some(name) => vec![find(name).map_err(Failure::Refused)?],
        None => methods::REGISTRY.to_vec(),
    };
    if args.conventions {
        return terminal::print(&shown_conventions(args));
    }
    terminal::print(&match (args.json, &args.name) {
        (true, _) => {
            let list: Vec<_> = specs.into_iter().map(to_json).collect();
            format!("{:#}\n", Value::from(list))
        }
        (false, Some(_)) => one(specs[0]),
        (false, None) => overview(&specs),
    })
}

/// The conventions of all methods or of one.
fn shown_conventions(args: &MethodsArgs) -> String {
    let rows: Vec<&Convention> = match &args.name {
        Some(name) => conventions::of_method(name).collect(),
        None => conventions::all().collect(),
    };
    match (args.markdown, args.json) {
        (true, _) => conventions::markdown(),
        (_, true) => format!("{:#}\n", Value::from(rows.into_iter().map(convention).collect::<Vec<_>>())),
        _ => format!("{}\n", convention_table(&rows, true)),
    }
}

/// Rows of conventions; `methods` says whether the method is named.
fn convention_table(rows: &[&Convention], methods: bool) -> String {
    let mut table = terminal::table(&["framework", "words", "setting here", "where it departs"]);
    for c in rows {
        let here = match (c.method, methods) {
            ("", _) => "none".to_owned(),
            (_, true) => c.command(),
            (_, false) if c.settings.is_empty() => "the defaults".to_owned(),
            (_, false) => c.settings.to_owned(),
        };
        let framework = format!("{} {}", c.framework.name, c.framework.version);
        table.add_row([framework, c.words.to_owned(), here, c.differs.to_owned()]);
    }
    table.to_string()
}

fn overview(specs: &[&MethodSpec]) -> String {
    let mut table = terminal::table(&["name", "what it is", "source", "inputs"]);
    for spec in specs {
        let about = format!("{}: {}", spec.title, spec.about);
        let source = format!("{} ({})", spec.source, spec.provenance.name());
        table.add_row([spec.name.to_owned(), about, source, input_words(spec)]);
    }
    let more = "\n\ninputs: what a response needs besides rewards, logps and old_logps.\n\
                sim methods NAME lists a method's settings and prints its equation; sim methods --conventions says what TRL, verl\n\
                and others mean by the same words; sim methods --json has everything.\n";
    table.to_string() + &named(more, program())
}

fn one(spec: &MethodSpec) -> String {
    let mut table = terminal::table(&["setting", "default", "values", "meaning"]);
    for p in (spec.params)() {
        table.add_row([p.key, &p.default, &p.kind.to_string(), p.about]);
    }
    let mut text = format!("{} ({}): {}\n", spec.name, spec.title, spec.about);
    writeln!(text, "source: {} ({})", spec.source, spec.provenance.name()).expect("writing to memory");
    writeln!(text, "inputs: {}\n{table}", input_words(spec)).expect("writing to memory");
    if let Some(equation) = equation(spec) {
        let BatchSize { groups, group_size, max_len } = SIZE;
        let size = format!("{groups} prompts, {group_size} responses each, of at most {max_len} tokens");
        write!(text, "\nAt the defaults, for a batch of {size}:\n{equation}").expect("writing to memory");
    }
    let rows: Vec<&Convention> = conventions::of_method(spec.name).collect();
    if !rows.is_empty() {
        writeln!(text, "\nIn the words of others:\n{}", convention_table(&rows, false))
            .expect("writing to memory");
    }
    text
}

/// The batch that equations are printed for.
const SIZE: BatchSize = BatchSize { groups: 16, group_size: 8, max_len: 256 };

/// The objective at the defaults.
fn equation(spec: &MethodSpec) -> Option<Equation> {
    let configured = methods::configure(spec.name, &[]).expect("defaults are allowed");
    configured.method.equation(&SIZE)
}

fn convention(c: &Convention) -> Value {
    json!({
        "framework": c.framework.name,
        "version": c.framework.version,
        "words": c.words,
        "about": c.scope.name(),
        "advantage": c.advantage,
        "ddof": c.ddof,
        "epsilon": c.epsilon,
        "reduction": c.reduction,
        "clip": c.clip,
        "kl": c.kl,
        "method": (!c.method.is_empty()).then_some(c.method),
        "settings": c.settings,
        "differs": (c.differs != "-").then_some(c.differs),
        "recorded": (c.recorded != "-").then_some(c.recorded),
        "place": c.place,
    })
}

/// The method's extra inputs under its defaults, and with the settings given.
fn extra_inputs(spec: &MethodSpec, overrides: &[(&str, &str)]) -> Vec<InputKind> {
    let params = (spec.params)();
    let declared = |key: &str| params.iter().any(|p| p.key == key);
    let overrides: Vec<_> = overrides
        .iter()
        .filter(|(key, _)| declared(key))
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let settings =
        Settings::resolve(spec.name, &params, &overrides).expect("defaults and beta=1 are allowed");
    (spec.extra_inputs)(&settings)
}

const WITH_KL: [(&str, &str); 1] = [("beta", "1")];

fn input_words(spec: &MethodSpec) -> String {
    let (default, with_kl) = (extra_inputs(spec, &[]), extra_inputs(spec, &WITH_KL));
    let names = |kinds: &[InputKind]| kinds.iter().map(|k| k.name()).collect::<Vec<_>>().join(", ");
    let extra: Vec<_> = with_kl.into_iter().filter(|k| !default.contains(k)).collect();
    match (default.is_empty(), extra.is_empty()) {
        (true, true) => "none".to_owned(),
        (false, true) => names(&default),
        (true, false) => format!("none; {} with beta > 0", names(&extra)),
        (false, false) => format!("{}; {} with beta > 0", names(&default), names(&extra)),
    }
}

/// A method as an object of `sim methods --json`.
pub fn to_json(spec: &MethodSpec) -> Value {
    let names = |kinds: Vec<InputKind>| kinds.iter().map(|k| k.name()).collect::<Vec<_>>();
    json!({
        "name": spec.name,
        "title": spec.title,
        "about": spec.about,
        "source": spec.source,
        "provenance": spec.provenance.name(),
        "params": (spec.params)().iter().map(param).collect::<Vec<_>>(),
        "extra_inputs": {
            "default": names(extra_inputs(spec, &[])),
            "with_beta": names(extra_inputs(spec, &WITH_KL)),
        },
        "equation": equation(spec).map(|e| e.parts.into_iter().collect::<Vec<_>>()),
        "conventions": conventions::of_method(spec.name).map(convention).collect::<Vec<_>>(),
    })
}

/// A setting. Ends of a range that are infinite are `null`; the default has the setting's own JSON type.
fn param(p: &Param) -> Value {
    let end = |x: f64| if x.is_finite() { Value::from(x) } else { Value::Null };
    let number = |text: &str| text.parse::<f64>().map_or(Value::Null, Value::from);
    let (kind, default, details) = match p.kind {
        Kind::Number { min, max } => {
            ("number", number(&p.default), json!({ "min": end(min), "max": end(max) }))
        }
        Kind::OptionalNumber { min, max } => {
            ("number or none", number(&p.default), json!({ "min": end(min), "max": end(max) }))
        }
        Kind::Choice(words) => ("choice", Value::from(p.default.as_str()), json!({ "choices": words })),
        Kind::Flag => ("flag", Value::from(p.default == "true"), json!({})),
    };
    let mut object = json!({ "key": p.key, "type": kind, "default": default });
    if let (Value::Object(object), Value::Object(details)) = (&mut object, details) {
        object.extend(details);
        object.insert("about".to_owned(), Value::from(p.about));
    }
    object
}
