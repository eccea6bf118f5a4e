//! The files of a data set's split, at a path or by name in the Hugging Face cache.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use grpo_lambda::settings::did_you_mean;

use super::{DataError, SUMS};
use crate::input::hub::{self, RepositoryKind, hub_cache};

/// The files of one split of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetFiles {
    /// The file or directory they were found at; for a name of the hub its snapshot in the cache.
    pub root: PathBuf,
    /// The files, in the order in which they are read: by name.
    pub files: Vec<PathBuf>,
    /// The directory inside the data set that was chosen (`main` of `openai/gsm8k`).
    pub subset: Option<String>,
    /// The chosen split, if the names of files tell splits.
    pub split: Option<String>,
    /// Number of files of rows that belong to other splits and subsets, or to none.
    pub others: usize,
}

/// Endings of files that hold rows.
const KNOWN: [&str; 4] = ["jsonl", "ndjson", "json", "parquet"];

/// Words in names of files and directories, each with its split.
const SPLITS: [(&str, &str); 9] = [
    ("train", "train"),
    ("training", "train"),
    ("test", "test"),
    ("testing", "test"),
    ("validation", "validation"),
    ("valid", "validation"),
    ("val", "validation"),
    ("dev", "validation"),
    ("eval", "test"),
];

fn not_found<T>(message: String) -> Result<T, DataError> {
    Err(DataError::NotFound(message))
}

/// The files of the data set at `at`: `PATH`, or `owner/name` in [`hub_cache`], and after either `:SPLIT` or `:SUBSET/SPLIT`.
///
/// In a directory every file that ends in `.jsonl`, `.ndjson`, `.json` or `.parquet` is data, wherever it lies; hidden ones and those that describe
/// a data set (`dataset_info.json` and the like) are not. The split of a file is the first of the words train, test, validation (and
/// their usual short forms) in its name, or else in the names of its directories: `train-00000-of-00002.parquet`, `test/0000.parquet`,
/// `gsm8k_train.jsonl`. Other directories, `data` apart, are subsets. Without `:SPLIT` it is `train` where there is one, else the only one there is.
///
/// # Errors
/// [`DataError::NotFound`], with the command that downloads a data set of the hub, or with the splits and subsets there are;
/// [`DataError::Damaged`] when a shard (`-00001-of-00002`) is missing or a split is there in two formats.
pub fn locate(at: &str) -> Result<DatasetFiles, DataError> {
    let path = Path::new(at);
    if path.exists() {
        return at_path(path, None);
    }
    let (base, choice) = at.rsplit_once(':').map_or((at, None), |(base, choice)| (base, Some(choice)));
    if let (Some(choice), true) = (choice, Path::new(base).exists()) {
        return at_path(Path::new(base), Some(choice));
    }
    if hub::is_hub_name(base) && extension(Path::new(base)).is_none() {
        return directory(&in_cache(base, &hub_cache())?, base, choice);
    }
    not_found(format!(
        "{at}: no such file or directory; a data set of the Hugging Face hub is named owner/name, and {SUMS} is in this program"
    ))
}

fn at_path(path: &Path, choice: Option<&str>) -> Result<DatasetFiles, DataError> {
    if path.is_dir() {
        return directory(path, &path.display().to_string(), choice);
    }
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
    match (extension(path), choice) {
        (None, _) if ["csv", "tsv"].contains(&ending.as_str()) => not_found(format!(
            "{}: {} is not read; convert it to JSON lines, as .jsonl",
            path.display(),
            ending.to_uppercase()
        )),
        (None, _) => not_found(format!("{}: its name must end in {}", path.display(), endings())),
        (_, Some(choice)) => {
            not_found(format!("{}: a file has no split `{choice}`; leave it out", path.display()))
        }
        (Some(_), None) => Ok(DatasetFiles {
            root: path.to_owned(),
            files: vec![path.to_owned()],
            subset: None,
            split: None,
            others: 0,
        }),
    }
}

fn endings() -> String {
    let [all @ .., last] = KNOWN.map(|e| format!(".{e}"));
    format!("{} or {last}", all.join(", "))
}

