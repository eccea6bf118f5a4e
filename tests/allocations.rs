//! Claim `allocations`: a loss call allocates a bounded number of buffers, however long the response.
//!
//! A binary of its own, because a global allocator counts for the whole process.

// A `GlobalAlloc` cannot be written without it; this one only counts and forwards to the system allocator.
#![allow(unsafe_code)]

use grpo_lambda::group::{ExtraInputs, Group, Response};
use grpo_lambda::methods::{REGISTRY, configure};
use grpo_lambda::settings::Kind;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[path = "long/mod.rs"]
mod long;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// Forwards to the system allocator and counts, per thread, what is asked of it.
struct Counting;

fn count() {
    // The thread's counter may be gone while the thread ends.
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: every call is forwarded unchanged to `System`, which upholds the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        unsafe { System.realloc(pointer, layout, size) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

/// Buffers a loss call may ask for: log-ratios, trace, slopes, values, soft weights and their scratch.
const BOUND: usize = 24;

fn response(len: usize) -> Response {
    Response {
        tokens: vec![1; len],
        ref_logps: Some(vec![-0.9; len]),
        extra_inputs: ExtraInputs { teacher_logps: Some(vec![-0.6; len]), ..ExtraInputs::constant(len, 0.5) },
        ..Response::graded(vec![-0.7; len], 1.0)
    }
}

#[test]
fn the_number_of_allocations_of_a_loss_does_not_depend_on_the_length_of_the_response() {
    let longest = long::of(2_048, 16_384);
    let mut most = 0;
    let mut settings = 0;
    for &spec in REGISTRY {
        // Every word and flag of every setting, alone and in front of the loss, with a KL term.
        let params = (spec.params)();
        let has = |key: &str| params.iter().any(|p| p.key == key);
        let mut variants = vec![vec![]];
        for p in &params {
            let words: Vec<&str> = match p.kind {
                Kind::Choice(words) => words.to_vec(),
                Kind::Flag => vec!["true", "false"],
                _ => vec![],
            };
            for word in words {
                variants.push(vec![(p.key, word)]);
                for (key, other) in [("update", "weight"), ("style", "both"), ("matrix", "row_index")] {
                    let takes = params
                        .iter()
                        .any(|q| q.key == key && matches!(q.kind, Kind::Choice(w) if w.contains(&other)));
                    if p.key != key && takes {
                        variants.push(vec![(p.key, word), (key, other)]);
                    }
                }
            }
        }
        for mut variant in variants {
            variant.push(("beta", "0.04"));
            let overrides: Vec<_> =
                variant.iter().filter(|(k, _)| has(k)).map(|(k, v)| (k.to_string(), v.to_string())).collect();
            let method = configure(spec.name, &overrides).expect("valid settings").method;
            let count = |len: usize| {
                let group =
                    Group { responses: vec![response(len), Response { reward: Some(0.0), ..response(len) }] };
                let credit = &method.credit(std::slice::from_ref(&group))[0];
                let logps = vec![-0.8; len];
                let before = ALLOCATIONS.get();
                let loss = method.loss(&group.responses[0], credit, &logps);
                let after = ALLOCATIONS.get();
                assert_eq!(loss.dlogps.len(), len);
                after - before
            };
            let (few, many) = (count(64), count(longest));
            assert_eq!(few, many, "{} {variant:?}", spec.name);
            assert!(many <= BOUND, "{} {variant:?}: {many}", spec.name);
            most = most.max(many);
            settings += 1;
        }
    }
    println!("{settings} settings: at most {most} allocations per response at T = 64 and at T = {longest}");
}
