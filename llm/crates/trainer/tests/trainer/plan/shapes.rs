use grpo_lambda_trainer::plan::shapes::{named, names};

/// The published counts.
const PARAMETERS: [(&str, usize); 10] = [
    ("qwen2.5-0.5b", 494_032_768),
    ("qwen2.5-1.5b", 1_543_714_304),
    ("qwen2.5-math-1.5b", 1_543_714_304),
    ("qwen2.5-3b", 3_085_938_688),
    ("qwen2.5-7b", 7_615_616_512),
    ("qwen2.5-math-7b", 7_615_616_512),
    ("r1-distill-qwen-1.5b", 1_777_088_000),
    ("r1-distill-qwen-7b", 7_615_616_512),
    ("r1-distill-llama-3b", 3_212_749_824),
    ("r1-distill-llama-8b", 8_030_261_248),
];

#[test]
fn a_shape_has_as_many_parameters_as_its_model() {
    assert!(PARAMETERS.iter().map(|(name, _)| *name).eq(names()));
    for (name, published) in PARAMETERS {
        let shapes = named(name).expect("listed").parameter_shapes();
        let counted: usize = shapes.iter().map(|(_, s)| s.iter().product::<usize>()).sum();
        assert_eq!(counted, published, "{name}");
    }
}

#[test]
fn an_unknown_name_is_refused_with_those_there_are() {
    assert_eq!(named("Qwen2.5-Math-1.5B"), named("qwen2.5-math-1.5b"));
    let line = named("qwen2.5-math-2b").expect_err("refused");
    assert!(line.contains("qwen2.5-math-1.5b") && !line.contains('\n'), "{line}");
}
