use grpo_lambda_gpu::Dtype;
use grpo_lambda_trainer::plan::shapes;
use grpo_lambda_trainer::plan::synthetic::{ALLOWANCE, EvaluationShape};

/// R1-Distill-Qwen-1.5B with 32,768 new tokens on 80 GB: 28 layers of 2 key heads of 128 numbers, in bf16 28,672 bytes a token.
#[test]
fn an_evaluation_of_32k_tokens_fits_80_gb_in_as_many_slots_as_are_counted() {
    let shape = shapes::named("r1-distill-qwen-1.5b").expect("known");
    let long = EvaluationShape { shape: &shape, dtype: Dtype::Bf16, prompt_tokens: 256, new_tokens: 32_768 };
    let card = 80_000_000_000;
    let found = long.most(128, card).expect("counted").expect("fits");
    let row = 28_672 * (256 + 32_768);
    let one_more = long.predict(found.slots + 1).expect("counted");
    assert!(found.peak + ALLOWANCE <= card && one_more.peak + ALLOWANCE > card);
    // What a slot takes besides its pages: logits, numbers of the sampler and the row of a step.
    let each = one_more.peak - found.peak;
    assert!((row..row + row / 500).contains(&each), "{each} bytes a slot, {row} of keys and values");
    assert_eq!((found.slots, found.peak), (78, 78_122_607_616));
    // What is asked for and does not fit is refused with what does; what is not asked for is chosen.
    assert_eq!(long.slots(None, 128, card).expect("counted"), Ok(found.slots));
    assert_eq!(long.slots(Some(9), 128, card).expect("counted"), Ok(9));
    let line = long.slots(Some(128), 128, card).expect("counted").expect_err("refused");
    assert!(
        line.contains("decoding 128 at a time") && line.contains(&format!("at most {} at", found.slots)),
        "{line}"
    );
    let line = long.slots(None, 128, 4_000_000_000).expect("counted").expect_err("refused");
    assert!(line.contains("decoding 1 at a time") && line.contains("length limit"), "{line}");
}
