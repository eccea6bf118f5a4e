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

/// The imports between the modules directly under `src`. What `lib.rs` and `main.rs` name is no import of a module, and neither is
/// what stands in tests.
pub(super) fn graph(files: &[File]) -> Graph {
    let mut test_only: Vec<Vec<String>> = Vec::new();
    let mut compiled = Vec::new();
    for (file, text) in files {
        let module = module_of(file);
        let (kept, tests) = without_tests(&tokens(text));
        test_only.extend(tests.into_iter().map(|name| [module.clone(), vec![name]].concat()));
        compiled.push(Compiled { file: file.clone(), module, tokens: kept });
    }
    compiled.retain(|c| !c.module.is_empty() && !test_only.iter().any(|m| c.module.starts_with(m)));
    let modules: BTreeSet<String> = compiled.iter().map(|c| c.module[0].clone()).collect();
    let mut graph = Graph::default();
    for Compiled { file, module, tokens } in &compiled {
        for imported in imported_modules(module, tokens) {
            if imported != module[0] && modules.contains(&imported) {
                graph.add(&module[0], &imported, file);
            }
        }
    }
    graph
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

/// The first names of every path that begins with `crate`, `super` or `self`, seen from the crate's root.
fn imported_modules(module: &[String], tokens: &[String]) -> BTreeSet<String> {
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

/// Reads the path or tree of paths at `at`, which continues `base`, and notes the first name of each as seen from the crate's root.
/// `here` is the module in which it stands. Returns the place after what was read.
fn follow(
    tokens: &[String],
    mut at: usize,
    base: &[String],
    here: &[String],
    found: &mut BTreeSet<String>,
) -> usize {
    let mut base = base.to_vec();
    loop {
        match tokens.get(at).map(String::as_str) {
            Some("crate") => base.clear(),
            Some("super") => drop(base.pop()),
            Some("self") => {}
            Some("{") => return follow_group(tokens, at, &base, here, found),
            // A glob, or a name: below a module, or at the root, where it is the module.
            Some(name) => {
                let first = base.first().map_or(name, String::as_str);
                found.insert(first.to_owned());
                return at + 1;
            }
            None => return at,
        }
        if tokens.get(at + 1).is_none_or(|next| next != "::") {
            // `self` or `super` at the end of a path: the module itself.
            found.extend(base.first().cloned());
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
    found: &mut BTreeSet<String>,
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
