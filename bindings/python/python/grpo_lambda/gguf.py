r"""A GGUF file as a Hugging Face checkpoint that ``llm-train`` and transformers load.

::

    pip install './bindings/python[gguf]'
    python -m grpo_lambda.gguf MODEL.gguf OUT

``OUT`` receives ``config.json``, ``generation_config.json``, ``tokenizer.json``, ``tokenizer_config.json`` (with the chat template) and the weights as
safetensors. The weights are the file's, dequantised by the package ``gguf``, in 32 bits; ``--dtype bf16`` rounds them to the nearest bfloat16.

The families are Llama, Qwen2 and Qwen3, the types of numbers F32, F16, BF16, Q4_0, Q4_1, Q8_0, Q4_K and Q6_K, the tokenizers byte-level BPE with the rules
of SmolLM, GPT-2, Qwen2 and Llama 3. Everything else is refused by name: what this module does not know could change a number.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Classes of transformers by the architecture that a GGUF file names.
CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
TYPES = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q6_K")
#: Bytes of a file of weights, at which the next begins.
SHARD = 4 << 30

#: Tensors of a layer: the name in a GGUF file, and in a checkpoint.
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}

#: Fields of an architecture that are used below.
FIELDS = (
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "vocab_size",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "rope.freq_base",
    "rope.dimension_count",
    "rope.scaling.type",
    "rope.scaling.factor",
)

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
#: How a text is split before its pairs are merged, by the name that a GGUF file gives; a pattern, or none for GPT-2's own.
SPLITS = {
    "gpt-2": None,
    "smollm": None,
    "qwen2": rf"{CONTRACTIONS}|{WORDS}|\p{{N}}|{REST}",
    "llama-bpe": rf"{CONTRACTIONS}|{WORDS}|\p{{N}}{{1,3}}|{REST}",
}
CONTROL, USER_DEFINED, UNUSED = 3, 4, 5


class GgufError(ValueError):
    """A GGUF file that cannot be converted: what, why, and what to do."""


class Model(NamedTuple):
    """The metadata of a GGUF file, and its tensors as the package ``gguf`` reads them."""

    family: str
    fields: dict[str, Any]
    tensors: list[Any]

    def field(self, name: str, default: Any = None) -> Any:
        """The field ``name`` of the architecture; an error if it is missing and there is no ``default``."""
        value = self.fields.get(f"{self.family}.{name}", default)
        if value is None:
            raise GgufError(f"{self.family}.{name}: is missing; the file is damaged or older than GGUF 2")
        if isinstance(value, list):
            raise GgufError(f"{self.family}.{name}: has a value per layer; only models with equal layers are converted")
        # A number of 32 bits, as the decimal that was meant.
        return float(str(np.float32(value))) if isinstance(value, float) else value

    def of_tokenizer(self, name: str) -> Any:
        """The field ``name`` of the tokenizer; an error if it is missing."""
        if self.fields.get(f"tokenizer.ggml.{name}") is None:
            raise GgufError(f"tokenizer.ggml.{name}: is missing; take another file of the model")
        return self.fields[f"tokenizer.ggml.{name}"]


def read(path: str | Path) -> Model:
    """Reads a file's metadata and maps its tensors; refuses other families and fields that are not known."""
    from gguf import GGUFReader

    try:
        reader = GGUFReader(str(path))
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise GgufError(f"{path}: is no complete GGUF file ({error}); download it again") from error
    fields = {name: field.contents() for name, field in reader.fields.items()}
    family = fields.get("general.architecture")
    if family not in CLASSES:
        raise GgufError(f"general.architecture: {family} is not converted; take a model of {', '.join(CLASSES)}")
    model = Model(family, fields, list(reader.tensors))
    known = {f"{family}.{name}" for name in FIELDS}
    for name, value in fields.items():
        if name.startswith(f"{family}.") and name not in known and value:
            raise GgufError(f"{name}: {value} is not known here and could change the model's numbers; take another file of the model")
    return model


