use grpo_lambda_tools::program::{INSTALLED, SHORT, named};

#[test]
fn only_the_program_itself_is_renamed() {
    let text = "Examples:\n  sim\n  sim --out runs/sim\n  `sim methods` lists them; simple";
    let found = named(text, INSTALLED);
    assert_eq!(
        found,
        "Examples:\n  grpo-sim\n  grpo-sim --out runs/sim\n  `grpo-sim methods` lists them; simple"
    );
    assert_eq!(named(text, SHORT), text);
}
