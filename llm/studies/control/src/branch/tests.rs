use super::*;
use crate::cases::cases;
use crate::chain::setup::tiny;
use grpo_lambda_trials::End;

fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../paper/protocols/branch.toml")
}

/// The committed protocol with models, runs and seeds that take a second.
pub(super) fn small() -> Branch {
    let mut branch = read(&committed()).expect("the committed protocol");
    branch.study.rates.truncate(1);
    branch.study.seeds.selection.truncate(1);
    branch.study.seeds.evaluation.truncate(1);
    branch.study.setup.addition.budget = Some(700.0);
    branch.study.setup.addition.every = Some(300);
    let words = "rl.prompts_per_step=2 sft.steps=1 model.hidden=16 model.intermediate=16 model.layers=1 reward.accuracy=0 \
                 reward.coin=1";
    branch.overrides = words.split_whitespace().map(str::to_owned).collect();
    let Branch { study, chain, .. } = &mut branch;
    (chain.rates, chain.seeds, chain.budget) = (study.rates.clone(), study.seeds.clone(), 1500.0);
    chain.setup = tiny().setup;
    let Chain { rl, exam, .. } = &mut chain.setup;
    (rl.prompts, exam.prompts, exam.every) = (1, 2, 500);
    branch
}

fn timeless(trials: Vec<Trial>) -> Vec<Trial> {
    trials.into_iter().map(|trial| Trial { seconds: 0.0, ..trial }).collect()
}

/// Every method on both tasks up to its budget, twice; a killed study goes on to the rows of one that was not.
#[test]
fn every_method_runs_to_its_budget_and_a_stopped_study_goes_on_to_the_same_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let (whole, cut) = (folder.path().join("whole.csv"), folder.path().join("cut.csv"));
    let branch = small();
    for (task, budget) in [(Task::Addition, 700.0), (Task::Chain, 1500.0)] {
        let go_on = |path: &Path| timeless(branch.go_on(task, ("x", path)).expect("it runs"));
        let all = go_on(&whole);
        assert_eq!(all.len(), 16, "{task:?}: eight methods on two seeds");
        for trial in &all {
            let points = &trial.curve.0;
            assert_eq!(trial.ended, End::Budget, "{task:?} {trial:?}");
            assert!(points[0].tokens == 0.0 && points[points.len() - 1].tokens == trial.tokens as f64);
            assert!(trial.tokens as f64 >= budget && points.len() >= 2, "{task:?} {trial:?}");
            // On a chain nothing is right, and returns without a variance have no share that a critic explains.
            let explains = trial.method == "ppo" && task == Task::Addition;
            assert_eq!(trial.explained.0.is_empty(), !explains, "{task:?} {trial:?}");
        }
        // The tokens of a step: completions cost more than the responses, and a tree less, which writes its prefixes once.
        let per_response = |name: &str| {
            let own: Vec<&Trial> = all.iter().filter(|trial| trial.method == name).collect();
            let most = 8.0 * if task == Task::Addition { 2.0 * 6.0 } else { 35.0 };
            own.iter().map(|t| t.tokens as f64 / t.steps as f64 / most).fold(0.0, f64::max)
        };
        assert!(per_response("vine_ppo") > 1.5 && per_response("grpo") <= 1.0, "{task:?}");
        assert!(per_response("spo_tree") < 0.8 && per_response("tree_rl") < 1.0, "{task:?}");
        let text = std::fs::read_to_string(&whole).expect("written");
        let lines: Vec<&str> = text.lines().take(5).collect();
        std::fs::write(&cut, lines.join("\n") + "\n").expect("written");
        assert_eq!(go_on(&cut), all, "{task:?}");
        for path in [&whole, &cut] {
            std::fs::remove_file(path).expect("there");
        }
    }
}

