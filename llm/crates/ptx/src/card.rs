//! The card that the substitutes show: its properties, and changes of the code that is loaded on it.

use crate::machine::{Liberties, Order};

/// A card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Liberties of its machine.
    pub liberties: Liberties,
    /// True if all work waits for the next call that waits for it.
    pub deferred: bool,
    /// True if the driver has memory pools.
    pub pools: bool,
    /// Bytes of memory.
    pub memory: u64,
    /// A fault of the card itself.
    pub fault: Option<Fault>,
    /// Changes of the code that is loaded.
    pub edits: Vec<Edit>,
}

/// A fault that no code shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Bits of one byte at the address that a kernel gets as an argument are flipped after each launch.
    Corrupts {
        /// Name of the entry.
        kernel: String,
        /// The argument, from 0.
        argument: usize,
        /// The byte.
        byte: u64,
    },
    /// Products have a wrong first number.
    Products,
    /// A graph runs nothing.
    Replays,
    /// Captured launches also run at once.
    Captures,
}

impl Fault {
    fn text(&self) -> String {
        match self {
            Fault::Corrupts { kernel, argument, byte } => format!("corrupts {kernel} {argument} {byte}"),
            Fault::Products => "products".to_owned(),
            Fault::Replays => "replays".to_owned(),
            Fault::Captures => "captures".to_owned(),
        }
    }

    fn parse(text: &str) -> Option<Fault> {
        match text.split(' ').collect::<Vec<_>>()[..] {
            ["corrupts", kernel, argument, byte] => Some(Fault::Corrupts {
                kernel: kernel.to_owned(),
                argument: argument.parse().ok()?,
                byte: byte.parse().ok()?,
            }),
            ["products"] => Some(Fault::Products),
            ["replays"] => Some(Fault::Replays),
            ["captures"] => Some(Fault::Captures),
            _ => None,
        }
    }
}

impl Default for Card {
    fn default() -> Self {
        Card {
            liberties: Liberties::default(),
            deferred: false,
            pools: true,
            memory: 8 << 30,
            fault: None,
            edits: Vec::new(),
        }
    }
}

/// A change of one line of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Name of the entry without the ending of its dtype.
    pub kernel: String,
    /// A text that the line holds.
    pub holds: String,
    /// The place among the lines that hold it, from 0.
    pub which: usize,
    /// The change of the line.
    pub change: Change,
}

/// A change of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The line is gone.
    Remove,
    /// Two registers of the line, counted from 0, change places.
    Swap(usize, usize),
    /// One text takes another's place.
    Replace(String, String),
}

impl Edit {
    /// `kernel|holds|which|change`, where a change is `remove`, `swap 1 2`, or `replace`, what and by what, with a `~` before either.
    pub fn parse(text: &str) -> Option<Edit> {
        let [kernel, holds, which, change] = text.split('|').collect::<Vec<_>>()[..] else { return None };
        let change = match change.split_once(' ') {
            None if change == "remove" => Change::Remove,
            Some(("swap", operands)) => {
                let (a, b) = operands.split_once(' ')?;
                Change::Swap(a.parse().ok()?, b.parse().ok()?)
            }
            None | Some(_) => {
                let (from, to) = change.strip_prefix("replace~")?.split_once('~')?;
                Change::Replace(from.to_owned(), to.to_owned())
            }
        };
        Some(Edit { kernel: kernel.to_owned(), holds: holds.to_owned(), which: which.parse().ok()?, change })
    }

    fn text(&self) -> String {
        let change = match &self.change {
            Change::Remove => "remove".to_owned(),
            Change::Swap(a, b) => format!("swap {a} {b}"),
            Change::Replace(from, to) => format!("replace~{from}~{to}"),
        };
        format!("{}|{}|{}|{change}", self.kernel, self.holds, self.which)
    }

    /// Changes PTX.
    pub(crate) fn apply(&self, ptx: &str) -> Result<String, String> {
        let (mut inside, mut seen, mut text) = (false, 0, String::with_capacity(ptx.len()));
        let head = format!(".visible .entry {}_", self.kernel);
        for line in ptx.lines() {
            if let Some(rest) = line.strip_prefix(".visible .entry ") {
                let ending = line.strip_prefix(&head).map(|rest| rest.trim_end_matches('('));
                inside = !rest.is_empty() && ending.is_some_and(|ending| !ending.contains('_'));
            }
            if inside && line.contains(&self.holds) {
                seen += 1;
                if seen == self.which + 1 {
                    text += &self.changed(line)?;
                    text.push('\n');
                    continue;
                }
            }
            text += line;
            text.push('\n');
        }
        match seen > self.which {
            true => Ok(text),
            false => Err(format!("{}: {seen} lines hold that", self.text())),
        }
    }

