//! The help of a command line in a terminal of 80 columns.

/// The lines of a command's help, and of its subcommands', that a terminal of 80 columns would break in the middle of an indented line or of a
/// paragraph that was broken by hand.
pub(crate) fn ragged(command: &clap::Command) -> Vec<String> {
    const WIDTH: usize = 80;
    let rendered = command.clone().term_width(WIDTH).render_long_help().to_string();
    let too_long = |line: &&str| line.chars().count() > WIDTH;
    let mut found: Vec<String> = rendered.lines().filter(too_long).map(str::to_owned).collect();
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines: Vec<&str> = after.lines().chain([""]).collect();
    for pair in lines.windows(2).filter(|pair| too_long(&pair[0])) {
        let goes_on = !pair[1].is_empty() && !pair[1].starts_with(' ');
        if pair[0].starts_with(' ') || goes_on {
            found.push(pair[0].to_owned());
        }
    }
    let name = command.get_name();
    let own = found.into_iter().map(|line| format!("{name}: {line}"));
    own.chain(command.get_subcommands().flat_map(ragged)).collect()
}
