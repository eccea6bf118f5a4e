//! Sampled responses as TRL writes them: `completions/completions_00007.parquet`, one file per step.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use serde_json::{Map, Value};

use super::{ExportError, Files, objects};

/// The responses kept in `samples.jsonl`, a file per step with the columns `step`, `prompt`, `completion`, one for each
/// component of the reward, and
/// `advantage`. A run does not record advantages, so that column is null.
pub fn completions(run: &Path) -> Result<Files, ExportError> {
    let path = run.join("samples.jsonl");
    let mut steps: BTreeMap<u64, Vec<Map<String, Value>>> = BTreeMap::new();
    for (i, sample) in objects(run, "samples.jsonl")?.into_iter().enumerate() {
        let step = sample.get("step").and_then(Value::as_u64).ok_or_else(|| ExportError::Content {
            place: format!("{}:{}", path.display(), i + 1),
            problem: "step is missing, so it is no sampled response".to_owned(),
        })?;
        steps.entry(step).or_default().push(sample);
    }
    let one = |(step, samples): (&u64, &Vec<Map<String, Value>>)| {
        Ok((format!("completions/completions_{step:05}.parquet"), table(*step, samples)?))
    };
    steps.iter().map(one).collect()
}

/// The responses of a step as Parquet.
fn table(step: u64, samples: &[Map<String, Value>]) -> Result<Vec<u8>, ParquetError> {
    let rewards = |sample: &Map<String, Value>| sample.get("rewards").and_then(Value::as_object).cloned();
    let names: BTreeSet<String> =
        samples.iter().filter_map(rewards).flat_map(|r| r.into_iter().map(|(k, _)| k)).collect();
    let mut schema = String::new();
    for name in ["step", "prompt", "completion"] {
        schema += &format!("REQUIRED BYTE_ARRAY {name} (STRING); ");
    }
    let numbers: Vec<&str> = names.iter().map(String::as_str).chain(["advantage"]).collect();
    numbers.iter().for_each(|name| schema += &format!("OPTIONAL DOUBLE {name}; "));
    let schema = Arc::new(parse_message_type(&format!("message completions {{ {schema} }}"))?);
    let properties = Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties)?;
    let mut group = writer.next_row_group()?;
    let text = |sample: &Map<String, Value>, key: &str| {
        sample.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    texts(&mut group, samples.iter().map(|_| step.to_string()))?;
    texts(&mut group, samples.iter().map(|s| text(s, "prompt")))?;
    texts(&mut group, samples.iter().map(|s| text(s, "response")))?;
    for name in numbers {
        let known = samples.iter().map(|s| s.get("rewards").and_then(|r| r.get(name)?.as_f64()));
        optional(&mut group, &known.collect::<Vec<_>>())?;
    }
    group.close()?;
    writer.close()?;
    Ok(bytes)
}

fn texts(
    group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    texts: impl Iterator<Item = String>,
) -> Result<(), ParquetError> {
    let values: Vec<ByteArray> = texts.map(|text| ByteArray::from(text.into_bytes())).collect();
    if let Some(mut column) = group.next_column()? {
        column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
        column.close()?;
    }
    Ok(())
}

fn optional(
    group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    values: &[Option<f64>],
) -> Result<(), ParquetError> {
    let known: Vec<f64> = values.iter().flatten().copied().collect();
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    if let Some(mut column) = group.next_column()? {
        column.typed::<DoubleType>().write_batch(&known, Some(&levels), None)?;
        column.close()?;
    }
    Ok(())
}
