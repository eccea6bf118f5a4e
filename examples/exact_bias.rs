//! The exact bias of methods on a task of one's own: the expected update next to the policy gradient.

use grpo_lambda::methods;
use grpo_lambda_mdp::expected::{Situation, compare, implied};
use grpo_lambda_mdp::{Oracle, RewardEntry, TableMdp};

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A short way that pays 0.8, and a long one that pays 1.
    let reward = |pattern: &str, reward| RewardEntry { pattern: words(pattern), reward };
    let roads = TableMdp {
        name: "two roads".to_owned(),
        tokens: words("short long EOS"),
        eos: "EOS".to_owned(),
        horizon: 4,
        rewards: vec![reward("short EOS", 0.8), reward("long long EOS", 1.0)],
        ..TableMdp::default()
    };
    let (tree, policy) = roads.build()?;
    let oracle = Oracle::new(&tree, &policy);
    println!("J = {:.4}", oracle.j);

    for (name, settings) in [("rloo", ""), ("grpo", ""), ("grpo_lambda", "lambda=0.9")] {
        let method = methods::parse(name, settings)?.method;
        let expected = implied(method.as_ref(), &Situation::on_policy(&tree, &policy, 4))?;
        let compared = compare(&expected, &oracle);
        println!("{name}: cosine {:.4} with the gradient of J, bias {:.4}", compared.cosine, compared.bias);
        assert_eq!(compared.bias < 1e-9, name == "rloo");
    }
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn std::error::Error>> {
    main()
}
