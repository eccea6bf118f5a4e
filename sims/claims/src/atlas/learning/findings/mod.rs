mod completeness;
mod gains;
mod places;

use super::measure::Ranking;
use crate::experiment::Finding;

pub(super) fn findings(r: &Ranking) -> Vec<Finding> {
    vec![
        places::headline(r),
        places::best(r),
        places::coincide(r),
        places::efficiency(r),
        places::values(r),
        places::assay(r),
        gains::per_task(r),
        gains::step_size(r),
        gains::clamp(r),
        gains::explained(r),
        gains::by_hindsight(r),
        completeness::grid(r),
        completeness::everyone(r),
    ]
}

#[cfg(test)]
mod tests;
