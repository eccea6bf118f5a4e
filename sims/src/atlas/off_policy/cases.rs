//! Every method on every task off-policy: rows of numbers, exact over groups.

use grpo_lambda::mdp::evidence::Exact;
use grpo_lambda::mdp::{Oracle, Tabular};
use grpo_lambda::methods::Configured;
use grpo_lambda::table::{Cell, Table};

use super::pairs::{Fit, Task, ascent, divergence, noisy, norm, rate_of, tempered};
use super::regions::Regions;
use crate::atlas::entrants::{ENTRANTS, Entrant, Family, entrant};
use crate::atlas::multisets::{Groups, Ratios, given};

/// Nats per response of the first step, of every method.
pub const FIRST_STEP: f64 = 0.01;
/// Updates on one batch, and updates a sampler may be old.
pub const UPDATES: usize = 8;
/// Where rows of stale samplers are taken.
const STALE: [usize; 5] = [0, 1, 2, 4, 8];
/// Temperatures of samplers; the policy that is updated has 1.
const TEMPERATURES: [f64; 4] = [0.7, 0.9, 1.1, 1.4];
/// Noise on the sampler's logits: about what half precision, an 8-bit cache and a poor quantisation give.
const NOISE: [f64; 3] = [0.01, 0.1, 0.3];

/// Readings beside those of the whole atlas that matter off-policy only.
static MORE: &[Entrant] = &[
    entrant(Family::Group, "GRPO, printed clip", "grpo", "reduction=token_mean clip=printed"),
    entrant(Family::Group, "GRPO, no clip", "grpo", "reduction=token_mean clip=none"),
    entrant(
        Family::Trace,
        "GRPO-λ recent, no clip, no clamp",
        "grpo_lambda",
        "style=recent clip=none clamp=none",
    ),
    entrant(Family::Trace, "P-trace, history (recon.)", "p_trace_reconstructed", "form=history"),
];

/// Everyone whose evidence a table gives, with the method on this task.
///
/// # Errors
/// If settings are refused.
pub fn entrants(task: &Task) -> anyhow::Result<Vec<(&'static Entrant, Configured)>> {
    let kinds = Exact::kinds_on(&task.tree);
    let mut all = Vec::new();
    for entrant in ENTRANTS.iter().chain(MORE) {
        let configured = entrant.build(&task.tree)?;
        if given(entrant.source) && configured.require(&kinds).is_ok() {
            all.push((entrant, configured));
        }
    }
    Ok(all)
}

/// How sampler and updated policy differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
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
    pub const ALL: [Mode; 4] = [Mode::Inner, Mode::Stale, Mode::Temperature, Mode::Noise];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
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
pub struct Row {
    /// How the policies differ.
    pub mode: Mode,
    /// The task.
    pub mdp: String,
    /// The method, by its name for a reader.
    pub method: String,
    /// Updates, temperature or noise.
    pub x: f64,
    /// Whether ratios are taken to be 1.
    pub ignored: bool,
    /// `KL(sampler || updated)`, nats per response.
    pub kl: f64,
    /// Against `∇J`; none where the update is silent.
    pub fit: Option<Fit>,
    /// Shares of tokens; only for updates and stale samplers.
    pub regions: Option<Regions>,
}

/// Columns of [`Row::cells`].
pub fn columns() -> Vec<&'static str> {
    let own = ["mode", "mdp", "method", "x", "ratios", "kl", "cosine", "scale", "bias"];
    own.into_iter().chain(Regions::NAMES).collect()
}

impl Row {
    /// The row of a table.
    pub fn cells(&self) -> Vec<Cell> {
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
    pub fn parse(cells: &[Cell]) -> Option<Row> {
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

/// All rows of one method on one task, in groups of `size`.
///
/// # Errors
/// When there are too many groups.
pub fn rows(
    task: &Task,
    entrant: &Entrant,
    configured: &Configured,
    size: usize,
    seed: u64,
) -> anyhow::Result<Vec<Row>> {
    let method = configured.method.as_ref();
    let tree = &task.tree;
    let mut all = Vec::new();
    let floor = {
        let groups = Groups::new(tree, &task.start, &task.start, Ratios::Sampler, size, entrant.source)?;
        1e-9 * norm(&groups.expected(method))
    };
    let mut add = |mode, x, ignored: bool, behaviour: &Tabular, current: &Tabular| {
        let ratios = if ignored { Ratios::Ignored } else { Ratios::Sampler };
        let groups = Groups::new(tree, behaviour, current, ratios, size, entrant.source)?;
        let update = groups.expected(method);
        let regions = matches!(mode, Mode::Inner | Mode::Stale).then(|| Regions::of(&groups, method));
        all.push(Row {
            mode,
            mdp: task.name.to_owned(),
            method: entrant.name.to_owned(),
            x,
            ignored,
            kl: divergence(tree, behaviour, current),
            fit: Fit::new(&update, &Oracle::new(tree, current).grad_j(), floor),
            regions,
        });
        anyhow::Ok(update)
    };
    // Its own path on one batch, in expectation over batches.
    let mut current = task.start.clone();
    let mut rate = None;
    for k in 0..=UPDATES {
        let update = add(Mode::Inner, k as f64, false, &task.start, &current)?;
        let rate = *rate.get_or_insert_with(|| rate_of(tree, &task.start, &update, FIRST_STEP));
        match rate {
            Some(rate) => current.step(&update, rate),
            None => break, // silent on-policy: it goes nowhere
        }
    }
    // The same pairs for all.
    if let Some(path) = ascent(task, UPDATES, FIRST_STEP) {
        for k in STALE {
            add(Mode::Stale, k as f64, false, &path[0], &path[k])?;
        }
    }
    for ignored in [false, true] {
        for tau in TEMPERATURES {
            add(Mode::Temperature, tau, ignored, &tempered(&task.start, tau), &task.start)?;
        }
        for (i, sigma) in NOISE.into_iter().enumerate() {
            let sampler = noisy(tree, &task.start, sigma, seed.wrapping_add(i as u64));
            add(Mode::Noise, sigma, ignored, &sampler, &task.start)?;
        }
    }
    Ok(all)
}

/// All rows as a table.
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&columns());
    rows.iter().for_each(|row| table.push(row.cells()));
    table
}

#[cfg(test)]
mod tests {
    use super::super::pairs::tasks;
    use super::*;

    #[test]
    fn rows_survive_the_way_through_cells() {
        let task = &tasks().unwrap()[2];
        let (entrant, configured) = &entrants(task).unwrap()[0];
        let rows = rows(task, entrant, configured, 2, 1).unwrap();
        assert_eq!(rows.len(), 9 + 5 + 2 * 7);
        for row in &rows {
            assert_eq!(Row::parse(&row.cells()).as_ref(), Some(row));
        }
        // On-policy both ways of sampling agree.
        assert_eq!(rows[0].fit, rows[9].fit);
        assert_eq!(rows[0].kl, 0.0);
    }

    #[test]
    fn everyone_takes_part_but_those_whose_evidence_needs_a_network_or_is_drawn() {
        let task = &tasks().unwrap()[0];
        let present: Vec<_> = entrants(task).unwrap().iter().map(|(e, _)| e.name).collect();
        let missing: Vec<_> =
            ENTRANTS.iter().map(|e| e.name).filter(|name| !present.contains(name)).collect();
        assert_eq!(missing, ["OAR-P", "OAR-G", "SHEAR (recon.)", "GRPO, 1/T, beside OAR", "VinePPO, K = 8"]);
    }
}
