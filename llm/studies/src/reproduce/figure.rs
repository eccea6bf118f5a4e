//! A table as a picture: every variant's average, ours beside the paper's.

use grpo_lambda_figure::{Axis, Figure, Panel};

use super::scale::Scale;
use super::table::{TableComparison, TableRow};

const OURS: &str = "ours";
const STAND_INS: &str = "ours (stand-ins)";
const PAPERS: &str = "the paper's";

/// One of Tables 3 to 6: a panel for each data set, a line for each variant, the average of the five benchmarks. Table 1: a panel for each model.
pub fn figure(layout: &TableComparison, scale: Scale) -> Figure {
    let ours = if scale == Scale::Full { OURS } else { STAND_INS };
    let mut figure = Figure::new(finding(layout, scale))
        .caption(format!(
            "Table {} of the paper, {}. Mean accuracy on the five benchmarks; bars: 95 % from the test problems alone, one training seed.{}",
            layout.number,
            layout.title,
            if scale == Scale::Full { "" } else { " Ours: a small model on word problems that stand for the benchmarks, not comparable in level." }
        ))
        .names([ours, PAPERS])
        .columns(2)
        .panel_size(480, 140 + 22 * rows_of(layout).first().map_or(1, |(_, rows)| rows.len()) as u32);
    for (block, rows) in rows_of(layout) {
        let axis = Axis::new("").categories(rows.iter().map(|(name, _)| name.clone()));
        let mut panel = Panel::new(block).x("mean accuracy").y(axis);
        let mut mine = Vec::new();
        let mut theirs = Vec::new();
        for (i, (_, entry)) in rows.iter().enumerate() {
            if let Some(o) = entry.ours {
                mine.push((i as f64 - 0.15, o.value.low, o.value.mid, o.value.high));
            }
            if let Some([low, high]) = entry.paper.ends {
                theirs.push((i as f64 + 0.15, low, entry.paper.value, high));
            }
        }
        panel = panel.spans(ours, mine).spans(PAPERS, theirs);
        figure = figure.panel(panel);
    }
    figure
}

type Lines<'a> = Vec<(String, &'a super::table::TableEntry)>;

/// The averages of each block: by variant in Tables 3 to 6, by method in Table 1.
fn rows_of(layout: &TableComparison) -> Vec<(String, Lines<'_>)> {
    let mut blocks: Vec<(String, Lines<'_>)> = Vec::new();
    for TableRow { block, name, entries } in &layout.rows {
        let lines: Lines<'_> = match (layout.number, name.as_str()) {
            (1, method) => entries.last().map(|e| (method.to_owned(), e)).into_iter().collect(),
            (_, "AVG") => entries.iter().map(|e| (e.column.clone(), e)).collect(),
            _ => continue,
        };
        match blocks.iter_mut().find(|(b, _)| b == block) {
            Some((_, known)) => known.extend(lines),
            None => blocks.push((block.clone(), lines)),
        }
    }
    blocks
}

/// The number of variants above GRPO, in ours and in the paper's.
fn finding(layout: &TableComparison, scale: Scale) -> String {
    let (mut ours, mut papers) = ([0, 0], [0, 0]);
    for (_, rows) in rows_of(layout) {
        let Some(((_, base), others)) = rows.split_first() else { continue };
        for (_, other) in others {
            papers[0] += usize::from(other.paper.value > base.paper.value);
            papers[1] += 1;
            if let (Some(a), Some(b)) = (base.ours, other.ours) {
                ours[0] += usize::from(b.value.mid > a.value.mid);
                ours[1] += 1;
            }
        }
    }
    let what = if layout.number == 1 { "GRPO-λ rows" } else { "runs of a variant" };
    let stand_ins = if scale == Scale::Full { "" } else { " on stand-ins" };
    match ours[1] {
        0 => format!(
            "The paper: {} of {} {what} average above GRPO; none of ours is done",
            papers[0], papers[1]
        ),
        n => format!(
            "{} of {n} {what} average above GRPO{stand_ins}; in the paper {} of {}",
            ours[0], papers[0], papers[1]
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::paper::Paper;
    use super::super::table::{averages_table, runs_table};
    use super::*;

    #[test]
    fn a_figure_counts_the_variants_above_grpo() {
        let paper = Paper::load();
        // The audit: on Table 3 21 of 32 variants win.
        let title = figure(&runs_table(&paper, 3, &[]).expect("a table"), Scale::Full).title;
        assert_eq!(title, "The paper: 21 of 32 runs of a variant average above GRPO; none of ours is done");
        let title = figure(&averages_table(&paper, &[]), Scale::Tiny).title;
        assert!(title.starts_with("The paper: 4 of 4 GRPO-λ rows"), "{title}");
        figure(&runs_table(&paper, 6, &[]).expect("a table"), Scale::Tiny).to_svg().expect("it can be drawn");
    }
}
