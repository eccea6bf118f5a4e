//! `sim new-method`: the files of a method of one's own, with its tests, in a clone of the repository.

use crate::failure::{Failure, quoted};
use crate::terminal;
use crate::write::atomically;
use grpo_lambda::methods;
use std::path::{Path, PathBuf};

/// The command's arguments.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct NewMethodArgs {
    /// The method's name: lower-case letters, digits and _, as in median_baseline
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The clone of the repository
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub root: PathBuf,
}

const AFTER_HELP: &str = "\
It writes src/methods/NAME.rs, a method that compiles and passes its tests, and tests/theory/ground_truth/NAME.rs, and declares both. \
Replace formula, equation and expected update by your own.

Example:
  sim new-method median_baseline";

const METHOD: &str = include_str!("method.rs.txt");
const TEST: &str = include_str!("test.rs.txt");
pub const METHODS: &str = "src/methods/mod.rs";
pub const TESTS: &str = "tests/theory/ground_truth/mod.rs";

/// Writes the files, all or none, and says what is next.
///
/// # Errors
/// [`Failure::Refused`] for a name that is none or taken, and for a folder that is no clone.
pub fn run(args: &NewMethodArgs) -> Result<(), Failure> {
    let (name, root) = (args.name.as_str(), args.root.as_path());
    check(name)?;
    let files = files(name, root)?;
    for (path, content) in &files {
        atomically(&root.join(path), content.as_bytes()).map_err(|e| Failure::Failed(format!("{e:#}")))?;
    }
    let written: String =
        files.iter().map(|(path, _)| format!("  {}\n", root.join(path).display())).collect();
    terminal::print(&format!(
        "Written:\n{written}\nNext:\n  cargo test {name}\n      its advantages and expected update, which hold as written\n  \
         UPDATE_DOCS=1 cargo test equation\n      its equations\n  cargo test\n      \
         what every method must fulfil\nThen step 3 of \"To add a method\" in CONTRIBUTING.md.\n"
    ))
}

/// The words that Rust keeps for itself and that a name of a method could be.
const KEYWORDS: &str = "abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen if impl in \
    let loop macro match mod move mut override priv pub ref return self static struct super trait true try type typeof unsafe unsized use \
    virtual where while yield";

fn check(name: &str) -> Result<(), Failure> {
    let refused = |why: &str| Err(Failure::Refused(format!("{}: {why}", quoted(name))));
    if KEYWORDS.split_whitespace().any(|word| word == name) {
        return refused("is a word of Rust; choose another");
    }
    let letters = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if !letters || !name.starts_with(|c: char| c.is_ascii_lowercase()) || name == "shared" {
        return refused(
            "must be lower-case letters, digits and _, beginning with a letter, as in median_baseline",
        );
    }
    match methods::find(name) {
        Ok(_) => refused("a method of this name exists; choose another"),
        Err(_) => Ok(()),
    }
}

/// The files with their contents, by their paths in the clone.
fn files(name: &str, root: &Path) -> Result<Vec<(String, String)>, Failure> {
    let read = |path: &str| {
        let file = root.join(path);
        std::fs::read_to_string(&file).map_err(|e| {
            Failure::Refused(format!("{}: {e}; --root must be a clone of grpo-lambda", file.display()))
        })
    };
    let (method, test) = (format!("src/methods/{name}.rs"), format!("tests/theory/ground_truth/{name}.rs"));
    if let Some(path) = [&method, &test].into_iter().find(|path| root.join(path).exists()) {
        return Err(Failure::Refused(format!(
            "{}: it exists; choose another name",
            root.join(path).display()
        )));
    }
    let odd = |path: &str| {
        Failure::Refused(format!("{path}: not the file that this program knows; declare {name} by hand"))
    };
    let methods = declared(&read(METHODS)?, "pub mod", name).and_then(|text| registered(&text, name));
    let tests = declared(&read(TESTS)?, "mod", name);
    let title: String = name.split('_').map(capital).collect::<Vec<_>>().join(" ");
    let filled = |text: &str| text.replace("NAME", name).replace("TITLE", &title);
    Ok(vec![
        (method, filled(METHOD)),
        (test, filled(TEST)),
        (METHODS.to_owned(), methods.ok_or_else(|| odd(METHODS))?),
        (TESTS.to_owned(), tests.ok_or_else(|| odd(TESTS))?),
    ])
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

/// `text` with the module declared by `keyword` in its place among those declared so, which are in alphabetical order.
fn declared(text: &str, keyword: &str, name: &str) -> Option<String> {
    let line = format!("{keyword} {name};");
    let modules = || text.lines().enumerate().filter(|(_, l)| l.starts_with(keyword) && l.ends_with(';'));
    let before = modules().find(|(_, l)| *l > line.as_str()).map(|(i, _)| i);
    let at = before.or_else(|| modules().last().map(|(i, _)| i + 1))?;
    Some(inserted(text, at, &line))
}

/// `text` with the method at the end of the registry.
fn registered(text: &str, name: &str) -> Option<String> {
    let start = text.lines().position(|l| l.starts_with("pub static REGISTRY"))?;
    let end = text.lines().skip(start).position(|l| l == "];")? + start;
    Some(inserted(text, end, &format!("    &{name}::SPEC,")))
}

fn inserted(text: &str, at: usize, line: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.insert(at, line);
    lines.join("\n") + "\n"
}
