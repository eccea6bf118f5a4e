//! Function words of statements, by language: declared in `languages.txt`, read by the grammar of `statement.rs`.

use std::sync::LazyLock;

use crate::named::find;
use crate::words::is_among;

/// The part of a function word in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Opens a reason: a value in it is none of the statement.
    Reason,
    /// Opens a condition: a value in it is none of the statement.
    Condition,
    /// A pronoun that begins the statement after a condition.
    Subject,
    /// Opens a clause that says more of what stands before it.
    Relative,
    /// Stands before a time, a place, a price: a value after it is a circumstance.
    Preposition,
    /// Compares: a value after it is the measure.
    Compare,
    /// Bears a number: `day 5`.
    Label,
    /// Says that what follows is known.
    Definite,
    /// Says that what follows is new.
    Indefinite,
    /// Stands between the words above and their value.
    Filler,
    /// Asks for a value, in the infinitive or the imperative.
    Ask,
    /// Stands before a verb that asks.
    Wish,
    /// Asks after such a word.
    Do,
    /// Stands between a subject and what denies it: `5 does not`, `5 is impossible`.
    Auxiliary,
    /// Asks after "to be" and "of".
    Solved,
    Deny,
    /// Takes back what stands before it.
    Contrast,
    /// Draws a conclusion.
    So,
    /// Opens a check or a remark.
    Remark,
    /// Opens a check, if the sentence confirms something.
    Check,
    Confirm,
    Copula,
    /// Asks, in a sentence that ends in a question mark.
    Question,
    /// Says of a choice that it is the one.
    Right,
    Wrong,
    /// Answers a question whether.
    Reply,
    /// Names what an equation in several unknowns describes.
    Curve,
    /// Says that what is announced is not meant.
    Concede,
}

find! { role Role: Reason Condition Subject Relative Preposition Compare Label Definite Indefinite Filler Ask Wish Do
Auxiliary Solved Deny Contrast So Remark Check Confirm Copula Question Right Wrong Reply Curve Concede }

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
    let mut counts = vec![0usize; LANGUAGES.len()];
    for word in text.rsplit(|c: char| !c.is_alphabetic()).filter(|w| !w.is_empty()).take(WORDS) {
        let lower = word.to_lowercase();
        let han = lower.starts_with(|c| ('\u{4e00}'..='\u{9fff}').contains(&c));
        for (count, language) in counts.iter_mut().zip(LANGUAGES.iter()) {
            *count += usize::from(language.role(&lower).is_some());
            *count += usize::from(language.joined && han);
        }
    }
    let most = (0..LANGUAGES.len()).rev().max_by_key(|i| counts[*i]).unwrap_or(0);
    &LANGUAGES[most]
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

    #[test]
    fn a_language_is_distinguished_from_its_words() {
        for (text, word, role) in [
            ("so the answer is not 5", "not", Some(Role::Deny)),
            ("la réponse n'est pas la bonne", "pas", Some(Role::Deny)),
            ("das ist nicht die Zahl", "nicht", Some(Role::Deny)),
            ("el valor no es la mitad", "no", Some(Role::Deny)),
            ("答案不是五", "答案不是", Some(Role::Deny)),
            ("123", "because", Some(Role::Reason)),
            ("das ist die Zahl", "because", None),
        ] {
            assert_eq!(language(text).role(word), role, "{text}");
        }
        assert!(language("the").is("correct", Role::Right) && language("the").is("correct", Role::Confirm));
    }
}
