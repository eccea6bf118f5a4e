use grpo_lambda_trainer::run::stop::Work;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::time::{Duration, Instant};

#[test]
fn the_first_signal_is_answered_with_what_is_left() {
    let work = |usual| Work { what: "RL step 19".to_owned(), began: Instant::now(), usual };
    let seconds = Duration::from_secs;
    let said = work(Some(seconds(14))).answer(SIGINT, seconds(2));
    assert_eq!(said, "\nfinishing RL step 19, about 12 s, then a checkpoint; Ctrl-C again stops now");
    let late = work(Some(seconds(14))).answer(SIGTERM, seconds(20));
    assert_eq!(late, "\nfinishing RL step 19, about 1 s, then a checkpoint; a second signal stops now");
    let first = work(None).answer(SIGINT, seconds(2));
    assert_eq!(first, "\nfinishing RL step 19, then a checkpoint; Ctrl-C again stops now");
}
