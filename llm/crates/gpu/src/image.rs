//! Machine code of the kernels: its target, and its file on disk, so that it is compiled once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use grpo_lambda_decoder::device::Dtype;
use grpo_lambda_decoder::disk::Disk;
use grpo_lambda_decoder::model::weights::fnv;

/// The compiler's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Machine code for this compute capability: nothing is left for the driver to do.
    Machine(u32),
    /// Portable code that the driver translates, for a card newer than the compiler.
    Portable(u32),
}

impl Target {
    /// The best for a card of this compute capability (90 is 9.0), from a compiler that knows these.
    pub(crate) fn best(capability: u32, known: &[u32]) -> Option<Target> {
        if known.contains(&capability) {
            return Some(Target::Machine(capability));
        }
        known.iter().copied().filter(|c| *c < capability).max().map(Target::Portable)
    }

    /// Its name in the compiler's options.
    pub(crate) fn architecture(self) -> String {
        match self {
            Target::Machine(c) => format!("sm_{c}"),
            Target::Portable(c) => format!("compute_{c}"),
        }
    }
}

/// Everything that the machine code depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CacheKey {
    pub(crate) target: Target,
    /// Storage of weights and activations.
    pub(crate) dtype: Dtype,
    /// Major and minor version of the compiler.
    pub(crate) compiler: (i32, i32),
    /// The compiler's options.
    pub(crate) options: Vec<String>,
    /// The source.
    pub(crate) source: String,
}

impl CacheKey {
    fn text(&self) -> String {
        let (major, minor) = self.compiler;
        let (target, dtype) = (self.target.architecture(), self.dtype.name());
        format!("{target}\n{dtype}\nNVRTC {major}.{minor}\n{}\n{}", self.options.join(" "), self.source)
    }

    /// Name of the file.
    pub(crate) fn file_name(&self) -> String {
        let (target, dtype) = (self.target.architecture(), self.dtype.name());
        format!("kernels-{target}-{dtype}-{:016x}.bin", fnv(&self.text()))
    }

    /// The file: the key itself, since names may collide, the code, and a checksum of both.
    pub(crate) fn encode(&self, code: &[u8]) -> Vec<u8> {
        let text = self.text();
        let mut out = MAGIC.to_vec();
        for part in [text.as_bytes(), code] {
            out.extend((part.len() as u64).to_le_bytes());
            out.extend(part);
        }
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        out
    }

    /// The code in a file; `None` when it was damaged, cut off, or is of another key.
    pub(crate) fn decode<'a>(&self, file: &'a [u8]) -> Option<&'a [u8]> {
        let (body, sum) = file.split_last_chunk::<4>()?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*sum) {
            return None;
        }
        let (text, rest) = part(body.strip_prefix(MAGIC)?)?;
        let (code, rest) = part(rest)?;
        (text == self.text().as_bytes() && rest.is_empty() && !code.is_empty()).then_some(code)
    }
}

const MAGIC: &[u8] = b"grpo-lambda kernels 1\n";

fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
}

/// The code of `key`: from its file in `directory` where that is whole, else what `compile` makes, which is stored there. With a warning
/// when it could not be stored; that is no reason to fail.
pub(crate) fn load_or_compile<E>(
    key: &CacheKey,
    directory: Option<&Path>,
    compile: impl FnOnce() -> Result<Vec<u8>, E>,
) -> Result<(Vec<u8>, Option<String>), E> {
    let disk = Disk::default();
    let path = directory.map(|directory| directory.join(key.file_name()));
    let file = path.as_ref().and_then(|path| disk.read(path).ok().flatten());
    if let Some(code) = file.as_deref().and_then(|file| key.decode(file)) {
        return Ok((code.to_vec(), None));
    }
    let code = compile()?;
    let store = |path: &Path| {
        disk.create_directories(path.parent().unwrap_or(Path::new(".")))?;
        disk.replace(path, &key.encode(&code))
    };
    let failed = path.and_then(|path| store(&path).err());
    let warning = failed.map(|e| {
        format!(
            "the kernels are compiled again at the next start: {e}; GRPO_LAMBDA_CACHE names another directory"
        )
    });
    Ok((code, warning))
}

