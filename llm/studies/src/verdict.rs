//! [`Verdict`]: the result of a comparison, between methods over seeds as between evaluations over problems.

/// Result of a test for a difference in accuracy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The difference is not significant, and its sign is open.
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
