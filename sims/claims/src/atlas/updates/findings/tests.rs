use super::*;
use crate::atlas::entrants::{BASELINE, ENTRANTS};
use crate::atlas::tasks::tasks;
use crate::atlas::updates::row::{Column, GROUP, Row};
use crate::experiments::common::findings::words;

/// Two tasks, of equal and of varying lengths, on which every entrant's expected update is a multiple of the gradient.
fn unbiased() -> Atlas {
    let tasks: Vec<_> =
        tasks(false).unwrap().into_iter().filter(|t| ["pivot", "fork"].contains(&t.name.as_str())).collect();
    let rows = tasks.iter().map(|task| ENTRANTS.iter().map(|e| vec![row(task, e)]).collect()).collect();
    Atlas { residuals: vec![0.0; tasks.len()], tasks, groups: vec![GROUP], rows, uncut: [1.0; 2] }
}

fn row(task: &crate::training::task::Task, entrant: &crate::atlas::entrants::Entrant) -> Row {
    let mut row = Row::new(task, entrant, GROUP);
    row.how = "exact".into();
    for column in [
        Column::Bias,
        Column::BiasDirection,
        Column::BiasRescaling,
        Column::CosineSe,
        Column::KappaCv,
        Column::ReversedVisits,
    ] {
        row.set(column, 0.0);
    }
    for column in [Column::Cosine, Column::Passes, Column::CreditRankCorrelation, Column::CreditR2] {
        row.set(column, 1.0);
    }
    row.set(Column::Mse, if entrant.name == "TEMPO" { 0.4 } else { 0.5 });
    row
}

/// Sets a column of one entrant on one task.
fn set(atlas: &mut Atlas, task: &str, entrant: &str, column: Column, value: f64) {
    let t = atlas.tasks.iter().position(|t| t.name == task).unwrap();
    let e = ENTRANTS.iter().position(|e| e.name == entrant).unwrap();
    atlas.rows[t][e][0].set(column, value);
}

const H: &str = "Holds";
const W: &str = "Holds when";
const F: &str = "Fails";

/// The verdicts after changes to [`unbiased`]: task, entrant, column, value.
fn after(changes: &[(&str, &str, Column, f64)]) -> Vec<&'static str> {
    let mut atlas = unbiased();
    for &(task, entrant, column, value) in changes {
        set(&mut atlas, task, entrant, column, value);
    }
    words(&findings(&atlas))
}

#[test]
fn each_verdict_follows_its_own_numbers() {
    assert_eq!(after(&[]), [H, W, H, H, H, W, W, H]);
    assert_eq!(after(&[("fork", BASELINE, Column::Bias, 0.1)])[..2], [W, W], "turned where lengths vary");
    assert_eq!(after(&[("pivot", BASELINE, Column::Bias, 0.1)])[..2], [W, F], "turned at equal lengths");
    assert_eq!(after(&[("fork", "TreeRL", Column::ReversedVisits, 0.2)])[2], F);
    let recent = "GRPO-λ recent, no clamp";
    assert_eq!(after(&[("fork", recent, Column::Mse, 0.9)])[3], F, "the trace only adds error");
    assert_eq!(after(&[("fork", recent, Column::Mse, 0.1)])[3], H, "it only takes error away");
    let both = [("fork", recent, Column::Mse, 0.1), ("pivot", recent, Column::Mse, 0.9)];
    assert_eq!(after(&both)[3], W);
    assert_eq!(after(&[("fork", "GRPO-λ recent", Column::Cosine, 0.2)])[4], F);
    assert_eq!(after(&[("fork", "TEMPO, no std", Column::BiasDirection, 0.2)])[5], F);
    assert_eq!(after(&[("fork", "RLOO", Column::Mse, 0.01)])[6], F, "one number per response errs least");
    assert_eq!(after(&[("fork", "OAR-P", Column::CreditRankCorrelation, 0.1)])[7], F);
}
