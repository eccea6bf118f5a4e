mod span;

use grpo_lambda::assignment::Answer;
use grpo_lambda::group::{ExtraInputs, Group, InputKind, Response};
use grpo_lambda::methods;
use grpo_lambda_decoder::model::Architecture::Qwen2;
use grpo_lambda_decoder::model::{Decoder, ForwardOptions, ModelConfig, ModelShape, Rows, weights};
use grpo_lambda_decoder::rng::{Address, Purpose, normal};
use grpo_lambda_grade::Extraction;
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::step::extra_inputs::{
    ForwardSettings, InputCost, InputFields, InputRequest, ResponseSpan, collect, provided, saliencies,
    shifts,
};

const ANSWERS: [Answer; 3] = [Answer::Mean, Answer::Joint, Answer::Last];
const MASK: u32 = 0;
const PASS: ForwardSettings = ForwardSettings { temperature: 0.8, tokens: 8192, recompute: false };

fn model() -> Decoder<f32> {
    let config = ModelConfig {
        intermediate_size: 32,
        ..Qwen2.config(ModelShape {
            vocab: ModelTokenizer::tiny().len(),
            hidden: 16,
            layers: 2,
            heads: 4,
            kv_heads: 2,
        })
    };
    Decoder::new(config.clone(), weights::initialise(&config, 5, 0.4)).expect("fits")
}

/// The model's weights in double precision.
fn exact() -> Decoder<f64> {
    let single = model();
    Decoder::new(single.config().clone(), weights::cast(single.parameters())).expect("fits")
}

const PROMPT: [u32; 3] = [20, 31, 40];
const TEXTS: [&str; 4] =
    ["1+2=3\n\\boxed{13}", "7\\boxed{5}", "no box, then \\boxed{406}.", "3*4=12\n2+2=4\n\\boxed{4}"];

fn responses() -> Vec<Vec<u32>> {
    let tokens = ModelTokenizer::tiny();
    TEXTS.map(|text| tokens.target(text).expect("encodes").ids().to_vec()).to_vec()
}

fn items(responses: &[Vec<u32>]) -> Vec<InputFields<'_>> {
    let tokens = ModelTokenizer::tiny();
    let mut items = Vec::new();
    for (i, response) in (0..).zip(responses) {
        let span = ResponseSpan::find(&tokens, response).expect("decodes").expect("has an answer");
        let address = Address::new(3, Purpose::Perturbation).response(i);
        items.push(InputFields { prompt: &PROMPT, response, span, address });
    }
    items
}

/// The numbers that stand for the answer, by definition, from the logits of a whole row: log-probabilities, or a log-likelihood. `joint`
/// is what divides the log-likelihood.
fn by_definition(
    z: &[f64],
    v: usize,
    item: &InputFields,
    answer: Answer,
    last: usize,
    joint: f64,
) -> Vec<f64> {
    let log_softmax = |z: Vec<f64>| {
        let sum = z.iter().map(|z| z.exp()).sum::<f64>().ln();
        z.into_iter().map(|z| z - sum).collect::<Vec<f64>>()
    };
    // The logits that predict token `t` of the response.
    let before = |t: usize| {
        let place = PROMPT.len() + t - 1;
        z[place * v..(place + 1) * v].iter().map(|z| z / PASS.temperature).collect::<Vec<f64>>()
    };
    match answer {
        Answer::Last => log_softmax(before(last)),
        Answer::Joint => {
            let places = item.span.answer.clone();
            vec![places.map(|t| log_softmax(before(t))[item.response[t] as usize]).sum::<f64>() / joint]
        }
        Answer::Mean => {
            let rows: Vec<Vec<f64>> = item.span.answer.clone().map(before).collect();
            log_softmax((0..v).map(|j| rows.iter().map(|r| r[j]).sum::<f64>() / rows.len() as f64).collect())
        }
    }
}

fn moved(answer: Answer, clean: &[f64], now: &[f64]) -> f64 {
    match answer {
        Answer::Joint => clean[0] - now[0],
        _ => clean.iter().zip(now).map(|(p, q)| p.exp() * (p - q)).sum(),
    }
}

