mod analysis;

use grpo_lambda_tools::mdp_command::HELP;

#[test]
fn the_help_names_every_task() {
    let words: Vec<&str> = HELP.split("The file:").next().unwrap().split([',', ' ', '\n']).collect();
    let missing = grpo_lambda_mdp::zoo::all().into_iter().find(|task| !words.contains(&task.name));
    assert!(missing.is_none(), "{:?}", missing.map(|task| task.name));
}
