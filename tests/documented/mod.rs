//! Runs the commands that the documentation prints. The tests of `sim` and of `llm-train` each include this file and run their own
//! program's commands.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)] // each of the two programs has its own plans

use std::path::{Path, PathBuf};
use std::process::Command;

pub mod page;

/// A test's use of a command.
pub enum Plan {
    /// Runs as printed.
    AsPrinted,
    /// Runs this shorter command instead.
    Scaled(String),
    /// Does not run, for this reason.
    Not(&'static str),
}

/// The folder of the workspace.
fn root() -> &'static Path {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.find(|folder| folder.join("Cargo.lock").is_file()).unwrap()
}

/// The pages with commands for a newcomer.
fn pages() -> Vec<PathBuf> {
    let root = root();
    let mut pages = vec![root.join("README.md"), root.join("examples/README.md")];
    let guides = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(guides.filter(|path| path.extension().is_some_and(|e| e == "md")));
    pages.sort();
    pages
}

/// The commands in the `sh` fences of a page, in order, without comments. A line that ends in `\` or `|` continues in the next one, and a
/// here-document belongs to the command that reads it.
fn commands(markdown: &str) -> Vec<String> {
    let (mut commands, mut open, mut fenced, mut until) = (Vec::new(), String::new(), false, None::<String>);
    for line in markdown.lines() {
        if line.starts_with("```") {
            fenced = line == "```sh";
            continue;
        }
        if !fenced {
            continue;
        }
        if let Some(end) = &until {
            open.push_str(line);
            open.push('\n');
            if line == end {
                until = None;
                commands.push(std::mem::take(&mut open));
            }
            continue;
        }
        let line = line.split("  #").next().unwrap().trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        assert!(!open.is_empty() || !line.starts_with(' '), "a line that goes on with no command: {line}");
        open.push_str(line);
        open.push('\n');
        if let Some((_, end)) = line.split_once("<<'") {
            until = Some(end.trim_end_matches('\'').to_owned());
        } else if !line.ends_with(['\\', '|']) {
            commands.push(std::mem::take(&mut open).trim_end().to_owned());
        }
    }
    assert!(open.is_empty(), "unfinished command: {open}");
    commands
}

/// The command with every spelling of the call replaced by `program`.
fn called(command: &str, program: &str) -> String {
    let mut text = command.to_owned();
    for spelt in [
        format!("cargo run --release --bin {program} --"),
        format!("cargo run --bin {program} --release --"),
        format!("cargo run --bin {program} --"),
        format!("cargo run --bin {program} --release"),
        format!("cargo run --bin {program}"),
    ] {
        text = text.replace(&spelt, program);
    }
    text
}

/// True if a command starts `program`, at its beginning or after a pipe.
fn starts(command: &str, program: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    words.first() == Some(&program) || words.windows(2).any(|pair| pair == ["|", program])
}

/// Runs every command of `program` on every page and panics with the failures. Each page has a scratch folder, which `furnish` prepares;
/// `furnish` returns the value of `$MODEL`.
pub fn run_all(program: &str, executable: &str, plan: fn(&str) -> Plan, furnish: fn(&Path) -> String) {
    let bin = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(executable, bin.path().join(program)).unwrap();
    let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap());
    let mut failures = Vec::new();
    for page in pages() {
        let scratch = tempfile::tempdir().unwrap();
        let examples = scratch.path().join("examples");
        std::fs::create_dir(&examples).unwrap();
        for file in std::fs::read_dir(root().join("examples")).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), examples.join(file.file_name())).unwrap();
        }
        let model = furnish(scratch.path());
        for command in commands(&std::fs::read_to_string(&page).unwrap()) {
            let command = called(&command, program);
            if !starts(&command, program) && !makes_a_file(&command) {
                continue;
            }
            let run = match plan(&command) {
                Plan::AsPrinted => command,
                Plan::Scaled(scaled) => scaled,
                Plan::Not(_) => continue,
            };
            let started = std::time::Instant::now();
            let shell = Command::new("bash")
                .args(["-euo", "pipefail", "-c", &run])
                .current_dir(scratch.path())
                .envs([("PATH", &path), ("MODEL", &model)])
                .output()
                .unwrap();
            println!("{:6.1} s  {run}", started.elapsed().as_secs_f64());
            if !shell.status.success() {
                let said = String::from_utf8_lossy(&shell.stderr);
                failures.push(format!("{}: {run}\n{}\n{said}", page.display(), shell.status));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// True if a command only writes a file that later ones read.
fn makes_a_file(command: &str) -> bool {
    let writes = command.starts_with("echo ") && command.contains("' > ");
    command.starts_with("cat >") || writes
}