#[test]
fn shifts_are_those_of_masking_one_token_at_a_time_in_whole_responses() {
    let (model, responses) = (model(), responses());
    let (items, v) = (items(&responses), model.config().vocab_size);
    for answer in ANSWERS {
        let (scores, cost) = shifts::shifts(&model, &items, answer, MASK, PASS).expect("fits");
        let (mut forward, mut largest, mut least) = (0, 0.0f64, 0.0f64);
        for (item, scores) in items.iter().zip(&scores) {
            assert_eq!(scores.len(), item.span.reasoning);
            let answered = |masked: Option<usize>| {
                let mut row = item.row(item.response.len());
                if let Some(t) = masked {
                    row[PROMPT.len() + t] = MASK;
                }
                let mut rows = Rows::new();
                rows.push(&row, row.len());
                let z: Vec<f64> = model.logits(&rows).expect("fits").into_iter().map(f64::from).collect();
                by_definition(&z, v, item, answer, item.span.answer.start, 1.0)
            };
            let clean = answered(None);
            for (t, score) in scores.iter().enumerate() {
                let want = moved(answer, &clean, &answered(Some(t)));
                // A log-probability is computed in single precision for the joint likelihood, elsewhere only logits are.
                let tolerance = if answer == Answer::Joint { 5e-6 } else { 1e-12 };
                assert!((score - want).abs() < tolerance, "{answer:?} {t}: {score}, not {want}");
                (largest, least) = (largest.max(*score), least.min(*score));
            }
            let end = if answer == Answer::Last { item.span.answer.start + 1 } else { item.span.answer.end };
            forward += (item.span.reasoning + 1) * (PROMPT.len() + end);
        }
        assert_eq!(cost, InputCost { forward, backward: 0 });
        assert!(largest > 1e-2, "{answer:?}: masking moves nothing");
        assert_eq!(least < 0.0, answer == Answer::Joint, "{answer:?}: {least}");
    }
}

#[test]
fn saliencies_are_gradient_times_input_by_finite_differences_in_double_precision() {
    let (model, exact, responses) = (model(), exact(), responses());
    let (items, v, h) = (items(&responses), model.config().vocab_size, model.config().hidden_size);
    let (noise, draws) = (0.3, 2);
    for answer in ANSWERS {
        let (scores, cost) =
            saliencies::saliencies(&model, &items, answer, (noise, draws), PASS).expect("fits");
        let (mut forward, mut backward) = (0, 0);
        for (item, scores) in items.iter().zip(&scores) {
            let row = item.row(item.response.len());
            let mut rows = Rows::new();
            rows.push(&row, 1);
            let last = item.span.answer.end;
            let answered = |shift: &[f64]| {
                let mut z = exact.target_logits(&rows, Some(shift)).expect("fits");
                z.resize(row.len() * v, 0.0); // after the last token, which nobody reads
                by_definition(&z, v, item, answer, last, item.span.answer.len() as f64)
            };
            let clean = answered(&vec![0.0; row.len() * h]);
            let mut want = vec![0.0; item.span.reasoning];
            for draw in 0..draws {
                let mut rng = item.address.generator(draw * (1 << 40));
                let mut shift = vec![0.0; row.len() * h];
                for x in &mut shift[PROMPT.len() * h..(PROMPT.len() + item.span.reasoning) * h] {
                    *x = f64::from((noise * normal(&mut rng)) as f32);
                }
                for (t, want) in want.iter_mut().enumerate() {
                    let place = (PROMPT.len() + t) * h;
                    // The derivative along the token's own embedding.
                    let along = |step: f64| {
                        let mut shift = shift.clone();
                        let e = exact.embedding(item.response[t]);
                        shift[place..place + h].iter_mut().zip(e).for_each(|(x, e)| *x += step * e);
                        moved(answer, &clean, &answered(&shift))
                    };
                    let slope = (8.0 * (along(1e-3) - along(-1e-3)) - (along(2e-3) - along(-2e-3))) / 12e-3;
                    *want += slope.abs() / draws as f64;
                }
            }
            let largest = want.iter().copied().fold(0.0, f64::max);
            assert!(largest > 1e-2, "{answer:?}: {want:?}");
            for (score, want) in scores.iter().zip(&want) {
                assert!((score - want).abs() < 2e-5 * largest, "{answer:?}: {score}, not {want}");
            }
            let end = if answer == Answer::Last { item.span.answer.end + 1 } else { item.span.answer.end };
            let clean_pass = usize::from(answer != Answer::Joint);
            forward += (clean_pass + draws as usize) * (PROMPT.len() + end);
            backward += draws as usize * (PROMPT.len() + end);
        }
        assert_eq!(cost, InputCost { forward, backward });
    }
}

