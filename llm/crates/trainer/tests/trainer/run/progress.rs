use grpo_lambda_decoder::generate::SamplingProgress;
use grpo_lambda_trainer::run::progress::{Progress, Speed, wrapped};
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("one thread").write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn lines_for_a_terminal_break_between_words() {
    assert_eq!(wrapped("one two three four", 9), "one two\nthree\nfour");
    assert_eq!(wrapped("a\nlonger-than-all b", 6), "a\nlonger-than-all\nb");
    assert_eq!(wrapped("accuracy after:  0.5", 80), "accuracy after:  0.5");
}

#[test]
fn plain_lines_are_sparse_and_end_with_the_last_step() {
    let page = Page::default();
    let mut progress = Progress::plain("rl", 0, 9, Box::new(page.clone()));
    for step in 1..=9 {
        let figures = [("reward", 0.1234 * step as f64), ("kl", 0.0)];
        progress.step_at(Duration::from_secs(2 * step), step, &figures, 1000);
    }
    progress.note("held-out accuracy 0.5");
    progress.finish();
    let text = String::from_utf8(page.0.lock().expect("one thread").clone()).expect("text");
    let expected = "rl 1/9  reward 0.123  kl 0  500 tok/s  ETA 16s\n\
                    rl 4/9  reward 0.494  kl 0  500 tok/s  ETA 10s\n\
                    rl 7/9  reward 0.864  kl 0  500 tok/s  ETA 4s\n\
                    rl 9/9  reward 1.11  kl 0  500 tok/s\n\
                    held-out accuracy 0.5\n";
    assert_eq!(text, expected);
}

#[test]
fn a_long_step_says_what_it_does_and_the_time_is_that_of_the_run() {
    let page = Page::default();
    let progress = Progress::plain("RL", 0, 3, Box::new(page.clone()));
    let mut progress = progress.followed_by(Duration::from_secs(20), ", then 2 more");
    let at = Duration::from_secs;
    progress.phase_at(at(29), "sampling 1/8");
    progress.phase_at(at(31), "sampling 5/8");
    progress.step_at(at(40), 1, &[("reward", 0.5)], 0);
    progress.phase_at(at(45), "update");
    progress.phase_at(at(71), "update");
    let text = String::from_utf8(page.0.lock().expect("one thread").clone()).expect("text");
    let step = "RL 1/3  reward 0.5  ETA 1m40s, then 2 more";
    assert_eq!(text, format!("RL 0/3  (sampling 5/8)\n{step}\n{step}  (update)\n"));
}

/// Two requests of ten problems with two samples each.
#[test]
fn long_responses_are_reported_while_they_are_sampled() {
    let page = Page::default();
    let mut progress = Progress::plain("aime", 0, 20, Box::new(page.clone()));
    let within = SamplingProgress { responses: 20, most: 20_000, ..SamplingProgress::default() };
    let mut at = |seconds, step, tokens, ended| {
        let within = SamplingProgress { tokens, ended, ..within };
        progress.within_at(Duration::from_secs(seconds), step, 2, within);
    };
    at(2, 0, 500, 0);
    // A tenth of what is possible; then a fifth of the responses have ended.
    at(10, 0, 2000, 0);
    at(20, 0, 2400, 4);
    at(21, 0, 2450, 4);
    progress.step_at(Duration::from_secs(40), 10, &[("right", 0.5)], 4000);
    let last = SamplingProgress { tokens: 1000, ended: 1, ..within };
    progress.within_at(Duration::from_secs(50), 10, 2, last);
    let text = String::from_utf8(page.0.lock().expect("one thread").clone()).expect("text");
    let expected = "aime 0/20  0 of the next 20 responses ended  200 tok/s  ETA at most 3m10s\n\
                    aime 0/20  4 of the next 20 responses ended  120 tok/s  ETA 3m00s\n\
                    aime 10/20  right 0.5  100 tok/s  ETA 40s\n\
                    aime 10/20  1 of the next 20 responses ended  100 tok/s  ETA 3m10s\n";
    assert_eq!(text, expected);
}

#[test]
fn a_resumed_run_estimates_from_its_own_steps() {
    let mut speed = Speed::new(50, 100);
    assert_eq!((speed.left(), speed.tokens_per_second()), (None, None));
    speed.step(Duration::from_secs(3), 51, 0);
    assert_eq!(speed.left(), Some(Duration::from_secs(3 * 49)));
    // Later the first, slow steps no longer count.
    for step in 52..=80 {
        speed.step(Duration::from_secs(3 + step - 51), step, 10);
    }
    assert_eq!(speed.left(), Some(Duration::from_secs(20)));
    assert_eq!(speed.tokens_per_second(), Some(10.0));
}
