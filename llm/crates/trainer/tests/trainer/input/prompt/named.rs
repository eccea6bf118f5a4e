use grpo_lambda_trainer::input::prompt::NAMED_TEMPLATES;

#[test]
fn every_template_has_one_place_for_the_problem_and_one_for_its_system_prompt() {
    for named in NAMED_TEMPLATES.iter().filter(|n| !n.is_chat) {
        assert_eq!(named.turn.matches("{problem}").count(), 1, "{}", named.name);
        let places = named.head.matches("{system}").count();
        assert_eq!(places, usize::from(named.system.is_some()), "{}", named.name);
    }
}
