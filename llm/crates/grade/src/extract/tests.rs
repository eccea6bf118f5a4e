//! Each step of the extraction by hand.

use super::boxes::{answer_place, joined};
use super::chain::{Kind, formula};
use super::environments::environments;
use super::phrases::{PHRASES, announced};
use super::prose::{balanced, is_prose, runs};
use super::{Extraction, FoundBy, Prediction, boxes, free, statement};

fn found(text: &str) -> Option<String> {
    free::answer(text).map(|found| found.answer)
}

fn cleaned(text: &str) -> String {
    super::clean::cleaned(text, 0).text
}

fn joined_text(text: &str) -> Option<&str> {
    joined(text).map(|place| &text[place])
}

fn run_texts(text: &str) -> Vec<&str> {
    runs(text).into_iter().map(|place| &text[place]).collect()
}

#[test]
fn a_run_of_mathematics_ends_where_words_or_a_stop_stand() {
    for (text, wanted) in [
        ("和为 2，3", &["2", "3"][..]),
        ("It is 0.333... here", &["0.333..."]),
        ("so \\pi here", &["\\pi"]),
        ("so x=y holds", &["x=y"]),
        ("On page12 we get 7", &["7"]),
        ("It is 3meters long", &["3meters"]),
        ("The nd is x > 2 here", &["x > 2"]),
        ("- 7", &["7"]),
        ("The point ( 2, 3 ) lies there", &["( 2, 3 )"]),
        ("\\text{the whole} = 5", &["\\text{the whole} = 5"]),
        ("\\text{a, b} = 5", &["\\text{a, b} = 5"]),
        ("it is 17 cm long", &["17 cm"]),
        ("1 and 2", &["1", "2"]),
        ("1, 2", &["1", "2"]),
        ("so x = 5 holds", &["x = 5"]),
        ("pay 1500 € then", &["1500"]),
        ("it is 5 !", &["5 !"]),
        ("put x + y here", &[]),
    ] {
        assert_eq!(run_texts(text), wanted, "{text}");
    }
}

#[test]
fn words_outside_braces_are_prose() {
    assert!(is_prose("{x} the") && is_prose("the {x}"));
    assert!(!is_prose("\\text{the whole}") && !is_prose("x + 5 cm"));
}

#[test]
fn a_bracket_without_its_partner_is_no_part_of_a_run() {
    for (run, wanted) in
        [("2, 3)", "2, 3"), ("(2, 3)", "(2, 3)"), ("(2, 3", "2, 3"), ("[1, 2)", "[1, 2)"), ("2) ) ", "2")]
    {
        assert_eq!(balanced(run), wanted);
    }
}

#[test]
fn a_marked_answer_is_found_at_its_mark() {
    let words = "so it goes on and on ".repeat(100);
    let sum = "1 + ".repeat(60) + "1";
    for (response, wanted) in [
        (format!("The answer is 5.\n{words}"), "5"),
        ("#### \nThe answer is 3.".to_owned(), "3"),
        (format!("The answer is 3.\n#### {sum}"), "3"),
        ("The answer is $5$ cm.".to_owned(), "5\\text{ cm}"),
        ("The answer is $5$ m.".to_owned(), "5"),
        ("The answer is $25$%.".to_owned(), "25\\%"),
        ("The answer is $25$ percent.".to_owned(), "25\\%"),
        ("The answer is f(2) = $5$".to_owned(), "5"),
        ("<answer>\n\nIt is 7 because $3+4=7$.</answer>".to_owned(), "7"),
        ("Answer: Paris\nwhich is nice.".to_owned(), "Paris"),
        ("Answer: **B2**".to_owned(), "B2"),
        ("The answer is 12\\! 345.".to_owned(), "12\\! 345"),
        ("答案是 红色。是的。".to_owned(), "红色"),
    ] {
        assert_eq!(found(&response).as_deref(), Some(wanted), "{response}");
    }
}

