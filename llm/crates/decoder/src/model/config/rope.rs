//! Rotary frequencies: their fields of `config.json`, and their values.

use std::f64::consts::PI;

use serde_json::{Value, json};

use super::ModelConfig;
use super::fields::{Fields, limits};
use super::known::is_off;
use crate::model::error::Result;

/// The scaling of the rotary frequencies `theta^(-2i/d)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// None.
    None,
    /// Every frequency divided by `factor`.
    Linear {
        /// The divisor.
        factor: f64,
    },
    /// Llama 3: long wavelengths divided by `factor`, short ones kept, those between interpolated.
    Llama3 {
        /// The divisor of long wavelengths.
        factor: f64,
        /// Wavelengths above `original_max / low_freq_factor` are long.
        low_freq_factor: f64,
        /// Wavelengths below `original_max / high_freq_factor` are short.
        high_freq_factor: f64,
        /// Positions the model was first trained on.
        original_max: f64,
    },
}

impl RopeScaling {
    /// A frequency under this scaling.
    fn apply(&self, f: f64) -> f64 {
        match *self {
            RopeScaling::None => f,
            RopeScaling::Linear { factor } => f / factor,
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max } => {
                let wavelength = 2.0 * PI / f;
                if wavelength < original_max / high_freq_factor {
                    f
                } else if wavelength > original_max / low_freq_factor {
                    f / factor
                } else {
                    let smooth =
                        (original_max / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor);
                    (1.0 - smooth) * f / factor + smooth * f
                }
            }
        }
    }

    /// The value of `rope_scaling`.
    pub(super) fn to_json(self) -> Value {
        match self {
            RopeScaling::None => Value::Null,
            RopeScaling::Linear { factor } => json!({"rope_type": "linear", "factor": factor}),
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max } => json!({
                "rope_type": "llama3", "factor": factor, "low_freq_factor": low_freq_factor,
                "high_freq_factor": high_freq_factor, "original_max_position_embeddings": original_max as u64,
            }),
        }
    }
}

impl ModelConfig {
    /// Rotary frequencies, radians per position, one per pair of a head.
    pub fn frequencies(&self) -> Vec<f64> {
        let d = self.head_dim as f64;
        let plain = (0..self.head_dim / 2).map(|i| self.rope_theta.powf(-2.0 * i as f64 / d));
        plain.map(|f| self.rope_scaling.apply(f)).collect()
    }
}

/// The implemented fields of `rope_scaling` and `rope_parameters`.
const KNOWN: [&str; 8] = [
    "rope_type",
    "type",
    "rope_theta",
    "partial_rotary_factor",
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "original_max_position_embeddings",
];
/// Fields that scale nothing.
const NO_SCALING: [&str; 4] = ["rope_type", "type", "rope_theta", "partial_rotary_factor"];

/// `rope_theta` next to `rope_scaling` (transformers 4), or both in `rope_parameters` (transformers 5). Where a file has both objects transformers
/// takes
/// `rope_scaling`, and its base from `rope_theta` alone, so the two must say the same.
pub(super) fn read(fields: &Fields<'_>) -> Result<(f64, RopeScaling)> {
    let there = |field: &'static str| fields.get(field).filter(|value| !is_off(value));
    match (there("rope_scaling"), there("rope_parameters")) {
        (None, None) => Ok((base(fields)?, RopeScaling::None)),
        (Some(value), None) => object(fields, "rope_scaling", value),
        (None, Some(value)) => object(fields, "rope_parameters", value),
        (Some(old), Some(new)) => {
            let (of_old, of_new) =
                (object(fields, "rope_scaling", old)?, object(fields, "rope_parameters", new)?);
            if of_old != of_new {
                let reason = format!(
                    "`rope_parameters` says {new}, which is another scaling or base; leave one of them out"
                );
                return fields.refuse("rope_scaling", reason);
            }
            Ok(of_old)
        }
    }
}

/// The base of the frequencies.
fn base(fields: &Fields<'_>) -> Result<f64> {
    fields.positive("rope_theta", Some(10_000.0), limits::ROPE_THETA)
}

/// One of the two objects.
fn object(fields: &Fields<'_>, field: &str, value: &Value) -> Result<(f64, RopeScaling)> {
    let Value::Object(map) = value else {
        return fields.refuse(field, "an object is needed");
    };
    let prefix = format!("{field}.");
    let inner = Fields { map, file: fields.file, prefix: &prefix };
    let theta = match inner.has("rope_theta") {
        true => inner.positive("rope_theta", None, limits::ROPE_THETA)?,
        false => base(fields)?,
    };
    if fields.has("rope_theta") && base(fields)? != theta {
        return inner.refuse(
            "rope_theta",
            format!("`rope_theta` next to it is {}; leave one of them out", base(fields)?),
        );
    }
    if inner.get("partial_rotary_factor").is_some_and(|factor| factor.as_f64() != Some(1.0)) {
        return inner.refuse("partial_rotary_factor", "only 1 is implemented");
    }
    if let Some(unknown) = map.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return inner.refuse(unknown, format!("not implemented; known are {}", KNOWN.join(", ")));
    }
    let kind = inner.one_of(["rope_type", "type"])?;
    let scaling = match inner.get(kind).map(|v| v.as_str().unwrap_or("")) {
        // transformers 5 leaves the type out where the base is all there is.
        None if map.keys().all(|key| NO_SCALING.contains(&key.as_str())) => RopeScaling::None,
        None => return inner.refuse("rope_type", "default, linear and llama3 are implemented"),
        Some("default") => RopeScaling::None,
        Some("linear") => {
            RopeScaling::Linear { factor: inner.positive("factor", None, limits::ROPE_FACTOR)? }
        }
        Some("llama3") => {
            let low_freq_factor = inner.positive("low_freq_factor", None, limits::ROPE_FACTOR)?;
            let high_freq_factor = inner.positive("high_freq_factor", None, limits::ROPE_FACTOR)?;
            if high_freq_factor <= low_freq_factor {
                return inner.refuse(
                    "high_freq_factor",
                    format!("it must exceed low_freq_factor = {low_freq_factor}"),
                );
            }
            RopeScaling::Llama3 {
                factor: inner.positive("factor", None, limits::ROPE_FACTOR)?,
                low_freq_factor,
                high_freq_factor,
                original_max: inner.positive(
                    "original_max_position_embeddings",
                    None,
                    limits::POSITIONS as f64,
                )?,
            }
        }
        Some(_) => return inner.refuse(kind, "default, linear and llama3 are implemented"),
    };
    Ok((theta, scaling))
}
