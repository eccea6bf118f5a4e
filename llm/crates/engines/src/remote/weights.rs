//! Weights on their way to a server: a checkpoint on disk, which it reads.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use grpo_lambda_decoder::disk::{Disk, read_regular_text};
use grpo_lambda_decoder::model::weights::{self, Parameters, SaveDtype, Tensor};
use grpo_lambda_decoder::model::{Error, ModelConfig};
use grpo_lambda_trainer::run::{RunId, read_id};
use grpo_lambda_trainer::step::engine::Engine;

/// The file that marks a directory as a hand-over, with the number of its run.
pub const MARK: &str = "llm-train-run";
/// The tensor that a server with a tied head does not read from the embedding, which vLLM keeps twice on the CPU.
const HEAD: &str = "lm_head.weight";

/// The directory in which a run hands checkpoints over. Nothing there is removed that does not carry the run's mark.
#[derive(Debug)]
pub struct HandOver {
    directory: PathBuf,
    /// The directory of the run.
    pub run: PathBuf,
    /// The number of the run, once a checkpoint was handed over.
    id: Option<RunId>,
    /// True if the directory was not there before.
    made: bool,
    /// The latest checkpoint, with the engine's steps then.
    current: Option<(PathBuf, u64)>,
}

impl HandOver {
    pub fn new(directory: PathBuf, run: PathBuf) -> Self {
        HandOver { directory, run, id: None, made: false, current: None }
    }

    /// The directory with the engine's weights, written if they have moved. Older ones are removed.
    pub fn directory(&mut self, engine: &dyn Engine) -> Result<PathBuf, Error> {
        let steps = engine.steps();
        if let Some((current, _)) = self.current.as_ref().filter(|(_, then)| *then == steps) {
            return Ok(current.clone());
        }
        let id = read_id(&Disk::default(), &self.run).map_err(|e| io::Error::other(e.to_string()));
        let id = id.and_then(|id| id.ok_or_else(|| io::Error::other("the run has no number yet")));
        let path = id.and_then(|id| self.next(id));
        let path = path.map_err(|source| Error::Io { path: self.directory.clone(), source })?;
        let (shape, parameters) = untied(engine.shape(), engine.parameters()?);
        weights::save(&path, &shape, &parameters, SaveDtype::F32, usize::MAX)?;
        self.current = Some((path.clone(), steps));
        Ok(path)
    }

    /// A new directory with the mark of the run `id`; those before it are removed.
    pub fn next(&mut self, id: RunId) -> io::Result<PathBuf> {
        self.made |= !self.directory.exists();
        fs::create_dir_all(&self.directory)?;
        remove_own(&self.directory, &id)?;
        let parent = std::path::absolute(&self.directory)?;
        // Whatever has the name of one and no mark stays.
        let names = (1..).map(|number| parent.join(format!("{}{number}", prefix(&id))));
        let path = names.into_iter().find(|path| path.symlink_metadata().is_err()).unwrap_or(parent);
        fs::create_dir(&path)?;
        fs::write(path.join(MARK), format!("{id}\n"))?;
        self.id = Some(id);
        Ok(path)
    }
}

impl Drop for HandOver {
    /// A server holds what it has read; nobody reads these again.
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            drop(remove_own(&self.directory, id));
        }
        if self.made {
            drop(fs::remove_dir(&self.directory));
        }
    }
}

/// The beginning of the names that directories of a run have; a number follows.
fn prefix(id: &RunId) -> String {
    format!("weights-{id}-")
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

/// Removes the checkpoints that the run `id` handed over, also where it was killed: the mark of each last, and no directory within.
fn remove_own(directory: &Path, id: &RunId) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(&prefix(id)));
        if number.is_none_or(|n| n.parse::<u64>().is_err()) || !entry.file_type()?.is_dir() {
            continue;
        }
        let (path, mark) = (entry.path(), entry.path().join(MARK));
        if read_regular_text(&mark, 64).is_ok_and(|text| text.trim() == id.to_string()) {
            for file in fs::read_dir(&path)? {
                let file = file?;
                if !file.file_type()?.is_dir() && file.path() != mark {
                    fs::remove_file(file.path())?;
                }
            }
            fs::remove_file(&mark)?;
        }
        // It goes only if it is empty, as one that was killed before it had a mark is.
        drop(fs::remove_dir(&path));
    }
    Ok(())
}