#[test]
fn an_answer_without_a_mark_is_what_is_said_last() {
    for (response, wanted) in [
        ("We use $a=1$. Then 7 apples remain.", Some("7")),
        ("We use $a=1$。因此 7 个", Some("7")),
        ("We use $a=1$\nThen 7 remain", Some("7")),
        ("We use 5 and get $7$ of them", Some("7")),
        ("so $7$ for 3 of them", Some("7")),
        ("The cat sat there.", Some("The cat sat there")),
        ("The cat\nsat there", None),
    ] {
        assert_eq!(found(response).as_deref(), wanted, "{response}");
    }
}

#[test]
fn a_mark_is_looked_for_near_the_end_and_a_box_everywhere() {
    let words = "so it goes on and on\n".repeat(2000);
    assert_eq!(found(&format!("The answer is 5.\n{words}")), None);
    assert_eq!(found(&format!("It is \\boxed{{5}}.\n{words}")).as_deref(), Some("5"));
}

#[test]
fn a_reference_is_its_mathematics_where_no_words_stand_beside_it() {
    assert_eq!(free::reference("$5$"), "5");
    assert_eq!(free::reference("$5$ meters"), "5\\text{ meters}");
    assert_eq!(free::reference("the value $5$ is prime"), "the value $5$ is prime");
    assert_eq!(Extraction::Free.reference("$5$"), "5");
    assert_eq!(Extraction::Auto.reference("$5$"), "$5$");
}

#[test]
fn characters_keep_their_places_in_lower_case() {
    // The Kelvin sign is longer than its small letter, and the dotted I has two.
    assert_eq!(super::clean::lowered("ÄB \u{212a} İ"), "äb \u{212a} İ");
}

#[test]
fn quotation_marks_and_emphasis_are_no_part_of_an_answer() {
    for text in ["\"Yes\"", "*Yes*", " Yes. ", "“Yes”", "Yes。"] {
        assert_eq!(free::unmarked(text), "Yes");
    }
}

#[test]
fn a_choice_is_its_letter_and_the_text_behind_it_where_that_is_mathematics() {
    for (text, wanted) in [
        ("B", Some("B")),
        ("(B)", Some("(B)")),
        ("(B).", Some("(B)")),
        ("(A) 3.5", Some("(A) 3.5")),
        ("B) 3.5", Some("B) 3.5")),
        ("(B) the red one", Some("(B)")),
        ("B) the red one", Some("B")),
        ("B, the red one", Some("B")),
        ("B项", Some("B")),
        ("B is right", Some("B")),
        ("B x", None),
        ("B2", None),
        ("Answer", None),
        ("A 3", None),
        ("A man walks", None),
    ] {
        assert_eq!(free::choice(text), wanted, "{text}");
    }
}

#[test]
fn mathematics_belongs_together_across_a_comma_on_one_page() {
    let apart = |blanks: usize| format!(", {}", " ".repeat(blanks));
    assert!([", and ", " and ", &apart(22)].into_iter().all(statement::joins));
    assert!(![" ", ",\n\n", ", then ", &apart(23)].into_iter().any(statement::joins));
    assert!([", and ", ", y = ", &apart(46)].into_iter().all(boxes::joins));
    let others = [" ", ", x ", ",\n\n", &apart(47), ", because = ", ", a b c d = "];
    assert!(!others.into_iter().any(boxes::joins));
}

#[test]
fn boxes_of_one_answer_are_one() {
    let pair = r"\boxed{1}, \boxed{2}";
    assert_eq!(joined_text(pair), Some(pair));
    assert_eq!(joined_text(r"so (\boxed{1}, \boxed{2})$"), Some(r"(\boxed{1}, \boxed{2})"));
    assert_eq!(joined_text(r"\boxed{1} so \boxed{2}"), Some("2"));
    assert_eq!(joined_text(r"\boxed{1}\boxed{2}"), Some(r"\boxed{1}\boxed{2}"));
    assert_eq!(answer_place(r"\boxed{a\}b}").map(|place| place.len()), Some(4));
    assert_eq!(answer_place(r"\boxed{\}"), None);
}

