//! A row: an expected update against the policy gradient, as cells and back.

use grpo_lambda_stats::table::Cell;

use super::pairs::Fit;
use super::regions::Regions;

/// How sampler and updated policy differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The policy has been updated on the batch: by this method, `x` times.
    Inner,
    /// The sampler is the policy `x` exact gradient steps ago, the same pair for all methods.
    Stale,
    /// The sampler has temperature `x`.
    Temperature,
    /// The sampler's logits carry noise of standard deviation `x`.
    Noise,
}

impl Mode {
    /// All, in the order of tables.
    pub(super) const ALL: [Mode; 4] = [Mode::Inner, Mode::Stale, Mode::Temperature, Mode::Noise];

    /// Its name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::Inner => "inner",
            Mode::Stale => "stale",
            Mode::Temperature => "temperature",
            Mode::Noise => "noise",
        }
    }
}

/// One expected update.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// How the policies differ.
    pub(super) mode: Mode,
    /// The task.
    pub(super) mdp: String,
    /// The method, by its name for a reader.
    pub(super) method: String,
    /// Updates, temperature or noise.
    pub(super) x: f64,
    /// Whether ratios are taken to be 1.
    pub(super) ignored: bool,
    /// `KL(sampler || updated)`, nats per response.
    pub(super) kl: f64,
    /// Against `∇J`; none where the update is silent.
    pub(super) fit: Option<Fit>,
    /// Shares of tokens; only for updates and stale samplers.
    pub(super) regions: Option<Regions>,
}

/// Columns of [`Row::cells`].
pub(super) fn columns() -> Vec<&'static str> {
    let own = ["mode", "mdp", "method", "x", "ratios", "kl", "cosine", "scale", "bias"];
    own.into_iter().chain(Regions::NAMES).collect()
}

impl Row {
    /// Cosine with `∇J`; 0 of a silent update.
    pub(super) fn cosine(&self) -> f64 {
        self.fit.map_or(0.0, |f| f.cosine)
    }

    /// The row of a table.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let fit = |of: fn(&Fit) -> f64| Cell::from(self.fit.as_ref().map(of));
        let mut cells = vec![
            self.mode.name().into(),
            self.mdp.as_str().into(),
            self.method.as_str().into(),
            self.x.into(),
            if self.ignored { "ignored" } else { "sampler" }.into(),
            self.kl.into(),
            fit(|f| f.cosine),
            fit(|f| f.scale),
            fit(|f| f.bias),
        ];
        match &self.regions {
            Some(regions) => cells.extend(regions.shares().map(Cell::from)),
            None => cells.extend(Regions::NAMES.map(|_| Cell::Empty)),
        }
        cells
    }

    /// Back from [`Row::cells`]; none if they are not.
    pub(super) fn parse(cells: &[Cell]) -> Option<Row> {
        let text = |i: usize| match cells.get(i)? {
            Cell::Text(text) => Some(text.clone()),
            _ => None,
        };
        let number = |i: usize| cells.get(i).and_then(Cell::number);
        let mode = text(0)?;
        let fit = number(6).and_then(|cosine| Some(Fit { cosine, scale: number(7)?, bias: number(8)? }));
        let shares: Option<Vec<f64>> = (9..17).map(number).collect();
        Some(Row {
            mode: Mode::ALL.into_iter().find(|m| m.name() == mode)?,
            mdp: text(1)?,
            method: text(2)?,
            x: number(3)?,
            ignored: text(4)? == "ignored",
            kl: number(5)?,
            fit,
            regions: shares.and_then(|s| Some(Regions::from_shares(s.try_into().ok()?))),
        })
    }
}
