use grpo_lambda_grade::Gold;
use grpo_lambda_trainer::input::task::stories::STORIES;
use grpo_lambda_trainer::input::task::{Level, Split, Task};
use std::collections::{BTreeMap, BTreeSet, HashSet};

fn level(steps: usize, max_operand: u32) -> Task {
    Task::Stories(vec![Level { steps, max_operand }])
}

fn each_level() -> impl Iterator<Item = (usize, u32, Task)> {
    (1..=4).flat_map(|steps| [3, 9, 20, 99].map(|operand| (steps, operand, level(steps, operand))))
}

/// Evaluates the infix spelling, sharing no code with [`Expression::solve`].
fn evaluate(text: &mut &str) -> f64 {
    if let Some(rest) = text.strip_prefix('(') {
        *text = rest;
        let left = evaluate(text);
        let sign = text.chars().next().expect("an operator");
        *text = &text[1..];
        let right = evaluate(text);
        *text = text.strip_prefix(')').expect("a bracket");
        match sign {
            '+' => left + right,
            '-' => left - right,
            '*' => left * right,
            _ => left / right,
        }
    } else {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number = text[..end].parse().expect("a number");
        *text = &text[end..];
        number
    }
}

fn numbers(text: &str) -> BTreeSet<i64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
}

#[test]
fn the_direct_solution_is_the_box_alone() {
    for (_, _, task) in each_level() {
        let problem = task.problem(1, Split::Train, 3);
        assert_eq!(problem.answer_only(), format!("\\boxed{{{}}}", problem.gold));
    }
    let sum = Task::Addition.problem(1, Split::Train, 3);
    assert_eq!(sum.answer_only(), sum.solution);
}

#[test]
fn worked_steps_are_right_and_lead_to_the_boxed_answer() {
    for (steps, operand, task) in each_level() {
        for split in Split::ALL {
            for index in 0..300 {
                let p = task.problem(1, split, index);
                let lines: Vec<&str> = p.solution.lines().collect();
                assert_eq!(lines.len(), steps + 1, "{p:?}");
                let mut known = numbers(&p.prompt);
                assert!(known.iter().all(|&n| n >= 2 && n <= i64::from(operand)), "{p:?}");
                for line in &lines[..steps] {
                    let (left, result) = line.split_once('=').expect("an equation");
                    let operator = left.find(['+', '-', '*', '/']).expect("an operator");
                    let a: i64 = left[..operator].parse().expect("a number");
                    let b: i64 = left[operator + 1..].parse().expect("a number");
                    let c: i64 = result.parse().expect("a number");
                    let right = match &left[operator..=operator] {
                        "+" => a + b == c,
                        "-" => a - b == c,
                        "*" => a * b == c,
                        _ => b * c == a,
                    };
                    assert!(right && c > 0, "{line} in {p:?}");
                    assert!([a, b].iter().all(|n| known.contains(n)), "{line}, from nowhere: {p:?}");
                    known.insert(c);
                }
                let infix = p.expression.as_ref().expect("of the task").to_string();
                let value = evaluate(&mut infix.as_str());
                assert_eq!(lines[steps], format!("\\boxed{{{value}}}"));
                assert_eq!(p.gold.to_string(), value.to_string());
                assert_eq!(numbers(&infix), numbers(&p.prompt), "{p:?}");
            }
        }
    }
}

#[test]
fn no_held_out_problem_is_ever_generated_for_training() {
    let mut seen: BTreeMap<Split, HashSet<String>> = BTreeMap::new();
    for (_, _, task) in each_level() {
        for (split, n) in [(Split::Train, 9_000), (Split::Validation, 2_000), (Split::Test, 2_000)] {
            for seed in 0..2 {
                for index in 0..n / 2 {
                    seen.entry(split).or_default().insert(task.problem(seed, split, index).canonical);
                }
            }
        }
    }
    let [train, validation, test] = Split::ALL.map(|s| &seen[&s]);
    assert!(train.is_disjoint(test) && train.is_disjoint(validation) && validation.is_disjoint(test));
    assert!(train.len() > 50_000, "{}", train.len());
}

#[test]
fn a_problem_depends_on_seed_split_level_and_index_alone() {
    let two = Task::Stories(vec![Level { steps: 1, max_operand: 9 }, Level { steps: 3, max_operand: 20 }]);
    for index in 0..20 {
        assert_eq!(two.problem(4, Split::Train, 2 * index), level(1, 9).problem(4, Split::Train, index));
        assert_eq!(two.problem(4, Split::Train, 2 * index + 1), level(3, 20).problem(4, Split::Train, index));
    }
    let p = level(3, 20).problem(4, Split::Train, 0);
    assert_ne!(p, level(3, 20).problem(5, Split::Train, 0));
    assert_ne!(p, level(3, 20).problem(4, Split::Test, 0));
}

#[test]
fn the_problems_are_frozen() {
    let p = level(4, 20).problem(0, Split::Test, 0);
    let frozen = (
        "Ben earns 11 coins each day for 5 days. He buys 8 apples for 2 coins each. He pays 19 coins for food. How many coins does Ben have left?\n",
        "11*5=55\n8*2=16\n55-16=39\n39-19=20\n\\boxed{20}",
    );
    assert_eq!((&*p.prompt, &*p.solution), frozen, "a change here changes every run of every seed");
}

#[test]
fn every_story_is_written_about_equally_often_and_a_tenth_is_held_out() {
    let mut stories = BTreeMap::<String, usize>::new();
    for index in 0..3_000 {
        let p = level(2, 20).problem(0, Split::Train, index);
        *stories.entry(p.canonical.split(' ').next().expect("a name").to_owned()).or_default() += 1;
    }
    assert_eq!(stories.len(), STORIES.len());
    assert!(stories.values().all(|&n| n > 430), "{stories:?}");
    let held_out =
        (0..30_000).filter(|i| Split::from_canonical(&format!("story {i}")) == Split::Test).count();
    assert!((2_700..3_300).contains(&held_out), "{held_out}");
}

#[test]
fn additions_are_right_and_cover_all_pairs() {
    let mut prompts = BTreeSet::new();
    for index in 0..2_000 {
        let p = Task::Addition.problem(0, Split::Train, index);
        let (a, b) = p.prompt.trim_end_matches("=?\n").split_once('+').expect("a sum");
        let sum = a.parse::<i64>().expect("a digit") + b.parse::<i64>().expect("a digit");
        assert_eq!(p.solution, format!("\\boxed{{{sum}}}"));
        assert_eq!(p.gold, Gold::from(sum));
        prompts.insert(p.prompt);
    }
    assert_eq!(prompts.len(), 100);
}

#[test]
fn distinct_problems_do_not_repeat_and_run_out_honestly() {
    let problems = level(3, 12).distinct(0, Split::Test, 300);
    let canonical: HashSet<&str> = problems.iter().map(|p| p.canonical.as_str()).collect();
    assert_eq!((problems.len(), canonical.len()), (300, 300));
    assert_eq!(problems[0], level(3, 12).problem(0, Split::Test, 0));
    // A hundred sums are found, however many are asked for, and without trying as often as that.
    let all = Task::Addition.distinct(0, Split::Test, usize::MAX);
    assert_eq!(all.len(), 100);
    assert_eq!(Task::Addition.distinct(0, Split::Test, 7), all[..7]);
}
