//! Prints problems of the embedded task: `cargo run -p grpo-lambda-llm --example problems -- [STEPS] [MAX_OPERAND]
//! [N]`.

use grpo_lambda_trainer::input::task::{Level, Split, Task};

fn main() {
    let number = |i: usize, default: u32| {
        std::env::args().nth(i).and_then(|word| word.parse().ok()).unwrap_or(default)
    };
    let level = Level { steps: number(1, 2) as usize, max_operand: number(2, 20) };
    for index in 0..u64::from(number(3, 10)) {
        let problem = Task::Stories(vec![level]).problem(0, Split::Train, index);
        println!("{}{}\n", problem.prompt, problem.solution);
    }
}
