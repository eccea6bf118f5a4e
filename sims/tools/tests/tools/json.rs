use grpo_lambda_tools::json::{Json, parse};

fn list(line: &str) -> Vec<Json> {
    match parse(line) {
        Ok(Json::List(items)) => items,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn bare_tokens_are_read_as_what_python_meant() {
    let items = list("[NaN,Infinity , -Infinity,\t1.5]");
    assert!(matches!(items[0], Json::Bare(x) if x.is_nan()));
    assert_eq!(items[1..3], [Json::Bare(f64::INFINITY), Json::Bare(f64::NEG_INFINITY)]);
    assert!(matches!(parse("NaN"), Ok(Json::Bare(_))));
}

#[test]
fn the_same_words_inside_strings_are_text() {
    for text in ["NaN", "say \\\"NaN\\\" -Infinity", "é NaN, [Infinity]", "\\\\"] {
        let line = format!("[\"{text}\", NaN]");
        let expected: String = serde_json::from_str(&format!("\"{text}\"")).unwrap();
        let items = list(&line);
        assert_eq!(items[0], Json::Text(expected), "{line}");
        assert!(matches!(items[1], Json::Bare(_)), "{line}");
    }
}

#[test]
fn words_that_only_resemble_them_stay_syntax_errors() {
    for line in
        ["[NaNs]", "[xNaN]", "[--Infinity]", "[+Infinity]", "[1NaN]", "{NaN: 1}", "[nan]", "[inf]", "[NaN"]
    {
        let error = parse(line).expect_err(line);
        assert!(error.starts_with("not JSON, column "), "{error}");
    }
}

#[test]
fn columns_are_those_of_the_line_as_given() {
    assert!(
        parse("[NaN, Infinity, -Infinity, ?]").unwrap_err().contains("column 28:"),
        "tokens keep their length"
    );
}

#[test]
fn repeated_keys_and_large_integers_are_kept() {
    let Ok(Json::Object(entries)) = parse("{\"a\": 18446744073709551615, \"a\": 2}") else {
        panic!("an object")
    };
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0].1, Json::Number(u64::MAX.into()));
}

#[test]
fn a_number_beyond_f64_is_an_error_not_an_infinity() {
    assert!(parse("[1e999]").unwrap_err().contains("out of range"));
}
