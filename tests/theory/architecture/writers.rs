//! Writers of files: both command lines write through the module that follows no link and names the file in its errors.

use super::imports::compiled;
use super::workspace;

/// The modules that write, one that removes the folders of a server's weights, and one of a library for tests.
const ALLOWED: [&str; 6] = [
    "llm/crates/decoder/src/disk.rs",
    "llm/crates/decoder/src/disk/place.rs",
    "sims/tools/src/write.rs",
    "sims/claims/src/store.rs",
    "llm/crates/engines/src/remote/weights.rs",
    "llm/crates/ptx/src/nvrtc.rs",
];

/// Calls of the standard library that make, change or remove files.
const CALLS: [[&str; 2]; 15] = [
    ["fs", "write"],
    ["fs", "copy"],
    ["fs", "rename"],
    ["fs", "hard_link"],
    ["fs", "create_dir"],
    ["fs", "create_dir_all"],
    ["fs", "remove_file"],
    ["fs", "remove_dir"],
    ["fs", "remove_dir_all"],
    ["fs", "OpenOptions"],
    ["OpenOptions", "new"],
    ["File", "create"],
    ["File", "create_new"],
    ["File", "options"],
    ["fs", "set_permissions"],
];

fn calls(tokens: &[String]) -> Vec<String> {
    let is_call = |w: &&[String]| w[1] == "::" && CALLS.contains(&[w[0].as_str(), w[2].as_str()]);
    tokens.windows(3).filter(is_call).map(<[String]>::concat).collect()
}

#[test]
fn files_are_written_by_one_module_of_each_command_line() {
    let (mut found, mut used) = (Vec::new(), Vec::new());
    // The tool that changes the sources is no product.
    for member in workspace::members().into_iter().filter(|member| !member.starts_with("tests/")) {
        for (file, tokens) in compiled(&workspace::files(&member)) {
            let path = format!("{member}/src/{file}");
            match calls(&tokens) {
                calls if calls.is_empty() => {}
                _ if ALLOWED.contains(&path.as_str()) => used.push(path),
                calls => found.push(format!("{path}: {}", calls.join(", "))),
            }
        }
    }
    assert!(found.is_empty(), "written elsewhere; use `Disk` or `atomically`:\n{}", found.join("\n"));
    assert!(used.iter().any(|path| path == ALLOWED[0]), "the calls are not seen: {used:?}");
}
