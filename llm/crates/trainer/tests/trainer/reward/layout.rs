use grpo_lambda_trainer::reward::components::has_layout;

#[test]
fn an_empty_part_still_needs_its_own_line() {
    assert!(has_layout("<think>\n\n</think>\n<answer>\n\n</answer>"));
    assert!(!has_layout("<think>\n</think>\n<answer>\n</answer>"));
}

#[test]
fn the_end_is_the_end_of_any_line() {
    let whole = "<think>\na\n</think>\n<answer>\nb\n</answer>";
    assert!(has_layout(whole));
    assert!(has_layout(&format!("{whole}\nmore")));
    assert!(!has_layout(&format!("{whole} more")));
    assert!(has_layout(&format!("{whole} more\n</answer>")));
    assert!(!has_layout(&format!(" {whole}")));
}