def config(model: Model, dtype: str) -> dict[str, Any]:
    """The fields of ``config.json``."""
    hidden, heads = model.field("embedding_length"), model.field("attention.head_count")
    head_dim = model.field("attention.key_length", hidden // heads)
    for name in ("attention.value_length", "rope.dimension_count"):
        if model.field(name, head_dim) != head_dim:
            raise GgufError(f"{model.family}.{name}: {model.field(name)} differs from the width of a head, {head_dim}; such models are not converted")
    names = {tensor.name for tensor in model.tensors}
    out = {
        "architectures": [CLASSES[model.family]],
        "model_type": model.family,
        "vocab_size": len(tokens(model)),
        "hidden_size": hidden,
        "intermediate_size": model.field("feed_forward_length"),
        "num_hidden_layers": model.field("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": model.field("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": model.field("context_length"),
        "rms_norm_eps": model.field("attention.layer_norm_rms_epsilon"),
        "rope_theta": model.field("rope.freq_base", 10000.0),
        "rope_scaling": rope_scaling(model),
        "attention_dropout": 0.0,
        "tie_word_embeddings": "output.weight" not in names,
        "torch_dtype": {"f32": "float32", "bf16": "bfloat16"}[dtype],
        **special_ids(model),
    }
    if model.family != "qwen2":  # whose queries, keys and values always have a bias
        out["attention_bias"] = "blk.0.attn_q.bias" in names
    if model.family == "llama":
        out["mlp_bias"] = False
    else:
        out["use_sliding_window"] = False
    return out


def rope_scaling(model: Model) -> dict[str, Any] | None:
    """The scaling of positions: none, linear, or Llama 3's, which a GGUF file holds as a factor per frequency."""
    kind = model.field("rope.scaling.type", "none")
    factors = next((tensor for tensor in model.tensors if tensor.name == "rope_freqs.weight"), None)
    if factors is not None:
        return llama3_scaling(model, np.asarray(factors.data, np.float64))
    if kind == "linear":
        return {"rope_type": "linear", "factor": model.field("rope.scaling.factor")}
    if kind != "none":
        raise GgufError(f"{model.family}.rope.scaling.type: {kind} is not converted; take a file without scaling of positions")
    return None


def llama3_scaling(model: Model, factors: NDArray[np.float64]) -> dict[str, Any]:
    """Llama 3's scaling whose factors are the file's; the parameters that Meta published are the only ones that are tried."""
    published = {"rope_type": "llama3", "factor": float(factors.max()), "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    published["original_max_position_embeddings"] = 8192
    width = 2 * len(factors)
    wavelength = 2 * np.pi * model.field("rope.freq_base", 10000.0) ** (np.arange(0, width, 2) / width)
    turns = published["original_max_position_embeddings"] / wavelength
    blend = np.clip((turns - 1.0) / (4.0 - 1.0), 0.0, 1.0)
    expected = 1.0 / ((1.0 - blend) / published["factor"] + blend)
    if not np.allclose(expected, factors, rtol=1e-4):
        raise GgufError("rope_freqs.weight: its factors are not those of Llama 3's published scaling; such models are not converted")
    return published


def tokens(model: Model) -> list[str]:
    """The texts of the vocabulary, in the order of their ids."""
    if model.fields.get("tokenizer.ggml.model") != "gpt2":
        kind = model.fields.get("tokenizer.ggml.model", "missing")
        raise GgufError(f"tokenizer.ggml.model: {kind} is not converted, only gpt2 (byte-level BPE); take a model with such a tokenizer")
    return list(model.of_tokenizer("tokens"))


def special_ids(model: Model) -> dict[str, Any]:
    """The ids of special tokens; a model whose turns end with another token than its texts ends at both."""
    ids = {name: model.fields.get(f"tokenizer.ggml.{key}_token_id") for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"))}
    turn = model.fields.get("tokenizer.ggml.eot_token_id")
    size = len(tokens(model))
    for name, value in (*ids.items(), ("end of turn", turn)):
        if value is not None and value >= size:
            raise GgufError(f"the id of {name}, {value}: there are {size} tokens; the file is damaged")
    out: dict[str, Any] = {f"{name}_token_id": value for name, value in ids.items() if value is not None}
    if turn is not None and turn != ids["eos"]:
        out["eos_token_id"] = [value for value in (ids["eos"], turn) if value is not None]
    return out


def tokenizer(model: Model) -> Any:
    """The tokenizer, as the package ``tokenizers`` holds it."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    texts, kinds = tokens(model), model.of_tokenizer("token_type")
    if len(set(texts)) != len(texts):
        raise GgufError("tokenizer.ggml.tokens: a text stands there twice; the file is damaged")
    rule = model.fields.get("tokenizer.ggml.pre", "missing")
    if rule not in SPLITS:
        raise GgufError(f"tokenizer.ggml.pre: {rule} is not known here; the rules are {', '.join(SPLITS)}")
    vocabulary = {text: i for i, (text, kind) in enumerate(zip(texts, kinds, strict=True)) if kind != UNUSED}
    merges = [tuple(pair.split(" ")) for pair in model.of_tokenizer("merges")]
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=rule == "llama-bpe"))
    pattern = SPLITS[rule]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    if rule == "smollm":
        made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    elif pattern is None:
        made.pre_tokenizer = byte_level
    else:
        made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level])
    if rule == "qwen2":
        made.normalizer = normalizers.NFC()
    made.decoder = decoders.ByteLevel()
    for text, kind in zip(texts, kinds, strict=True):
        if kind in (CONTROL, USER_DEFINED):
            made.add_tokens([AddedToken(text, special=kind == CONTROL, normalized=False)])
    if adds_bos(model):
        bos = model.of_tokenizer("bos_token_id")
        first = texts[bos]
        made.post_processor = processors.TemplateProcessing(
            single=f"{first} $A", pair=f"{first} $A {first} $B", special_tokens=[(first, bos)]
        )
    return made


def adds_bos(model: Model) -> bool:
    """Whether a text begins with the token of its beginning; a Llama 3 file that does not say so means yes."""
    default = model.fields.get("tokenizer.ggml.pre") == "llama-bpe"
    return bool(model.fields.get("tokenizer.ggml.add_bos_token", default))


def tokenizer_config(model: Model) -> dict[str, Any]:
    """The fields of ``tokenizer_config.json``, with the chat template."""
    texts = tokens(model)
    if model.fields.get("tokenizer.ggml.add_eos_token"):
        raise GgufError("tokenizer.ggml.add_eos_token: a text that ends with its end token cannot be continued; take another file of the model")
    named = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
    ids = {name: model.fields.get(f"tokenizer.ggml.{key}_token_id") for name, key in named.items()}
    template = model.fields.get("tokenizer.chat_template")
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": adds_bos(model),
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": model.field("context_length"),
        **{name: texts[i] for name, i in ids.items() if i is not None},
        **({"chat_template": template} if template else {}),
    }


def name_of(tensor: str) -> str | None:
    """The name of a tensor in a checkpoint, or ``None`` if it is unknown."""
    stem, _, part = tensor.rpartition(".")
    if stem in OUTER:
        return f"{OUTER[stem]}.{part}"
    match stem.split("."):
        case ["blk", layer, name] if name in LAYER:
            return f"model.layers.{layer}.{LAYER[name]}.{part}"
    return None


def weights(model: Model) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """The weights by their names in a checkpoint, in 32 bits."""
    from gguf.quants import dequantize

    heads = {"attn_q": model.field("attention.head_count")}
    heads["attn_k"] = model.field("attention.head_count_kv", heads["attn_q"])
    for tensor in model.tensors:
        if tensor.name == "rope_freqs.weight":
            continue
        name = name_of(tensor.name)
        if name is None:
            raise GgufError(f"{tensor.name}: a tensor that a model of the family {model.family} does not have; take another file of the model")
        if tensor.tensor_type.name not in TYPES:
            raise GgufError(f"{tensor.name}: numbers of type {tensor.tensor_type.name} are not read; the types are {', '.join(TYPES)}")
        values = np.asarray(dequantize(tensor.data, tensor.tensor_type), np.float32).reshape(tensor.shape[::-1].tolist())
        if not np.isfinite(values).all():
            raise GgufError(f"{tensor.name}: holds NaN or infinity; the file is damaged")
        which = tensor.name.split(".")[-2]
        if model.family == "llama" and which in heads:
            values = halves(values, heads[which])
        yield name, np.ascontiguousarray(values)


def halves(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """The rows of queries or keys with the two halves of every head one after the other; a Llama's GGUF file has their rows in turn."""
    paired = rows.reshape(heads, rows.shape[0] // heads // 2, 2, *rows.shape[1:])
    return paired.swapaxes(1, 2).reshape(rows.shape)


def save_weights(model: Model, out: Path, dtype: str) -> int:
    """Writes the weights in files of at most :data:`SHARD` bytes, with an index if there are several; gives their number."""
    import ml_dtypes
    from safetensors.numpy import save_file

    stored = np.dtype({"f32": np.float32, "bf16": ml_dtypes.bfloat16}[dtype])
    index: dict[str, int] = {}
    held: dict[str, NDArray[Any]] = {}
    files = count = size = 0
    for name, values in weights(model):
        if held and size + values.size * stored.itemsize > SHARD:
            save_file(held, out / f"part-{files}", metadata={"format": "pt"})
            held, size, files = {}, 0, files + 1
        held[name] = values.astype(stored)
        index[name] = files
        count, size = count + values.size, size + held[name].nbytes
    save_file(held, out / f"part-{files}", metadata={"format": "pt"})
    if files == 0:
        (out / "part-0").rename(out / "model.safetensors")
        return count
    names = [f"model-{i + 1:05}-of-{files + 1:05}.safetensors" for i in range(files + 1)]
    for i, name in enumerate(names):
        (out / f"part-{i}").rename(out / name)
    total = count * stored.itemsize
    write(out / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": {name: names[i] for name, i in index.items()}})
    return count


def write(path: Path, value: dict[str, Any]) -> None:
    """Writes an object as JSON."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def convert(path: str | Path, out: str | Path, dtype: str = "f32") -> int:
    """Converts the GGUF file ``path`` into the checkpoint ``out``, whole or not at all, and gives the number of its weights.

    ``dtype`` is ``f32`` or ``bf16``. Raises :class:`GgufError` where a file cannot be converted, and ``FileExistsError`` if ``out`` is not empty.
    """
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(f"{out}: is there and not empty; name a new directory")
    model = read(path)
    out.parent.mkdir(parents=True, exist_ok=True)
    half = out.with_name(out.name + ".incomplete")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir()
    try:
        write(half / "config.json", config(model, dtype))
        write(half / "generation_config.json", special_ids(model))
        tokenizer(model).save(str(half / "tokenizer.json"))
        write(half / "tokenizer_config.json", tokenizer_config(model))
        count = save_weights(model, half, dtype)
        if out.exists():
            out.rmdir()
        half.rename(out)
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return count


def main(arguments: list[str] | None = None) -> int:
    """The command ``python -m grpo_lambda.gguf``; gives its exit code."""
    parser = argparse.ArgumentParser(prog="python -m grpo_lambda.gguf", description="Convert a GGUF file into a Hugging Face checkpoint.")
    parser.add_argument("model", metavar="MODEL.gguf", help="a Llama, Qwen2 or Qwen3 model")
    parser.add_argument("out", metavar="OUT", help="the directory of the checkpoint, which must not be there yet")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32", help="the numbers of the weights (default: f32, the file's exactly)")
    asked = parser.parse_args(arguments)
    try:
        count = convert(asked.model, asked.out, asked.dtype)
    except ImportError as error:
        print(f"gguf: error: the package {error.name} is missing; run pip install './bindings/python[gguf]'", file=sys.stderr)
        return 2
    except (GgufError, OSError) as error:
        print(f"gguf: error: {error}", file=sys.stderr)
        return 2
    print(f"{asked.out}: {count / 1e6:.1f} M weights in {asked.dtype}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
