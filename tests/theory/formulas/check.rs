use grpo_lambda::check::group;
use grpo_lambda::group::{Group, InputKind, Response, StepValue};

fn steps(starts: &[usize]) -> Vec<StepValue> {
    starts.iter().map(|&start| StepValue { start, value: 0.5 }).collect()
}

fn pair() -> (Group, Vec<Vec<f64>>) {
    let logps = vec![vec![-0.5, -0.25], vec![-1.0]];
    let responses = vec![Response::graded(logps[0].clone(), 1.0), Response::graded(logps[1].clone(), 0.0)];
    (Group { responses }, logps)
}

#[test]
fn a_well_formed_group_passes_with_and_without_optional_fields() {
    let (mut g, logps) = pair();
    assert_eq!(group(&g, &logps, &[]), Ok(()));
    g.responses[1].reward = None;
    g.responses[0].tokens = vec![5, 1];
    g.responses[1].tokens = vec![2];
    g.responses[0].extra_inputs.shifts = Some(vec![0.5]); // one reasoning token, then the answer
    g.responses[0].extra_inputs.steps = Some(steps(&[0, 1]));
    for r in &mut g.responses {
        r.ref_logps = Some(r.old_logps.clone());
    }
    assert_eq!(group(&g, &logps, &[InputKind::RefLogps]), Ok(()));
}

#[test]
fn a_response_without_a_token_counts_with_its_reward_and_needs_nothing_else() {
    let (mut g, mut logps) = pair();
    (g.responses[1], logps[1]) = (Response::graded(Vec::new(), 0.0), Vec::new());
    g.responses[0].tokens = vec![5, 1];
    g.responses[0].ref_logps = Some(vec![-1.0; 2]);
    assert_eq!(group(&g, &logps, &[InputKind::RefLogps]), Ok(()));
    for spoil in [
        |r: &mut Response| r.tokens = vec![7],
        |r: &mut Response| r.ref_logps = Some(vec![-1.0]),
        |r: &mut Response| r.extra_inputs.shifts = Some(vec![0.5]),
        |r: &mut Response| r.extra_inputs.steps = Some(steps(&[0])),
        |r: &mut Response| r.extra_inputs.hidden = Some(vec![vec![0.5]]),
    ] {
        let mut spoilt = g.clone();
        spoil(&mut spoilt.responses[1]);
        let error = group(&spoilt, &logps, &[]).expect_err("it has numbers of a token, and no token");
        assert!(error.to_string().contains("[1]"), "{error}");
    }
    g.responses[1].reward = Some(f64::NAN);
    assert!(group(&g, &logps, &[]).is_err_and(|e| e.to_string().starts_with("rewards[1] = NaN")));
}

#[test]
fn each_defect_is_named_with_its_place() {
    type Spoil = fn(&mut Group, &mut Vec<Vec<f64>>);
    let cases: [(Spoil, &str); 21] = [
        (|_, l| drop(l.pop()), "logps: 1 entries for 2 rewards"),
        (
            |g, l| {
                g.responses.clear();
                l.clear()
            },
            "no responses",
        ),
        (
            |g, l| {
                g.responses.truncate(1);
                l.truncate(1)
            },
            "one response",
        ),
        (|g, _| g.responses.iter_mut().for_each(|r| r.reward = None), "all 2 are missing"),
        (|_, l| l[1].clear(), "old_logps[1] has 1 entries, logps[1] has 0"),
        (|g, _| g.responses[1].old_logps.clear(), "old_logps[1] has 0 entries, logps[1] has 1"),
        (|g, _| g.responses[0].old_logps.push(0.0), "old_logps[0] has 3 entries, logps[0] has 2"),
        (|g, _| g.responses[0].tokens.push(7), "tokens[0] has 1 entries, logps[0] has 2"),
        (|_, l| l[0][1] = f64::NEG_INFINITY, "logps[0][1] = -inf"),
        (|g, _| g.responses[1].extra_inputs.values = Some(vec![f64::NAN]), "values[1][0] = NaN"),
        (|g, _| g.responses[0].reward = Some(f64::INFINITY), "rewards[0] = inf"),
        (
            |g, _| g.responses[1].extra_inputs.shifts = Some(vec![0.0; 2]),
            "shifts[1] has 2 entries, logps[1] has 1",
        ),
        (
            |g, _| g.responses[0].extra_inputs.steps = Some(steps(&[1])),
            "steps[0]: the first step must start at token 0",
        ),
        (|g, _| g.responses[0].extra_inputs.steps = Some(steps(&[0, 2])), "and before token 2"),
        (|g, _| g.responses[0].extra_inputs.steps = Some(steps(&[])), "steps[0]: the first step"),
        (
            |g, _| g.responses[0].extra_inputs.hidden = Some(vec![vec![0.5]]),
            "hidden[0] has 1 entries, logps[0] has 2",
        ),
        (
            |g, _| g.responses[0].extra_inputs.hidden = Some(vec![vec![0.5], vec![]]),
            "hidden[0][1] has 0 numbers, hidden[0][0] has 1",
        ),
        (|g, _| g.responses[1].extra_inputs.hidden = Some(vec![vec![f64::NAN]]), "hidden[1][0] = NaN"),
        (
            |g, _| {
                g.responses[0].extra_inputs.hidden = Some(vec![vec![0.5]; 2]);
                g.responses[1].extra_inputs.hidden = Some(vec![vec![0.5; 3]]);
            },
            "hidden[1][0] has 3 numbers, hidden[0][0] has 1; all states of a group",
        ),
        (
            |g, _| g.responses[0].ref_logps = Some(vec![-1.0; 2]),
            "ref_logps: missing for response 1; beta is not 0, so every token needs its log-probability under the reference; give them",
        ),
        (
            |_, _| (),
            "values: missing for response 0; needed: a critic's value of the state before each token, from a policy with a critic; give `values`",
        ),
    ];
    for (spoil, expected) in cases {
        let (mut g, mut logps) = pair();
        spoil(&mut g, &mut logps);
        let needs = [InputKind::RefLogps, InputKind::Values]
            .into_iter()
            .filter(|kind| expected.starts_with(&format!("{}: missing", kind.name())));
        let error = group(&g, &logps, &needs.collect::<Vec<_>>()).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}