/// The ending of a file of rows, in lower case.
fn extension(path: &Path) -> Option<String> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    KNOWN.contains(&ending.as_str()).then_some(ending)
}

/// The snapshot of a data set in the hub's cache.
fn in_cache(name: &str, cache: &Path) -> Result<PathBuf, DataError> {
    hub::snapshot(RepositoryKind::Dataset, name, cache).map_err(DataError::NotFound)
}

/// A file of rows in a directory.
struct Entry {
    path: PathBuf,
    subset: Option<String>,
    split: Option<&'static str>,
    ending: String,
}

/// Deepest nesting of directories.
const MAX_DEPTH: usize = 8;

fn walk(directory: &Path, depth: usize, out: &mut Vec<PathBuf>) -> Result<(), DataError> {
    let read = |source| DataError::Read { path: directory.to_owned(), source };
    let mut names: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(read)? {
        names.push(entry.map_err(read)?.path());
    }
    names.sort();
    for path in names {
        if path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.')) {
            continue;
        }
        if path.is_dir() {
            if depth < MAX_DEPTH {
                walk(&path, depth + 1, out)?;
            }
        } else {
            out.push(path);
        }
    }
    Ok(())
}

/// The split in a name's words.
fn split_of(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    words.find_map(|word| SPLITS.iter().find(|(w, _)| *w == word).map(|(_, split)| *split))
}

fn entry(root: &Path, path: PathBuf) -> Option<Entry> {
    const DESCRIPTIONS: [&str; 4] = ["dataset_info", "dataset_infos", "dataset_dict", "state"];
    let ending = extension(&path)?;
    let stem = path.file_stem()?.to_string_lossy().into_owned();
    if DESCRIPTIONS.contains(&stem.as_str()) {
        return None;
    }
    let inside =
        path.parent().and_then(|p| p.strip_prefix(root).ok()).map(Path::to_owned).unwrap_or_default();
    let directories: Vec<String> =
        inside.components().map(|c| c.as_os_str().to_string_lossy().into_owned()).collect();
    let split = split_of(&stem).or_else(|| directories.iter().rev().find_map(|d| split_of(d)));
    let subset: Vec<&str> =
        directories.iter().map(String::as_str).filter(|d| *d != "data" && split_of(d).is_none()).collect();
    let subset = (!subset.is_empty()).then(|| subset.join("/"));
    Some(Entry { path, subset, split, ending })
}

/// The files of a directory that belong to the split and the subset of `choice`.
pub fn directory(root: &Path, name: &str, choice: Option<&str>) -> Result<DatasetFiles, DataError> {
    let mut entries = entries(root, name)?;
    let all = entries.len();
    let subsets: BTreeSet<String> = entries.iter().filter_map(|e| e.subset.clone()).collect();
    let (subset, split) = parted(choice, &subsets);
    if let Some(subset) = subset {
        entries.retain(|e| e.subset.as_deref() == Some(subset));
        if entries.is_empty() {
            let hint = did_you_mean(subset, subsets.iter().map(String::as_str));
            return not_found(format!("{name}: no subset `{subset}`{hint}; there are: {}", listed(&subsets)));
        }
    }
    let wanted = wanted_split(name, split, &entries)?;
    if let Some(wanted) = &wanted {
        entries.retain(|e| e.split == Some(wanted.as_str()));
    }
    check_subsets(name, wanted.as_deref(), &entries)?;
    check_formats(name, &entries)?;
    check_shards(&entries)?;
    let subset = entries.first().and_then(|e| e.subset.clone());
    let files: Vec<PathBuf> = entries.into_iter().map(|e| e.path).collect();
    Ok(DatasetFiles { root: root.to_owned(), others: all - files.len(), files, subset, split: wanted })
}

fn listed(names: &BTreeSet<String>) -> String {
    names.iter().cloned().collect::<Vec<_>>().join(", ")
}

/// Every file of rows in a directory; at least one.
fn entries(root: &Path, name: &str) -> Result<Vec<Entry>, DataError> {
    let mut all = Vec::new();
    walk(root, 0, &mut all)?;
    let files = all.len();
    let arrow = all.iter().any(|p| p.extension().is_some_and(|e| e == "arrow"));
    let entries: Vec<Entry> = all.into_iter().filter_map(|path| entry(root, path)).collect();
    if !entries.is_empty() {
        return Ok(entries);
    }
    let hint = if arrow { "; Arrow files are not read: write Parquet with datasets' to_parquet" } else { "" };
    not_found(format!("{name}: no file that ends in {} among its {files} files{hint}", endings()))
}

