//! Each process's part of the optimiser.

use grpo_lambda_decoder::model::{
    Architecture::Qwen2, Decoder, ForwardOptions, ModelConfig, ModelShape, Rows, weights,
};
use grpo_lambda_decoder::optim::AdamWSettings;

use super::threads::Threads;
use super::worker::{Replica, serve};
use super::{Team, TeamEngine};
use grpo_lambda_trainer::step::engine::{CpuEngine, Engine, TrainingSetup};

fn model() -> Decoder<f32> {
    let shape = ModelConfig {
        tie_word_embeddings: true,
        ..Qwen2.config(ModelShape { vocab: 61, hidden: 16, layers: 3, heads: 4, kv_heads: 2 })
    };
    Decoder::new(shape.clone(), weights::initialise(&shape, 1, 0.3)).expect("it fits")
}

/// Bytes of optimiser by process, after a step and a detour through a file.
fn held(processes: usize) -> Vec<usize> {
    let mut ends = Threads::team(processes).into_iter();
    let leader = Team::new(Box::new(ends.next().expect("a leader")));
    let work = |mut end: Threads| {
        let mut replica: Option<Replica> = None;
        serve(&mut end, &mut replica).expect("the leader says goodbye");
        replica.map_or(0, |replica| replica.optimiser.bytes())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = ends.map(|end| scope.spawn(move || work(end))).collect();
        let setup = TrainingSetup::new(AdamWSettings::default());
        let mut engine = TeamEngine::new(model(), setup, &leader, 4).expect("enough shards");
        let mut rows = Rows::new();
        rows.push(&[1, 2, 3], 1);
        let (_, tape) = engine.forward(&rows, ForwardOptions::default()).expect("all are there");
        engine.backward(tape, &[vec![0.5, -1.0]]).expect("all are there");
        engine.step(1e-3).expect("all are there");
        let mut state = Vec::new();
        engine.write_optimiser(&mut state).expect("memory takes it");
        engine.restore_optimiser(&state).expect("its own");
        let own = engine.inner.optimiser.bytes();
        drop(leader);
        let others = workers.into_iter().map(|worker| worker.join().expect("no panic"));
        std::iter::once(own).chain(others).collect()
    })
}

#[test]
fn a_process_has_its_part_of_the_optimiser_and_at_most_the_largest_tensor_more() {
    let alone = CpuEngine::new(model(), TrainingSetup::new(AdamWSettings::default())).expect("it fits");
    let total = alone.optimiser.bytes();
    let largest = model().parameters().values().map(|t| t.data.len()).max().unwrap_or(0) * 16;
    for processes in 1..=4 {
        let held = held(processes);
        assert_eq!(held.len(), processes);
        assert_eq!(held.iter().sum::<usize>(), total, "{processes}: {held:?}");
        assert!(held.iter().all(|bytes| *bytes <= total / processes + largest), "{processes}: {held:?}");
    }
}