/// A token like `}}` ends the answer and closes its box; with it the limit of tokens may be reached.
#[test]
fn a_response_that_ends_with_its_answer_has_the_saliencies_of_one_that_goes_on() {
    let (model, responses) = (model(), responses());
    let whole = items(&responses);
    let cut: Vec<InputFields> = whole
        .iter()
        .map(|item| InputFields {
            response: &item.response[..item.span.answer.end],
            span: item.span.clone(),
            ..*item
        })
        .collect();
    for answer in ANSWERS {
        let scores = |items: &[InputFields]| {
            saliencies::saliencies(&model, items, answer, (1e-3, 2), PASS).expect("fits")
        };
        assert_eq!(scores(&cut), scores(&whole), "{answer:?}");
    }
}

#[test]
fn a_saliency_at_the_usual_noise_is_right_to_a_percent_in_single_precision() {
    let (model, exact, responses) = (model(), exact(), responses());
    let (items, h) = (items(&responses), model.config().hidden_size);
    let (scores, _) = saliencies::saliencies(&model, &items, Answer::Mean, (1e-3, 1), PASS).expect("fits");
    for (item, scores) in items.iter().zip(&scores) {
        let row = item.row(item.span.answer.end);
        let mut rows = Rows::new();
        rows.push(&row, PROMPT.len() + item.span.answer.start);
        let n = item.span.answer.len();
        let softmax = |z: &[f64]| {
            let v = z.len() / n;
            let mean: Vec<f64> = (0..v)
                .map(|j| z.chunks(v).map(|r| r[j]).sum::<f64>() / n as f64 / PASS.temperature)
                .collect();
            let sum: f64 = mean.iter().map(|z| z.exp()).sum();
            mean.iter().map(|z| z.exp() / sum).collect::<Vec<f64>>()
        };
        let clean = softmax(&exact.target_logits(&rows, None).expect("fits"));
        let mut rng = item.address.generator(0);
        let mut shift = vec![0.0; row.len() * h];
        for x in &mut shift[PROMPT.len() * h..(PROMPT.len() + item.span.reasoning) * h] {
            *x = f64::from((1e-3 * normal(&mut rng)) as f32);
        }
        let slope = |z: &[f64]| {
            let now = softmax(z);
            let one = now.iter().zip(&clean).map(|(q, p)| (q - p) / n as f64 / PASS.temperature);
            one.collect::<Vec<f64>>().repeat(n)
        };
        let gradient = exact.embedding_gradient(&rows, Some(&shift), false, slope).expect("fits");
        for (t, score) in scores.iter().enumerate() {
            let place = (PROMPT.len() + t) * h;
            let e = exact.embedding(item.response[t]);
            let want = gradient[place..place + h].iter().zip(e).map(|(g, e)| g * e).sum::<f64>().abs();
            let largest = scores.iter().copied().fold(0.0, f64::max);
            assert!((score - want).abs() < 0.01 * largest, "{t}: {score}, not {want}");
        }
    }
}

#[test]
fn scores_have_the_same_bits_in_any_micro_batch_next_to_anyone_and_with_any_number_of_threads() {
    let (model, responses) = (model(), responses());
    let items = items(&responses);
    let both = |items: &[InputFields], answer: Answer, pass: ForwardSettings| {
        let shifts = shifts::shifts(&model, items, answer, MASK, pass).expect("fits").0;
        let saliencies = saliencies::saliencies(&model, items, answer, (1e-3, 3), pass).expect("fits").0;
        (shifts, saliencies)
    };
    for answer in ANSWERS {
        let whole = both(&items, answer, PASS);
        for tokens in [1, 40, 111] {
            let pass = ForwardSettings { tokens, recompute: tokens == 40, ..PASS };
            assert_eq!(both(&items, answer, pass), whole);
        }
        for (i, item) in items.iter().enumerate() {
            let alone = both(std::slice::from_ref(item), answer, PASS);
            assert_eq!((&alone.0[0], &alone.1[0]), (&whole.0[i], &whole.1[i]));
        }
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            assert_eq!(pool.install(|| both(&items, answer, PASS)), whole, "{threads} threads");
        }
    }
}

/// A group of the test responses, and a response without a box, with these rewards.
fn group(rewards: [Option<f64>; 5]) -> Group {
    let mut all = responses();
    all.push(ModelTokenizer::tiny().target("1+2=3").expect("encodes").ids().to_vec());
    let response = |(tokens, reward): (Vec<u32>, Option<f64>)| Response {
        old_logps: vec![-1.0; tokens.len()],
        tokens,
        ref_logps: None,
        reward,
        truncated: false,
        extra_inputs: ExtraInputs::default(),
    };
    Group { responses: all.into_iter().zip(rewards).map(response).collect() }
}

