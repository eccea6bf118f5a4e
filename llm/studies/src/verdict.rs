//! [`Verdict`]: the reading of a difference in accuracy, between methods over seeds and between evaluations over
//! problems equally.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing tells it from no difference.
    NotShown,
    /// It has a sign, but the test does not reject at 5 %, corrected for the number of comparisons.
    Leans { better: bool },
    /// The corrected test rejects.
    Clear { better: bool },
}

impl Verdict {
    /// A word for tables and files.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::NotShown => "no difference shown",
            Verdict::Leans { better: true } => "leans better",
            Verdict::Leans { better: false } => "leans worse",
            Verdict::Clear { better: true } => "better",
            Verdict::Clear { better: false } => "worse",
        }
    }
}
