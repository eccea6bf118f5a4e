//! The tables' vocabulary: scores, benchmarks, models and data sets.

use serde::{Deserialize, Deserializer};

/// A printed accuracy in thousandths: `0.334` is `Score(334)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score(pub i32);

impl Score {
    /// The accuracy, 0 to 1.
    pub fn value(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

impl<'de> Deserialize<'de> for Score {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        let thousandths = (value * 1000.0).round();
        if !(0.0..=1000.0).contains(&thousandths) || (value * 1000.0 - thousandths).abs() > 1e-9 {
            let problem = format!("{value} is not an accuracy from 0 to 1 with three decimals");
            return Err(serde::de::Error::custom(problem));
        }
        Ok(Score(thousandths as i32))
    }
}

/// A benchmark of the paper's evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Benchmark {
    /// AIME 2024.
    Aime,
    /// AMC.
    Amc,
    /// MATH-500.
    Math,
    /// MinervaMath.
    Minerva,
    /// OlympiadBench.
    Olympiad,
}

impl Benchmark {
    /// The five, in the order of Table 1.
    pub const ALL: [Benchmark; 5] =
        [Benchmark::Aime, Benchmark::Amc, Benchmark::Math, Benchmark::Minerva, Benchmark::Olympiad];

    /// Problems in the copy that understand-r1-zero evaluates, the code the paper names (App. B).
    pub const fn items(self) -> i64 {
        match self {
            Benchmark::Aime => 30,
            Benchmark::Amc => 83,
            Benchmark::Math => 500,
            Benchmark::Minerva => 272,
            Benchmark::Olympiad => 675,
        }
    }
    /// The name in Table 1.
    pub const fn name(self) -> &'static str {
        ["AIME24", "AMC", "MATH", "Minerva", "Olympiad"][self as usize]
    }
    /// The name in Tables 3-6.
    pub const fn row_name(self) -> &'static str {
        ["AIME", "AMC", "MATH", "MIN", "OLBen"][self as usize]
    }
}

/// A model of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Qwen2.5-Math-1.5B-Instruct, Table 3.
    Qwen15,
    /// DeepSeek-R1-Distill-Qwen-1.5B, Table 4.
    R1Qwen15,
    /// R1-Distill-LLaMA-3B, Table 5.
    R1Llama3,
    /// DeepSeek-R1-Distill-Qwen-7B, Table 6.
    R1Qwen7,
}

impl Model {
    /// The four, in the order of Table 1.
    pub const ALL: [Model; 4] = [Model::Qwen15, Model::R1Qwen15, Model::R1Llama3, Model::R1Qwen7];
    /// The models on which all eight variants were trained.
    pub const SMALL: [Model; 2] = [Model::Qwen15, Model::R1Qwen15];

    /// The name in Table 1.
    pub fn name(self) -> &'static str {
        ["Qwen-1.5B", "R1-Distill-Qwen-1.5B", "R1-Distill-LLaMA-3B", "R1-Distill-Qwen-7B"][self as usize]
    }
    /// The number of the table with its runs.
    pub fn table(self) -> usize {
        3 + self as usize
    }
}

/// A data set for the reinforcement learning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Dataset {
    /// hiyouga/math12k.
    #[serde(rename = "math12k")]
    Math12k,
    /// riddickz/math-rl-16k.
    #[serde(rename = "math-rl-16k")]
    MathRl16k,
    /// GSM8K.
    #[serde(rename = "gsm8k")]
    Gsm8k,
    /// ORZ_MATH-57K.
    #[serde(rename = "orzmath57k")]
    OrzMath57k,
}

impl Dataset {
    /// The four, in the order of Tables 3 and 4.
    pub const ALL: [Dataset; 4] = [Dataset::Math12k, Dataset::MathRl16k, Dataset::Gsm8k, Dataset::OrzMath57k];

    /// The name in Tables 3-6.
    pub fn name(self) -> &'static str {
        ["math12k", "math-rl-16k", "gsm8k", "orzmath57k"][self as usize]
    }
}
