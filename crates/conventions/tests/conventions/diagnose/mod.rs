mod fit;
mod remainder;

use grpo_lambda_conventions::{Candidate, Found};

fn candidate(what: &str, error: f64, factor: f64) -> Candidate {
    let (what, command) = (what.to_owned(), what.to_owned());
    Candidate { what, command, labels: Vec::new(), error, place: None, factor, beta: 0.0 }
}

fn kept(tried: &[Candidate]) -> Vec<&str> {
    let found = Found::from("gradient", tried.to_vec(), 1e-6);
    assert_eq!((found.tried, found.nearest), (tried.len(), None));
    let name = |c: Candidate| tried.iter().position(|t| *t == c).expect("one of them");
    found.matches.into_iter().map(name).map(|i| tried[i].what.as_str()).collect()
}

#[test]
fn of_explanations_that_fit_alike_those_without_a_factor_stay_then_those_with_a_whole_one() {
    let [plain, near] = [candidate("plain", 1e-13, 1.0), candidate("near", 1e-13, 1.0 + 5e-6)];
    let [twice, third] = [candidate("twice", 1e-13, 2.0), candidate("third", 1e-13, 1.0 / 3.0)];
    let [odd, turned] = [candidate("odd", 1e-13, 0.7), candidate("turned", 1e-13, -2.0)];
    let all = [&odd, &third, &near, &twice, &plain, &turned].map(Clone::clone);
    assert_eq!(kept(&all), ["near", "plain"]);
    assert_eq!(kept(&[odd.clone(), third.clone(), twice.clone(), turned.clone()]), ["third", "twice"]);
    assert_eq!(kept(&[odd.clone(), twice.clone()]), ["twice"]);
    assert_eq!(kept(&[odd.clone(), third]), ["third"]);
    // Whole within the same share of a large number.
    assert_eq!(kept(&[odd.clone(), candidate("many", 1e-13, 64.0005)]), ["many"]);
    assert_eq!(kept(&[odd.clone(), candidate("no number", 1e-13, 64.005)]), ["odd", "no number"]);
    assert_eq!(kept(&[odd.clone(), turned]), ["odd", "turned"]);
    // One explanation is told once; the same words under another command are another.
    let other = Candidate { command: "with other settings".to_owned(), ..odd.clone() };
    assert_eq!(kept(&[odd.clone(), odd.clone(), other]), ["odd", "odd"]);
}

#[test]
fn explanations_that_fit_worse_are_dropped_and_none_within_the_tolerance_leaves_the_nearest() {
    let [best, alike, worse] =
        [1e-11, 2.9e-10, 3.1e-10].map(|error| candidate(&format!("{error}"), error, 1.0));
    assert_eq!(kept(&[worse.clone(), alike, best]), ["0.00000000001", "0.00000000029"]);
    let at = Found::from("loss", vec![candidate("at", 1e-6, 1.0)], 1e-6);
    assert_eq!((at.matches.len(), at.nearest), (1, None));
    let above = Found::from("loss", vec![candidate("far", 2e-6, 1.0), candidate("near", 1.1e-6, 1.0)], 1e-6);
    assert_eq!(above.matches, []);
    assert_eq!(above.nearest.map(|c| c.what).as_deref(), Some("near"));
}