/// The directory of the files: `GRPO_LAMBDA_CACHE`, or `grpo-lambda` under `XDG_CACHE_HOME` or `~/.cache`; `None` if none of these is set.
pub(crate) fn directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("GRPO_LAMBDA_CACHE").or_else(|| {
        // A relative path there is to be ignored, says the specification.
        let cache = set("XDG_CACHE_HOME").filter(|p| p.is_absolute());
        Some(cache.or_else(|| set("HOME").map(|home| home.join(".cache")))?.join("grpo-lambda"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> CacheKey {
        CacheKey {
            target: Target::Machine(90),
            dtype: Dtype::Bf16,
            compiler: (13, 0),
            options: vec!["-std=c++17".to_owned()],
            source: "void f() {}".to_owned(),
        }
    }

    #[test]
    fn a_card_newer_than_the_compiler_gets_portable_code_and_one_too_old_nothing() {
        let targets = [90, 107, 61].map(|capability| Target::best(capability, &[75, 80, 90]));
        assert_eq!(targets, [Some(Target::Machine(90)), Some(Target::Portable(90)), None]);
    }

    #[test]
    fn a_file_gives_back_its_code_and_a_damaged_one_nothing() {
        let (one, code) = (key(), [7_u8, 0, 255, 1]);
        let file = one.encode(&code);
        assert_eq!(one.decode(&file), Some(&code[..]));
        for length in 0..file.len() {
            assert_eq!(one.decode(&file[..length]), None, "cut off after {length}");
        }
        for place in 0..file.len() {
            let mut damaged = file.clone();
            damaged[place] ^= 0x10;
            assert_eq!(one.decode(&damaged), None, "byte {place}");
        }
        assert_eq!(one.decode(&one.encode(&[])), None);
    }

    #[test]
    fn whatever_changes_the_code_changes_the_name_and_refuses_the_file() {
        let one = key();
        let others = [
            CacheKey { target: Target::Portable(90), ..one.clone() },
            CacheKey { target: Target::Machine(80), ..one.clone() },
            CacheKey { dtype: Dtype::F32, ..one.clone() },
            CacheKey { compiler: (13, 1), ..one.clone() },
            CacheKey { options: vec!["-std=c++20".to_owned()], ..one.clone() },
            CacheKey { source: "void g() {}".to_owned(), ..one.clone() },
        ];
        for other in &others {
            assert_ne!(other.file_name(), one.file_name());
            // Even if the names were the same.
            assert_eq!(one.decode(&other.encode(&[1])), None, "{other:?}");
        }
        assert_eq!(one.file_name(), key().file_name());
        assert!(one.file_name().starts_with("kernels-sm_90-bf16-"), "{}", one.file_name());
    }

    #[test]
    fn kernels_are_compiled_once_and_again_when_their_file_is_damaged() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let directory = place.path().join("a/b");
        let (one, mut compiled) = (key(), 0);
        let mut get = |one: &CacheKey| {
            let made = load_or_compile(one, Some(&directory), || {
                compiled += 1;
                Ok::<_, ()>(vec![compiled, 9])
            });
            made.expect("compiles")
        };
        assert_eq!([get(&one), get(&one)], [(vec![1, 9], None), (vec![1, 9], None)]);
        let path = directory.join(one.file_name());
        let whole = std::fs::read(&path).expect("it was kept");
        for damaged in [&whole[..whole.len() - 1], b"", &[0; 200]] {
            std::fs::write(&path, damaged).expect("writable");
            let again = get(&one);
            assert_eq!((again.1, get(&one).0), (None, again.0), "compiled, and kept again");
        }
        let other = CacheKey { compiler: (13, 1), ..key() };
        assert_eq!(get(&other).0, [5, 9]);
        assert_eq!(load_or_compile(&key(), None, || Ok::<_, ()>(vec![1])), Ok((vec![1], None)));
        assert_eq!(load_or_compile(&key(), None, || Err("no")), Err("no"));
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_reported_and_does_no_harm() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let file = place.path().join("file");
        std::fs::write(&file, "in the way").expect("writable");
        let (code, warning) =
            load_or_compile(&key(), Some(&file), || Ok::<_, ()>(vec![3])).expect("compiles");
        let warning = warning.expect("a line");
        assert!(code == [3] && warning.contains("file") && !warning.contains('\n'), "{warning}");
    }

    #[test]
    fn the_cache_is_where_the_environment_says() {
        let at = |set: &[(&str, &str)]| {
            let found = |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v));
            directory(found).map(|p| p.display().to_string())
        };
        let all = [("GRPO_LAMBDA_CACHE", "/mine"), ("XDG_CACHE_HOME", "/xdg"), ("HOME", "/home/a")];
        assert_eq!(at(&all).as_deref(), Some("/mine"));
        assert_eq!(at(&all[1..]).as_deref(), Some("/xdg/grpo-lambda"));
        assert_eq!(at(&all[2..]).as_deref(), Some("/home/a/.cache/grpo-lambda"));
        let relative = [("GRPO_LAMBDA_CACHE", ""), ("XDG_CACHE_HOME", "xdg"), ("HOME", "/home/a")];
        assert_eq!(at(&relative).as_deref(), Some("/home/a/.cache/grpo-lambda"));
        assert_eq!(at(&[]), None);
    }
}
