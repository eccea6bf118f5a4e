use grpo_lambda::methods;
use grpo_lambda::settings::{Kind, closest, did_you_mean};

#[test]
fn a_range_reads_as_words() {
    let number = |min, max| Kind::Number { min, max }.to_string();
    assert_eq!(number(0.0, 1.0), "a number from 0 to 1");
    assert_eq!(number(1e-4, 1.0), "a number from 0.0001 to 1");
    assert_eq!(number(1e-9, 1.0), "a number from 1e-9 to 1");
    assert_eq!(number(-1e-9, 1.0), "a number from -0.000000001 to 1");
    assert_eq!(number(2.0, f64::INFINITY), "a number of at least 2");
    assert_eq!(number(f64::NEG_INFINITY, 2.0), "a number of at most 2");
    assert_eq!(number(f64::NEG_INFINITY, f64::INFINITY), "a finite number");
    assert_eq!(Kind::OptionalNumber { min: 0.0, max: 1.0 }.to_string(), "none or a number from 0 to 1");
    assert_eq!(Kind::Choice(&["a", "b"]).to_string(), "one of a, b");
    assert_eq!(Kind::Flag.to_string(), "true or false");
}

#[test]
fn a_hint_names_the_closest_word_or_nothing() {
    assert_eq!(closest("LAMDA", ["beta", "lambda", "lambda_max"]), Some("lambda"));
    assert_eq!(closest("xyz", ["beta", "lambda"]), None);
    assert_eq!(did_you_mean("bta", ["beta", "lambda"]), " (did you mean `beta`?)");
    assert_eq!(did_you_mean("xyz", ["beta"]), "");
}

#[test]
fn a_refused_setting_names_its_key_and_where_else_the_key_exists() {
    let refused = |method: &str, settings: &str| methods::parse(method, settings).err().expect("refused");
    let elsewhere = refused("grpo", "lambda=0.9");
    assert_eq!(elsewhere.key(), "lambda");
    assert!(elsewhere.to_string().contains("(`lambda` is a setting of grpo_lambda"), "{elsewhere}");
    let misspelt = refused("grpo", "lamda=0.9").to_string();
    assert!(misspelt.contains("(`lambda` is a setting of grpo_lambda"), "{misspelt}");
    let close = refused("grpo_lambda", "lamda=0.9").to_string();
    assert!(close.contains("(did you mean `lambda`?)") && !close.contains("is a setting of"), "{close}");
    assert_eq!(refused("grpp", "").key(), "name");
    assert_eq!(refused("grpo", "beta=x").key(), "beta");
}

#[test]
fn a_value_has_one_spelling() {
    let number = Kind::Number { min: 0.0, max: 2.0 };
    let all = |kind: Kind, texts: &[&str]| texts.iter().map(|t| kind.canonical(t)).collect::<Vec<_>>();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        all(number, &[".90", "0", "2", "2.1", "-0.1", "NaN", "inf", "none", "x"]),
        [some("0.9"), some("0"), some("2"), None, None, None, None, None, None]
    );
    let unbounded = Kind::Number { min: f64::NEG_INFINITY, max: f64::INFINITY };
    assert_eq!(all(unbounded, &["inf", "-inf", "NaN", "1e3"]), [None, None, None, some("1000")]);
    let optional = Kind::OptionalNumber { min: 0.0, max: 1.0 };
    assert_eq!(all(optional, &["none", "1.0", "2", "some"]), [some("none"), some("1"), None, None]);
    assert_eq!(all(Kind::Choice(&["a", "b"]), &["a", "c"]), [some("a"), None]);
    assert_eq!(all(Kind::Flag, &["true", "false", "1"]), [some("true"), some("false"), None]);
}
