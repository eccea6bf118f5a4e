//! Device selection: the user's preference against what is available.

use std::sync::Arc;

use grpo_lambda_decoder::device::{DeviceError, Dtype};

use super::device::{Device, Report};

/// The setting `device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DevicePreference {
    /// A CUDA card if there is one, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// A CUDA card.
    Cuda,
}

impl DevicePreference {
    /// Their names.
    pub const NAMES: [&str; 3] = ["auto", "cpu", "cuda"];

    /// One of [`DevicePreference::NAMES`].
    pub fn parse(name: &str) -> Option<Self> {
        let place = Self::NAMES.iter().position(|n| *n == name)?;
        Some([DevicePreference::Auto, DevicePreference::Cpu, DevicePreference::Cuda][place])
    }
}

/// Names of the setting `dtype`.
pub const DTYPES: [&str; 3] = ["auto", "f32", "bf16"];

/// The setting `dtype`: `auto` is none.
pub fn parse_dtype(name: &str) -> Option<Dtype> {
    [Dtype::F32, Dtype::Bf16].into_iter().find(|dtype| dtype.name() == name)
}

/// Result of the search for a CUDA card.
#[derive(Clone, Debug)]
pub enum CardSearch {
    /// This program was built without CUDA.
    NotBuilt,
    /// Something is missing; one line.
    Unusable(DeviceError),
    /// A card.
    Card(Arc<dyn Device>),
}

/// Finds the first card, and prepares it for weights of this type.
pub fn find_card(dtype: Dtype, report: Report) -> CardSearch {
    #[cfg(feature = "cuda")]
    return match super::cuda::Cuda::open(0, dtype, report) {
        Ok(card) => CardSearch::Card(Arc::new(card)),
        Err(error) => CardSearch::Unusable(error),
    };
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (dtype, report); // only a card has a choice, and something to say
        CardSearch::NotBuilt
    }
}

/// Where a run computes.
#[derive(Clone, Debug)]
pub enum ComputeDevice {
    /// The CPU, in `f32`.
    Cpu,
    /// A card, with weights and activations of this type.
    Cuda(Arc<dyn Device>, Dtype),
}

impl ComputeDevice {
    /// For people: `on the CPU`, `on NVIDIA H200 in bf16`.
    pub fn describe(&self) -> String {
        match self {
            ComputeDevice::Cpu => "on the CPU".to_owned(),
            ComputeDevice::Cuda(card, dtype) => format!("on {} in {}", card.name(), dtype.name()),
        }
    }
}

/// Why no device could be selected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SelectError {
    /// A card was asked for.
    #[error(
        "device = cuda: this llm-train was built without CUDA: build it with --features cuda, or set device = cpu"
    )]
    NotBuilt,
    /// A card was asked for and cannot be used.
    #[error("device = cuda: {0}")]
    Unusable(DeviceError),
    /// bf16 on the CPU.
    #[error(
        "dtype = bf16: the run would be on the CPU ({because}), where everything is f32; leave dtype out, or set it to f32"
    )]
    NotOnTheCpu {
        /// Why it would be there.
        because: String,
    },
}

