use grpo_lambda::check;
use grpo_lambda::group::{ExtraInputs, Series, StepValue};
use grpo_lambda_tools::groups::{Line, Positive};

const PLAIN: &str = r#"{"rewards":[1,0],"logps":[[-0.5,-0.25],[-1]],"old_logps":[[-0.5,-0.25],[-1]]}"#;

fn error(line: &str) -> String {
    Line::parse(line, None).expect_err(line)
}

#[test]
fn every_field_lands_where_it_belongs() {
    let text = r#"{"id":7,"rewards":[1,null],"logps":[[-0.5],[-1]],"old_logps":[[-2],[-3]],"ref_logps":[[-4],[-5]],
        "entropies":[[0.1],[0.2]],"values":[[0.3],[0.4]],"collisions":[[0.5],[0.6]],"steps":[[[0,0.7]],[[0,0.8]]],
        "shifts":[[],[0.9]],"saliencies":[[1],[2]],"teacher_logps":[[-0.1],[-0.2]],"tokens":[[11],[12]],"hidden":[[[1,2]],[[3,4]]],
        "truncated":[false,true]}"#;
    let line = Line::parse(text, None).unwrap();
    let [a, b] = &line.group.responses[..] else { panic!("two responses") };
    assert_eq!(line.id, Some(7.into()));
    assert_eq!(line.logps, [[-0.5], [-1.0]]);
    assert_eq!((a.reward, b.reward, a.truncated, b.truncated), (Some(1.0), None, false, true));
    assert_eq!(
        (&a.old_logps[..], b.ref_logps.as_deref(), &b.tokens[..]),
        (&[-2.0][..], Some(&[-5.0][..]), &[12][..])
    );
    let found = &b.extra_inputs;
    for (found, expected) in [
        (&found.entropies, 0.2),
        (&found.values, 0.4),
        (&found.collisions, 0.6),
        (&found.shifts, 0.9),
        (&found.saliencies, 2.0),
        (&found.teacher_logps, -0.2),
    ] {
        assert_eq!(found, &Some(vec![expected]));
    }
    assert_eq!(found.steps, Some(vec![StepValue { start: 0, value: 0.8 }]));
    assert_eq!(found.hidden, Some(vec![vec![3.0, 4.0]]));
    assert_eq!(found.series().count(), 8);
}

/// A kind that is declared is read: whoever declares one need not come here.
#[test]
fn every_declared_kind_of_input_is_a_field_of_its_form() {
    let extra_inputs = ExtraInputs::constant(1, 0.5);
    for (kind, series) in extra_inputs.series() {
        let entry = match series {
            Series::PerToken(_) | Series::PerReasoningToken(_) | Series::PerReward(_) => "[0.5]",
            Series::PerStep(_) => "[[0,0.5]]",
            Series::StatePerToken(_) => "[[0.5]]",
        };
        let field = kind.name();
        let line = format!(
            r#"{{"{field}":[{entry},{entry}],"rewards":[1,0],"logps":[[-0.5],[-1]],"old_logps":[[-2],[-3]]}}"#
        );
        let line = Line::parse(&line, None).expect(field);
        check::group(&line.group, &line.logps, &[kind]).expect(field);
        for response in &line.group.responses {
            assert!(response.extra_inputs.series().eq([(kind, series)]), "{field}");
        }
        let error = error(&PLAIN.replacen('{', &format!("{{\"{field}\":[{entry}],"), 1));
        assert_eq!(error, format!("{field}: 1 entries for 2 rewards; one per response is needed"));
    }
}

#[test]
fn a_step_that_is_no_pair_of_token_and_value_is_named_with_its_place() {
    for (steps, place) in [
        ("[[[0]],[[0,1]]]", "steps[0][0]"),
        ("[[[0,1]],[7]]", "steps[1][0]"),
        ("[[[0.5,1]],[[0,1]]]", "steps[0][0]"),
    ] {
        let line = PLAIN.replacen('{', &format!("{{\"steps\":{steps},"), 1);
        let message = error(&line);
        assert!(message.starts_with(place) && message.ends_with("must be [first token, value]"), "{message}");
    }
}

#[test]
fn null_is_the_same_as_absent_for_optional_fields() {
    let nulls = r#"{"id":null,"ref_logps":null,"tokens":null,"truncated":null,"#;
    assert_eq!(Line::parse(&PLAIN.replacen('{', nulls, 1), None), Line::parse(PLAIN, None));
}

#[test]
fn a_wrong_type_is_named_with_its_place() {
    for (from, to, expected) in [
        ("[1,0]", "1", "rewards = 1; must be a list of numbers"),
        ("[1,0]", "[true,0]", "rewards[0] = true; must be a number, or null"),
        ("[1,0]", "[\"1\",0]", "rewards[0] = the text `1`; must be"),
        (
            "\"logps\":[[-0.5,-0.25],[-1]]",
            "\"logps\":[-0.5,-0.25]",
            "logps[0] = -0.5; must be a list of numbers, one per token",
        ),
        ("\"logps\":[[-0.5,-0.25]", "\"logps\":[[-0.5,null]", "logps[0][1] = null; must be a number"),
        (
            "\"logps\":[[-0.5,-0.25],[-1]]",
            "\"logps\":null",
            "logps: missing; every line needs rewards, logps, old_logps",
        ),
        ("{", "{\"tokens\":[[1,-2],[3]],", "tokens[0][1] = -2; must be a whole number from 0"),
        ("{", "{\"tokens\":[[1,2.5],[3]],", "tokens[0][1] = 2.5; must be a whole number from 0"),
        ("{", "{\"tokens\":[[1,2],[]],", "tokens[1] has 0 entries, logps[1] has 1"),
        ("{", "{\"truncated\":[0,1],", "truncated[0] = 0; must be true or false"),
        ("{", "{\"truncated\":[true],", "truncated: 1 entries for 2 rewards"),
        ("{", "{\"id\":[1],", "id = a list of 1; must be a string or a number"),
        ("{", "{\"id\":NaN,", "id = NaN; must be a string or a number"),
        ("{", "{\"id\":123456789012345678901234567890,", "id = 1.2345678901234568e+29; must be"),
    ] {
        let line = PLAIN.replacen(from, to, 1);
        assert!(error(&line).starts_with(expected), "{line}\n{}", error(&line));
    }
}

#[test]
fn positive_log_probabilities_are_found_and_rounding_is_not() {
    let line = PLAIN.replace("-0.25],[-1]]}", "0.25],[3]]}").replacen("-0.5", "1e-7", 1);
    let positive = Line::parse(&line, None).unwrap().positive().unwrap();
    assert_eq!(positive, Positive { place: "old_logps[0][1]".into(), value: 0.25, count: 2 });
    assert_eq!(Line::parse(PLAIN, None).unwrap().positive(), None);
}
