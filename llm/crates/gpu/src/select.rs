//! Device selection: a preference against the cards there are.

use std::sync::Arc;

use grpo_lambda_decoder::device::{DeviceError, Dtype};
use grpo_lambda_decoder::model::ModelConfig;

use super::device::{Device, Report};

/// A choice between the CPU and a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DevicePreference {
    /// A CUDA card if there is one, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// A CUDA card.
    Cuda,
    /// The graphics processor of a Mac, which candle alone uses.
    Metal,
}

impl DevicePreference {
    /// Names of those that our own decoders use.
    pub const NAMES: [&str; 3] = ["auto", "cpu", "cuda"];
    /// Names of all.
    pub const ALL: [&str; 4] = ["auto", "cpu", "cuda", "metal"];

    /// One of [`DevicePreference::ALL`].
    pub fn parse(name: &str) -> Option<Self> {
        use DevicePreference::{Auto, Cpu, Cuda, Metal};
        Some([Auto, Cpu, Cuda, Metal][Self::ALL.iter().position(|n| *n == name)?])
    }
}

/// Names of the dtypes, and `auto`.
pub const DTYPES: [&str; 3] = ["auto", "f32", "bf16"];

/// One of [`DTYPES`]; `None` for `auto`.
pub fn parse_dtype(name: &str) -> Option<Dtype> {
    [Dtype::F32, Dtype::Bf16].into_iter().find(|dtype| dtype.name() == name)
}

/// Why there is no card.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoCard {
    /// CUDA is not built in.
    #[error("CUDA is not built in")]
    NotBuilt,
    /// Something is missing.
    #[error(transparent)]
    Unusable(#[from] DeviceError),
}

/// Finds the first card, and prepares it for weights of this type.
///
/// # Errors
/// [`NoCard`].
pub fn find_card(dtype: Dtype, report: Report) -> Result<Arc<dyn Device>, NoCard> {
    #[cfg(feature = "cuda")]
    return Ok(Arc::new(super::cuda::Cuda::open(0, dtype, report)?));
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (dtype, report); // only a card has a choice, and something to say
        Err(NoCard::NotBuilt)
    }
}

/// Finds the first card, which has to prove itself in this type.
///
/// # Errors
/// [`NoCard`].
pub fn find_proved(dtype: Dtype, report: Report) -> Result<Arc<dyn Device>, NoCard> {
    let card = find_card(dtype, report)?;
    #[cfg(feature = "driver")]
    crate::check::prove_card(&card, dtype, report)?;
    Ok(card)
}

/// Refuses a card that does not compute what it should in a model of this shape.
///
/// # Errors
/// [`DeviceError::Missing`], a line that names the first comparison that failed.
pub fn prove_shape(card: &Arc<dyn Device>, dtype: Dtype, shape: &ModelConfig) -> Result<(), DeviceError> {
    #[cfg(feature = "driver")]
    crate::check::prove_shape(card, dtype, shape)?;
    let _ = (card, dtype, shape); // without the calls of a card there is a dry run alone, which computes nothing
    Ok(())
}

/// The device of a run.
#[derive(Clone, Debug)]
pub enum ComputeDevice {
    /// The CPU, in `f32`.
    Cpu,
    /// A card, with weights and activations of this type.
    Cuda(Arc<dyn Device>, Dtype),
    /// A device by way of candle, with weights and activations of this type.
    Candle(CandleDevice, Dtype),
}

/// A device that candle uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandleDevice {
    /// The CPU.
    Cpu,
    /// The first CUDA card.
    Cuda,
    /// The graphics processor of a Mac.
    Metal,
}

impl CandleDevice {
    /// The one that is preferred, in `f32` on the CPU and in `bf16` elsewhere unless another type is asked for.
    pub fn choose(preference: DevicePreference, dtype: Option<Dtype>) -> ComputeDevice {
        let (device, usual) = match preference {
            DevicePreference::Auto | DevicePreference::Cpu => (CandleDevice::Cpu, Dtype::F32),
            DevicePreference::Cuda => (CandleDevice::Cuda, Dtype::Bf16),
            DevicePreference::Metal => (CandleDevice::Metal, Dtype::Bf16),
        };
        ComputeDevice::Candle(device, dtype.unwrap_or(usual))
    }

    /// For people: `the CPU`.
    pub fn name(self) -> &'static str {
        match self {
            CandleDevice::Cpu => "the CPU",
            CandleDevice::Cuda => "the CUDA card",
            CandleDevice::Metal => "Metal",
        }
    }
}

impl ComputeDevice {
    /// For people: `on the CPU`, `on NVIDIA H200 in bf16`, `on Metal in bf16 by candle`.
    pub fn describe(&self) -> String {
        match self {
            ComputeDevice::Cpu => "on the CPU".to_owned(),
            ComputeDevice::Cuda(card, dtype) => format!("on {} in {}", card.name(), dtype.name()),
            ComputeDevice::Candle(device, dtype) => {
                format!("on {} in {} by candle", device.name(), dtype.name())
            }
        }
    }
}

/// Why no device could be selected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SelectError {
    /// A card was asked for.
    #[error(transparent)]
    NoCard(NoCard),
    /// Metal was asked for, which our own decoders do not use.
    #[error("Metal is used by candle alone")]
    OnlyCandle,
    /// bf16 on the CPU: it was asked for, or there is no card.
    #[error("the CPU computes in f32, not in bf16")]
    NotOnTheCpu(Option<NoCard>),
}

