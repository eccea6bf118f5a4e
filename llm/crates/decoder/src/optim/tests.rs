use super::update::{Update, move_weights};
use super::*;
use serde_json::Value;

fn numbers(json: &Value) -> Vec<f32> {
    json.as_array().expect("a list").iter().map(|x| x.as_f64().expect("a number") as f32).collect()
}

fn tensors(json: &Value) -> Vec<(String, Vec<f32>)> {
    json.as_object().expect("tensors").iter().map(|(n, t)| (n.clone(), numbers(t))).collect()
}

fn step(optimiser: &mut AdamW, lr: f64, gradients: &[(String, Vec<f32>)]) -> Result<StepOutcome, OptimError> {
    let views: Vec<(&str, &[f32])> = gradients.iter().map(|(n, g)| (n.as_str(), g.as_slice())).collect();
    optimiser.step(lr, &views)
}

#[test]
fn steps_with_clipping_agree_with_torch() {
    let torch: Value = serde_json::from_str(include_str!("../../tests/fixtures/adamw.json")).expect("JSON");
    for (variant, decay) in [("all", Decay::All), ("matrices", Decay::Matrices)] {
        for compensated in [true, false] {
            let settings = AdamWSettings {
                weight_decay: torch["weight_decay"].as_f64().expect("a number"),
                max_grad_norm: torch["max_grad_norm"].as_f64(),
                decay,
                compensated,
                ..AdamWSettings::default()
            };
            let mut ours = AdamW::new(settings, tensors(&torch["start"]));
            for (k, theirs) in torch["runs"][variant].as_array().expect("steps").iter().enumerate() {
                let lr = torch["lr"].as_f64().expect("a number");
                let update = step(&mut ours, lr, &tensors(&torch["gradients"][k])).expect("fits");
                let norm = theirs["grad_norm"].as_f64().expect("a number");
                let StepOutcome::Applied { grad_norm, scale } = update else { panic!("{update:?}") };
                assert!((grad_norm / norm - 1.0).abs() < 1e-6, "{grad_norm} {norm}");
                assert_eq!(scale < 1.0, k != 1);
                for (name, after) in tensors(&theirs["after"]) {
                    for (a, b) in ours.weights(&name).expect("the parameter").iter().zip(after) {
                        assert!((a - b).abs() <= 1e-6 * b.abs().max(0.1), "{name} {k}: {a} {b}");
                    }
                }
            }
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let state = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        let weights: Vec<f32> = (0..2 * SERIAL + 5).map(|i| (i % 1009) as f32 / 500.0 - 1.0).collect();
        let gradient: Vec<f32> = weights.iter().map(|w| w * w - 0.3).collect();
        let named = [("a", &weights), ("b", &gradient)].map(|(name, w)| (name.to_owned(), w.clone()));
        let mut optimiser = AdamW::new(AdamWSettings::default(), named);
        let gradients = [("b", &weights[..]), ("a", &gradient[..])];
        let outcomes: Vec<_> =
            (0..3).map(|_| pool.install(|| optimiser.step(1e-3, &gradients)).expect("fits")).collect();
        (outcomes, optimiser)
    };
    let alone = state(1);
    for threads in [2, 3] {
        assert!(state(threads) == alone, "{threads} threads");
    }
}

fn movement(compensated: bool, sign: f32) -> f64 {
    let settings = AdamWSettings { compensated, max_grad_norm: None, ..AdamWSettings::default() };
    let mut optimiser = AdamW::new(settings, [("w".to_owned(), vec![1.0])]);
    let (mut w, mut m, mut v) = (1.0f64, 0.0f64, 0.0f64);
    for t in 1..=1000 {
        let g = sign * (1.0 + 0.3 * (t as f32).sin());
        optimiser.step(1e-6, &[("w", &[g])]).expect("fits");
        let g = f64::from(g);
        m = 0.9 * m + 0.1 * g;
        v = 0.999 * v + 0.001 * g * g;
        w -= 1e-6 * (m / (1.0 - 0.9f64.powi(t))) / ((v / (1.0 - 0.999f64.powi(t))).sqrt() + 1e-8);
    }
    (f64::from(optimiser.weights("w").expect("it")[0]) - 1.0) / (w - 1.0)
}

#[test]
fn a_thousand_updates_of_one_millionth_move_a_weight_as_in_f64() {
    for sign in [1.0, -1.0] {
        let ratio = movement(true, sign);
        assert!((ratio - 1.0).abs() < 1e-3, "{ratio}");
    }
    // Without the residual, rounding alone is several percent off: the reason it exists.
    assert!((movement(false, -1.0) - 1.0).abs() > 0.01, "{}", movement(false, -1.0));
}

/// From nothing, one step moves a weight by `lr g / (|g| + epsilon)` whatever the betas are, once clipping has scaled `g`.
#[test]
fn the_first_step_by_hand() {
    for compensated in [true, false] {
        let settings =
            AdamWSettings { epsilon: 1.0, max_grad_norm: None, compensated, ..AdamWSettings::default() };
        let mut optimiser = AdamW::new(settings.clone(), [("w".to_owned(), vec![1.0, 1.0])]);
        assert_eq!(optimiser.settings(), &settings);
        optimiser.step(0.5, &[("w", &[1.0, -3.0])]).expect("fits");
        let found = optimiser.weights("w").expect("it");
        assert!((found[0] - 0.75).abs() < 1e-6 && (found[1] - 1.375).abs() < 1e-6, "{found:?}");
    }
    let clipping = AdamWSettings { max_grad_norm: Some(2.0), ..AdamWSettings::default() };
    assert_eq!([0.5, 2.0, 8.0].map(|norm| clipping.scale(norm)), [1.0, 2.0 / 2.000001, 2.0 / 8.000001]);
    assert_eq!(AdamWSettings { max_grad_norm: None, ..clipping }.scale(1e9), 1.0);
}

#[test]
fn arrays_are_there_by_part_and_name() {
    let optimiser = |compensated| {
        let settings = AdamWSettings { compensated, ..AdamWSettings::default() };
        AdamW::new(settings, [("w".to_owned(), vec![1.0]), ("empty".to_owned(), Vec::new())])
    };
    let (with, without) = (optimiser(true), optimiser(false));
    assert_eq!(
        STATE_PARTS.map(|part| with.array(part, "w")),
        [Some(&[1.0][..]), Some(&[0.0]), Some(&[0.0]), Some(&[0.0])]
    );
    assert_eq!((without.array("residual", "w"), with.array("residual", "empty")), (None, None));
    assert_eq!((without.array("weights", "empty"), without.array("weights", "other")), (Some(&[][..]), None));
    assert_eq!(without.array("third", "w"), None);
}

/// An optimiser of a model's weights, where they lie, gives the bits of one with a copy, and saves and reads its files.
#[test]
fn the_weights_of_a_model_move_where_they_lie() {
    use crate::model::{Architecture::Qwen2, ModelShape, weights};
    let shape = Qwen2.config(ModelShape { vocab: 7, hidden: 8, layers: 1, heads: 2, kv_heads: 1 });
    let mut model = Decoder::new(shape.clone(), weights::initialise(&shape, 1, 0.02)).expect("fits");
    let frozen = model.parameters()["model.norm.weight"].clone();
    let trains = |name: &str| name != "model.norm.weight";
    let settings = AdamWSettings { weight_decay: 0.1, ..AdamWSettings::default() };
    let other = ("other".to_owned(), vec![0.5, -0.25]);
    let own = model.parameters().iter().filter(|(name, _)| trains(name));
    let own: Vec<_> = own.map(|(name, t)| (name.clone(), t.data.clone())).chain([other.clone()]).collect();
    let mut copied = AdamW::new(settings.clone(), own.clone());
    let mut lent = AdamW::of_model(settings, &model, trains, [other]);
    let gradients: Vec<(String, Vec<f32>)> =
        own.iter().map(|(name, w)| (name.clone(), w.iter().map(|w| w * w - 0.01).collect())).collect();
    let mut views: Vec<(&str, &[f32])> = gradients.iter().map(|(n, g)| (n.as_str(), g.as_slice())).collect();
    for _ in 0..3 {
        let outcome = copied.step(0.01, &views).expect("fits");
        assert_eq!(lent.step_in(&mut model, 0.01, &views).expect("fits"), outcome);
    }
    let written = |optimiser: &AdamW, model: &Decoder<f32>| {
        let mut bytes = Vec::new();
        optimiser.write_of(model, &mut bytes).expect("memory takes every byte");
        bytes
    };
    let saved = copied.to_bytes();
    assert!(written(&lent, &model) == saved && model.parameters()["model.norm.weight"] == frozen);
    assert_eq!(lent.weights("other"), copied.weights("other"));
    // Products are taken with the new weights.
    let mut rows = crate::model::Rows::new();
    rows.push(&[1, 2, 3], 1);
    let score = |model: &Decoder<f32>| model.score(&rows, Default::default()).expect("fits");
    let fresh = Decoder::new(shape, model.parameters().clone()).expect("fits");
    assert_eq!(score(&model), score(&fresh));
    // A step that is skipped changes nothing, and a saved state brings all back.
    let bad = vec![f32::NAN; views[0].1.len()];
    views[0].1 = &bad;
    assert!(matches!(lent.step_in(&mut model, 0.01, &views), Ok(StepOutcome::Skipped { .. })));
    assert!(lent.step_in(&mut model, 0.01, &views[1..]).is_err() && written(&lent, &model) == saved);
    model.update(|parameters| parameters.values_mut().for_each(|tensor| tensor.data.fill(1.0)));
    assert!(lent.restore_in(&mut model, &saved[1..]).is_err() && written(&lent, &model) != saved);
    lent.restore_in(&mut model, &saved).expect("its own");
    assert!(written(&lent, &model) == saved);
}

fn two() -> AdamW {
    let settings = AdamWSettings { weight_decay: 0.1, ..AdamWSettings::default() };
    AdamW::new(settings, [("b.bias".to_owned(), vec![0.5; 3]), ("a".to_owned(), vec![1.0, -2.0])])
}

#[test]
fn a_restored_optimiser_continues_to_the_bit() {
    let gradient = |k: u64| {
        let f = |i: u64| ((k * 7 + i * 13) % 11) as f32 * 0.1 - 0.4;
        vec![("a".to_owned(), vec![f(0), f(1)]), ("b.bias".to_owned(), vec![f(2), f(3), f(4)])]
    };
    let mut unbroken = two();
    (0..10).for_each(|k| drop(step(&mut unbroken, 1e-3, &gradient(k)).expect("fits")));
    let mut first = two();
    (0..5).for_each(|k| drop(step(&mut first, 1e-3, &gradient(k)).expect("fits")));
    let bytes = first.to_bytes();
    let mut second = two();
    second.restore(&bytes).expect("its own state");
    assert_eq!((&second, second.to_bytes()), (&first, bytes));
    (5..10).for_each(|k| drop(step(&mut second, 1e-3, &gradient(k)).expect("fits")));
    assert_eq!(second.to_bytes(), unbroken.to_bytes());
    assert_eq!(second.steps(), 10);
}

#[test]
fn the_size_of_a_state_is_that_of_its_arrays() {
    // Four arrays of f32.
    assert_eq!(two().bytes(), 5 * 16);
}

/// A parameter longer than what a thread takes, in pieces that do not divide it.
#[test]
fn pieces_move_as_the_whole_on_any_number_of_threads() {
    let len = 2 * SERIAL + 77;
    let numbers = |k: usize| (0..len).map(|i| ((i * 31 + k * 17) % 101) as f32 * 0.01 - 0.4).collect();
    let (start, gradient): (Vec<f32>, Vec<f32>) = (numbers(0), numbers(1));
    for compensated in [true, false] {
        let settings = AdamWSettings { compensated, weight_decay: 0.1, ..AdamWSettings::default() };
        let new = || AdamW::new(settings.clone(), [("w".to_owned(), start.clone())]);
        let (mut whole, mut serial) = (new(), new());
        whole.apply(1e-2, &BTreeMap::from([("w", gradient.as_slice())]), 0.5);
        let rates = StepConstants::new(&settings, 1e-2, 1, 0.5);
        serial.steps = 1;
        let slot = serial.slots.get_mut("w").expect("it");
        move_weights(Update { step: &rates, decay: 1e-3, gradient: &gradient, piece: slot.whole() });
        assert!(whole == serial);
        let (mut pieces, mut seen) = (new(), vec![0.0; len]);
        let part = |_: &str, range: Range<usize>| Ok::<_, OptimError>(Cow::Borrowed(&gradient[range]));
        let take = |_: &str, from: usize, weights: &[f32]| {
            seen[from..from + weights.len()].copy_from_slice(weights);
            Ok(())
        };
        pieces.apply_in_pieces(1e-2, 0.5, SERIAL + 3, part, take).expect("fits");
        assert!(pieces == whole && Some(seen.as_slice()) == whole.weights("w"));
    }
}

#[test]
fn the_order_of_gradients_changes_nothing() {
    let (mut one, mut other) = (two(), two());
    one.step(0.1, &[("a", &[1.0, 2.0]), ("b.bias", &[3.0, 4.0, 5.0])]).expect("fits");
    other.step(0.1, &[("b.bias", &[3.0, 4.0, 5.0]), ("a", &[1.0, 2.0])]).expect("fits");
    assert_eq!(one, other);
}

#[test]
fn a_gradient_that_is_not_finite_skips_the_step_and_is_named() {
    for bad in [f32::NAN, f32::INFINITY] {
        let mut optimiser = two();
        let update = optimiser.step(0.1, &[("a", &[1.0, 2.0]), ("b.bias", &[bad, 4.0, bad])]).expect("fits");
        assert_eq!(update, StepOutcome::Skipped { parameter: "b.bias".to_owned(), not_finite: 2 });
        assert_eq!(optimiser, two());
    }
    // The largest finite gradients are not mistaken for it.
    let huge = two().step(0.1, &[("a", &[f32::MAX; 2]), ("b.bias", &[f32::MAX; 3])]).expect("fits");
    assert!(matches!(huge, StepOutcome::Applied { .. }));
}

#[test]
fn gradients_that_do_not_fit_are_refused() {
    let refused = |g: &[(&str, &[f32])]| two().step(0.1, g).expect_err("must be refused");
    assert_eq!(refused(&[("a", &[1.0, 1.0])]), OptimError::Missing("b.bias".to_owned()));
    let unknown = [("a", &[1.0f32, 1.0] as &[f32]), ("b.bias", &[0.0; 3]), ("c", &[])];
    assert_eq!(refused(&unknown), OptimError::Unknown("c".to_owned()));
    let short = [("a", &[1.0f32] as &[f32]), ("b.bias", &[0.0; 3])];
    assert_eq!(refused(&short), OptimError::Length { name: "a".to_owned(), expected: 2, found: 1 });
}

#[test]
fn states_that_do_not_fit_are_refused_and_change_nothing() {
    let bytes = two().to_bytes();
    let mut other = AdamW::new(AdamWSettings::default(), [("a".to_owned(), vec![9.0; 2])]);
    assert!(other.restore(&bytes).is_err());
    let mut longer =
        AdamW::new(AdamWSettings::default(), [("a".into(), vec![9.0; 2]), ("b.bias".into(), vec![9.0; 4])]);
    let before = longer.clone();
    assert!(longer.restore(&bytes).expect_err("sizes differ").to_string().contains("weights/b.bias"));
    assert_eq!(longer, before);
    for cut in [0, 7, bytes.len() / 2, bytes.len() - 1] {
        assert!(two().restore(&bytes[..cut]).is_err());
    }
}

#[test]
fn only_matrices_decay_unless_asked() {
    let settings = AdamWSettings { weight_decay: 0.5, ..AdamWSettings::default() };
    let mut optimiser = AdamW::new(settings, two().parameters().map(|(n, w)| (n.to_owned(), w.to_vec())));
    optimiser.step(0.1, &[("a", &[0.0; 2]), ("b.bias", &[0.0; 3])]).expect("fits");
    assert_eq!(optimiser.weights("b.bias"), Some(&[0.5f32; 3] as &[f32]));
    assert_eq!(optimiser.weights("a"), Some(&[0.95f32, -1.9] as &[f32]));
}
