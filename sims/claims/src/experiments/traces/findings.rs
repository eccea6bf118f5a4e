//! What the numbers say.

use super::measure::{LEN, Numbers, Q};
use crate::experiment::Finding;
use crate::experiments::common::findings::{finding, finding_on, holds_or};
use crate::experiments::common::text::short;
use crate::experiments::common::vectors::{EXACT, largest};
use crate::sentences::SentenceId;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![as_printed(n), row_index(n), floor(n), linear_time(n)]
}

fn as_printed(n: &Numbers) -> Finding {
    let sums = |printed: bool| {
        let found = n
            .columns
            .iter()
            .find(|c| c.len == LEN && c.matrix.style == "recent" && c.matrix.printed == printed);
        found.map_or(&[][..], |c| &c.sums)
    };
    let (equation, printed) = (sums(false), sums(true));
    let peak = (0..LEN).max_by(|&a, &b| printed[a].total_cmp(&printed[b])).unwrap_or(0);
    finding_on(
        SentenceId::TwoTraceStyles,
        holds_or(
            n.recent.equal_rows.len() == LEN && n.both.equal_rows.len() == LEN,
            format!(
                "as printed, an off-diagonal entry depends on its column only; at T = {LEN}, γλ = {Q} the rows that agree are {:?} (recent) and {:?} (both), and entries differ by up to {} and {}",
                n.recent.equal_rows,
                n.both.equal_rows,
                short(n.recent.as_printed),
                short(n.both.as_printed)
            ),
        ),
        format!(
            "on-policy weight of token 0: {} (Eq. 1) against {} (Eq. 18); of token 128: {} against {}; Eq. 18's weights peak at token {peak} with {}",
            short(equation[0]),
            short(printed[0]),
            short(equation[128]),
            short(printed[128]),
            short(printed[peak])
        ),
    )
}

fn row_index(n: &Numbers) -> Finding {
    let apart = n.recent.row_index.max(n.both.row_index);
    finding(
        "Read with n (and max(cols)) as the row index and no floor, Eq. 17/18 are Eq. 2/1",
        holds_or(apart < EXACT, format!("entries differ by {}", short(apart))),
        format!("largest difference of entries {}", short(apart)),
    )
}

fn floor(n: &Numbers) -> Finding {
    finding(
        "The undefined floor ε of Eq. 17/18 may be small without effect",
        holds_or(
            n.floored < 0.01,
            format!(
                "a floor of 0.01 replaces {:.1} % of the off-diagonal entries at T = 768, γλ = 0.98",
                100.0 * n.floored
            ),
        ),
        format!("{:.1} % of entries below 0.01", 100.0 * n.floored),
    )
}

fn linear_time(n: &Numbers) -> Finding {
    let worst = largest(n.accuracy.iter().flat_map(|a| [a.forward, a.backward, a.inner_products]));
    finding(
        "Every trace is computed in O(T), forwards and backwards, as its dense matrix",
        holds_or(worst < EXACT, format!("largest difference {}", short(worst))),
        format!("{} cases, T up to 257: largest difference {}", n.accuracy.len(), short(worst)),
    )
}

#[cfg(test)]
mod tests {
    use super::super::measure::{Accuracy, AgainstEquation, Columns, Matrix};
    use super::*;
    use crate::experiments::common::findings::words;

    fn numbers(rows: usize, row_index: f64, floored: f64, backward: f64) -> Numbers {
        let against = || AgainstEquation { equal_rows: (0..rows).collect(), as_printed: 0.5, row_index };
        let columns = |printed| Columns {
            matrix: Matrix { style: "recent", printed, name: "" },
            len: LEN,
            sums: vec![1.0; LEN],
        };
        Numbers {
            accuracy: vec![Accuracy {
                trace: "recent",
                q: 0.9,
                len: 8,
                forward: 0.0,
                backward,
                inner_products: 0.0,
            }],
            columns: [false, true].map(columns).into(),
            recent: against(),
            both: against(),
            floored,
            drawn: Vec::new(),
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let of = |n: Numbers| words(&findings(&n));
        assert_eq!(of(numbers(LEN, 0.0, 0.001, 0.0)), ["Holds"; 4]);
        assert_eq!(of(numbers(2, 0.1, 0.5, 0.1)), ["Fails"; 4]);
        assert_eq!(of(numbers(LEN - 1, 0.0, 0.001, 0.0)), ["Fails", "Holds", "Holds", "Holds"]);
    }
}
