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
