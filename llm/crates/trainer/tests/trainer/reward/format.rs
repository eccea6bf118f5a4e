use grpo_lambda_trainer::reward::format::matches;

#[test]
fn an_empty_part_still_needs_its_own_line() {
    assert!(matches("<think>\n\n</think>\n<answer>\n\n</answer>"));
    assert!(!matches("<think>\n</think>\n<answer>\n</answer>"));
}

#[test]
fn the_end_is_the_end_of_any_line() {
    let whole = "<think>\na\n</think>\n<answer>\nb\n</answer>";
    assert!(matches(whole));
    assert!(matches(&format!("{whole}\nmore")));
    assert!(!matches(&format!("{whole} more")));
    assert!(matches(&format!("{whole} more\n</answer>")));
    assert!(!matches(&format!(" {whole}")));
}
