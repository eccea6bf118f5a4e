//! Fills a folder with the substitutes: with it on `LD_LIBRARY_PATH`, a program finds the PTX machine as its CUDA card.

fn main() -> Result<(), String> {
    let folder = std::env::args_os().nth(1).ok_or("libraries FOLDER: name the folder to fill")?;
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    grpo_lambda_ptx::libraries(std::path::Path::new(&folder))
}