/// Selects the device. The second value is a line for the user when `auto` found no usable card.
///
/// `find_card` is called only when a card would be used, with the dtype to prepare it for.
///
/// # Errors
/// [`SelectError`].
pub fn choose(
    preference: DevicePreference,
    dtype: Option<Dtype>,
    find_card: impl FnOnce(Dtype) -> CardSearch,
) -> Result<(ComputeDevice, Option<String>), SelectError> {
    let on_a_card = dtype.unwrap_or(Dtype::Bf16);
    let found = match preference {
        DevicePreference::Cpu => None,
        DevicePreference::Auto | DevicePreference::Cuda => Some(find_card(on_a_card)),
    };
    let (because, told) = match (found, preference) {
        (Some(CardSearch::Card(card)), _) => return Ok((ComputeDevice::Cuda(card, on_a_card), None)),
        (Some(CardSearch::NotBuilt), DevicePreference::Cuda) => return Err(SelectError::NotBuilt),
        (Some(CardSearch::Unusable(error)), DevicePreference::Cuda) => {
            return Err(SelectError::Unusable(error));
        }
        (Some(CardSearch::NotBuilt), _) => ("this llm-train was built without CUDA".to_owned(), None),
        (Some(CardSearch::Unusable(error)), _) => {
            (error.to_string(), Some(format!("device = auto: the CPU is used: {error}")))
        }
        (None, _) => ("device = cpu".to_owned(), None),
    };
    if dtype == Some(Dtype::Bf16) {
        return Err(SelectError::NotOnTheCpu { because });
    }
    Ok((ComputeDevice::Cpu, told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dry::Dry;

    fn card() -> CardSearch {
        CardSearch::Card(Arc::new(Dry::default()))
    }

    fn nothing() -> CardSearch {
        CardSearch::Unusable(DeviceError::Missing("no NVIDIA driver".to_owned()))
    }

    fn outcome(
        preference: DevicePreference,
        dtype: Option<Dtype>,
        found: CardSearch,
    ) -> (String, Option<String>) {
        match choose(preference, dtype, |_| found) {
            Ok((chosen, told)) => (chosen.describe(), told),
            Err(error) => (error.to_string(), None),
        }
    }

    #[test]
    fn a_card_is_used_when_it_is_there_and_not_forbidden() {
        for preference in [DevicePreference::Auto, DevicePreference::Cuda] {
            assert_eq!(outcome(preference, None, card()), ("on dry run in bf16".to_owned(), None));
            assert_eq!(outcome(preference, Some(Dtype::F32), card()), ("on dry run in f32".to_owned(), None));
            assert_eq!(
                outcome(preference, Some(Dtype::Bf16), card()),
                ("on dry run in bf16".to_owned(), None)
            );
        }
        assert_eq!(outcome(DevicePreference::Cpu, None, card()), ("on the CPU".to_owned(), None));
    }

    #[test]
    fn the_card_is_prepared_for_the_type_and_not_looked_for_in_vain() {
        for (asked, expected) in [(None, Dtype::Bf16), (Some(Dtype::F32), Dtype::F32)] {
            let mut prepared = None;
            let find_card = |dtype| {
                prepared = Some(dtype);
                card()
            };
            assert!(choose(DevicePreference::Auto, asked, find_card).is_ok());
            assert_eq!(prepared, Some(expected));
        }
        let looked = choose(DevicePreference::Cpu, None, |_| panic!("device = cpu looks for no card"));
        assert!(matches!(looked, Ok((ComputeDevice::Cpu, None))));
    }

    #[test]
    fn auto_falls_back_to_the_cpu_and_says_so_once_where_cuda_is_built_in() {
        let told = "device = auto: the CPU is used: no NVIDIA driver".to_owned();
        assert_eq!(outcome(DevicePreference::Auto, None, nothing()), ("on the CPU".to_owned(), Some(told)));
        assert_eq!(
            outcome(DevicePreference::Auto, None, CardSearch::NotBuilt),
            ("on the CPU".to_owned(), None)
        );
    }

    #[test]
    fn cuda_that_is_not_there_is_refused_in_one_line() {
        let missing = outcome(DevicePreference::Cuda, None, nothing()).0;
        assert_eq!(missing, "device = cuda: no NVIDIA driver");
        let built = outcome(DevicePreference::Cuda, None, CardSearch::NotBuilt).0;
        assert!(built.contains("built without CUDA: build it with --features cuda"), "{built}");
    }

    #[test]
    fn bf16_on_the_cpu_is_refused_with_the_reason_why_it_would_be_there() {
        for (preference, found, because) in [
            (DevicePreference::Cpu, card(), "device = cpu"),
            (DevicePreference::Auto, CardSearch::NotBuilt, "built without CUDA"),
            (DevicePreference::Auto, nothing(), "no NVIDIA driver"),
        ] {
            let line = outcome(preference, Some(Dtype::Bf16), found).0;
            assert!(line.starts_with("dtype = bf16: ") && line.contains(because), "{line}");
            assert!(!line.contains('\n'));
        }
        assert_eq!(outcome(DevicePreference::Cpu, Some(Dtype::F32), card()).0, "on the CPU");
    }

    #[test]
    fn every_name_is_read() {
        assert_eq!(
            DevicePreference::NAMES.map(DevicePreference::parse),
            [DevicePreference::Auto, DevicePreference::Cpu, DevicePreference::Cuda].map(Some)
        );
        assert_eq!(DevicePreference::parse("gpu"), None);
        assert_eq!(DTYPES.map(parse_dtype), [None, Some(Dtype::F32), Some(Dtype::Bf16)]);
    }
}
