use grpo_lambda::check;
use grpo_lambda::group::{
    Evidence, EvidenceKind, EvidenceSource, Group, PerStep, Response, StatePerToken, StepValue,
};

#[test]
fn every_kind_is_seen_checked_and_named_apart() {
    let evidence = Evidence::constant(3, 0.5);
    assert!(evidence.series().map(|(kind, _)| kind).eq(Evidence::KINDS));
    assert_eq!(Evidence::default().series().count(), 0);
    let response = |evidence| Response { evidence, ..Response::graded(vec![-1.0; 3], 1.0) };
    let full = response(evidence.clone());
    assert!(Evidence::KINDS.into_iter().all(|kind| kind.is_in(&full)));
    let group = |evidence| Group { responses: vec![response(evidence), full.clone()] };
    let logps = vec![vec![-1.0; 3]; 2];
    assert_eq!(check::group(&group(evidence.filled(3, 0.0)), &logps, &Evidence::KINDS), Ok(()));
    for kind in Evidence::KINDS {
        let spoilt = Evidence::read(&mut OneSpoilt(kind)).expect("it cannot fail");
        let error = check::group(&group(spoilt), &logps, &[]).expect_err(kind.name()).to_string();
        assert!(error.starts_with(&format!("{}[0][0] = NaN", kind.name())), "{error}");
    }
    let mut names = EvidenceKind::ALL.map(EvidenceKind::name);
    names.sort_unstable();
    assert!(names.windows(2).all(|w| w[0] != w[1]));
}

/// Nothing but one kind, whose first number is none.
struct OneSpoilt(EvidenceKind);

impl EvidenceSource for OneSpoilt {
    type Error = ();

    fn numbers(&mut self, kind: EvidenceKind) -> Result<Option<Vec<f64>>, ()> {
        Ok((kind == self.0).then(|| vec![f64::NAN, 0.0, 0.0]))
    }
    fn steps(&mut self, kind: EvidenceKind) -> Result<Option<PerStep>, ()> {
        Ok((kind == self.0).then(|| vec![StepValue { start: 0, value: f64::NAN }]))
    }
    fn states(&mut self, kind: EvidenceKind) -> Result<Option<StatePerToken>, ()> {
        Ok((kind == self.0).then(|| vec![vec![f64::NAN]; 3]))
    }
}
