//! From the files of a crate to the graph of its top-level modules.

use super::graph::Graph;
use super::source::{tokens, without_tests};
use std::collections::BTreeSet;

/// A file: its path from the crate's `src`, with `/` between folders, and its text.
pub(super) type File = (String, String);

/// A file that is compiled outside tests, too.
struct Compiled {
    file: String,
    module: Vec<String>,
    tokens: Vec<String>,
}

/// The imports of a crate's files.
pub(super) struct Imports {
    /// The file, its module, and the paths it names, seen from the crate's root.
    named: Vec<(String, Vec<String>, BTreeSet<Vec<String>>)>,
}

/// The files of a crate that are compiled outside tests, with their tokens there.
pub(super) fn compiled(files: &[File]) -> Vec<(String, Vec<String>)> {
    compiled_modules(files).into_iter().map(|c| (c.file, c.tokens)).collect()
}

fn compiled_modules(files: &[File]) -> Vec<Compiled> {
    let mut test_only: Vec<Vec<String>> = Vec::new();
    let mut compiled = Vec::new();
    for (file, text) in files {
        let module = module_of(file);
        let (kept, tests) = without_tests(&tokens(text));
        test_only.extend(tests.into_iter().map(|name| [module.clone(), vec![name]].concat()));
        compiled.push(Compiled { file: file.clone(), module, tokens: kept });
    }
    compiled.retain(|c| !test_only.iter().any(|m| c.module.starts_with(m)));
    compiled
}

/// Reads the imports of a crate. What `lib.rs` and `main.rs` name is no import of a module, and neither is what stands in tests.
pub(super) fn read(files: &[File]) -> Imports {
    let modules = compiled_modules(files).into_iter().filter(|c| !c.module.is_empty());
    let named = modules.map(|Compiled { file, module, tokens }| {
        let paths = imported_paths(&module, &tokens);
        (file, module, paths)
    });
    Imports { named: named.collect() }
}

impl Imports {
    /// Every module that has modules of its own, the crate itself first.
    pub(super) fn folders(&self) -> BTreeSet<Vec<String>> {
        self.named.iter().flat_map(|(_, module, _)| (0..module.len()).map(|n| module[..n].to_vec())).collect()
    }

    /// The imports between the modules directly under `folder`. What the folder's own file names is no import of these.
    pub(super) fn graph(&self, folder: &[String]) -> Graph {
        let child = |path: &[String]| path.strip_prefix(folder).and_then(|rest| rest.first()).cloned();
        let modules: BTreeSet<String> = self.named.iter().filter_map(|(_, m, _)| child(m)).collect();
        let mut graph = Graph::default();
        for (file, module, paths) in &self.named {
            let Some(from) = child(module) else { continue };
            for to in paths.iter().filter_map(|path| child(path)) {
                if to != from && modules.contains(&to) {
                    graph.add(&from, &to, file);
                }
            }
        }
        graph
    }
}

/// The module path of a file: `a/b.rs` and `a/b/mod.rs` are `a::b`; that of `lib.rs` and `main.rs` is empty.
fn module_of(file: &str) -> Vec<String> {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let mut path: Vec<String> = stem.split('/').map(str::to_owned).collect();
    let is_root = path.len() == 1 && (path[0] == "lib" || path[0] == "main");
    if is_root || path.last().is_some_and(|last| last == "mod") {
        path.pop();
    }
    path
}

/// Every path that begins with `crate`, `super` or `self`, seen from the crate's root.
fn imported_paths(module: &[String], tokens: &[String]) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    // The module we are in, and at which depth of braces each inline module of it began.
    let (mut here, mut began) = (module.to_vec(), Vec::new());
    let mut depth = 0;
    let mut at = 0;
    while at < tokens.len() {
        let is_path = tokens.get(at + 1).is_some_and(|next| next == "::");
        match tokens[at].as_str() {
            "mod" if tokens.get(at + 2).is_some_and(|t| t == "{") => {
                here.push(tokens[at + 1].clone());
                began.push(depth);
                at += 1;
            }
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                if began.last() == Some(&depth) {
                    began.pop();
                    here.pop();
                }
            }
            "crate" | "super" | "self" if is_path => {
                at = follow(tokens, at, &here, &here, &mut found);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Reads the path or tree of paths at `at`, which continues `base`, and notes each as seen from the crate's root.
/// `here` is the module in which it stands. Returns the place after what was read.
fn follow(
    tokens: &[String],
    mut at: usize,
    base: &[String],
    here: &[String],
    found: &mut BTreeSet<Vec<String>>,
) -> usize {
    let mut base = base.to_vec();
    loop {
        match tokens.get(at).map(String::as_str) {
            Some("crate") => base.clear(),
            Some("super") => drop(base.pop()),
            Some("self") => {}
            Some("{") => return follow_group(tokens, at, &base, here, found),
            // A glob, or the `<` of a type: the path ends before it.
            Some(name) if !name.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                found.insert(base);
                return at;
            }
            Some(name) => base.push(name.to_owned()),
            None => return at,
        }
        if tokens.get(at + 1).is_none_or(|next| next != "::") {
            found.insert(base);
            return at + 1;
        }
        at += 2;
    }
}

/// The paths between the braces that open at `at`, all of which continue `base`.
fn follow_group(
    tokens: &[String],
    mut at: usize,
    base: &[String],
    here: &[String],
    found: &mut BTreeSet<Vec<String>>,
) -> usize {
    at += 1;
    while tokens.get(at).is_some_and(|t| t != "}") {
        at = follow(tokens, at, base, here, found);
        // The rest of this path, up to the comma or the brace that ends it.
        let mut depth = 0;
        while let Some(token) = tokens.get(at) {
            match token.as_str() {
                "," if depth == 0 => break,
                "}" if depth == 0 => break,
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            at += 1;
        }
        if tokens.get(at).is_some_and(|t| t == ",") {
            at += 1;
        }
    }
    at + 1
}