#[test]
fn escapes_emphasis_and_other_boxes_are_taken_out() {
    for (text, wanted) in [
        ("5</think> ", "5 "),
        ("5</think> 6", " 6"),
        (r"\\frac12 \$", r"\frac12 \$"),
        (r"\\frac12 \pi", r"\\frac12 \pi"),
        (r"e^\\2", r"e^\\2"),
        (r"so \boxed -3.5, that is", r"so \boxed{-3.5}, that is"),
        (r"so \boxed 512", r"so \boxed{512}"),
        (r"\fbox{5} \boxed {6}", r"\boxed{5} \boxed{6}"),
    ] {
        assert_eq!(cleaned(text), wanted, "{text}");
    }
}

#[test]
fn a_dollar_sign_of_an_amount_opens_no_mathematics() {
    for (text, wanted) in [
        ("so $x$ and $ y $ hold", &["x", " y "][..]),
        ("$ $", &[]),
        ("$a\n\nb$", &[]),
        ("$5 $", &[]),
        ("$5 and $10", &[]),
        ("$5 or$10", &[]),
    ] {
        let inner: Vec<&str> = environments(text).into_iter().map(|e| &text[e.inner]).collect();
        assert_eq!(inner, wanted, "{text}");
    }
}

#[test]
fn a_phrase_and_its_verb_stand_close_and_in_one_clause() {
    let behind = |text: &'static str| announced(text, &PHRASES.answer).map(|(_, at)| &text[at..]);
    assert_eq!(behind("the answer is 5"), Some("5"));
    assert_eq!(behind("the answer of it all is now 5"), Some("5"));
    assert_eq!(behind("the answer is nowhere"), Some("nowhere"));
    assert_eq!(behind("the answer is -7"), Some("-7"));
    assert_eq!(behind("the answer, then, is 5"), None);
    let far = |words: usize| announced(&format!("the answer{} is 5", " very".repeat(words)), &PHRASES.answer);
    assert!(far(14).is_some() && far(15).is_none());
}

#[test]
fn the_ways_of_extraction_have_names() {
    let names = ["auto", "boxed", "tag", "lenient-tag", "any", "free"];
    assert_eq!(names.map(Extraction::find).map(Option::unwrap), Extraction::ALL);
    assert!(Extraction::ALL.iter().map(|way| way.name()).eq(names));
    assert_eq!(Extraction::find("all"), None);
}

#[test]
fn any_place_is_tried_in_its_order() {
    for (response, wanted) in [
        ("3+4=7\n#### 7\n8", "7"),
        ("we find x ,5", "5"),
        ("that makes .5", ".5"),
        ("that makes 1,234.5 of them", "1,234.5"),
        ("from 3-4", "4"),
        ("it is -4", "-4"),
    ] {
        assert_eq!(Prediction::extract(response, Extraction::Any).answer(), Some(wanted), "{response}");
    }
}

