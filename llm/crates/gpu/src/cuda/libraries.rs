//! The CUDA libraries: a check that they are there and fit together, before one is called.
//!
//! The bindings end the process if a library is missing, so each is looked for first: by the system's loader, then in the folders into which
//! pip and conda put them. The bindings were made for CUDA 13; the calls are the same in CUDA 12, whose libraries are taken if there are no
//! others.

use std::path::{Path, PathBuf};

use cudarc::driver::result as driver;
use cudarc::driver::sys::CUresult;
use cudarc::{cublas, nvrtc};
use grpo_lambda_decoder::device::DeviceError;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use super::failure;

/// The oldest major version that is taken.
const OLDEST: i32 = 12;

/// The versions of the driver, NVRTC and cuBLAS.
#[derive(Clone, Copy, Debug)]
pub(super) struct Versions {
    /// The CUDA version of the driver, as 13000 for 13.0.
    driver: i32,
    /// Major and minor version of NVRTC.
    pub(super) compiler: (i32, i32),
    /// Major and minor version, and patch, of cuBLAS.
    products: [i32; 3],
}

impl Versions {
    /// All of them, as text.
    pub(super) fn text(self) -> String {
        let Versions { driver, compiler, products } = self;
        format!("driver {driver}, NVRTC {compiler:?}, cuBLAS {products:?}")
    }
}

fn missing(line: impl Into<String>) -> DeviceError {
    DeviceError::Missing(line.into())
}

/// Opens the libraries and starts the driver.
pub(super) fn open() -> Result<Versions, DeviceError> {
    if !found()[0] {
        return Err(missing("no NVIDIA driver: libcuda.so.1 is not found (Windows needs WSL)"));
    }
    let mut absent = absent_libraries();
    if !absent.is_empty() {
        load_from_environments(&absent);
        absent = absent_libraries();
    }
    if !absent.is_empty() {
        let names: Vec<String> = absent.iter().map(|name| format!("lib{name}.so.13")).collect();
        return Err(missing(format!(
            "{} not found: install the CUDA 13 (or 12) runtime libraries, as by pip install \
            nvidia-cuda-nvrtc nvidia-cublas in the active \
             environment, or put their directory on LD_LIBRARY_PATH",
            names.join(" and ")
        )));
    }
    start()?;
    versions()
}

/// The libraries besides the driver that the loader does not find.
fn absent_libraries() -> Vec<&'static str> {
    ["nvrtc", "cublas"]
        .into_iter()
        .zip(&found()[1..])
        .filter_map(|(name, found)| (!found).then_some(name))
        .collect()
}

/// True for the driver, NVRTC and cuBLAS if the loader finds it. Linked, they were found before the program began.
#[cfg(feature = "linked")]
fn found() -> [bool; 3] {
    [true; 3]
}

/// True for the driver, NVRTC and cuBLAS if the loader finds it.
#[cfg(not(feature = "linked"))]
fn found() -> [bool; 3] {
    // SAFETY: opening a library runs its initialisers; those of the driver and of cuBLAS and NVRTC have no requirements.
    unsafe {
        let driver = cudarc::driver::sys::is_culib_present();
        [driver, nvrtc::sys::is_culib_present(), cublas::sys::is_culib_present()]
    }
}

/// The paths in a folder, sorted; none if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = listed.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The folders of an environment of Python or conda that may hold libraries of NVIDIA's packages.
fn environment_folders(root: &Path) -> Vec<PathBuf> {
    let pythons = entries(&root.join("lib"))
        .into_iter()
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python")));
    let packages = pythons.flat_map(|python| entries(&python.join("site-packages/nvidia")));
    let mut folders: Vec<PathBuf> = packages.map(|package| package.join("lib")).collect();
    folders.push(root.join("lib"));
    folders
}

/// Loads the `absent` libraries from the active environments, so that the bindings find them by name.
fn load_from_environments(absent: &[&str]) {
    let roots = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(std::env::var_os);
    let folders: Vec<PathBuf> = roots.flat_map(|root| environment_folders(Path::new(&root))).collect();
    let load = |name: &str, version: i32| {
        // Some files have a minor version, too.
        let file = format!("lib{name}.so.{version}");
        let paths = folders
            .iter()
            .flat_map(|folder| entries(folder))
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&file)));
        paths.into_iter().any(|path| {
            // SAFETY: opening a library of these runs initialisers without requirements. The library stays loaded to the end of the process.
            let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) };
            library.map(std::mem::forget).is_ok()
        })
    };
    for version in [13, 12] {
        let (compiler, products) = (absent.contains(&"nvrtc"), absent.contains(&"cublas"));
        // Either needs a second library, which it opens by name.
        let compiler = !compiler || (load("nvrtc-builtins", version) && load("nvrtc", version));
        if compiler && (!products || (load("cublasLt", version) && load("cublas", version))) {
            return;
        }
    }
}

/// The file that a library was loaded from, in parentheses; empty if the system does not tell.
fn loaded_from(library: &str) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let path = maps
        .lines()
        .filter_map(|line| line.find('/').map(|start| &line[start..]))
        .find(|path| path.rsplit('/').next().is_some_and(|file| file.starts_with(&format!("{library}.so"))));
    path.map_or_else(String::new, |path| format!(" ({path})"))
}

