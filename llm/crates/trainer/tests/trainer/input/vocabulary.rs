use grpo_lambda_trainer::input::task::{Level, Split, Task};
use grpo_lambda_trainer::input::tokens::{EOS, ModelTokenizer, PAD, UNKNOWN};
use proptest::prelude::*;

#[test]
fn every_problem_is_whole_words_round_trips_and_is_short() {
    let tokenizer = ModelTokenizer::tiny();
    let unknown = tokenizer.id(UNKNOWN).expect("a token");
    let letter =
        |id: u32| (3 + 1..3 + 1 + 95).contains(&id) && char::from((id - 4) as u8 + b' ').is_alphabetic();
    let (mut longest_prompt, mut longest_solution) = (0, 0);
    for steps in 1..=Level::MAX_STEPS {
        for max_operand in [3, 20, 99] {
            let task = Task::Stories(vec![Level { steps, max_operand }]);
            for split in Split::ALL {
                for index in 0..400 {
                    let problem = task.problem(5, split, index);
                    let prompt = tokenizer.prompt(&problem.prompt).expect("encodes");
                    let target = tokenizer.target(&problem.solution).expect("encodes");
                    assert_eq!(tokenizer.text(prompt.ids()).expect("decodes"), problem.prompt);
                    assert_eq!(tokenizer.text(target.ids()).expect("decodes"), problem.solution);
                    for &id in prompt.ids().iter().chain(target.ids()) {
                        assert!(id != unknown && !letter(id), "token {id} in {problem:?}");
                    }
                    longest_prompt = longest_prompt.max(prompt.ids().len());
                    longest_solution = longest_solution.max(target.ids().len());
                }
            }
        }
    }
    assert!(longest_prompt <= 80 && longest_solution <= 60, "{longest_prompt} {longest_solution}");
    for index in 0..200 {
        let problem = Task::Addition.problem(5, Split::Train, index);
        let prompt = tokenizer.prompt(&problem.prompt).expect("encodes");
        assert_eq!(prompt.ids().len(), 6, "{}", problem.prompt);
        assert_eq!(tokenizer.text(prompt.ids()).expect("decodes"), problem.prompt);
    }
}

proptest! {
    #[test]
    fn ascii_text_round_trips(text in "[ -~\n]{0,60}") {
        prop_assume!(![PAD, EOS, UNKNOWN].iter().any(|s| text.contains(s)));
        let tokenizer = ModelTokenizer::tiny();
        let prompt = tokenizer.prompt(&text).expect("encodes");
        prop_assert_eq!(tokenizer.text(prompt.ids()).expect("decodes"), text.clone());
    }
}
