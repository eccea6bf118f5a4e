//! The name of the program, as it was called.

use clap::builder::StyledStr;
use std::path::Path;
use std::sync::OnceLock;

/// The name in this tree and in the texts of the help.
pub const SHORT: &str = "sim";
/// The name under which `cargo install` puts the program on the PATH, where `sim` may be anyone's.
pub const INSTALLED: &str = "grpo-sim";

/// [`INSTALLED`] where the program was called by that name, else [`SHORT`].
pub fn program() -> &'static str {
    static NAME: OnceLock<&str> = OnceLock::new();
    NAME.get_or_init(|| {
        let called = std::env::args_os().next().unwrap_or_default();
        if Path::new(&called).file_stem() == Some(INSTALLED.as_ref()) { INSTALLED } else { SHORT }
    })
}

/// A command of the program, as in `sim estimate`; the program alone for an empty `command`.
pub fn call(command: &str) -> String {
    format!("{} {command}", program()).trim_end().to_owned()
}

/// `text` with `name` for every `sim` that is a word of its own.
pub fn named(text: &str, name: &str) -> String {
    let ends = [' ', '\n', '`'];
    let word = |word: &str| match word.trim_end_matches(ends) {
        SHORT => word.replacen(SHORT, name, 1),
        _ => word.to_owned(),
    };
    text.split_inclusive(ends).map(word).collect()
}

/// The command line with `name` in all its help.
pub fn renamed(command: clap::Command, name: &'static str) -> clap::Command {
    let text = |text: Option<&StyledStr>| text.map(|text| named(&text.to_string(), name));
    let texts = [text(command.get_about()), text(command.get_long_about()), text(command.get_after_help())];
    let [about, long, after] = texts;
    let command = command.mut_subcommands(|inner| renamed(inner, name)).mut_args(|arg| {
        let [short, long] = [text(arg.get_help()), text(arg.get_long_help())];
        let arg = if let Some(help) = short { arg.help(help) } else { arg };
        if let Some(help) = long { arg.long_help(help) } else { arg }
    });
    let command = if let Some(about) = about { command.about(about) } else { command };
    let command = if let Some(long) = long { command.long_about(long) } else { command };
    if let Some(after) = after { command.after_help(after) } else { command }
}
