"""Small GGUF files of every family, type of numbers and tokenizer that `grpo_lambda.gguf` converts; their weights are drawn from a seed."""

import numpy as np
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFWriter
from gguf.quants import quantize
from tokenizers.pre_tokenizers import ByteLevel

WIDTH, HEADS, KEY_HEADS, INNER, LAYERS, CONTEXT = 256, 4, 2, 256, 2, 512
MERGES = ["h e", "l l", "he ll", "Ġ w", "Ċ Ċ", "1 2", "12 3", "Ċ Ġ", "Ġ Ġ"]
SPECIAL = ["<|begin|>", "<|end|>", "<|turn|>"]
TEMPLATE = "{% for m in messages %}<|turn|>{{ m.content }}<|end|>{% endfor %}"


def vocabulary():
    """Texts, kinds: the bytes, the merged pairs, an unused text, and three special tokens."""
    texts = sorted(ByteLevel.alphabet()) + [pair.replace(" ", "") for pair in MERGES]
    return texts + ["[PAD265]"] + SPECIAL, [1] * len(texts) + [5] + [3] * len(SPECIAL)


def drawn(rng, kind, rows, columns):
    """A matrix as a file holds it."""
    if kind == Kind.Q4_K:  # two scales of 16 bits, twelve bytes of scales, 128 of numbers for every 256
        return blocks(rng, rows, columns, 140, ends=False)
    if kind == Kind.Q6_K:  # 208 bytes, then a scale
        return blocks(rng, rows, columns, 208, ends=True)
    return quantize(rng.normal(0, 0.05, (rows, columns)).astype(np.float32), kind)


def blocks(rng, rows, columns, size, ends):
    """Blocks of random bytes with small positive scales in 16 bits, at their end or, two of them, at their start."""
    count = rows * columns // 256
    body = rng.integers(0, 256, (count, size), dtype=np.uint8)
    scales = rng.uniform(1e-4, 1e-3, (count, 1 if ends else 2)).astype(np.float16).view(np.uint8)
    parts = [body, scales] if ends else [scales, body]
    return np.concatenate(parts, axis=1).reshape(rows, -1)


def llama3_factors(base=10000.0, factor=8.0):
    """What llama.cpp's own converter writes for Llama 3.1's scaling, frequency by frequency."""
    out = []
    for i in range(0, WIDTH // HEADS, 2):
        wavelength = 2 * np.pi * base ** (i / (WIDTH // HEADS))
        if wavelength < 8192 / 4:
            out.append(1.0)
        elif wavelength > 8192:
            out.append(factor)
        else:
            smooth = (8192 / wavelength - 1) / (4 - 1)
            out.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(out, np.float32)


def write(path, family, rule, kind=Kind.Q8_0, tied=True, scaled=False, bos=None, merges=True, **changed):
    """Writes a model of `family`; `changed` adds fields of the architecture or replaces them, `None` leaves one out."""
    rng = np.random.default_rng([len(family), kind.value])
    head = 128 if family == "qwen3" else WIDTH // HEADS  # transformers' import takes a Qwen3 to have 128
    texts, kinds = vocabulary()
    fields = {
        "block_count": LAYERS,
        "context_length": CONTEXT,
        "embedding_length": WIDTH,
        "feed_forward_length": INNER,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KEY_HEADS,
        "rope.freq_base": 10000.0,
        "attention.layer_norm_rms_epsilon": 1e-5,
    } | changed
    if family == "qwen3":
        fields |= {"attention.key_length": head, "attention.value_length": head} | changed
    file = GGUFWriter(str(path), family)
    for name, value in fields.items():
        if isinstance(value, str):
            file.add_string(f"{family}.{name}", value)
        elif value is not None:
            (file.add_float32 if isinstance(value, float) else file.add_uint32)(f"{family}.{name}", value)
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre(rule)
    file.add_token_list(texts)
    file.add_token_types(kinds)
    if merges:
        file.add_token_merges(MERGES)
    file.add_bos_token_id(texts.index("<|begin|>") if bos is None else bos)
    file.add_eos_token_id(texts.index("<|end|>"))
    file.add_eot_token_id(texts.index("<|turn|>"))
    file.add_chat_template(TEMPLATE)

    def matrix(name, rows, columns=WIDTH):
        file.add_tensor(name, drawn(rng, kind, rows, columns), raw_dtype=kind)

    def vector(name, size, low=0.5):
        file.add_tensor(name, rng.uniform(low, 1.5, size).astype(np.float32))

    matrix("token_embd.weight", len(texts))
    vector("output_norm.weight", WIDTH)
    if not tied:
        matrix("output.weight", len(texts))
    if scaled:
        file.add_tensor("rope_freqs.weight", llama3_factors())
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        for name, heads in (("attn_q", HEADS), ("attn_k", KEY_HEADS), ("attn_v", KEY_HEADS)):
            matrix(f"{at}{name}.weight", heads * head)
            if family == "qwen2":
                vector(f"{at}{name}.bias", heads * head, -1.0)
        if family == "qwen3":
            for name in ("attn_q_norm", "attn_k_norm"):
                vector(f"{at}{name}.weight", head)
        matrix(f"{at}attn_output.weight", WIDTH, HEADS * head)
        for name, rows in (("ffn_gate", INNER), ("ffn_up", INNER), ("ffn_down", WIDTH)):
            matrix(f"{at}{name}.weight", rows)
        for name in ("attn_norm", "ffn_norm"):
            vector(f"{at}{name}.weight", WIDTH)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


#: The models whose import by transformers is recorded: the arguments of `write`.
RECORDED = {
    "llama, Q8_0": ("llama", "smollm", Kind.Q8_0, True),
    "llama, Q4_0": ("llama", "gpt-2", Kind.Q4_0, False),
    "qwen2, Q4_1": ("qwen2", "qwen2", Kind.Q4_1, False),
    "qwen2, F16": ("qwen2", "qwen2", Kind.F16, True),
    "qwen3, BF16": ("qwen3", "qwen2", Kind.BF16, False),
    "qwen3, Q4_K": ("qwen3", "qwen2", Kind.Q4_K, False),
    "qwen3, Q6_K": ("qwen3", "qwen2", Kind.Q6_K, True),
}
TEXTS = ["hello world 1234567", "he said:\n\n 12 don't  e\u0301", "   <|turn|>hell<|end|>\r\n\n", "\u6771\u4eac 99\t"]
