//! The architecture: in no folder of the workspace's crates do modules import each other in a circle, and files are written in one place.
//!
//! A module is a file or a folder. `lib.rs`, `main.rs` and a folder's `mod.rs` are no modules among those they declare: what they re-export
//! counts as nobody's import.

mod graph;
mod imports;
mod prose;
mod source;
mod vocabulary;
mod words;
mod workspace;
mod writers;

use graph::Cycle;
use imports::File;

#[test]
fn no_crate_has_an_import_cycle_between_its_modules() {
    let members = workspace::members();
    assert!(members.iter().any(|m| m == ".") && members.len() > 3, "{members:?}");
    let mut cycles = Vec::new();
    for member in &members {
        let imports = imports::read(&workspace::files(member));
        for folder in imports.folders() {
            let cycle = imports.graph(&folder).shortest_cycle();
            cycles.extend(
                cycle.map(|cycle| format!("crate in {member}, module `{}`: {cycle}", folder.join("::"))),
            );
        }
    }
    assert!(cycles.is_empty(), "modules that import each other in a circle:\n{}", cycles.join("\n"));
}

/// `test = false` of a library saves a second compilation of it, in which tests inside would run.
#[test]
fn a_library_that_is_not_compiled_for_tests_has_none_inside() {
    let untested = |member: &String| {
        let manifest = std::fs::read_to_string(workspace::root().join(member).join("Cargo.toml"));
        let manifest = manifest.expect("a member has a manifest");
        let library = manifest.split("\n[lib]\n").nth(1).and_then(|rest| rest.split("\n[").next());
        library.is_some_and(|lines| lines.lines().any(|line| line == "test = false"))
    };
    let (mut checked, mut found) = (0, Vec::new());
    for member in workspace::members().into_iter().filter(untested) {
        checked += 1;
        let with_tests =
            workspace::files(&member).into_iter().filter(|(_, text)| text.contains("#[cfg(test)]"));
        found.extend(with_tests.map(|(file, _)| format!("{member}/src/{file}")));
    }
    assert!(checked > 3, "{checked}");
    assert!(found.is_empty(), "tests that never run; move them into the tests/ of the crate: {found:?}");
}

#[test]
fn the_imports_of_this_crate_are_seen() {
    // An empty graph has no cycle either.
    let graph = imports::read(&workspace::files(".")).graph(&[]);
    for (from, to) in [("methods", "objective"), ("objective", "surrogate"), ("learner", "method")] {
        assert!(graph.imports(from, to), "{from} -> {to}");
        assert!(!graph.imports(to, from), "{to} -> {from}");
    }
}