    fn changed(&self, line: &str) -> Result<String, String> {
        match &self.change {
            Change::Remove => Ok(String::new()),
            Change::Replace(from, to) if line.contains(from) => Ok(line.replacen(from, to, 1)),
            Change::Replace(..) => Err(format!("{}: not in {line}", self.text())),
            Change::Swap(a, b) => {
                let [first, second] = [*a.min(b), *a.max(b)].map(|n| registers(line).nth(n));
                let (Some(first), Some(second)) = (first, second) else {
                    return Err(format!("{}: fewer registers in {line}", self.text()));
                };
                let between = &line[first.end..second.start];
                let (one, other) = (&line[first.clone()], &line[second.clone()]);
                Ok([&line[..first.start], other, between, one, &line[second.end..]].concat())
            }
        }
    }
}

/// The places of a line's registers.
fn registers(line: &str) -> impl Iterator<Item = std::ops::Range<usize>> {
    line.match_indices('%').map(|(start, _)| {
        let name = line[start + 1..].find(|c: char| !c.is_ascii_alphanumeric());
        start..name.map_or(line.len(), |end| start + 1 + end)
    })
}

impl Card {
    /// The card as text, for another process or library.
    pub fn text(&self) -> String {
        let Liberties { order, rough, lenient } = self.liberties;
        let order = match order {
            Order::Forward => "forward".to_owned(),
            Order::Reversed => "reversed".to_owned(),
            Order::Shuffled(seed) => seed.to_string(),
        };
        let Card { deferred, pools, memory, .. } = self;
        let edits: String = self.edits.iter().map(|edit| format!("\n{}", edit.text())).collect();
        let fault = self.fault.as_ref().map_or("none".to_owned(), Fault::text);
        format!("{order} {rough} {lenient} {deferred} {pools} {memory}\n{fault}{edits}")
    }

    /// The card that [`Card::text`] wrote.
    pub fn parse(text: &str) -> Option<Card> {
        let mut lines = text.lines();
        let words: Vec<&str> = lines.next()?.split(' ').collect();
        let [order, rough, lenient, deferred, pools, memory] = words[..] else { return None };
        let order = match order {
            "forward" => Order::Forward,
            "reversed" => Order::Reversed,
            seed => Order::Shuffled(seed.parse().ok()?),
        };
        let liberties = Liberties { order, rough: rough.parse().ok()?, lenient: lenient.parse().ok()? };
        Some(Card {
            liberties,
            deferred: deferred.parse().ok()?,
            pools: pools.parse().ok()?,
            memory: memory.parse().ok()?,
            fault: match lines.next()? {
                "none" => None,
                fault => Some(Fault::parse(fault)?),
            },
            edits: lines.map(Edit::parse).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_read_as_it_was_written() {
        let liberties = Liberties { order: Order::Shuffled(7), rough: true, lenient: true };
        let edits = ["k|bar.sync|2|remove", "k|mma|0|swap 2 3", "k|setp.lt|1|replace~lt~le"];
        let edits: Vec<Edit> = edits.iter().map(|text| Edit::parse(text).expect("an edit")).collect();
        let card = Card { liberties, deferred: true, pools: false, memory: 5, fault: None, edits };
        for fault in [Fault::Corrupts { kernel: "k_f32".to_owned(), argument: 1, byte: 2 }, Fault::Products] {
            let faulty = Card { fault: Some(fault), ..card.clone() };
            assert_eq!(Card::parse(&faulty.text()), Some(faulty));
        }
        assert_eq!(Card::parse(&card.text()), Some(card));
        assert_eq!(Card::parse(&Card::default().text()), Some(Card::default()));
    }

    #[test]
    fn an_edit_changes_its_line_of_its_entry_alone() {
        let ptx =
            ".visible .entry k_f32(\nadd %a, %b, {%c, %d};\n.visible .entry k_b_f32(\nadd %a, %b, %e;\n";
        let edited = |text: &str| Edit::parse(text).expect("an edit").apply(ptx);
        assert_eq!(edited("k|add|0|remove").expect("it does"), ptx.replace("add %a, %b, {%c, %d};", ""));
        assert!(edited("k|add|0|swap 1 3").expect("it does").contains("add %a, %d, {%c, %b};"));
        assert!(edited("k_b|add|0|replace~%e~%f").expect("it does").contains("%b, %f;"));
        assert!(edited("k|add|1|remove").is_err());
    }
}
