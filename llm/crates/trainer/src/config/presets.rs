//! The presets that ship with the program.

/// A preset that ships with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    pub name: &'static str,
    pub text: &'static str,
}

/// Every shipped preset.
pub static PRESETS: &[Preset] = &[
    Preset { name: "tiny", text: include_str!("../../../../presets/tiny.toml") },
    Preset { name: "paper-qwen-1.5b", text: include_str!("../../../../presets/paper-qwen-1.5b.toml") },
    Preset { name: "paper-r1-qwen-1.5b", text: include_str!("../../../../presets/paper-r1-qwen-1.5b.toml") },
    Preset { name: "paper-r1-llama-3b", text: include_str!("../../../../presets/paper-r1-llama-3b.toml") },
    Preset { name: "paper-r1-qwen-7b", text: include_str!("../../../../presets/paper-r1-qwen-7b.toml") },
    Preset { name: "paper-tiny", text: include_str!("../../../../presets/paper-tiny.toml") },
    Preset { name: "finetune", text: include_str!("../../../../presets/finetune.toml") },
    Preset { name: "finetune-lora", text: include_str!("../../../../presets/finetune-lora.toml") },
    Preset { name: "gpu-learn", text: include_str!("../../../../presets/gpu-learn.toml") },
];
