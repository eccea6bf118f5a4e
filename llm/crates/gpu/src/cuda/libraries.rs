//! The CUDA libraries: a check that they are there and fit together, before one is called.
//!
//! The bindings end the process if a library is missing, so each is looked for first. They were made for CUDA 13; the calls are the same in
//! CUDA 12, whose libraries are taken if there are no others.

use cudarc::driver::result as driver;
use cudarc::driver::sys::CUresult;
use cudarc::{cublas, nvrtc};
use grpo_lambda_decoder::device::DeviceError;

use super::failure;

/// The oldest major version that is taken.
const OLDEST: i32 = 12;

fn missing(line: impl Into<String>) -> DeviceError {
    DeviceError::Missing(line.into())
}

/// Opens the libraries and starts the driver; major and minor version of NVRTC.
pub(super) fn open() -> Result<(i32, i32), DeviceError> {
    // SAFETY: opening a library runs its initialisers; those of the driver and of cuBLAS and NVRTC have no requirements.
    let [driver_there, compiler_there, blas_there] = unsafe {
        [
            cudarc::driver::sys::is_culib_present(),
            nvrtc::sys::is_culib_present(),
            cublas::sys::is_culib_present(),
        ]
    };
    if !driver_there {
        return Err(missing("no NVIDIA driver: libcuda.so.1 is not found"));
    }
    let absent: Vec<&str> = [("libnvrtc.so.13", compiler_there), ("libcublas.so.13", blas_there)]
        .into_iter()
        .filter_map(|(name, there)| (!there).then_some(name))
        .collect();
    if !absent.is_empty() {
        return Err(missing(format!(
            "{} not found: install the CUDA 13 (or 12) runtime libraries, or put their directory on LD_LIBRARY_PATH",
            absent.join(" and ")
        )));
    }
    start()?;
    versions()
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

fn versions() -> Result<(i32, i32), DeviceError> {
    let (mut driver, mut major, mut minor, mut blas) = (0, 0, 0, 0);
    // SAFETY: each writes one int to the address it is given, which is valid for the call.
    let known = unsafe {
        use cudarc::cublas::sys::libraryPropertyType_t::MAJOR_VERSION;
        cudarc::driver::sys::cuDriverGetVersion(&raw mut driver).result().is_ok()
            && nvrtc::sys::nvrtcVersion(&raw mut major, &raw mut minor).result().is_ok()
            && cublas::sys::cublasGetProperty(MAJOR_VERSION, &raw mut blas).result().is_ok()
    };
    if !known {
        return Err(missing("the CUDA libraries do not tell their versions"));
    }
    fitting(driver, (major, minor), blas).map_err(missing)?;
    Ok((major, minor))
}

/// One line, when these versions do not work together: libraries may be older than the driver, not newer.
fn fitting(driver: i32, (major, minor): (i32, i32), blas: i32) -> Result<(), String> {
    for (library, version) in [("libnvrtc", major), ("libcublas", blas)] {
        if version < OLDEST {
            return Err(format!("{library} is of CUDA {version}: must be of CUDA 12 or 13"));
        }
        if version > driver / 1000 {
            let shown = format!("{}.{}", driver / 1000, driver % 1000 / 10);
            return Err(format!(
                "{library} is of CUDA {version} and the NVIDIA driver only of CUDA {shown}: install a newer driver, or the libraries of CUDA {}",
                driver / 1000
            ));
        }
    }
    if major != blas {
        return Err(format!(
            "libnvrtc is of CUDA {major}.{minor} and libcublas of CUDA {blas}: must be of one version"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_newer_than_the_driver_or_too_old_are_refused() {
        for (driver, compiler, blas) in [(13000, (13, 0), 13), (13020, (12, 8), 12), (12040, (12, 9), 12)] {
            assert_eq!(fitting(driver, compiler, blas), Ok(()));
        }
        for (driver, compiler, blas, expected) in [
            (12040, (13, 0), 13, "libnvrtc is of CUDA 13 and the NVIDIA driver only of CUDA 12.4"),
            (12040, (12, 4), 13, "libcublas is of CUDA 13 and the NVIDIA driver"),
            (13000, (11, 8), 12, "libnvrtc is of CUDA 11: must be of CUDA 12 or 13"),
            (13000, (13, 0), 12, "libnvrtc is of CUDA 13.0 and libcublas of CUDA 12: must be of one version"),
        ] {
            let line = fitting(driver, compiler, blas).expect_err(expected);
            assert!(line.starts_with(expected), "{line}");
        }
    }
}