#[test]
fn a_formula_states_its_last_side_an_assignment_or_an_equation_with_its_value() {
    for (text, answer, value, left) in [
        ("3+4=7.", "7", None, None),
        ("x = 3+4 = 7", "x = 7", None, None),
        ("4!=24", "24", None, None),
        ("x != 3", "x != 3", None, None),
        ("2x = 10", "2x = 10", Some("10"), None),
        ("2x = 6y", "2x = 6y", Some("6y"), None),
        ("4x = 2x+2", "4x = 2x+2", Some("2x+2"), Some("4x")),
        ("11 = 3p+q", "11 = 3p+q", None, None),
        ("y = 2x+1", "y = 2x+1", None, None),
        ("36-19 = 17 = x", "17", None, None),
        ("f(2) = 5", "5", None, None),
        ("f(t) = 5t", "f(t) = 5t", None, None),
        ("x = 1, y = 2", "x = 1, y = 2", None, None),
        ("x = 1 \\text{ or } x = 2", "x = 1 \\text{ or } x = 2", None, None),
        ("2x = 4 \\Rightarrow x = 2", "x = 2", None, None),
        ("\\frac12+1 = \\frac32 \\approx 1.5", "\\frac32 \\approx 1.5", None, None),
        ("x = \\sqrt2 \\approx 1.4", "x = \\sqrt2 \\approx 1.4", None, None),
        ("x \\approx 1.4", "x \\approx 1.4", None, None),
        ("15 feet * 6 = 90 feet", "90 feet", None, None),
        ("9 x 7 = 63", "63", None, None),
        ("n \\ge 5", "n \\ge 5", None, None),
        ("\\begin{align*}x &= 3 \\\\ &= 7.\\end{align*}", "x = 7", None, None),
        ("\\begin{align*}2x &= 6, \\\\[4pt] x &= 3.\\end{align*}", "x = 3", None, None),
        ("\\begin{align*}&= 3\\end{align*}", "3", None, None),
        ("\\begin{cases}x & y\\end{cases}", "\\begin{cases}x & y\\end{cases}", None, None),
    ] {
        let found = formula(text, 0..text.len()).unwrap();
        let said = (found.answer.as_str(), found.value.as_deref(), found.left.as_deref());
        assert_eq!(said, (answer, value, left), "{text}");
    }
    let system = "\\begin{aligned}x &= 1\\\\ y &= 2\\end{aligned}";
    assert_eq!(formula(system, 0..system.len()).unwrap().answer, "x  = 1 , y  = 2");
    for (text, kind) in
        [("x_1", Kind::Name), ("AB", Kind::Name), ("7", Kind::Value), ("2+3 = 5", Kind::Result)]
    {
        assert_eq!(formula(text, 0..text.len()).unwrap().kind, kind, "{text}");
    }
}

#[test]
fn a_sentence_ends_at_its_stop_in_mathematics_too() {
    for (text, wanted) in [
        ("It is 3.5. Then 4!", &["It is 3.5.", " Then 4!"][..]),
        ("So $x = 5.$ Then $y$", &["So $x = 5.$", " Then $y$"]),
        ("as \\[x = 5\\]Hence 6", &["as \\[x = 5\\]", "Hence 6"]),
        ("as \\[x = 5\\]and 6", &["as \\[x = 5\\]and 6"]),
        ("we get\n$x$", &["we get\n$x$"]),
        ("Ans. 5", &["Ans. 5"]),
        ("One (two.) Three", &["One (two.)", " Three"]),
        ("答案是五。再见", &["答案是五。", "再见"]),
        ("Sum:\n5\n6", &["Sum:\n5", "\n6"]),
    ] {
        let places = statement::sentences(text, &environments(text));
        let said: Vec<&str> = places.into_iter().map(|place| &text[place]).collect();
        assert_eq!(said, wanted, "{text}");
    }
}

#[test]
fn the_place_and_the_rule_of_an_answer_are_those_of_the_response() {
    for (text, answer, rule) in [
        ("so \\\\boxed{\\\\frac12}", "\\frac12", FoundBy::Boxed),
        ("<answer>7</answer>", "7", FoundBy::Tag),
        ("#### 7", "7", FoundBy::Hashes),
        ("**Answer: 7**", "7", FoundBy::Marker),
        ("x = 7", "x = 7", FoundBy::Whole),
        ("So 7 remain.", "7", FoundBy::Statement),
        ("Yes, since 9 is odd.", "Yes", FoundBy::Word),
        ("Paris", "Paris", FoundBy::Text),
    ] {
        let found = free::answer(text).unwrap();
        assert_eq!((found.answer.as_str(), found.rule), (answer, rule), "{text}");
        assert_eq!(text[found.span.clone()].replace("\\\\", "\\"), answer, "{text}");
    }
    assert_eq!(Prediction::extract("it is 12", Extraction::Any).found().unwrap().rule, FoundBy::LastNumber);
    assert!(
        FoundBy::ALL.iter().all(|rule| !rule.about().is_empty() && FoundBy::find(rule.name()) == Some(*rule))
    );
}