#[test]
fn what_has_no_answer_no_reward_or_nothing_to_compare_has_no_scores_and_costs_nothing() {
    let (model, tokens) = (model(), ModelTokenizer::tiny());
    for request in [
        InputRequest::Shifts { answer: Answer::Mean, mask: MASK },
        InputRequest::Saliencies { answer: Answer::Mean, noise: 1e-3, draws: 2 },
    ] {
        let asked = |batch: &mut [Group]| {
            let address = |g: usize, i: usize| {
                Address::new(1, Purpose::Perturbation).prompt(g as u64).response(i as u64)
            };
            let cost = collect(&model, request, &tokens, PASS, batch, |_| &PROMPT, address).expect("fits");
            let lengths = |g: &Group| {
                let length = |r: &Response| {
                    r.extra_inputs
                        .shifts
                        .as_ref()
                        .or(r.extra_inputs.saliencies.as_ref())
                        .expect("asked")
                        .len()
                };
                g.responses.iter().map(length).collect::<Vec<usize>>()
            };
            (batch.iter().map(lengths).collect::<Vec<_>>(), cost)
        };
        let agreeing = group([Some(1.0); 5]);
        let mixed = group([Some(1.0), Some(0.0), None, Some(1.0), Some(0.0)]);
        let (lengths, cost) = asked(&mut [agreeing.clone(), mixed.clone()]);
        let reasoning = |i: usize| {
            ResponseSpan::find(&tokens, &mixed.responses[i].tokens)
                .expect("decodes")
                .expect("answers")
                .reasoning
        };
        assert_eq!(lengths, [vec![0; 5], vec![reasoning(0), reasoning(1), 0, reasoning(3), 0]]);
        assert_eq!(cost, asked(&mut [mixed]).1);
        assert!(cost.forward > 0 && asked(&mut [agreeing]).1 == InputCost::default());
    }
}

/// That agreeing groups are not asked changes no update: whatever their scores, OAR gives them nothing.
#[test]
fn scores_of_a_group_that_agrees_would_change_nothing() {
    for name in ["oar_p", "oar_g", "oar_p scale=batch", "oar_g scale=none"] {
        let (name, settings) = name.split_once(' ').unwrap_or((name, ""));
        let method = methods::parse(name, settings).expect("valid").method;
        let credits = |scores: &[f64]| {
            let mut batch =
                [group([Some(1.0); 5]), group([Some(1.0), Some(0.0), None, Some(1.0), Some(0.0)])];
            for r in batch.iter_mut().flat_map(|g| &mut g.responses) {
                r.extra_inputs.shifts = Some(Vec::new());
                r.extra_inputs.saliencies = Some(Vec::new());
            }
            for r in &mut batch[0].responses {
                r.extra_inputs.shifts = Some(scores.to_vec());
                r.extra_inputs.saliencies = Some(scores.to_vec());
            }
            method.credit(&batch)
        };
        assert_eq!(credits(&[]), credits(&[0.3, 2.0, 0.1]));
    }
}

#[test]
fn questions_are_read_from_the_settings_of_the_method_and_refused_by_name() {
    let tokens = ModelTokenizer::tiny();
    let found_in = |place, words: &str| {
        let (name, settings) = words.split_once(' ').unwrap_or((words, ""));
        InputRequest::from_method(&methods::parse(name, settings).expect("valid"), place, &tokens, 100)
    };
    let request = |words| found_in(Extraction::Boxed, words);
    // Scores are of answers in boxes alone.
    for words in ["oar_p", "oar_g"] {
        let line = found_in(Extraction::Tag, words).expect_err(words).to_string();
        assert!(line.starts_with(&format!("method.name = {words}: must be a method that")), "{line}");
    }
    assert_eq!(found_in(Extraction::Tag, "grpo"), Ok(None));
    assert_eq!(request("grpo_lambda"), Ok(None));
    let pad = tokens.pad().expect("tiny has one");
    assert_eq!(request("oar_p"), Ok(Some(InputRequest::Shifts { answer: Answer::Mean, mask: pad })));
    let masked = InputRequest::Shifts { answer: Answer::Last, mask: 7 };
    assert_eq!(request("oar_p mask_token=7 pfinal=last"), Ok(Some(masked)));
    let noisy = InputRequest::Saliencies { answer: Answer::Joint, noise: 1e-3, draws: 3 };
    assert_eq!(request("oar_g n_noise=3 pfinal=answer_joint"), Ok(Some(noisy)));
    for (words, line) in [
        (
            "oar_p mask_token=100",
            "method.mask_token = 100: must be none or the id of a token, a whole number below 100",
        ),
        ("oar_p mask_token=1.5", "method.mask_token = 1.5: must be none or the id of a token"),
        ("oar_g n_noise=2.5", "method.n_noise = 2.5: must be a whole number of at least 1"),
    ] {
        assert!(request(words).expect_err(words).to_string().starts_with(line), "{words}");
    }
}

