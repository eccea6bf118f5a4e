use grpo_lambda::check;
use grpo_lambda::group::{
    ExtraInputs, Group, InputKind, InputSource, PerStep, Response, StatePerToken, StepValue,
};

#[test]
fn every_kind_is_seen_checked_and_named_apart() {
    let extra_inputs = ExtraInputs::constant(3, 0.5);
    assert!(extra_inputs.series().map(|(kind, _)| kind).eq(ExtraInputs::KINDS));
    assert_eq!(ExtraInputs::default().series().count(), 0);
    let response = |extra_inputs| Response { extra_inputs, ..Response::graded(vec![-1.0; 3], 1.0) };
    let full = response(extra_inputs.clone());
    assert!(ExtraInputs::KINDS.into_iter().all(|kind| kind.is_in(&full)));
    let group = |extra_inputs| Group { responses: vec![response(extra_inputs), full.clone()] };
    let logps = vec![vec![-1.0; 3]; 2];
    assert_eq!(check::group(&group(extra_inputs.filled(3, 0.0)), &logps, &ExtraInputs::KINDS), Ok(()));
    for kind in ExtraInputs::KINDS {
        let spoilt = ExtraInputs::read(&mut OneSpoilt(kind)).expect("it cannot fail");
        let error = check::group(&group(spoilt), &logps, &[]).expect_err(kind.name()).to_string();
        assert!(error.starts_with(&format!("{}[0][0] = NaN", kind.name())), "{error}");
    }
    let mut names = InputKind::ALL.map(InputKind::name);
    names.sort_unstable();
    assert!(names.windows(2).all(|w| w[0] != w[1]));
}

/// Nothing but one kind, whose first number is none.
struct OneSpoilt(InputKind);

impl InputSource for OneSpoilt {
    type Error = ();

    fn numbers(&mut self, kind: InputKind) -> Result<Option<Vec<f64>>, ()> {
        Ok((kind == self.0).then(|| vec![f64::NAN, 0.0, 0.0]))
    }
    fn steps(&mut self, kind: InputKind) -> Result<Option<PerStep>, ()> {
        Ok((kind == self.0).then(|| vec![StepValue { start: 0, value: f64::NAN }]))
    }
    fn states(&mut self, kind: InputKind) -> Result<Option<StatePerToken>, ()> {
        Ok((kind == self.0).then(|| vec![vec![f64::NAN]; 3]))
    }
}