fn files(texts: &[(&str, &str)]) -> Vec<File> {
    texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

fn cycle(texts: &[(&str, &str)]) -> Option<Cycle> {
    imports::read(&files(texts)).graph(&[]).shortest_cycle()
}

#[test]
fn a_cycle_is_reported_by_its_modules_and_a_file_for_each_edge() {
    let found = cycle(&[
        ("lib.rs", "pub mod a; pub mod b; pub mod c; pub mod d; pub use a::A;"),
        ("a.rs", "use crate::b::inner::X; pub struct A;"),
        ("b/mod.rs", "pub mod inner;"),
        ("b/inner.rs", "pub struct X; fn f() -> super::super::c::C { super::super::c::C }"),
        ("c.rs", "use crate::{\n    d::{self, D},\n    a::{\n        A,\n    },\n};"),
        ("d.rs", "use std::fmt; pub struct D;"),
    ]);
    let text = found.expect("a cycle of three").to_string();
    assert_eq!(
        text,
        "a -> b -> c -> a\n  a imports b in a.rs\n  b imports c in b/inner.rs\n  c imports a in c.rs\n"
    );
}

#[test]
fn every_way_to_write_an_import_closes_a_cycle() {
    for import in [
        "use crate::b::B;",
        "use crate::b;",
        "use crate::{b, c};",
        "use crate::{c::{self, C}, b::B};",
        "use crate::{\n    c::C, // the other\n    b::*,\n};",
        "pub use super::b::B;",
        "use super::{c, b::B};",
        "fn f(x: crate::b::B) {}",
        "fn f() { let y = 'c'; crate::b::new::<'static>(y) }",
        "mod inner { use super::super::b::B; }",
        "mod inner { use crate::c::C; } fn f() -> super::b::B {}",
        "pub(in crate::b) struct Y;",
        "macro_rules! m { () => { $crate::b::B } }",
        "#[cfg(feature = \"x\")] use crate::b::B;",
        "#[cfg(not(test))] use crate::b::B;",
        "#[cfg(test)] use crate::{c, d}; use crate::b;",
        "#[cfg(test)] fn f(x: [u8; 2]) -> u8 { crate::c::g(\"}\") } use crate::b;",
        "const S: &str = r#\"a \" quote\"#; use crate::b;",
        "const S: &str = \"\\\"\"; use crate::b;",
    ] {
        let found = cycle(&[("a.rs", import), ("b.rs", "use crate::a;"), ("c.rs", ""), ("d.rs", "")]);
        let names = found.map(|c| c.to_string());
        assert!(names.as_ref().is_some_and(|n| n.starts_with("a -> b -> a\n")), "{import}: {names:?}");
    }
}

#[test]
fn a_cycle_between_the_files_of_a_folder_is_seen_in_that_folder() {
    let texts = [
        ("a/mod.rs", "mod one; mod two; pub use one::One; use two::f;"),
        ("a/one.rs", "use super::two::{self, f};"),
        ("a/two.rs", "fn g() { crate::a::one::h::<u8>() }"),
        ("b.rs", ""),
    ];
    let imports = imports::read(&files(&texts));
    assert_eq!(imports.folders().into_iter().collect::<Vec<_>>(), [vec![], vec!["a".to_owned()]]);
    assert_eq!(imports.graph(&[]).shortest_cycle(), None);
    let found = imports.graph(&["a".to_owned()]).shortest_cycle().expect("one and two");
    assert!(found.to_string().starts_with("one -> two -> one\n"), "{found}");
    // What a folder's own file re-exports is nobody's import.
    let through = [
        ("a/mod.rs", "mod one; mod two; pub use one::One;"),
        ("a/one.rs", "use super::two;"),
        ("a/two.rs", "use super::One;"),
    ];
    assert_eq!(imports::read(&files(&through)).graph(&["a".to_owned()]).shortest_cycle(), None);
}

#[test]
fn what_is_no_import_of_a_module_closes_no_cycle() {
    for text in [
        "// use crate::b;",
        "/* use crate::b; /* nested */ use crate::b; */",
        "/// [`crate::b::B`]\n//! crate::b",
        "const S: &str = \"use crate::b;\";",
        "const S: &str = r##\"\"# use crate::b;\"##;",
        "const S: &[u8] = b\"crate::b\";",
        "#[cfg(test)] mod tests { use crate::b::B; }",
        "#[cfg(test)] #[allow(dead_code)] mod tests { fn f() { crate::b::f() } }",
        "#[cfg(all(test, unix))] use crate::b;",
        "pub(crate) struct X; use std::b;",
        "use crate::B; // an item of lib.rs",
        "use crate::a::b; mod inner { use super::b; } use self::b::B;",
        "use other::crate_b::b;",
        "fn f<'b>(self) -> char { 'b' }",
    ] {
        let found = cycle(&[("lib.rs", "pub use b::B;"), ("a.rs", text), ("b.rs", "use crate::a;")]);
        assert_eq!(found, None, "{text}");
    }
    // Test modules in files of their own, beside the module and below it.
    let apart = [
        ("lib.rs", "mod a; mod b; #[cfg(test)] mod testing;"),
        ("a/mod.rs", "mod inner; #[cfg(test)] mod tests;"),
        ("a/tests.rs", "use crate::b;"),
        ("a/inner.rs", ""),
        ("b.rs", "use crate::a; #[cfg(test)] pub(crate) mod checks;"),
        ("b/checks/mod.rs", "use crate::testing;"),
        ("testing/mod.rs", "use crate::{a, b};"),
    ];
    assert_eq!(cycle(&apart), None);
    let mut joined = apart;
    joined[1].1 = "mod inner; mod tests;";
    assert!(cycle(&joined).is_some(), "the same file compiled outside tests");
}

#[test]
fn the_members_of_a_workspace_are_read_from_its_manifest() {
    let manifest = "[package]\nname = \"x\"\n[workspace]\nresolver = \"3\"\nmembers = [\n  \".\",\n  \"llm/crates/*\",\n]\nexclude = [\"y\"]\n";
    assert_eq!(workspace::named_members(manifest), [".", "llm/crates/*"]);
}