fn start() -> Result<(), DeviceError> {
    driver::init().map_err(|error| match error.0 {
        CUresult::CUDA_ERROR_NO_DEVICE => {
            let hidden = std::env::var("CUDA_VISIBLE_DEVICES");
            let hint = hidden.map_or(String::new(), |v| format!(" (CUDA_VISIBLE_DEVICES is `{v}`)"));
            missing(format!("no CUDA card: there is an NVIDIA driver, and it shows none{hint}"))
        }
        CUresult::CUDA_ERROR_STUB_LIBRARY => missing(
            "no NVIDIA driver: the libcuda found is the toolkit's stub; take its directory off LD_LIBRARY_PATH",
        ),
        _ => missing(format!("the NVIDIA driver does not start: {}", failure::of_driver(error))),
    })
}

fn versions() -> Result<Versions, DeviceError> {
    let (mut driver, mut major, mut minor, mut products) = (0, 0, 0, [0; 3]);
    // SAFETY: each writes one int to the address it is given, which is valid for the call.
    let known = unsafe {
        use cudarc::cublas::sys::libraryPropertyType_t::{MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL};
        let properties = [MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL];
        cudarc::driver::sys::cuDriverGetVersion(&raw mut driver).result().is_ok()
            && nvrtc::sys::nvrtcVersion(&raw mut major, &raw mut minor).result().is_ok()
            && properties
                .into_iter()
                .zip(&mut products)
                .all(|(property, number)| cublas::sys::cublasGetProperty(property, number).result().is_ok())
    };
    if !known {
        return Err(missing("the CUDA libraries do not tell their versions"));
    }
    fitting(driver, (major, minor), products[0], loaded_from).map_err(missing)?;
    Ok(Versions { driver, compiler: (major, minor), products })
}

/// One line, when these versions do not work together: libraries may be older than the driver, not newer.
fn fitting(
    driver: i32,
    (major, minor): (i32, i32),
    blas: i32,
    place: impl Fn(&str) -> String,
) -> Result<(), String> {
    for (library, version) in [("libnvrtc", major), ("libcublas", blas)] {
        if version < OLDEST {
            return Err(format!(
                "{library}{} is of CUDA {version}: must be of CUDA 12 or 13",
                place(library)
            ));
        }
        if version > driver / 1000 {
            let shown = format!("{}.{}", driver / 1000, driver % 1000 / 10);
            return Err(format!(
                "{library}{} is of CUDA {version} and the NVIDIA driver only of CUDA {shown}: install a \
                newer driver, or the libraries of CUDA {}",
                place(library),
                driver / 1000
            ));
        }
    }
    if major != blas {
        return Err(format!(
            "libnvrtc{} is of CUDA {major}.{minor} and libcublas{} of CUDA {blas}: must be of one version",
            place("libnvrtc"),
            place("libcublas")
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_newer_than_the_driver_or_too_old_are_refused_with_their_files() {
        let place = |library: &str| format!(" (/x/{library}.so)");
        for (driver, compiler, blas) in [(13000, (13, 0), 13), (13020, (12, 8), 12), (12040, (12, 9), 12)] {
            assert_eq!(fitting(driver, compiler, blas, place), Ok(()));
        }
        for (driver, compiler, blas, expected) in [
            (
                12040,
                (13, 0),
                13,
                "libnvrtc (/x/libnvrtc.so) is of CUDA 13 and the NVIDIA driver only of CUDA 12.4",
            ),
            (12040, (12, 4), 13, "libcublas (/x/libcublas.so) is of CUDA 13 and the NVIDIA driver"),
            (13000, (11, 8), 12, "libnvrtc (/x/libnvrtc.so) is of CUDA 11: must be of CUDA 12 or 13"),
            (
                13000,
                (13, 0),
                12,
                "libnvrtc (/x/libnvrtc.so) is of CUDA 13.0 and libcublas (/x/libcublas.so) of CUDA 12: must be of one",
            ),
        ] {
            let line = fitting(driver, compiler, blas, place).expect_err(expected);
            assert!(line.starts_with(expected), "{line}");
        }
    }

    #[test]
    fn the_folders_of_packages_are_searched() {
        let root = tempfile::tempdir().unwrap();
        for package in ["cu13", "cuda_nvrtc"] {
            let lib = root.path().join("lib/python3.11/site-packages/nvidia").join(package).join("lib");
            std::fs::create_dir_all(lib).unwrap();
        }
        let found = environment_folders(root.path());
        let folder = |name| root.path().join("lib/python3.11/site-packages/nvidia").join(name).join("lib");
        assert_eq!(found, [folder("cu13"), folder("cuda_nvrtc"), root.path().join("lib")]);
        assert_eq!(environment_folders(Path::new("/nowhere")), [Path::new("/nowhere/lib")]);
    }

    #[test]
    fn the_file_of_a_loaded_library_is_named() {
        assert!(loaded_from("libc").contains("/libc.so"), "{}", loaded_from("libc"));
        assert_eq!(loaded_from("libnone"), "");
    }
}
