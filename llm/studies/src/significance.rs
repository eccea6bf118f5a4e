//! [`Significance`]: the result of a comparison, between methods over seeds as between evaluations over problems.

/// The outcome of a test for a difference in accuracy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Significance {
    /// The difference is not significant, and its sign is open.
    NotShown,
    /// It has a sign, but the test does not reject at 5 %, corrected for the number of comparisons.
    Leans { better: bool },
    /// The corrected test rejects.
    Clear { better: bool },
}

impl Significance {
    /// A word for tables and files.
    pub fn word(self) -> &'static str {
        match self {
            Significance::NotShown => "no difference shown",
            Significance::Leans { better: true } => "leans better",
            Significance::Leans { better: false } => "leans worse",
            Significance::Clear { better: true } => "better",
            Significance::Clear { better: false } => "worse",
        }
    }
}