/// Subset and split of `main`, `main/train` or `train`; a subset may have a slash itself.
fn parted<'c>(choice: Option<&'c str>, subsets: &BTreeSet<String>) -> (Option<&'c str>, Option<&'c str>) {
    match choice {
        None => (None, None),
        Some(choice) if subsets.contains(choice) => (Some(choice), None),
        Some(choice) => match choice.rsplit_once('/') {
            Some((subset, split)) => (Some(subset), Some(split)),
            None => (None, Some(choice)),
        },
    }
}

/// The split to read: the one named, or `train`, or the only one.
fn wanted_split(name: &str, split: Option<&str>, entries: &[Entry]) -> Result<Option<String>, DataError> {
    let splits: BTreeSet<String> = entries.iter().filter_map(|e| e.split.map(str::to_owned)).collect();
    let Some(split) = split else {
        return match splits.len() {
            _ if splits.contains("train") => Ok(Some("train".to_owned())),
            0 | 1 => Ok(splits.first().cloned()),
            _ => not_found(format!(
                "{name}: several splits: {}; choose one, as in {name}:test",
                listed(&splits)
            )),
        };
    };
    if let Some(known) = split_of(split).filter(|s| splits.contains(*s)) {
        return Ok(Some(known.to_owned()));
    }
    let there =
        if splits.is_empty() { "no file says which it belongs to".to_owned() } else { listed(&splits) };
    let hint = did_you_mean(split, splits.iter().map(String::as_str));
    not_found(format!("{name}: no split `{split}`{hint}; splits: {there}"))
}

/// Refuses a split that several subsets have.
fn check_subsets(name: &str, wanted: Option<&str>, entries: &[Entry]) -> Result<(), DataError> {
    let left: BTreeSet<Option<&str>> = entries.iter().map(|e| e.subset.as_deref()).collect();
    if left.len() < 2 {
        return Ok(());
    }
    let split = wanted.unwrap_or("train");
    let names: BTreeSet<String> = left.into_iter().flatten().map(str::to_owned).collect();
    let example = names.first().map_or(String::new(), |s| format!("{name}:{s}/{split}"));
    not_found(format!("{name}: several subsets: {}; choose one, as in {example}", listed(&names)))
}

/// Refuses a split in two formats, which would be read twice.
fn check_formats(name: &str, entries: &[Entry]) -> Result<(), DataError> {
    let endings: BTreeSet<&str> = entries.iter().map(|e| e.ending.as_str()).collect();
    if endings.len() < 2 {
        return Ok(());
    }
    let listed = endings.iter().map(|e| format!(".{e}")).collect::<Vec<_>>().join(" and ");
    let problem = format!(
        "the same split in {listed} files, which would count every row twice; give the path of one file"
    );
    Err(DataError::Damaged { path: PathBuf::from(name), problem })
}

/// Refuses an incomplete set of shards (`train-00000-of-00002`).
fn check_shards(entries: &[Entry]) -> Result<(), DataError> {
    let mut found: BTreeMap<(PathBuf, String, u64), BTreeSet<u64>> = BTreeMap::new();
    for e in entries {
        let stem = e.path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let Some((head, of)) = stem.rsplit_once("-of-") else { continue };
        let Some((name, number)) = head.rsplit_once('-') else { continue };
        let (Ok(number), Ok(of)) = (number.parse(), of.parse()) else { continue };
        let parent = e.path.parent().map(Path::to_owned).unwrap_or_default();
        found.entry((parent, name.to_owned(), of)).or_default().insert(number);
    }
    for ((parent, name, of), there) in found {
        if let Some(missing) = (0..of).find(|n| !there.contains(n)) {
            let problem =
                format!("shard {missing:05} of {of} of `{name}` is missing; {} are there", there.len());
            return Err(DataError::Damaged { path: parent, problem });
        }
    }
    Ok(())
}