/// The tokens that a step counts, against the responses that it samples: a segment of a tree once, each completion.
#[test]
fn a_step_counts_every_sampled_token_once() {
    let branch = small();
    let counted = |name: &str| {
        let method = branch.study.methods.iter().find(|m| m.name == name).expect("a method");
        let lab = Lab::of_seed(3, &branch.overrides).expect("a start");
        let session = branch.session(Task::Addition, method, 3).expect("a session");
        let mut engine = lab.engine(false).expect("an engine");
        let prompts = session.prompts(0..2).expect("prompts");
        let rollout = session.context().sample(&mut engine, prompts, 8, 0).expect("it samples");
        // Two tokens of a tree are one where the branches have not parted.
        let own = |(g, group): (usize, &grpo_lambda::group::Group)| {
            let responses = group.responses.iter().enumerate();
            let token = |i: usize, t: usize| match rollout.segments.get(g) {
                Some(segments) => (segments[i][t] as usize, t),
                None => (i, t),
            };
            let all = responses.flat_map(|(i, r)| (0..r.len()).map(move |t| token(i, t)));
            all.collect::<std::collections::BTreeSet<_>>().len()
        };
        let written: usize = rollout.groups.iter().enumerate().map(own).sum();
        (rollout.sampled_tokens, written, rollout.input_cost.forward)
    };
    for name in ["grpo", "tempo", "ppo", "spo_tree", "tree_rl", "tree_rpo"] {
        let (sampled, written, _) = counted(name);
        assert!(sampled == written && written > 0, "{name}: {sampled} and {written}");
    }
    // Completions are written besides, and each of their prefixes is read.
    let (sampled, written, forward) = counted("vine_ppo");
    assert!(sampled > 2 * written && forward > sampled - written, "{sampled} {written} {forward}");
}

#[test]
fn a_method_has_the_sampler_and_the_critic_of_the_protocol() {
    let branch = read(&committed()).expect("the committed protocol");
    for task in Task::ALL {
        for method in &branch.study.methods {
            let session = branch.session(task, method, 1).expect("it opens");
            let StepSettings { branching, completions, critic, .. } = &session.settings;
            let found = (branching.is_some(), completions.is_some(), critic.is_some());
            let wanted = match method.name.as_str() {
                "spo_tree" | "tree_rpo" | "tree_rl" => (true, false, false),
                "vine_ppo" => (false, true, false),
                "ppo" => (false, false, true),
                _ => (false, false, false),
            };
            assert_eq!(found, wanted, "{task:?} {}", method.name);
            assert_eq!(session.config.rl.group_size, 8);
            if let Some(critic) = critic {
                assert_eq!([0, 70, 5000].map(|step| critic.rates.rate(step)), [0.001; 3]);
                assert_eq!((critic.updates, critic.clip), (4, Some(0.2)));
            }
        }
    }
}

/// Weights of a critic that are not numbers end a run at once, whatever the policy does.
#[test]
fn a_critic_that_breaks_down_ends_the_run() {
    let mut branch = small();
    branch.study.setup.critic.insert("lr".to_owned(), 1e38.into());
    let method = branch.study.methods.iter().find(|method| method.name == "ppo").expect("there");
    let lab = Lab::of_seed(3, &branch.overrides).expect("a start");
    let trial = branch.add(&lab, (method, 700.0), 0.001).expect("it runs");
    assert_eq!((trial.ended, trial.steps), (End::NotFinite, 0));
}

#[test]
fn a_protocol_that_cannot_be_followed_is_refused_in_a_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().join("own.toml");
    let text = std::fs::read_to_string(committed()).expect("there");
    for name in ["chain_6.toml", "systematic.toml", "baseline.toml", "clamp.toml"] {
        std::fs::copy(committed().with_file_name(name), folder.path().join(name)).expect("copied");
    }
    for (change, _, want) in cases(include_str!("refused.txt")) {
        let change = change.replace("\\n", "\n");
        let (from, to) = change.split_once(" -> ").expect("a change");
        std::fs::write(&own, text.replacen(from, to, 1)).expect("written");
        let file = folder.path().join("rows.csv");
        let refused = run(&own, Task::Chain, &file).expect_err(&change).to_string();
        assert!(refused.contains(want) && !refused.contains('\n') && !file.exists(), "{refused}");
    }
    // A text has no quotes in a setting.
    std::fs::write(&own, text.replacen("clip = 0.2", "clip = \"none\"", 1)).expect("written");
    let branch = read(&own).expect("no bound");
    let method = branch.study.methods.iter().find(|method| method.name == "ppo").expect("there");
    let session = branch.session(Task::Chain, method, 1).expect("it opens");
    assert_eq!(session.settings.critic.expect("a critic").clip, None);
}
