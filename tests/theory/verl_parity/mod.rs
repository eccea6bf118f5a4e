//! Parity with verl 0.9.1: advantages, policy losses with gradients, KL estimators and reductions recorded from its own code.
//!
//! `tests/fixtures/verl.json.gz` holds inputs and outputs; `tests/fixtures/verl_to_json.py` made it. Every recorded case is met by a setting here, or
//! it is named as a difference of definition with its reason; `tests/fixtures/verl_cases.csv` is the table of both.

mod advantages;
mod losses;
mod recorded;
mod table;
mod terms;

pub(crate) use recorded::recorded;

/// Largest difference that counts as met. Most cases are far closer; verl adds 1e-8 to some divisors and rounds some statistics to 32 bits.
const MET: f64 = 1e-6;

/// The result of one recorded case, or of the part that one sentence is about.
#[derive(Clone, Debug)]
struct Outcome {
    /// Advantages, losses, KL estimators or reductions.
    kind: &'static str,
    /// The words of verl.
    words: String,
    /// The setting here; empty where there is none.
    setting: String,
    /// The largest difference; none where nothing here computes it.
    difference: Option<f64>,
    /// Why the definitions differ; none where they are the same.
    reason: Option<&'static str>,
}

impl Outcome {
    /// Panics where numbers of one definition differ, and where a difference of definition does not show.
    fn judge(&self) {
        match (self.difference, self.reason) {
            (Some(found), None) => assert!(found <= MET, "{self:?}"),
            (Some(found), Some(_)) => assert!(found > MET, "no difference shows: {self:?}"),
            (None, Some(_)) => {}
            (None, None) => panic!("neither met nor explained: {self:?}"),
        }
    }
}

fn all() -> Vec<Outcome> {
    let verl = recorded();
    [advantages::outcomes(&verl), losses::outcomes(&verl), terms::kl(&verl), terms::reductions(&verl)]
        .concat()
}

#[test]
fn every_recorded_case_of_verl_is_met_or_explained() {
    let outcomes = all();
    outcomes.iter().for_each(Outcome::judge);
    let met = outcomes.iter().filter(|o| o.reason.is_none()).count();
    println!("{met} outcomes met, {} explained", outcomes.len() - met);
    assert!(met > 330, "{met}");
}

#[test]
fn the_committed_table_is_that_of_a_fresh_run() {
    let outcomes = all();
    table::check("tests/fixtures/verl_cases.csv", |_| table::csv(&outcomes));
    table::check("docs/agreement.md", |page| {
        let (open, end) = ("<!-- written by the test verl_parity -->\n", "<!-- end -->");
        let (before, rest) = page.split_once(open).expect("the page has the marker");
        let (_, after) = rest.split_once(end).expect("the part has an end");
        format!("{before}{open}{}{end}{after}", table::reasons(&outcomes))
    });
}
