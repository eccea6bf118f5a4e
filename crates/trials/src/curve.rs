//! [`Curve`]: held-out accuracy over the tokens that a run has sampled.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Held-out accuracy after so many tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub tokens: f64,
    pub accuracy: f64,
}

/// The exams of a run in their order; in a file `tokens:accuracy` of each, with four decimals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Curve<const SIGNED: bool = false>(pub Vec<Point>);

/// Shares of variance that something explains, which may be below 0, in the place of accuracies.
pub type Shares = Curve<true>;

impl Curve {
    /// The mean accuracy over the first `budget` tokens: the area under straight lines between exams, over `budget`.
    /// None if the exams end before.
    pub fn mean_to(&self, budget: f64) -> Option<f64> {
        let last = self.0.last()?;
        (last.tokens >= budget).then(|| self.area_to(budget) / budget)
    }

    /// [`Curve::mean_to`] of a run that broke down: accuracy counts as 0 from its last exam on.
    pub fn mean_with_nothing_after(&self, budget: f64) -> f64 {
        self.area_to(budget) / budget
    }

    /// The area between the first exam and `budget` tokens, or the last exam if it comes before.
    fn area_to(&self, budget: f64) -> f64 {
        let piece = |pair: &[Point]| {
            let [from, to] = [pair[0], pair[1]];
            let width = to.tokens - from.tokens;
            let within = (budget - from.tokens).clamp(0.0, width);
            let end = from.accuracy + (to.accuracy - from.accuracy) * within / width.max(f64::MIN_POSITIVE);
            within * (from.accuracy + end) / 2.0
        };
        self.0.windows(2).map(piece).sum()
    }
}

impl<const SIGNED: bool> fmt::Display for Curve<SIGNED> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, point) in self.0.iter().enumerate() {
            let between = if i == 0 { "" } else { " " };
            write!(f, "{between}{}:{:.4}", point.tokens, point.accuracy)?;
        }
        Ok(())
    }
}

impl<const SIGNED: bool> From<Curve<SIGNED>> for String {
    fn from(curve: Curve<SIGNED>) -> String {
        curve.to_string()
    }
}

/// A text that is no curve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("curve: {0:?} is no exam; it must be `tokens:accuracy` with rising tokens and an accuracy of 0 to 1")]
pub struct CurveError(String);

impl<const SIGNED: bool> FromStr for Curve<SIGNED> {
    type Err = CurveError;

    fn from_str(text: &str) -> Result<Self, CurveError> {
        let is_share = |x: &f64| *x <= 1.0 && (SIGNED || *x >= 0.0);
        let mut points: Vec<Point> = Vec::new();
        for word in text.split_whitespace() {
            let refused = || CurveError(word.to_owned());
            let (tokens, accuracy) = word.split_once(':').ok_or_else(refused)?;
            let number = |text: &str| text.parse::<f64>().ok().filter(|x| x.is_finite());
            let point = Point {
                tokens: number(tokens).filter(|x| *x >= 0.0).ok_or_else(refused)?,
                accuracy: number(accuracy).filter(is_share).ok_or_else(refused)?,
            };
            if points.last().is_some_and(|before| before.tokens >= point.tokens) {
                return Err(refused());
            }
            points.push(point);
        }
        Ok(Curve(points))
    }
}

impl<const SIGNED: bool> TryFrom<String> for Curve<SIGNED> {
    type Error = CurveError;

    fn try_from(text: String) -> Result<Self, CurveError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_by_hand() {
        // Trapezoids of 100 tokens: 100 * .3 + 100 * .5 = 80 up to 200; up to 150 the second one is half as wide,
        // from .4 to .5.
        let curve: Curve = "0:0.2 100:0.4 200:0.6".parse().expect("a curve");
        let close = |found: Option<f64>, want: f64| {
            assert!((found.expect("known") - want).abs() < 1e-12, "{found:?}")
        };
        close(curve.mean_to(200.0), 80.0 / 200.0);
        close(curve.mean_to(150.0), (30.0 + 22.5) / 150.0);
        close(curve.mean_to(100.0), 0.3);
        close(curve.mean_to(50.0), 0.25);
        // Beyond its last exam nothing is known, but of a run that broke down.
        assert_eq!(curve.mean_to(201.0), None);
        close(Some(curve.mean_with_nothing_after(400.0)), 80.0 / 400.0);
        close(Some(curve.mean_with_nothing_after(150.0)), (30.0 + 22.5) / 150.0);
        assert_eq!("".parse::<Curve>().expect("no exam").mean_to(1.0), None);
        // One that stays where it is has its level as its mean, however far apart the exams are.
        close("0:0.7 3:0.7 1000:0.7".parse::<Curve>().expect("a curve").mean_to(500.0), 0.7);
    }

    #[test]
    fn a_curve_is_read_as_it_was_written() {
        let text = "0:0.0703 49050:0.1621 95625:1.0000";
        let curve: Curve = text.parse().expect("a curve");
        assert_eq!(curve.to_string(), text);
        for wrong in ["1", "0:0.1 x:0.2", "0:0.1 0:0.2", "5:0.1 4:0.2", "0:1.5", "0:NaN", "-1:0.5", "0:-0.1"]
        {
            let refused = wrong.parse::<Curve>().expect_err(wrong).to_string();
            assert!(refused.starts_with("curve: \""), "{refused}");
        }
        // A share of variance may be below 0, and no more than all of it is explained.
        assert!("0:-0.5".parse::<Shares>().is_ok() && "0:1.5".parse::<Shares>().is_err());
    }
}