/// Selects the device, and says why [`DevicePreference::Auto`] found no usable card.
///
/// `find_card` is called only when a card would be used, with the dtype to prepare it for.
///
/// # Errors
/// [`SelectError`].
pub fn choose(
    preference: DevicePreference,
    dtype: Option<Dtype>,
    find_card: impl FnOnce(Dtype) -> Result<Arc<dyn Device>, NoCard>,
) -> Result<(ComputeDevice, Option<DeviceError>), SelectError> {
    let on_a_card = dtype.unwrap_or(Dtype::Bf16);
    let missing = match preference {
        DevicePreference::Metal => return Err(SelectError::OnlyCandle),
        DevicePreference::Cpu => None,
        DevicePreference::Auto | DevicePreference::Cuda => match find_card(on_a_card) {
            Ok(card) => return Ok((ComputeDevice::Cuda(card, on_a_card), None)),
            Err(missing) => Some(missing),
        },
    };
    match (missing, preference) {
        (Some(missing), DevicePreference::Cuda) => Err(SelectError::NoCard(missing)),
        (missing, _) if dtype == Some(Dtype::Bf16) => Err(SelectError::NotOnTheCpu(missing)),
        (Some(NoCard::Unusable(error)), _) => Ok((ComputeDevice::Cpu, Some(error))),
        (Some(NoCard::NotBuilt) | None, _) => Ok((ComputeDevice::Cpu, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dry::Dry;

    type Found = Result<Arc<dyn Device>, NoCard>;

    fn card() -> Found {
        Ok(Arc::new(Dry::default()))
    }

    fn outcome(
        preference: DevicePreference,
        dtype: Option<Dtype>,
        found: Found,
    ) -> Result<(String, Option<DeviceError>), SelectError> {
        choose(preference, dtype, |_| found).map(|(chosen, why)| (chosen.describe(), why))
    }

    /// The preference, what is found, and what is chosen, with the reason why `auto` took no card where CUDA is built in.
    #[test]
    fn a_card_is_used_when_it_is_there_and_not_forbidden_and_refusals_say_why() {
        use DevicePreference::{Auto, Cpu, Cuda, Metal};
        let (f32, bf16) = (Some(Dtype::F32), Some(Dtype::Bf16));
        let no_driver = DeviceError::Missing("no NVIDIA driver".to_owned());
        let [broken, absent] = [NoCard::Unusable(no_driver.clone()), NoCard::NotBuilt];
        let on = |device: &str, why: Option<DeviceError>| Ok((device.to_owned(), why));
        for (preference, dtype, found, expected) in [
            (Auto, None, card(), on("on dry run in bf16", None)),
            (Auto, f32, card(), on("on dry run in f32", None)),
            (Auto, bf16, card(), on("on dry run in bf16", None)),
            (Cuda, None, card(), on("on dry run in bf16", None)),
            (Cuda, f32, card(), on("on dry run in f32", None)),
            (Cpu, None, card(), on("on the CPU", None)),
            (Cpu, f32, card(), on("on the CPU", None)),
            (Auto, None, Err(broken.clone()), on("on the CPU", Some(no_driver))),
            (Auto, None, Err(absent.clone()), on("on the CPU", None)),
            (Cuda, None, Err(broken.clone()), Err(SelectError::NoCard(broken.clone()))),
            (Cuda, None, Err(absent.clone()), Err(SelectError::NoCard(absent.clone()))),
            (Cpu, bf16, card(), Err(SelectError::NotOnTheCpu(None))),
            (Auto, bf16, Err(broken.clone()), Err(SelectError::NotOnTheCpu(Some(broken)))),
            (Auto, bf16, Err(absent.clone()), Err(SelectError::NotOnTheCpu(Some(absent)))),
            (Metal, None, card(), Err(SelectError::OnlyCandle)),
        ] {
            assert_eq!(outcome(preference, dtype, found), expected, "{preference:?} {dtype:?}");
        }
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
        let looked = choose(DevicePreference::Cpu, None, |_| panic!("no card is looked for"));
        assert!(matches!(looked, Ok((ComputeDevice::Cpu, None))));
    }

    #[test]
    fn candle_takes_the_cpu_unless_it_is_reported() {
        let chosen = |preference, dtype| CandleDevice::choose(preference, dtype).describe();
        assert_eq!(chosen(DevicePreference::Auto, None), "on the CPU in f32 by candle");
        assert_eq!(chosen(DevicePreference::Cpu, Some(Dtype::Bf16)), "on the CPU in bf16 by candle");
        assert_eq!(chosen(DevicePreference::Cuda, None), "on the CUDA card in bf16 by candle");
        assert_eq!(chosen(DevicePreference::Metal, Some(Dtype::F32)), "on Metal in f32 by candle");
    }

    #[test]
    fn every_name_is_read() {
        use DevicePreference::{Auto, Cpu, Cuda, Metal};
        assert_eq!(DevicePreference::ALL.map(DevicePreference::parse), [Auto, Cpu, Cuda, Metal].map(Some));
        assert_eq!(DevicePreference::NAMES, DevicePreference::ALL[..3]);
        assert_eq!(DevicePreference::parse("gpu"), None);
        assert_eq!(DTYPES.map(parse_dtype), [None, Some(Dtype::F32), Some(Dtype::Bf16)]);
    }
}
