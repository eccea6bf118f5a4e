//! Function words of statements, by language: declared once, read by the grammar of `statement.rs`.

use crate::words::is_among;

/// The part of a function word in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Opens a reason: a value in it is none of the statement.
    Reason,
    /// Opens a condition: a value in it is none of the statement.
    Condition,
    /// A pronoun that begins the statement behind a condition.
    Subject,
    /// Opens a clause that says more of what stands before it.
    Relative,
    /// Stands before a time, a place, a price: a value behind it is a circumstance.
    Preposition,
    /// Compares: a value behind it is the measure.
    Compare,
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
    /// Says of a choice that it is the one.
    Right,
    Wrong,
    /// Answers a question whether.
    Reply,
}

/// A language: the words that it is known by stand in its roles.
pub(super) struct Language {
    /// The sign between whole digits and decimals.
    pub(super) decimal: char,
    /// True if words are not parted by blanks, so that a piece of text holds several.
    joined: bool,
    roles: &'static [(Role, &'static str)],
}

use Role::{
    Ask, Check, Compare, Condition, Confirm, Contrast, Copula, Definite, Deny, Filler, Indefinite,
    Preposition, Reason, Relative, Remark, Reply, Right, So, Subject, Wish, Wrong,
};

static ENGLISH: Language = Language {
    decimal: '.',
    joined: false,
    roles: &[
        (Reason, "since|because|whereas|although|though|unless"),
        (
            Condition,
            "if|when|where|whenever|while|given|provided|suppose|assume|assuming|let|consider|without|reached|attained",
        ),
        (Subject, "we|i|it"),
        (Relative, "that|which|who|whose"),
        (
            Preposition,
            "in|on|at|for|after|before|from|by|over|within|during|per|with|between|among|until|till|through|to|of|into|every|each|out",
        ),
        (Compare, "than"),
        (Definite, "the|these|those|this|his|her|their|its|my|our|your|both|all"),
        (Indefinite, "a|an"),
        (
            Filler,
            "last|first|next|other|another|only|about|approximately|exactly|around|nearly|just|equal|be|remaining|simply",
        ),
        (Ask, "solve|find|compute|evaluate|determine|calculate|simplify|factor|expand|prove|show"),
        (Wish, "to|must|should|let's|us|please|need"),
        (Deny, "not|never|cannot|neither|nor|isn't|wasn't|aren't|can't|doesn't|isnt"),
        (Contrast, "but|however|instead|rather|actually"),
        (So, "so|therefore|thus|hence|then|consequently|giving|leaving|making|yields|obtain"),
        (Remark, "note|notice|alternatively|equality|remark|recall|remember|verify|manually|fact|sanity"),
        (Check, "check|checking|testing|verifying|plugging|substituting"),
        (
            Confirm,
            "works|work|satisfies|satisfy|correct|indeed|valid|extraneous|solution|solutions|✓|✔|holds",
        ),
        (Copula, "is|are|was|were|equals"),
        (Right, "correct|right|answer|best"),
        (Wrong, "wrong|incorrect|false|eliminated|impossible|excluded"),
        (Reply, "yes|no|true|false"),
    ],
};

static FRENCH: Language = Language {
    decimal: ',',
    joined: false,
    roles: &[
        (Reason, "car|puisque|comme|parce"),
        (Condition, "si|lorsque|quand|où|soit|sachant|atteint"),
        (Relative, "qui|dont"),
        (Preposition, "en|dans|pour|après|avant|de|par|sur|pendant|avec|entre|depuis|à|des|du|chaque"),
        (Compare, "que"),
        (Definite, "le|la|les|ces|ses|leurs|son|sa|leur|cette"),
        (Indefinite, "un|une"),
        (Filler, "environ|exactement|seulement|derniers|premiers|égal"),
        (
            Ask,
            "résoudre|calculer|trouver|déterminer|simplifier|résolvons|calculons|résous|calcule|calculez|trouvez|résolvez",
        ),
        (Wish, "faut|doit|devons|pour|de"),
        (Deny, "pas|jamais|n'est"),
        (Contrast, "mais|plutôt"),
        (So, "donc|ainsi|alors|conséquent"),
        (Remark, "remarquons|notons|vérification"),
        (Copula, "est|sont|vaut|valent"),
        (Right, "correcte|bonne|juste|réponse"),
        (Wrong, "fausse|incorrecte"),
        (Reply, "oui|non"),
    ],
};

