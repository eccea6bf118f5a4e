//! Weights on their way to a server: a checkpoint on disk, which it reads.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use grpo_lambda_decoder::model::weights::{self, Parameters, SaveDtype, Tensor};
use grpo_lambda_decoder::model::{Error, ModelConfig};
use grpo_lambda_trainer::step::engine::Engine;

/// The directories of a hand-over are these with a number.
const NAME: &str = "weights-";
/// The tensor that a server with a tied head does not read from the embedding, which vLLM keeps twice on the CPU.
const HEAD: &str = "lm_head.weight";

/// The directory in which checkpoints are handed over.
#[derive(Debug)]
pub(super) struct HandOver {
    directory: PathBuf,
    /// True if the directory was not there before.
    made: bool,
    count: u64,
    /// The latest, with the engine's steps then.
    current: Option<(PathBuf, u64)>,
}

impl HandOver {
    pub(super) fn new(directory: PathBuf) -> Self {
        HandOver { directory, made: false, count: 0, current: None }
    }

    /// The directory with the engine's weights, written if they have moved. Older ones are removed.
    pub(super) fn directory(&mut self, engine: &dyn Engine) -> Result<PathBuf, Error> {
        let steps = engine.steps();
        if let Some((current, _)) = self.current.as_ref().filter(|(_, then)| *then == steps) {
            return Ok(current.clone());
        }
        let io = |source: io::Error| Error::Io { path: self.directory.clone(), source };
        self.made |= !self.directory.exists();
        fs::create_dir_all(&self.directory).map_err(io)?;
        remove_all(&self.directory).map_err(io)?;
        self.count += 1;
        let path = std::path::absolute(self.directory.join(format!("{NAME}{}", self.count))).map_err(io)?;
        let (shape, parameters) = untied(engine.shape(), engine.parameters()?);
        weights::save(&path, &shape, &parameters, SaveDtype::F32, usize::MAX)?;
        self.current = Some((path.clone(), steps));
        Ok(path)
    }
}

impl Drop for HandOver {
    /// A server holds what it has read; nobody reads these again.
    fn drop(&mut self) {
        if self.count > 0 {
            drop(remove_all(&self.directory));
        }
        if self.made {
            drop(fs::remove_dir(&self.directory));
        }
    }
}

/// The model with a head of its own; only if the head is tied are the weights copied.
fn untied<'p>(
    shape: &ModelConfig,
    parameters: Cow<'p, Parameters<f32>>,
) -> (ModelConfig, Cow<'p, Parameters<f32>>) {
    if !shape.tie_word_embeddings {
        return (shape.clone(), parameters);
    }
    let mut parameters = parameters.into_owned();
    let embedding: Option<Tensor<f32>> = parameters.get(weights::head_name(shape)).cloned();
    parameters.extend(embedding.map(|embedding| (HEAD.to_owned(), embedding)));
    (ModelConfig { tie_word_embeddings: false, ..shape.clone() }, Cow::Owned(parameters))
}

/// Removes what a hand-over wrote here, also one that was killed; files of other names stay.
fn remove_all(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(NAME));
        if number.is_some_and(|n| n.parse::<u64>().is_ok()) && entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}
