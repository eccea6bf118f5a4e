use grpo_lambda_trainer::input::stops::first_beyond;

#[test]
fn a_stop_string_counts_if_it_ends_beyond_what_is_passed_over() {
    let stops = ["\n\n", "né", "."].map(str::to_owned);
    for (text, passed, expected) in [
        ("a\n\n\nb", 0, Some((1, "\n\n"))),
        ("a\n\n\nb", 2, Some((1, "\n\n"))),
        ("a\n\n\nb", 3, Some((2, "\n\n"))),
        ("a\n\n\nb", 4, None),
        ("né.", 0, Some((0, "né"))),
        ("né.", 3, Some((3, "."))),
        ("é", 9, None),
    ] {
        assert_eq!(first_beyond(&stops, text, passed), expected, "{text:?} beyond {passed}");
    }
}
