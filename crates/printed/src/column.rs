//! A column of Tables 3 to 6: GRPO, or a variant of GRPO-λ.

use serde::Deserialize;

/// The weights of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum TraceStyle {
    /// None: the baseline.
    #[serde(rename = "GRPO")]
    Grpo,
    /// Early and late tokens.
    #[serde(rename = "both")]
    Both,
    /// Late tokens.
    #[serde(rename = "recent")]
    Recent,
}

/// The place where the trace enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum UpdateStyle {
    /// Nowhere: the baseline.
    #[serde(rename = "GRPO")]
    Grpo,
    /// Into the log-probabilities of the ratio (Algorithm 1).
    #[serde(rename = "eps-trace")]
    Trace,
    /// Onto the loss of a token (Algorithm 2).
    #[serde(rename = "eps-weight")]
    Weight,
}

impl TraceStyle {
    /// Its name as a setting of the method: `recent`, `both`, or `grpo` for the baseline.
    pub fn name(self) -> &'static str {
        match self {
            Self::Grpo => "grpo",
            Self::Recent => "recent",
            Self::Both => "both",
        }
    }
}

impl UpdateStyle {
    /// Its name as a setting of the method: `trace`, `weight`, or `grpo` for the baseline.
    pub fn name(self) -> &'static str {
        match self {
            Self::Grpo => "grpo",
            Self::Trace => "trace",
            Self::Weight => "weight",
        }
    }
}

/// A column of Tables 3-6: GRPO or a variant of GRPO-λ.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// The weights.
    pub trace_style: TraceStyle,
    /// The place where they enter.
    pub update_style: UpdateStyle,
    /// λ; `None` for GRPO.
    pub lam: Option<f64>,
}

impl Column {
    /// The baseline.
    pub const GRPO: Column =
        Column { trace_style: TraceStyle::Grpo, update_style: UpdateStyle::Grpo, lam: None };
    /// The one variant that was trained on every model: recent, ε-trace, λ = 0.99.
    pub const COMMON: Column =
        Column { trace_style: TraceStyle::Recent, update_style: UpdateStyle::Trace, lam: Some(0.99) };

    /// True if it is the baseline, or else has weights, a place for them, and λ.
    pub fn is_whole(&self) -> bool {
        let baseline = self.lam.is_none();
        (self.trace_style == TraceStyle::Grpo) == baseline
            && (self.update_style == UpdateStyle::Grpo) == baseline
    }

    /// `recent/ε-trace/0.99`; `GRPO` for the baseline.
    pub fn name(&self) -> String {
        match (self.family(), self.lam) {
            (family, Some(lam)) => format!("{family}/{lam}"),
            (family, None) => family.to_owned(),
        }
    }

    /// The name without λ.
    pub fn family(&self) -> &'static str {
        match (self.trace_style, self.update_style) {
            (TraceStyle::Both, UpdateStyle::Trace) => "both/ε-trace",
            (TraceStyle::Both, UpdateStyle::Weight) => "both/ε-weight",
            (TraceStyle::Recent, UpdateStyle::Trace) => "recent/ε-trace",
            (TraceStyle::Recent, UpdateStyle::Weight) => "recent/ε-weight",
            _ => "GRPO",
        }
    }
}
