//! The tables.

use grpo_lambda_stats::table::{Cell, Table};

use super::measure::Numbers;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        (String::new(), efficiencies(n)),
        ("weights".into(), weights(n)),
        ("learning".into(), learning(n)),
        ("learning_overall".into(), overall(n)),
    ]
}

fn efficiencies(n: &Numbers) -> Table {
    let own = [
        "weights",
        "by_prefix",
        "fitted",
        "held_out",
        "held_out_low",
        "held_out_high",
        "in_sample",
        "astray",
    ];
    let columns: Vec<&str> = own.into_iter().chain(n.families.iter().copied()).collect();
    let mut table = Table::new(&columns);
    let word = |b: bool| if b { "yes" } else { "no" };
    for e in &n.efficiencies {
        let mut cells: Vec<Cell> = vec![
            e.span.name.into(),
            word(e.span.by_prefix).into(),
            word(e.span.fitted).into(),
            e.held_out.mid.exp().into(),
            e.held_out.low.exp().into(),
            e.held_out.high.exp().into(),
            e.in_sample.exp().into(),
            e.astray.into(),
        ];
        cells.extend(e.families.iter().map(|x| Cell::from(x.exp())));
        table.push(cells);
    }
    table
}

fn weights(n: &Numbers) -> Table {
    let mut table = Table::new(&["weights", "feature", "alpha"]);
    for e in n.efficiencies.iter().filter(|e| e.span.fitted) {
        for (feature, alpha) in e.alpha.iter().enumerate() {
            table.push(vec![e.span.name.into(), feature.into(), (*alpha).into()]);
        }
    }
    table
}

fn learning(n: &Numbers) -> Table {
    let mut table = Table::new(&["method", "mdp", "rate", "area", "area_low", "area_high"]);
    for trained in &n.trained {
        for on in &trained.tasks {
            let Some(area) = on.area else { continue };
            table.push(vec![
                trained.name.into(),
                on.task.into(),
                on.learned.rate.into(),
                area.mid.into(),
                area.low.into(),
                area.high.into(),
            ]);
        }
    }
    table
}

fn overall(n: &Numbers) -> Table {
    let mut table = Table::new(&[
        "method",
        "area",
        "area_low",
        "area_high",
        "over_rloo",
        "over_rloo_low",
        "over_rloo_high",
        "p_rloo",
        "p_rloo_low",
        "p_rloo_high",
        "over_grpo",
        "over_grpo_low",
        "over_grpo_high",
        "p_grpo",
        "p_grpo_low",
        "p_grpo_high",
    ]);
    for o in &n.overall {
        let mut cells: Vec<Cell> = vec![o.name.into()];
        for i in [o.area, o.over_rloo.gain, o.over_rloo.improves, o.over_grpo.gain, o.over_grpo.improves] {
            cells.extend([i.mid, i.low, i.high].map(Cell::from));
        }
        table.push(cells);
    }
    table
}
