//! Answers of mathematics as rewards: equal, different, or open with a reason.

use grpo_lambda_grade::{GoldError, Grader, Rule, Rules};

fn main() -> Result<(), GoldError> {
    // The strict mode, which training uses: the last box, compared by the strict rules.
    let strict = Grader::default();
    let gold = strict.gold([r"\frac{1}{2}"])?;
    for text in [r"so it is \boxed{0.5}", r"so it is \boxed{1/3}", r"so it is \boxed{1/0}"] {
        let verdict = strict.grade(&gold, text);
        println!("{text}: {verdict}, reward {:?}", verdict.reward());
    }

    // The free mode reads prose, units and several languages; a rule can be switched off.
    let free = Grader { rules: Rules::LENIENT.without(Rule::UnitConverted), ..Grader::free() };
    let verdict = free.grade_text("3.5 m", "The road is 350 cm long.");
    println!("350 cm for 3.5 m without conversion: {verdict}");
    assert_eq!(Grader::free().grade_text("3.5 m", "The road is 350 cm long.").equal, Some(true));
    assert_eq!(verdict.equal, Some(false));

    // Many pairs of reference and response, on all cores.
    let verdicts = strict.grade_all(&[("1/2", "0.5"), ("2", r"\boxed{3}")]);
    assert_eq!(verdicts.iter().map(|v| v.equal).collect::<Vec<_>>(), [Some(true), Some(false)]);
    Ok(())
}

#[test]
fn runs() -> Result<(), GoldError> {
    main()
}
