//! `section!`: a section's keys, declared once with the types that they are read into.

use std::collections::BTreeMap;
use std::path::PathBuf;

use grpo_lambda_gpu::select::{self, DevicePreference};
use grpo_lambda_gpu::{Dtype, StatePlace};

use super::fields;
use super::sampling::{Sampling, StepStart};
use super::schedule::ScheduleShape;
use super::words::{EngineKind, TaskKind};
use crate::input::data::OnBadRow;

/// A type that a canonical value is read into.
pub(super) trait Value: Sized {
    /// The value that `text` spells; `None` if it spells none.
    fn read(text: &str) -> Option<Self>;
}

/// Implements [`Value`]: `value!(Type, |text| ..)`.
macro_rules! value {
    ($($type:ty: $read:expr;)+) => {
        $(impl Value for $type {
            fn read(text: &str) -> Option<Self> {
                let read: fn(&str) -> Option<Self> = $read;
                read(text)
            }
        })+
    };
}

/// The words that stand for an absent value.
fn given(text: &str) -> Option<&str> {
    Some(text).filter(|word| !["none", "auto"].contains(word))
}

value! {
    u64: |text| text.parse().ok();
    u32: |text| text.parse().ok();
    usize: |text| Some(usize::try_from(u64::read(text)?).unwrap_or(usize::MAX));
    f64: |text| text.parse().ok();
    // `auto` is true until it is decided.
    bool: |text| Some(text != "false");
    String: |text| Some(text.to_owned());
    Option<String>: |text| Some(given(text).map(str::to_owned));
    Option<PathBuf>: |text| Some(given(text).map(PathBuf::from));
    Option<f64>: |text| Some(text.parse().ok());
    Option<[f64; 2]>: |text| Some(fields::range(text));
    // Both `none` and 0 are absent.
    Option<usize>: |text| Some(usize::read(text).filter(|n| *n > 0));
    Vec<String>: |text| Some(text.split(',').map(str::to_owned).collect());
    Vec<usize>: |text| text.split(',').map(usize::read).collect();
    Option<Dtype>: |text| Some(select::parse_dtype(text));
    DevicePreference: DevicePreference::parse;
    EngineKind: EngineKind::parse;
    StatePlace: StatePlace::parse;
    ScheduleShape: ScheduleShape::parse;
    TaskKind: TaskKind::parse;
    Sampling: Sampling::parse;
    Option<StepStart>: |text| Some(StepStart::parse(text));
    OnBadRow: OnBadRow::parse;
}

/// The value of `key` among canonical values; its default if it is not among them.
///
/// # Panics
/// If the value is not canonical, which is a bug.
pub(super) fn read_value<T: Value>(values: &BTreeMap<String, String>, key: &str, default: &str) -> T {
    let text = values.get(key).map_or(default, String::as_str);
    T::read(text).unwrap_or_else(|| panic!("{key} = {text} is not canonical"))
}

/// `section! { struct Name in "prefix." { field: Type = KIND, "default", "meaning"; .. } }` declares the struct, its `FIELDS`, and `read`, which
/// takes it from canonical values. `resumable` before a field: its value does not affect the result.
macro_rules! section {
    (@affects) => { true };
    (@affects resumable) => { false };
    ($(#[$meta:meta])* $vis:vis struct $Name:ident in $prefix:literal {
        $($([$resumable:ident])? $field:ident: $type:ty = $kind:expr, $default:literal, $about:literal;)+
    }) => {
        $(#[$meta])*
        $vis struct $Name {
            $(#[doc = $about] pub $field: $type,)+
        }

        impl $Name {
            /// The section's fields, in the order in which they are written.
            pub(super) const FIELDS: &'static [Field] = &[$(Field {
                key: concat!($prefix, stringify!($field)),
                kind: $kind,
                default: $default,
                about: $about,
                affects_result: section!(@affects $($resumable)?),
            },)+];

            pub(super) fn read(values: &BTreeMap<String, String>) -> Self {
                $Name { $($field: read_value(values, concat!($prefix, stringify!($field)), $default),)+ }
            }
        }
    };
}
pub(super) use section;
