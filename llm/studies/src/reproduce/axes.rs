//! The axes of the paper's runs, read from `paper_runs.toml`: models, data sets, variants; and the benchmarks of their evaluation.

use std::fmt;
use std::sync::LazyLock;

use grpo_lambda_decoder::model;
use grpo_lambda_printed::{self as paper, Column, TraceStyle, UpdateStyle};
use grpo_lambda_trainer::plan::shapes;
use serde::Deserialize;

/// `paper_runs.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Axes {
    models: Vec<PaperModel>,
    datasets: Vec<PaperDataset>,
    benchmarks: Vec<PaperBenchmark>,
}

static AXES: LazyLock<Axes> = LazyLock::new(|| {
    toml::from_str(include_str!("paper_runs.toml")).expect("the compiled-in file is read by a test")
});

/// A model of the paper.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperModel {
    /// Its name in Table 1.
    pub name: String,
    /// The table of its runs, 3 to 6.
    pub table: u8,
    /// The column of Table 2: `1.5B`, `3B` or `7B`.
    pub size: String,
    /// The preset of its runs.
    pub preset: String,
    /// The prompt template of its evaluation.
    pub template: String,
    /// `owner/name` on the Hugging Face hub.
    pub id: String,
    shape: String,
    datasets: Vec<String>,
    pub variants: Vec<Variant>,
}

impl PaperModel {
    /// A name for directories.
    pub fn slug(&self) -> String {
        self.name.to_lowercase()
    }

    pub fn shape(&self) -> model::ModelConfig {
        shapes::named(&self.shape).expect("a test finds all four")
    }

    /// The data sets of its runs, in the order of its table.
    pub fn datasets(&self) -> impl Iterator<Item = &'static PaperDataset> {
        self.datasets.iter().map(|name| dataset(name))
    }
}

/// A data set of the paper's reinforcement learning.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperDataset {
    /// Its name in Tables 3 to 6.
    pub name: String,
    /// `owner/name` on the Hugging Face hub, with subset and split where there are several.
    pub id: String,
    pub(super) stand_in: StandIn,
}

/// A benchmark of the paper's evaluation.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperBenchmark {
    /// Its name in Tables 3 to 6.
    pub name: String,
    /// Its name for `llm-train eval --benchmarks`.
    pub key: String,
    pub(super) stand_in: StandIn,
}

impl PaperBenchmark {
    /// The benchmark in the paper's tables.
    pub fn printed(&self) -> paper::Benchmark {
        let named = |b: &paper::Benchmark| b.row_name() == self.name;
        paper::Benchmark::ALL.into_iter().find(named).expect("a test finds all five")
    }

    /// Problems in the copy that understand-r1-zero evaluates, the code the paper names.
    pub fn items(&self) -> u64 {
        self.printed().items() as u64
    }
}

/// Word problems in place of a data set or benchmark.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StandIn {
    pub(super) steps: Vec<usize>,
    pub(super) max_operand: u32,
}

/// The four, in the order of Table 1.
pub fn models() -> &'static [PaperModel] {
    &AXES.models
}

/// The four, in the order of Tables 3 and 4.
pub fn datasets() -> &'static [PaperDataset] {
    &AXES.datasets
}

/// The five, in the order of Tables 3 to 6.
pub fn benchmarks() -> &'static [PaperBenchmark] {
    &AXES.benchmarks
}

/// The data set of this name in the paper's tables.
pub(super) fn dataset(name: &str) -> &'static PaperDataset {
    datasets().iter().find(|d| d.name == name).expect("a test finds all four")
}

/// A column of Tables 3 to 6, in the file by its slug.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Variant(pub Column);

impl Variant {
    /// The baseline.
    pub const GRPO: Variant = Variant(Column::GRPO);

    /// Table 1's GRPO-lambda: recent, ε-trace.
    pub fn recent_trace(lambda: f64) -> Variant {
        Variant(Column { lam: Some(lambda), ..Column::COMMON })
    }

    pub fn lambda(&self) -> Option<f64> {
        self.0.lam
    }

    /// A name for directories: `grpo`, `both-trace-0.98`.
    pub fn slug(&self) -> String {
        let Column { trace_style, update_style, lam } = self.0;
        match lam {
            None => trace_style.name().to_owned(),
            Some(lambda) => format!("{}-{}-{lambda}", trace_style.name(), update_style.name()),
        }
    }

    /// `method.*` settings of this column over a preset's whose method is GRPO-lambda.
    pub fn overrides(&self) -> Vec<String> {
        match self.0.lam {
            None => vec!["method.name=grpo".to_owned()],
            Some(lambda) => vec![
                "method.name=grpo_lambda".to_owned(),
                format!("method.style={}", self.0.trace_style.name()),
                format!("method.update={}", self.0.update_style.name()),
                format!("method.lambda={lambda}"),
            ],
        }
    }
}

impl TryFrom<String> for Variant {
    type Error = String;

    /// Reads a slug.
    fn try_from(slug: String) -> Result<Variant, String> {
        if slug == Variant::GRPO.slug() {
            return Ok(Variant::GRPO);
        }
        let lambda = slug.rsplit('-').next().and_then(|text| text.parse().ok());
        let styles = [TraceStyle::Both, TraceStyle::Recent];
        let updates = [UpdateStyle::Trace, UpdateStyle::Weight];
        let all = styles.into_iter().flat_map(|trace_style| {
            updates.map(|update_style| Variant(Column { trace_style, update_style, lam: lambda }))
        });
        all.into_iter().find(|v| v.slug() == slug).ok_or(format!("{slug}: no such variant"))
    }
}

/// The spelling of the paper's audit: `GRPO`, `both/ε-trace/0.98`.
impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda_trainer::config::{Config, PRESETS};

    /// The axes span the printed runs: no more, no fewer, in the printed order.
    #[test]
    fn the_axes_are_those_of_the_printed_tables() {
        let printed = paper::Paper::embedded().expect("the committed tables");
        assert_eq!((models().len(), datasets().len(), benchmarks().len()), (4, 4, 5));
        for (model, of_paper) in models().iter().zip(paper::Model::ALL) {
            assert_eq!((model.name.as_str(), usize::from(model.table)), (of_paper.name(), of_paper.table()));
            assert_eq!(model.variants.iter().map(|v| v.0).collect::<Vec<_>>(), printed.columns(of_paper));
            let names: Vec<&str> = printed.datasets(of_paper).iter().map(|d| d.name()).collect();
            assert_eq!(model.datasets().map(|d| d.name.as_str()).collect::<Vec<_>>(), names);
            assert!(PRESETS.iter().any(|p| p.name == model.preset), "{}", model.preset);
            assert!(model.shape().num_hidden_layers > 0);
        }
        assert_eq!(benchmarks().iter().map(PaperBenchmark::items).sum::<u64>(), 30 + 500 + 83 + 675 + 272);
    }

    #[test]
    fn a_column_reads_as_printed_and_names_its_method() {
        let v = Variant::try_from("both-weight-0.98".to_owned()).expect("a variant");
        assert_eq!((v.to_string().as_str(), v.slug().as_str()), ("both/ε-weight/0.98", "both-weight-0.98"));
        let settings =
            Config::resolve("tiny", &v.overrides()).expect("settings of the method").configured().settings;
        assert_eq!((settings.word("style"), settings.word("update")), ("both", "weight"));
        assert_eq!(settings.number("lambda"), 0.98);
        assert_eq!(Variant(Column::COMMON), Variant::recent_trace(0.99));
        assert!(Variant::try_from("both-weigh-0.98".to_owned()).is_err());
    }
}
