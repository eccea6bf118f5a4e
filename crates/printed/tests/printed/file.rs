use grpo_lambda_printed::{Column, Dataset, Model, Paper, Score};

const EMBEDDED: &str = include_str!("../../src/tables.json");

#[test]
fn the_embedded_tables_hold_92_runs_of_5_benchmarks() {
    let paper = Paper::embedded().expect("the committed file");
    assert_eq!(paper.runs.len(), 92);
    let run = paper.run(Model::R1Qwen7, Dataset::MathRl16k, Column::COMMON).expect("Table 6");
    assert_eq!(run.printed_average, Score(476));
    assert_eq!(run.scores, [267, 578, 792, 346, 397].map(Score));
    assert_eq!(paper.columns(Model::R1Llama3).len(), 3);
    assert!(paper.run(Model::R1Qwen7, Dataset::Gsm8k, paper.columns(Model::Qwen15)[1]).is_none());
}

#[test]
fn data_sets_keep_the_order_in_which_each_table_prints_them() {
    use Dataset::{Gsm8k, Math12k, MathRl16k, OrzMath57k};
    let paper = Paper::embedded().expect("the committed file");
    for model in Model::ALL {
        let expected = match model {
            Model::R1Llama3 => [Math12k, Gsm8k, OrzMath57k, MathRl16k],
            _ => Dataset::ALL,
        };
        assert_eq!(paper.datasets(model), expected, "{}", model.name());
    }
}

#[test]
fn damage_is_named_where_it_is() {
    let refused = |from: &str, to: &str| {
        let damaged = EMBEDDED.replacen(from, to, 1);
        assert_ne!(damaged, EMBEDDED, "{from}");
        Paper::from_json(&damaged).expect_err("damaged").to_string()
    };
    let short = refused("\"AMC\": [0.386, 0.458, ", "\"AMC\": [0.386, ");
    assert_eq!(short, "table3 (Qwen2.5-Math-1.5B-Instruct), math12k, AMC: 8 scores for 9 columns");
    assert!(refused("0.386", "38.6").contains("38.6 is not an accuracy from 0 to 1"));
    assert!(refused("0.386", "0.3861").contains("three decimals"));
    assert!(refused("\"Minerva\"", "\"Minvera\"").contains("unknown field `Minvera`"));
    assert!(refused("\"eps-trace\"", "\"trace\"").contains("unknown variant `trace`"));
    assert!(refused("\"gsm8k\": {", "\"gsm9k\": {").contains("unknown variant `gsm9k`"));
    let twice = refused("\"gsm8k\": {", "\"math12k\": {");
    assert_eq!(twice, "table3 (Qwen2.5-Math-1.5B-Instruct): 2 blocks for math12k instead of one");
}

#[test]
fn a_column_has_all_of_trace_update_and_lambda_or_none() {
    let column = "{\"trace_style\": \"both\", \"update_style\": \"eps-trace\", \"lam\": 0.98}";
    for (wrong, half) in [("\"both\"", "\"GRPO\""), ("\"eps-trace\"", "\"GRPO\""), ("0.98", "null")] {
        let damaged = EMBEDDED.replacen(column, &column.replace(wrong, half), 1);
        let error = Paper::from_json(&damaged).expect_err(half).to_string();
        assert!(error.starts_with("table3 (Qwen2.5-Math-1.5B-Instruct): the column Column {"), "{error}");
    }
}
