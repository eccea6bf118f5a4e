use grpo_lambda_trainer::bounded::{Limits, Stopped, kept, run};
use std::process::Command;
use std::time::Duration;
use std::{panic, thread};

const SMALL: Limits = Limits { memory: 8 << 20, stack: 1 << 20, time: Some(Duration::from_secs(60)) };

#[test]
fn work_within_its_limits_returns_and_what_it_frees_does_not_count() {
    let sum = run(SMALL, || {
        (0..64u64).map(|i| std::hint::black_box(vec![i; 1 << 18]).iter().sum::<u64>()).sum::<u64>()
    });
    assert_eq!(sum.expect("2 MiB at a time"), (1 << 18) * 63 * 32);
}

#[test]
fn too_much_memory_is_refused_at_once_or_bit_by_bit() {
    let at_once = run(SMALL, || std::hint::black_box(vec![0u8; 1 << 40]).len());
    assert!(matches!(at_once, Err(Stopped::Memory(_))), "{at_once:?}");
    let doubled = run(SMALL, || {
        let mut text = "ab".to_owned();
        loop {
            text = text.repeat(2);
            std::hint::black_box(&text);
        }
    });
    let doubled: Result<String, Stopped> = doubled;
    assert_eq!(doubled.expect_err("endless").to_string(), "it takes more than 8 MiB of memory");
    let grown = run(SMALL, || {
        let mut bytes = Vec::new();
        while bytes.len() < 1 << 30 {
            bytes.push(std::hint::black_box(1u8));
        }
    });
    assert!(matches!(grown, Err(Stopped::Memory(_))), "{grown:?}");
}

#[test]
fn too_much_time_is_refused() {
    let limits = Limits { time: Some(Duration::from_millis(20)), ..SMALL };
    let stopped = run(limits, || {
        loop {
            drop(std::hint::black_box(Box::new(1)));
        }
    });
    let stopped: Result<(), Stopped> = stopped;
    assert!(matches!(stopped, Err(Stopped::Time(_))), "{stopped:?}");
}

#[test]
fn waiting_counts_for_a_sixtieth_of_work() {
    // Other tests of this process compute: a process of its own waits alone.
    if std::env::var_os("WAITS_ALONE").is_none() {
        let alone = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "bounded::waiting_counts_for_a_sixtieth_of_work"])
            .env("WAITS_ALONE", "1")
            .output()
            .unwrap();
        assert!(alone.status.success() && String::from_utf8_lossy(&alone.stdout).contains("1 passed"));
        return;
    }
    let limits = Limits { time: Some(Duration::from_millis(20)), ..SMALL };
    let waited = run(limits, || {
        thread::sleep(Duration::from_millis(200));
        7
    });
    assert_eq!(waited.expect("what waits does not compute"), 7);
    let short = Limits { time: Some(Duration::from_millis(2)), ..SMALL };
    let endless: Result<(), Stopped> = run(short, || thread::sleep(Duration::from_secs(600)));
    assert!(matches!(endless, Err(Stopped::Time(_))), "{endless:?}");
}

#[test]
fn a_panic_is_an_error_on_one_line_and_a_deep_recursion_none() {
    let stopped = run(SMALL, || panic!("two\n  lines"));
    let stopped: Result<(), Stopped> = stopped;
    assert_eq!(stopped.expect_err("panics").to_string(), "two lines");
    fn depth(n: u32) -> u32 {
        let room = std::hint::black_box([n; 16]);
        if n == 0 { 0 } else { depth(n - 1) + room[0] / n }
    }
    let deep = Limits { stack: 64 << 20, ..SMALL };
    assert_eq!(run(deep, || depth(500_000)).expect("a deep stack"), 500_000);
    fn endless(n: usize) -> usize {
        let inner = std::hint::black_box(Box::new(n));
        if *inner == usize::MAX { 0 } else { endless(*inner + 1) + *inner }
    }
    for _ in 0..3 {
        let stopped = run(SMALL, || endless(0)).expect_err("endless");
        assert!(stopped.to_string().starts_with("it takes more than 1 MiB of stack"), "{stopped}");
    }
}

#[test]
fn what_stays_allocated_is_counted() {
    for bytes in [0usize, 1, 1 << 20] {
        let left = run(SMALL, move || kept(|| (drop(vec![0u8; 3 << 20]), vec![1u8; bytes])).1);
        assert_eq!(left.expect("within its limits"), bytes as isize);
    }
}

#[test]
fn finished_threads_are_used_again() {
    let stack = 3 << 20;
    let name = || run(Limits { stack, ..SMALL }, || thread::current().id()).expect("short");
    assert_eq!(name(), name());
}
