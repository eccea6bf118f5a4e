mod direction;
mod error;

use super::measure::Atlas;
use super::overall::overall;
use crate::atlas::entrants::BASELINE;
use crate::experiment::Finding;

pub(super) fn findings(atlas: &Atlas) -> Vec<Finding> {
    let all = overall(atlas);
    let named = |name: &str| all.iter().find(|o| o.entrant.name == name);
    let mut findings = vec![
        direction::headline(atlas, &all),
        direction::equal_lengths(atlas),
        direction::reversal(&all, atlas.uncut),
        error::tracing(atlas, &all),
    ];
    findings.extend(named("GRPO-λ recent").zip(named(BASELINE)).map(|(l, g)| direction::lambda(l, g)));
    findings.push(direction::rescaling(atlas));
    findings.push(error::equal_cost(&all));
    findings.push(error::credit(atlas));
    findings
}

#[cfg(test)]
mod tests;
