//! A table as text for a terminal, as CSV and as Markdown; and the plan of a grid.

use grpo_lambda_stats::table::{Cell as Field, Table as Tidy, significant};

use super::cost::{Assumptions, WorkEstimate};
use super::table::{TableComparison, TableEntry, TableRow};
use crate::terminal;

/// `.334` for an accuracy.
fn accuracy(x: f64) -> String {
    let text = format!("{x:.3}");
    text.strip_prefix('0').unwrap_or(&text).to_owned()
}

/// Marks of caveats, in the order of the table.
struct Marks(usize);

impl Marks {
    fn next(&mut self, entry: &TableEntry) -> String {
        match entry.paper.caveat {
            None => String::new(),
            Some(_) => {
                self.0 += 1;
                format!(" [{}]", self.0)
            }
        }
    }
}

/// A field: ours, its interval, the paper's.
fn field(entry: &TableEntry, marks: &mut Marks) -> [String; 3] {
    let (value, ends) = match &entry.ours {
        Some(o) => (accuracy(o.value.mid), format!("{}-{}", accuracy(o.value.low), accuracy(o.value.high))),
        None => ("-".to_owned(), String::new()),
    };
    [value, ends, format!("({}){}", accuracy(entry.paper.value), marks.next(entry))]
}

/// The table for a terminal: in each field ours, its interval, and the paper's in brackets.
pub fn text(layout: &TableComparison) -> String {
    let heads = layout.columns.iter().map(|c| c.replace('/', "\n"));
    let first = [layout.blocks.to_owned(), layout.rows_are.to_owned()];
    let mut table = terminal::table(first.into_iter().chain(heads).collect::<Vec<_>>());
    let mut marks = Marks(0);
    let mut last = "";
    for row in &layout.rows {
        let block = if row.block == last { String::new() } else { row.block.clone() };
        last = &row.block;
        let fields = row.entries.iter().map(|e| {
            let parts: Vec<String> = field(e, &mut marks).into_iter().filter(|p| !p.is_empty()).collect();
            parts.join("\n")
        });
        table.add_row([block, row.name.clone()].into_iter().chain(fields));
    }
    format!("{}\n{table}\n{}", heading(layout), footer(layout).join("\n"))
}

fn heading(layout: &TableComparison) -> String {
    let (filled, all) = layout.filled();
    let state = if filled == all { String::new() } else { format!("; {filled} of {all} fields filled") };
    format!(
        "Table {} of the paper: {}. In each field ours, its 95 % interval, (the paper's){state}",
        layout.number, layout.title
    )
}

/// Gains, notes and caveats.
fn footer(layout: &TableComparison) -> Vec<String> {
    let mut lines = Vec::new();
    let gains = layout.gains();
    if !gains.is_empty() {
        let sign = |x: f64| format!("{x:+.1}");
        let words: Vec<String> = gains
            .iter()
            .map(|(name, ours, paper)| {
                format!("{name} {} ({})", ours.map_or("-".to_owned(), sign), sign(*paper))
            })
            .collect();
        lines.push(format!(
            "mean AVG over data sets less GRPO's, in points, ours (the paper's): {}",
            words.join("; ")
        ));
    }
    lines.extend(layout.notes.iter().cloned());
    let caveats = layout.caveats();
    if !caveats.is_empty() {
        lines.push("what the audit of the paper's tables says (sim paper_audit):".to_owned());
        lines.extend(caveats.into_iter().map(|(mark, text)| format!("  [{mark}] {text}")));
    }
    lines
}

/// The table as Markdown.
pub fn markdown(layout: &TableComparison, legend: &[String], command: &str) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = format!("<!-- {} -->\n# {}\n\n", command.replace("--", "- -"), heading(layout));
    for (i, words) in legend.iter().enumerate() {
        out += &if i == 0 { format!("**{words}**\n\n") } else { format!("- {words}\n") };
    }
    if !legend.is_empty() {
        out.push('\n');
    }
    let first = [layout.blocks.to_owned(), layout.rows_are.to_owned()];
    out += &line(first.into_iter().chain(layout.columns.iter().cloned()).collect());
    out += &line(vec!["---".to_owned(); layout.columns.len() + 2]);
    let mut marks = Marks(0);
    for row in &layout.rows {
        let fields = row.entries.iter().map(|e| {
            let [ours, ends, paper] = field(e, &mut marks);
            let ends = if ends.is_empty() { ends } else { format!(" {ends}") };
            format!("{ours}{ends} {paper}")
        });
        out += &line([row.block.clone(), row.name.clone()].into_iter().chain(fields).collect());
    }
    out.push('\n');
    for words in footer(layout) {
        out += &format!("{}{words}\n", if words.starts_with("  ") { "" } else { "\n" });
    }
    out
}

