use grpo_lambda_grade::{Extraction, Gold, Prediction};
use grpo_lambda_trainer::input::prompt::target::{TargetStyle, tidy};

#[test]
fn solutions_become_responses_from_which_the_answer_is_read() {
    let gsm8k = "She has 16 - 3 = <<16-3=13>>13 eggs.\nThat is $<<13*2=26>>26.\n#### 26";
    let math = "So $x = 26$, hence $\\boxed{26}$.";
    for (style, how) in [
        (TargetStyle::BOXED, Extraction::Boxed),
        (TargetStyle::R1, Extraction::Tag),
        (TargetStyle::OPEN_REASONER, Extraction::LenientTag),
        (TargetStyle::OPEN_R1, Extraction::LenientTag),
    ] {
        let how = |text: &str| {
            let text = if how == Extraction::Tag { format!("<think>{text}") } else { text.to_owned() };
            Gold::math("26").expect("an answer").grade(&Prediction::extract(&text, how))
        };
        for text in [
            style.worked(gsm8k, "26"),
            style.worked(math, "26"),
            style.worked(" ", "26"),
            style.answer_only("26"),
        ] {
            assert!(how(&text).is_equal(), "{text}");
            assert!(!text.contains("<<") && !text.contains("####"), "{text}");
        }
    }
    let boxed = "She has 16 - 3 = 13 eggs.\nThat is $26.\n\\boxed{26}";
    assert_eq!(TargetStyle::BOXED.worked(gsm8k, "26"), boxed);
    assert_eq!(TargetStyle::BOXED.worked(math, "26"), math);
    let open_r1 = "<think>\na\n</think>\n<answer>\n\\boxed{b}\n</answer>";
    assert_eq!(TargetStyle::OPEN_R1.worked("a", "b"), open_r1);
}

#[test]
fn what_is_no_annotation_stays() {
    assert_eq!(tidy("a << b and\nc >> d, <<1+1=2>>2\n#### 2"), "a << b and\nc >> d, 2");
    assert_eq!(tidy("a <<1>> without hashes"), "a <<1>> without hashes");
}