/// The page of methods names exactly the methods that ask for extra inputs which no model here gives.
#[test]
fn the_page_of_methods_names_those_that_lack_inputs() {
    let page = include_str!("../../../../../../../docs/conventions.md");
    let (_, item) = page.split_once("**Not trained by `llm-train`**").expect("the page has the mark");
    let item = item.split("\n- **").next().unwrap_or_default();
    for spec in methods::REGISTRY {
        let configured = methods::parse(spec.name, "").expect("its defaults are valid");
        let provided = provided(&configured);
        let lacks = configured.extra_inputs().iter().any(|kind| !provided.contains(kind));
        assert_eq!(item.contains(&format!("`{}`", spec.name)), lacks, "{}", spec.name);
    }
}

/// The page of methods says of each how it samples: a method on its list is taken with the setting that the list names, and with no other list's.
#[test]
fn the_page_of_methods_names_those_that_sample_in_their_own_way() {
    let page = include_str!("../../../../../../../docs/conventions.md").replace("\n  ", " ");
    let (_, item) = page.split_once("**Their own sampling.** ").expect("the page has the mark");
    let item = item.split("All others").next().unwrap_or_default();
    let named = |setting: &str, spec: &methods::MethodSpec| {
        let list = item.split(". ").find(|list| list.contains(setting));
        list.unwrap_or_else(|| panic!("{setting} is not on the page")).contains(&format!("`{}`", spec.name))
    };
    for spec in methods::REGISTRY {
        let taken = |words: &[&str]| {
            let name = format!("method.name={}", spec.name);
            Config::resolve("tiny", &[&[name.as_str()], words].concat()).is_ok()
        };
        let trees = named("rl.sampling=tree", spec);
        assert_eq!(taken(&["rl.sampling=tree"]), trees, "{}", spec.name);
        assert_eq!(taken(&["rl.sampling=entropy_search", "rl.group_size=20"]), trees, "{}", spec.name);
        assert_eq!(taken(&[]), !trees, "{}", spec.name);
        let configured = methods::parse(spec.name, "").expect("its defaults are valid");
        let provided = configured.require(&provided(&configured)).is_ok();
        let systematic = taken(&["rl.sampling=systematic"]) && provided;
        assert_eq!(systematic, named("Systematic sets, in", spec), "{}", spec.name);
        let steps = configured.extra_inputs().contains(&InputKind::Steps);
        assert_eq!(steps, named("rl.completions", spec), "{}", spec.name);
    }
}

/// `sum_v pi(v|s)^2` from the log-probability of every continuation, scored one by one.
#[test]
fn collisions_are_the_squares_of_the_probabilities_of_all_continuations() {
    let (model, all) = (model(), responses());
    let response = |tokens: &Vec<u32>| Response {
        tokens: tokens.clone(),
        ..Response::graded(vec![-1.0; tokens.len()], 1.0)
    };
    let mut batch = [Group { responses: all[..2].iter().map(response).collect() }];
    let tokens = ModelTokenizer::tiny();
    let address = |_, _| Address::new(0, Purpose::Rollout);
    let cost = collect(&model, InputRequest::Collisions, &tokens, PASS, &mut batch, |_| &PROMPT, address);
    assert_eq!(cost.unwrap().forward, all[..2].iter().map(|r| PROMPT.len() + r.len()).sum::<usize>());
    let options = ForwardOptions { temperature: PASS.temperature, ..ForwardOptions::default() };
    for response in &batch[0].responses {
        let found = response.extra_inputs.collisions.as_ref().unwrap();
        assert_eq!(found.len(), response.len());
        for (t, found) in found.iter().enumerate() {
            let mut rows = Rows::new();
            for v in 0..model.config().vocab_size as u32 {
                let row = [&PROMPT[..], &response.tokens[..t], &[v]].concat();
                rows.push(&row, row.len() - 1);
            }
            let scores = model.score(&rows, options).unwrap().logps;
            let sum: f64 = scores.iter().map(|row| (2.0 * row[0]).exp()).sum();
            assert!((found - sum).abs() < 1e-5, "{t}: {found} for {sum}");
        }
    }
}
