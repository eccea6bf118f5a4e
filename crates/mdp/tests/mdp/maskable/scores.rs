use grpo_lambda_mdp::zoo::Family;
use grpo_lambda_mdp::{Maskable, zoo};

#[test]
fn the_answer_is_the_last_choice() {
    let tree = zoo::LuckyGuess::default().tree().unwrap();
    let path = tree.path(0); // step, three of work, answer, EOS
    assert_eq!((path.len(), Maskable::answer(&tree, &path)), (6, 4));
    let policy = Maskable::random(&tree, 4, 0.8, 2);
    assert_eq!(policy.shifts(&tree, &path).len(), 4);
    assert!(policy.shifts(&tree, &path).iter().any(|s| *s > 1e-6));
}
