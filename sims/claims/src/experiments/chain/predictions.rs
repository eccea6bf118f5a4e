//! The findings in their order: which predictions held, the gate, the predictions part by part, the controls.

use super::Numbers;
use super::controls::{against_clamp, gate, verifier_noise};
use super::findings::{
    check_line, curriculum, paid, prefix_noise, prefix_values, same_as_grpo, systematic_noise, trace_update,
};
use crate::experiment::{Finding, Verdict};

/// A prediction of the protocol with the findings on its parts.
struct Prediction {
    name: &'static str,
    parts: Vec<Finding>,
    /// The verdict on a part that another experiment measures, and its name.
    elsewhere: Option<(Verdict, &'static str)>,
}

/// A prediction after its parts were measured, as a sentence says it of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Held,
    Failed,
    FailedInPart,
    Inconclusive,
}

impl Outcome {
    fn words(self, several: bool) -> &'static str {
        match (self, several) {
            (Outcome::Held, false) => "holds",
            (Outcome::Held, true) => "hold",
            (Outcome::Failed, false) => "fails",
            (Outcome::Failed, true) => "fail",
            (Outcome::FailedInPart, false) => "fails in part",
            (Outcome::FailedInPart, true) => "fail in part",
            (Outcome::Inconclusive, false) => "is inconclusive",
            (Outcome::Inconclusive, true) => "are inconclusive",
        }
    }
}

impl Prediction {
    fn all(n: &Numbers) -> [Prediction; 6] {
        let judged = |name, parts: Vec<Option<Finding>>| Prediction {
            name,
            parts: parts.into_iter().flatten().collect(),
            elsewhere: None,
        };
        let sets = judged("P5", vec![systematic_noise(n)]);
        [
            judged("P1", vec![same_as_grpo(n), trace_update(n)]),
            judged("P2", vec![curriculum(n)]),
            judged("P3", vec![check_line(n)]),
            judged("P4", vec![prefix_values(n), prefix_noise(n)]),
            Prediction { elsewhere: Some((n.on_addition.clone(), "addition")), ..sets },
            judged("P6", vec![paid(n)]),
        ]
    }

    fn verdicts(&self) -> impl Iterator<Item = &Verdict> {
        self.parts.iter().map(|part| &part.verdict).chain(self.elsewhere.as_ref().map(|(verdict, _)| verdict))
    }

    /// The outcome; none before every part that this experiment measures has its runs.
    fn outcome(&self) -> Option<Outcome> {
        let count = |wanted: fn(&Verdict) -> bool| self.verdicts().filter(|verdict| wanted(verdict)).count();
        let failed = count(|verdict| matches!(verdict, Verdict::Fails(_)));
        let open = count(|verdict| matches!(verdict, Verdict::NotTold(_) | Verdict::HoldsWhen(_)));
        (!self.parts.is_empty()).then(|| match (failed, open) {
            (0, 0) => Outcome::Held,
            (0, _) => Outcome::Inconclusive,
            _ if failed == self.verdicts().count() => Outcome::Failed,
            _ => Outcome::FailedInPart,
        })
    }

    /// The words of the verdicts on its parts.
    fn said(&self) -> String {
        let own = self.parts.iter().map(|part| part.verdict.word().to_lowercase());
        let elsewhere = self.elsewhere.as_ref();
        let elsewhere = elsewhere.map(|(verdict, id)| {
            format!("{} on the part that `{id}` measures", verdict.word().to_lowercase())
        });
        format!("{}: {}", self.name, own.chain(elsewhere).collect::<Vec<_>>().join(", "))
    }
}

/// The sentence on the predictions that held.
fn summary(predictions: &[Prediction]) -> Option<Finding> {
    let outcomes: Vec<(&str, Outcome)> =
        predictions.iter().map(|p| Some((p.name, p.outcome()?))).collect::<Option<_>>()?;
    let with = |wanted: Outcome| {
        let names: Vec<&str> = outcomes.iter().filter(|(_, o)| *o == wanted).map(|(name, _)| *name).collect();
        let (last, before) = names.split_last()?;
        let listed = match before {
            [] => (*last).to_owned(),
            before => format!("{} and {last}", before.join(", ")),
        };
        Some(format!("{listed} {}", wanted.words(!before.is_empty())))
    };
    let all = [Outcome::Held, Outcome::Failed, Outcome::FailedInPart, Outcome::Inconclusive];
    let each = all.into_iter().filter_map(with).collect::<Vec<_>>().join(", ");
    let verdict = match outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Held).count() {
        0 => Verdict::Fails(format!("none does: {each}")),
        held if held == outcomes.len() => Verdict::Holds,
        _ => Verdict::HoldsWhen(format!("it is one of these: {each}")),
    };
    let parts: Vec<String> = predictions.iter().map(Prediction::said).collect();
    Some(
        Finding::new(
            "predictions",
            "The predictions that were committed before the runs hold wholly",
            verdict,
        )
        .value("outcomes", each)
        .note(format!("The verdicts on their parts. {}.", parts.join("; "))),
    )
}

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    let predictions = Prediction::all(n);
    let first = [summary(&predictions), gate(n)];
    let controls = [against_clamp(n), verifier_noise(n)];
    let parts = predictions.into_iter().flat_map(|prediction| prediction.parts);
    first.into_iter().flatten().chain(parts).chain(controls.into_iter().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prediction(name: &'static str, verdicts: &[Verdict]) -> Prediction {
        let part = |verdict: &Verdict| Finding::new("", "", verdict.clone());
        Prediction { name, parts: verdicts.iter().map(part).collect(), elsewhere: None }
    }

    #[test]
    fn a_prediction_holds_only_where_all_its_parts_do() {
        let (fails, open) = (Verdict::Fails("no".into()), Verdict::NotTold("?".into()));
        let outcome = |verdicts: &[Verdict]| prediction("P", verdicts).outcome();
        assert_eq!(outcome(&[Verdict::Holds, Verdict::Holds]), Some(Outcome::Held));
        assert_eq!(outcome(&[Verdict::Holds, open.clone()]), Some(Outcome::Inconclusive));
        assert_eq!(outcome(&[open.clone(), fails.clone()]), Some(Outcome::FailedInPart));
        assert_eq!(outcome(&[fails.clone(), fails.clone()]), Some(Outcome::Failed));
        assert_eq!(outcome(&[]), None);
        let all = [
            prediction("P1", &[open.clone(), fails.clone()]),
            prediction("P2", std::slice::from_ref(&fails)),
            prediction("P3", std::slice::from_ref(&open)),
            prediction("P6", std::slice::from_ref(&fails)),
        ];
        let none = summary(&all).expect("all were measured").verdict;
        assert_eq!(none.detail(), "none does: P2 and P6 fail, P1 fails in part, P3 is inconclusive");
        let held = summary(&[prediction("P1", &[Verdict::Holds]), prediction("P2", &[fails])]);
        assert_eq!(held.expect("measured").verdict.detail(), "it is one of these: P1 holds, P2 fails");
        assert!(summary(&[prediction("P1", &[])]).is_none());
        let elsewhere =
            Prediction { elsewhere: Some((open, "addition")), ..prediction("P5", &[Verdict::Holds]) };
        assert_eq!(elsewhere.outcome(), Some(Outcome::Inconclusive));
        assert_eq!(elsewhere.said(), "P5: holds, not told on the part that `addition` measures");
    }
}
