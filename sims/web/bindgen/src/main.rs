//! `bindgen IN.wasm OUT_DIR`: the calls of a WebAssembly module as a JavaScript module, next to the module they call.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, output] = arguments.as_slice() else {
        eprintln!("bindgen: two arguments are needed, IN.wasm and OUT_DIR");
        return ExitCode::from(2);
    };
    let mut bindgen = wasm_bindgen_cli_support::Bindgen::new();
    let made = bindgen.input_path(input).web(true).and_then(|b| b.typescript(false).remove_name_section(true).remove_producers_section(true).generate(output));
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bindgen: {error:#}");
            ExitCode::FAILURE
        }
    }
}
