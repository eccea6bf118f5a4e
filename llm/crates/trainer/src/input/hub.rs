//! The cache of the Hugging Face hub with the data sets and models that `hf download` brought. Nothing is downloaded here.

use std::path::{Path, PathBuf};

/// The content of a hub repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepositoryKind {
    Model,
    Dataset,
}

impl RepositoryKind {
    /// The prefix of its name in the cache.
    fn prefix(self) -> &'static str {
        match self {
            RepositoryKind::Model => "models",
            RepositoryKind::Dataset => "datasets",
        }
    }

    /// The option of the download command.
    fn option(self) -> &'static str {
        match self {
            RepositoryKind::Model => "",
            RepositoryKind::Dataset => "--repo-type dataset ",
        }
    }

    /// The command that downloads it.
    pub fn download(self, name: &str) -> String {
        format!("hf download {}{name}", self.option())
    }
}

/// The cache of the Hugging Face hub: `HF_HUB_CACHE` (once called `HUGGINGFACE_HUB_CACHE`), or `hub` under `HF_HOME`, or `huggingface/hub` under `XDG_CACHE_HOME` or `~/.cache`.
pub fn hub_cache() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = || {
        let cache = variable("XDG_CACHE_HOME")
            .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
            .unwrap_or_else(|| PathBuf::from(".cache"));
        cache.join("huggingface")
    };
    variable("HF_HUB_CACHE")
        .or_else(|| variable("HUGGINGFACE_HUB_CACHE"))
        .unwrap_or_else(|| variable("HF_HOME").unwrap_or_else(home).join("hub"))
}

/// True for a name of the hub: `owner/name`.
pub fn is_hub_name(text: &str) -> bool {
    text.split_once('/').is_some_and(|(owner, name)| is_name(owner) && is_name(name))
}

/// True for one of the two parts of such a name.
fn is_name(part: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !part.is_empty() && !part.starts_with('.') && part.chars().all(letter)
}

/// The snapshot of a repository in `cache`: what `refs/main` names, or the only one there is.
///
/// # Errors
/// A line with the command that downloads it, or with the snapshots to choose from.
pub fn snapshot(kind: RepositoryKind, repository: &str, cache: &Path) -> Result<PathBuf, String> {
    let directory = cache.join(format!("{}--{}", kind.prefix(), repository.replace('/', "--")));
    let snapshots = directory.join("snapshots");
    let main = std::fs::read_to_string(directory.join("refs").join("main"));
    let named = main.ok().map(|r| r.trim().to_owned());
    if let Some(snapshot) = named.as_ref().map(|name| snapshots.join(name)).filter(|s| s.is_dir()) {
        return Ok(snapshot);
    }
    let entries = std::fs::read_dir(&snapshots).into_iter().flatten().flatten().map(|e| e.path());
    let mut found: Vec<PathBuf> = entries.filter(|p| p.is_dir()).collect();
    found.sort();
    match found.as_slice() {
        // `hf` writes the name first: without the snapshot that it names, a download is under way or was stopped.
        [..] if named.as_ref().is_some_and(|named| !named.is_empty()) && !found.is_empty() => Err(format!(
            "{repository}: refs/main names the snapshot {}, which is not in {}: a download is under way or was stopped; run `{}` again, or give \
             the path of a snapshot",
            named.unwrap_or_default(),
            snapshots.display(),
            kind.download(repository)
        )),
        [one] => Ok(one.clone()),
        [] => {
            let command = kind.download(repository);
            Err(format!(
                "{repository}: neither a path nor in the Hugging Face cache {}; download it with `{command}` (older versions: \
                 `huggingface-cli {}`)",
                cache.display(),
                command.trim_start_matches("hf ")
            ))
        }
        several => Err(format!(
            "{repository}: {} snapshots in {} and no refs/main that says which; give the path of one of them",
            several.len(),
            snapshots.display()
        )),
    }
}