/// The table as tidy rows, one for each field.
pub fn tidy(layout: &TableComparison, scale: &str) -> Tidy {
    let mut tidy = Tidy::new(
        &[
            "table",
            layout.blocks,
            layout.rows_are,
            layout.columns_are,
            "scale",
            "ours",
            "ours_low95",
            "ours_high95",
            "ours_correct",
            "ours_n",
            "paper",
            "paper_low95",
            "paper_high95",
            "caveat",
        ]
        .map(|name| name.replace(' ', "_"))
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>(),
    );
    let number = |x: Option<f64>| Field::from(x);
    for TableRow { block, name, entries } in &layout.rows {
        for e in entries {
            let ours = e.ours.map(|o| o.value);
            let count = e.ours.and_then(|o| o.count);
            tidy.push(vec![
                f64::from(layout.number).into(),
                block.as_str().into(),
                name.as_str().into(),
                e.column.as_str().into(),
                scale.into(),
                number(ours.map(|o| o.mid)),
                number(ours.map(|o| o.low)),
                number(ours.map(|o| o.high)),
                number(count.map(|c| c.0 as f64)),
                number(count.map(|c| c.1 as f64)),
                e.paper.value.into(),
                number(e.paper.ends.map(|p| p[0])),
                number(e.paper.ends.map(|p| p[1])),
                e.paper.caveat.as_deref().map_or(Field::Empty, Field::from),
            ]);
        }
    }
    tidy
}

#[derive(Clone, Debug, PartialEq)]
pub struct PlanLine {
    /// Model, data set and variant.
    pub names: [String; 3],
    /// Its whole work.
    pub work: WorkEstimate,
    pub status: String,
}

/// A size in bytes, for people.
pub fn bytes(x: f64) -> String {
    let units = ["B", "KB", "MB", "GB", "TB"];
    let (mut x, mut unit) = (x, 0);
    while x >= 1000.0 && unit + 1 < units.len() {
        (x, unit) = (x / 1000.0, unit + 1);
    }
    format!("{} {}", significant(x, 3), units[unit])
}

/// Hours, or seconds where they are few.
fn time(hours: f64) -> String {
    match hours {
        h if h < 0.1 => format!("{} s", significant(3600.0 * h, 3)),
        h => format!("{} h", significant(h, 3)),
    }
}

/// The plan of a grid: what each line takes, what is left of it in total, and what is assumed.
pub fn plan(lines: &[(PlanLine, Assumptions)], what: &str) -> String {
    let mut table = terminal::table(vec![
        "model",
        "data set",
        "variant",
        "tokens sampled",
        "operations",
        "device time",
        "disk",
        "status",
    ]);
    let row = |names: [String; 3], work: &WorkEstimate, hours: f64, status: String| {
        let [a, b, c] = names;
        [
            a,
            b,
            c,
            format!("{:.2e}", work.sampled),
            format!("{:.2e}", work.work.operations),
            time(hours),
            bytes(work.disk),
            status,
        ]
    };
    for (line, a) in lines {
        table.add_row(row(line.names.clone(), &line.work, line.work.hours(a), line.status.clone()));
    }
    let left = || lines.iter().filter(|(line, _)| line.status != "done");
    let total = |of: &mut dyn Iterator<Item = &(PlanLine, Assumptions)>| {
        of.fold((WorkEstimate::default(), 0.0, 0usize), |(work, hours, n), (line, a)| {
            (work + line.work, hours + line.work.hours(a), n + 1)
        })
    };
    let (all, all_hours, n) = total(&mut lines.iter());
    let (rest, rest_hours, m) = total(&mut left());
    let names = |words: String| [words, String::new(), String::new()];
    table.add_row(row(names(format!("all {n} runs")), &all, all_hours, String::new()));
    table.add_row(row(names(format!("left: {m} runs")), &rest, rest_hours, String::new()));
    let assumed = lines.first().map_or(Vec::new(), |(_, a)| a.lines());
    format!("{what}\n{table}\n{}\n", assumed.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::super::paper::Paper;
    use super::super::table::runs_table;
    use super::*;

    #[test]
    fn an_empty_table_shows_the_papers_numbers_and_its_caveats() {
        let layout = runs_table(&Paper::load(), 5, &[]).expect("a table");
        let text = text(&layout);
        for expected in [
            "0 of 72 fields filled",
            "(.277) [1]",
            "[1] gsm8k, both/ε-trace/0.99, AVG: printed average 0.277, but the mean of its five scores is 0.229",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        let page = markdown(&layout, &["STAND-INS".to_owned()], "cmd --table 5");
        assert!(
            page.contains("**STAND-INS**") && page.contains("| gsm8k | AVG | - (.126) | - (.277) [1] |"),
            "{page}"
        );
        let csv = tidy(&layout, "full").to_csv("cmd");
        assert_eq!(csv.lines().count(), 2 + 72);
        assert!(csv.contains("table,data_set,benchmark,variant,scale,ours,"), "{csv}");
    }

    #[test]
    fn sizes_and_times_are_spelled_for_people() {
        assert_eq!([bytes(12.0), bytes(1.5e9), bytes(3e15)], ["12 B", "1.5 GB", "3000 TB"]);
        assert_eq!([time(2.0), time(0.01)], ["2 h", "36 s"]);
    }
}