static GERMAN: Language = Language {
    decimal: ',',
    joined: false,
    roles: &[
        (Reason, "weil|da|denn|obwohl"),
        (Condition, "wenn|falls|wobei|sei|gegeben"),
        (Preposition, "in|nach|für|vor|von|mit|pro|auf|bei|seit|um|zu|bis|unter|je|aus|an|im|am"),
        (Compare, "als"),
        (Definite, "der|die|das|den|dem|diese|diesen|seine|ihre|alle"),
        (Indefinite, "ein|eine|einen|einem|einer"),
        (Filler, "etwa|genau|nur|letzten|ersten|nächsten|gleich"),
        (Ask, "lösen|berechnen|bestimmen|finden|löse|berechne|bestimme|vereinfachen"),
        (Wish, "zu|müssen|sollen|wir"),
        (Deny, "nicht|kein|keine|nie"),
        (Contrast, "sondern|aber|jedoch|vielmehr"),
        (So, "also|somit|daher|folglich|dann|deshalb"),
        (Remark, "probe|bemerkung|beachte"),
        (Copula, "ist|sind|beträgt|lautet"),
        (Right, "richtig|korrekt|antwort"),
        (Wrong, "falsch"),
        (Reply, "ja|nein"),
    ],
};

static SPANISH: Language = Language {
    decimal: ',',
    joined: false,
    roles: &[
        (Reason, "porque|pues|como"),
        (Condition, "si|cuando|donde|dado|sea|ya"),
        (Relative, "cuyo|cuya"),
        (Preposition, "en|para|por|después|antes|de|con|durante|entre|sobre|desde|hasta|a|cada"),
        (Compare, "que"),
        (Definite, "el|la|los|las|sus|estos|estas|del"),
        (Indefinite, "un|una"),
        (Filler, "unos|unas|aproximadamente|exactamente|solo|últimos|primeros|igual"),
        (Ask, "resolver|calcular|hallar|encontrar|determinar|simplificar|resolvemos|calcula|halla"),
        (Wish, "que|debemos|para|hay"),
        (Deny, "no|nunca"),
        (Contrast, "sino|pero"),
        (So, "entonces|luego|así|tanto"),
        (Remark, "comprobación|nótese|observa"),
        (Copula, "es|son|vale|valen"),
        (Right, "correcta|respuesta"),
        (Wrong, "incorrecta|falsa"),
        (Reply, "sí|no"),
    ],
};

static CHINESE: Language = Language {
    decimal: '.',
    joined: true,
    roles: &[
        (Deny, "不是|不等于|不为|并非"),
        (Contrast, "而是|但是|但实际上|其实是"),
        (So, "所以|因此|于是|那么|可得|得到"),
        (Reason, "因为|由于"),
        (Condition, "如果|假设|已知|其中|当|若|设"),
        (Remark, "验证|检验|验算|注意"),
        (Compare, "比|超过"),
        (Ask, "求解|求|解方程|计算|化简"),
        (Preposition, "在|每|从"),
        (Definite, "这|那"),
        (Right, "正确|答案"),
        (Wrong, "错误|不对"),
    ],
};

static LANGUAGES: [&Language; 5] = [&ENGLISH, &FRENCH, &GERMAN, &SPANISH, &CHINESE];

/// Words of a text that its language is told from.
const WORDS: usize = 300;

/// The language of a text: the one most of whose words it has, English in doubt.
pub(super) fn language(text: &str) -> &'static Language {
    let mut counts = [0usize; LANGUAGES.len()];
    for word in text.rsplit(|c: char| !c.is_alphabetic()).filter(|w| !w.is_empty()).take(WORDS) {
        let lower = word.to_lowercase();
        for (count, language) in counts.iter_mut().zip(LANGUAGES) {
            *count += usize::from(language.role(&lower).is_some());
            *count += usize::from(language.joined && lower.starts_with(is_han));
        }
    }
    let most = (0..LANGUAGES.len()).rev().max_by_key(|i| counts[*i]).unwrap_or(0);
    LANGUAGES[most]
}

fn is_han(c: char) -> bool {
    ('\u{4e00}'..='\u{9fff}').contains(&c)
}

impl Language {
    /// The part of a word, in lower case; the last one in a piece of a language without blanks.
    pub(super) fn role(&self, word: &str) -> Option<Role> {
        let found = |list: &str| match self.joined {
            true => list.split('|').any(|one| word.contains(one)),
            false => is_among(word, list),
        };
        self.roles.iter().find(|(_, list)| found(list)).map(|(role, _)| *role)
    }

    /// True if a word has a part, whichever else it has.
    pub(super) fn is(&self, word: &str, role: Role) -> bool {
        let found = |list: &str| match self.joined {
            true => list.split('|').any(|one| word.contains(one)),
            false => is_among(word, list),
        };
        self.roles.iter().any(|(own, list)| *own == role && found(list))
    }
}
