//! The module of the switches that is added to the crate under test.

/// True if mutant `number` is on, as an expression.
pub(crate) fn on(number: usize) -> String {
    format!("crate::mutation_switches::on({number})")
}

/// The markers around the text of a mutant, by which an error of the compiler is laid to it.
pub(crate) fn marked(number: usize, text: &str) -> String {
    format!("/*M{number}*/ {text} /*W{number}*/")
}

/// The text of the module for `count` mutants.
pub(crate) fn module(count: usize) -> String {
    format!("{}\n", MODULE.replace("COUNT", &count.to_string()))
}

/// `MUTANT` turns one mutant on. `MUTANTS_REACHED` names a file to which each mutant that is reached is written once.
const MODULE: &str = r#"
#[doc(hidden)]
#[allow(missing_docs)]
pub mod mutation_switches {
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{LazyLock, Mutex};

    const RECORD: usize = usize::MAX - 1;
    static ACTIVE: LazyLock<usize> = LazyLock::new(|| match std::env::var("MUTANT") {
        Ok(number) => number.parse().expect("a number"),
        Err(_) if std::env::var_os("MUTANTS_REACHED").is_some() => RECORD,
        Err(_) => usize::MAX,
    });
    static FILE: LazyLock<Mutex<std::fs::File>> = LazyLock::new(|| {
        let name = std::env::var_os("MUTANTS_REACHED").expect("it is set");
        let file = std::fs::OpenOptions::new().create(true).append(true).open(name);
        Mutex::new(file.expect("a file to write to"))
    });
    static REACHED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

    #[cold]
    fn record(number: usize) {
        if !REACHED[number].load(Ordering::Relaxed) && !REACHED[number].swap(true, Ordering::Relaxed) {
            writeln!(FILE.lock().expect("no panic while it is held"), "{number}").expect("a file to write to");
        }
    }

    #[inline(always)]
    pub fn on(number: usize) -> bool {
        let active = *ACTIVE;
        if active == RECORD {
            record(number);
        }
        active == number
    }
}
"#;
