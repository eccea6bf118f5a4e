//! The tables.

use grpo_lambda_stats::table::Table;

use super::measure::Numbers;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let mut identities = Table::new(&["mdp", "delta", "identities", "largest_relative_difference"]);
    for m in &n.on_mdps {
        identities.push(vec![m.mdp.into(), m.deltas.name().into(), m.identities.into(), m.worst.into()]);
    }
    let mut lengths =
        Table::new(&["q", "tokens", "relative_difference", "return_counted_td", "return_counted_nae"]);
    for l in &n.lengths {
        lengths.push(vec![
            l.q.into(),
            l.len.into(),
            l.difference.into(),
            l.counted_td.into(),
            l.counted_nae.into(),
        ]);
    }
    vec![(String::new(), identities), ("lengths".into(), lengths)]
}
