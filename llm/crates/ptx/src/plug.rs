//! The substitutes put where a process looks for the CUDA libraries.
#![allow(unsafe_code)] // libraries are loaded by name

use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::card::Card;

const NAMES: [&str; 3] = ["libcuda.so", "libnvrtc.so", "libcublas.so"];

/// The file of this crate's library, which cargo builds next to the tests.
fn machine() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let file = "libgrpo_lambda_ptx.so";
    let found = own
        .ancestors()
        .skip(1)
        .take(3)
        .flat_map(|folder| [folder.join(file), folder.join("deps").join(file)]);
    found.into_iter().find(|path| path.exists()).ok_or_else(|| format!("no {file} next to {}", own.display()))
}

/// Fills a folder with the substitutes, for the `LD_LIBRARY_PATH` of another process.
///
/// They are empty libraries that need this crate's; the C linker makes them.
///
/// # Errors
/// One line, if this crate's library or a C linker is not there.
pub fn libraries(folder: &Path) -> Result<(), String> {
    let machine = machine()?;
    for name in NAMES {
        let made = Command::new("cc")
            .args(["-shared", "-x", "c", "/dev/null", "-x", "none", "-Wl,--no-as-needed"])
            .arg(format!("-Wl,-soname,{name}"))
            .arg(&machine)
            .arg("-o")
            .arg(folder.join(name))
            .output()
            .map_err(|e| format!("cc: {e}"))?;
        if !made.status.success() {
            return Err(format!("cc: {}", String::from_utf8_lossy(&made.stderr)));
        }
    }
    Ok(())
}

/// This crate's library, loaded under the names of the three.
fn loaded() -> &'static Result<Library, String> {
    static LOADED: OnceLock<Result<Library, String>> = OnceLock::new();
    LOADED.get_or_init(|| {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        libraries(folder.path())?;
        let open = |path: &Path| {
            // SAFETY: the libraries are this crate's; they have no initialisers.
            unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }.map_err(|e| e.to_string())
        };
        for name in NAMES {
            std::mem::forget(open(&folder.path().join(name))?);
        }
        open(&machine()?)
    })
}

/// Adds a card to those that the driver of this process shows, and returns its number.
///
/// # Errors
/// One line, if the substitutes cannot be loaded.
pub fn plug(card: &Card) -> Result<usize, String> {
    let library = loaded().as_ref().map_err(Clone::clone)?;
    let text = card.text();
    // SAFETY: the function is this crate's and has this type; the text outlives the call.
    let number = unsafe {
        let add = library.get::<unsafe extern "C" fn(*const u8, usize) -> c_int>(b"ptx_card");
        add.map_err(|e| e.to_string())?(text.as_ptr(), text.len())
    };
    usize::try_from(number).map_err(|_| "the card is not understood".to_owned())
}

/// Instructions of every kernel that a card executed, and all of them, by the kernel's name.
///
/// # Errors
/// One line, if the substitutes cannot be loaded.
pub fn coverage(card: usize) -> Result<Vec<(String, usize, usize)>, String> {
    let library = loaded().as_ref().map_err(Clone::clone)?;
    let mut text = vec![0; 1 << 16];
    // SAFETY: the function is this crate's and has this type; it writes no more than there is room for.
    let bytes = unsafe {
        let cover = library.get::<unsafe extern "C" fn(usize, *mut u8, usize) -> usize>(b"ptx_coverage");
        cover.map_err(|e| e.to_string())?(card, text.as_mut_ptr(), text.len())
    };
    let text = String::from_utf8_lossy(&text[..bytes.min(text.len())]).into_owned();
    let line = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next()?.to_owned();
        Some((name, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    Ok(text.lines().filter_map(line).collect())
}
