//! A column of Tables 3 to 6: GRPO, or a variant of GRPO-lambda.

use std::fmt;

use grpo_lambda_printed::{Column, TraceStyle, UpdateStyle};

/// A column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variant {
    /// Which weights.
    pub style: TraceStyle,
    /// Where they enter.
    pub update: UpdateStyle,
    /// λ; `None` for GRPO.
    pub lambda: Option<f64>,
}

impl Variant {
    /// The baseline.
    pub const GRPO: Variant = Variant { style: TraceStyle::Grpo, update: UpdateStyle::Grpo, lambda: None };

    /// Recent, ε-trace: what Table 1 calls GRPO-lambda.
    pub fn recent_trace(lambda: f64) -> Variant {
        Variant { style: TraceStyle::Recent, update: UpdateStyle::Trace, lambda: Some(lambda) }
    }

    /// A name for directories: `grpo`, `both-trace-0.98`.
    pub fn slug(&self) -> String {
        match self.lambda {
            None => self.style.name().to_owned(),
            Some(lambda) => format!("{}-{}-{lambda}", self.style.name(), self.update.name()),
        }
    }

    /// `method.*` settings of this column over those of a preset whose method is GRPO-lambda.
    pub fn overrides(&self) -> Vec<String> {
        match self.lambda {
            None => vec!["method.name=grpo".to_owned()],
            Some(lambda) => vec![
                "method.name=grpo_lambda".to_owned(),
                format!("method.style={}", self.style.name()),
                format!("method.update={}", self.update.name()),
                format!("method.lambda={lambda}"),
            ],
        }
    }
}

impl From<Column> for Variant {
    fn from(column: Column) -> Variant {
        Variant { style: column.trace_style, update: column.update_style, lambda: column.lam }
    }
}

/// As the audit of the paper's tables spells it: `GRPO`, `both/ε-trace/0.98`.
impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lambda {
            None => write!(f, "GRPO"),
            Some(lambda) => write!(f, "{}/ε-{}/{lambda}", self.style.name(), self.update.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_reads_as_printed_and_names_its_method() {
        let column =
            Column { trace_style: TraceStyle::Both, update_style: UpdateStyle::Weight, lam: Some(0.98) };
        let v = Variant::from(column);
        assert_eq!(v.to_string(), column.name());
        assert_eq!((v.to_string().as_str(), v.slug().as_str()), ("both/ε-weight/0.98", "both-weight-0.98"));
        let config = grpo_lambda_trainer::config::Config::resolve("tiny", &v.overrides())
            .expect("settings of the method");
        let settings = config.configured().settings;
        assert_eq!((settings.word("style"), settings.word("update")), ("both", "weight"));
        assert_eq!(settings.number("lambda"), 0.98);
        assert_eq!(Variant::from(Column::GRPO), Variant::GRPO);
        assert_eq!(Variant::from(Column::COMMON), Variant::recent_trace(0.99));
    }
}
