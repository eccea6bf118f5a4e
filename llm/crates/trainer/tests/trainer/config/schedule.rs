use grpo_lambda_trainer::config::schedule::{Schedule, ScheduleShape};

#[test]
fn schedules_warm_up_and_come_down() {
    let rate = |shape, warmup, k| Schedule { peak: 2.0, warmup, steps: 10, shape }.rate(k);
    assert_eq!([rate(ScheduleShape::Constant, 0, 0), rate(ScheduleShape::Constant, 4, 9)], [2.0, 2.0]);
    assert_eq!(rate(ScheduleShape::Cosine, 0, 5), 1.0);
    assert!(rate(ScheduleShape::Cosine, 0, 9) > 0.0 && rate(ScheduleShape::Linear, 0, 9) > 0.0);
    assert_eq!(rate(ScheduleShape::Linear, 10, 20), 2.0); // nothing left to come down in
    assert_eq!(ScheduleShape::NAMES.map(|n| ScheduleShape::parse(n).is_some()), [true; 3]);
    assert_eq!(ScheduleShape::parse("step"), None);
}
