//! Function words of statements, by language: declared in `languages.txt`, read by the grammar of `statement.rs`.

use std::sync::LazyLock;

use crate::named::coded;
use crate::words::{is_among, parts};

coded! {
    /// The part of a function word in a statement, explained in `languages.txt`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    Role by role: Reason Condition Subject Relative Preposition Compare Label Definite Indefinite Filler Ask Wish Do
    Auxiliary Solved Deny Contrast So Remark Check Confirm Copula Question Right Wrong Reply Curve Concede
}

/// A language: the words that it is known by stand in its roles.
pub(super) struct Language {
    /// True if words are not parted by blanks, so that a piece of text holds several.
    joined: bool,
    roles: Vec<(Role, &'static str)>,
}

/// The languages of `languages.txt`, English first.
static LANGUAGES: LazyLock<Vec<Language>> = LazyLock::new(|| {
    let mut found: Vec<Language> = Vec::new();
    for line in include_str!("languages.txt").lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with('[') {
            found.push(Language { joined: line.ends_with(" joined"), roles: Vec::new() });
        } else if let (Some(language), Some((role, words))) = (found.last_mut(), line.split_once(' ')) {
            language.roles.extend(self::role(role).map(|role| (role, words)));
        }
    }
    found
});

/// Words of a text that its language is recognised from.
const WORDS: usize = 300;

/// The language of a text: the one most of whose words it has, English in doubt.
pub(super) fn language(text: &str) -> &'static Language {
    let words: Vec<String> =
        parts(text, char::is_alphabetic).rev().take(WORDS).map(str::to_lowercase).collect();
    let han = |word: &String| word.starts_with(|c| ('\u{4e00}'..='\u{9fff}').contains(&c));
    let count = |language: &&Language| {
        let known = words.iter().filter(|word| language.role(word).is_some()).count();
        known + words.iter().filter(|word| language.joined && han(word)).count()
    };
    LANGUAGES.iter().rev().max_by_key(count).unwrap_or(&LANGUAGES[0])
}

impl Language {
    fn has(&self, word: &str, list: &str) -> bool {
        if self.joined { list.split('|').any(|one| word.contains(one)) } else { is_among(word, list) }
    }

    /// The first part that a word, in lower case, has.
    pub(super) fn role(&self, word: &str) -> Option<Role> {
        self.roles.iter().find(|(_, list)| self.has(word, list)).map(|(role, _)| *role)
    }

    /// True if a word has a part, whichever else it has.
    pub(super) fn is(&self, word: &str, role: Role) -> bool {
        self.roles.iter().any(|(own, list)| *own == role && self.has(word, list))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_role_of_a_language() {
        let lines = include_str!("languages.txt").lines().filter(|l| !l.starts_with(['#', '[']));
        let read: usize = LANGUAGES.iter().map(|language| language.roles.len()).sum();
        assert_eq!((LANGUAGES.len(), read), (5, lines.count()));
        assert!(
            LANGUAGES.iter().all(|l| l.roles.iter().all(|(_, words)| !words.split('|').any(str::is_empty)))
        );
    }
}
