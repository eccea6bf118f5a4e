"""Conversion of GGUF files, compared with what transformers' own import makes of them (gguf/record.py)."""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gguf", reason="pip install gguf safetensors tokenizers ml_dtypes")
HERE = Path(__file__).parent / "gguf"
sys.path.insert(0, str(HERE))

import models  # noqa: E402
from models import Kind  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

from grpo_lambda.gguf import GgufError, convert, main  # noqa: E402

RECORDED = json.loads((HERE / "recorded.json").read_text())


def settings(out, file="config.json"):
    return json.loads((out / file).read_text())


@pytest.mark.parametrize("name", models.RECORDED)
def test_the_tensors_are_those_of_transformers_import(tmp_path, name):
    arguments = models.RECORDED[name]
    count = convert(models.write(tmp_path / "m.gguf", *arguments), tmp_path / "out")
    made = load_file(tmp_path / "out" / "model.safetensors")
    assert count == sum(values.size for values in made.values())
    if arguments[3]:  # a tied head, which transformers lists twice
        made["lm_head.weight"] = made["model.embed_tokens.weight"]
    digests = {tensor: hashlib.sha256(values.tobytes()).hexdigest()[:16] for tensor, values in made.items()}
    assert digests == RECORDED[name]


def test_the_rules_of_qwen2_split_a_text_as_transformers_class_does(tmp_path):
    convert(models.write(tmp_path / "m.gguf", "qwen2", "qwen2"), tmp_path / "out")
    made = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    texts = [text for text in models.TEXTS if "<|" not in text]
    assert [made.encode(text).ids for text in texts] == RECORDED["ids_of_qwen2"]


def pieces(path, rule, text):
    path.mkdir(exist_ok=True)
    convert(models.write(path / f"{rule}.gguf", "llama", rule), path / rule)
    return Tokenizer.from_file(str(path / rule / "tokenizer.json")).encode(text).tokens


def test_digits_are_one_three_or_as_many_as_there_are_by_the_tokenizer_s_rule(tmp_path):
    # The merges know 12 and 123. Single digits never merge; three of Llama 3 do; GPT-2's run of digits is one piece.
    assert pieces(tmp_path, "smollm", "1234") == ["1", "2", "3", "4"]
    assert pieces(tmp_path, "llama-bpe", "12312") == ["<|begin|>", "123", "12"]
    assert pieces(tmp_path, "gpt-2", "01234") == ["0", "123", "4"]
    assert pieces(tmp_path / "again", "smollm", "<|turn|>hell<|end|>") == ["<|turn|>", "hell", "<|end|>"]


def test_a_special_token_keeps_its_id_after_unused_ones(tmp_path):
    convert(models.write(tmp_path / "m.gguf", "llama", "gpt-2"), tmp_path / "out")
    made = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    texts, _ = models.vocabulary()
    assert [made.token_to_id(text) for text in models.SPECIAL] == [texts.index(text) for text in models.SPECIAL]
    assert made.token_to_id("[PAD265]") is None


def test_the_configuration_says_what_the_file_does(tmp_path):
    file = models.write(tmp_path / "m.gguf", "llama", "llama-bpe", tied=False, scaled=True)
    convert(file, tmp_path / "out")
    written = settings(tmp_path / "out")
    wanted = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 256,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "eos_token_id": [267, 268],
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    }
    assert {key: written[key] for key in wanted} == wanted
    assert settings(tmp_path / "out", "generation_config.json")["eos_token_id"] == [267, 268]
    tokenizer = settings(tmp_path / "out", "tokenizer_config.json")
    assert (tokenizer["eos_token"], tokenizer["add_bos_token"], tokenizer["chat_template"]) == ("<|end|>", True, models.TEMPLATE)


def test_bfloat16_is_the_nearest_and_several_files_hold_the_same(tmp_path, monkeypatch):
    file = models.write(tmp_path / "m.gguf", "llama", "gpt-2")
    convert(file, tmp_path / "whole", "bf16")
    convert(file, tmp_path / "exact")
    monkeypatch.setattr("grpo_lambda.gguf.SHARD", 200_000)
    convert(file, tmp_path / "parts", "bf16")
    index = settings(tmp_path / "parts", "model.safetensors.index.json")
    files = sorted(set(index["weight_map"].values()))
    assert len(files) > 2 and files[0].endswith(f"-of-{len(files):05}.safetensors")
    parts = {}
    for name in files:
        parts |= bits(tmp_path / "parts" / name)
    whole = bits(tmp_path / "whole" / "model.safetensors")
    assert set(parts) == set(whole) and all((parts[name] == whole[name]).all() for name in whole)
    for name, values in load_file(tmp_path / "exact" / "model.safetensors").items():
        near = (whole[name].astype(np.uint32) << 16).view(np.float32).reshape(values.shape)
        assert (np.abs(near - values) <= np.abs(values) * 2.0**-8).all()


def bits(path):
    """The 16 bits of every number of a file, read by hand."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    head = json.loads(raw[8 : 8 + size])
    head.pop("__metadata__")
    out = {}
    for name, entry in head.items():
        assert entry["dtype"] == "BF16"
        start, end = (8 + size + offset for offset in entry["data_offsets"])
        out[name] = np.frombuffer(raw[start:end], np.uint16)
    return out


REFUSED = {
    "another family": (("gemma2", "gpt-2"), {}, "general.architecture: gemma2 is not converted"),
    "another tokenizer": (("llama", "tekken"), {}, "tokenizer.ggml.pre: tekken is not known here"),
    "experts": (("qwen3", "qwen2"), {"expert_count": 8}, "qwen3.expert_count: 8 is not known here"),
    "a window": (("qwen2", "qwen2"), {"attention.sliding_window": 128}, "qwen2.attention.sliding_window: 128"),
    "part of a head turned": (("llama", "gpt-2"), {"rope.dimension_count": 32}, "rope.dimension_count: 32 differs"),
    "yarn": (("llama", "gpt-2"), {"rope.scaling.type": "yarn"}, "rope.scaling.type: yarn is not converted"),
    "another rule": (("llama", "default"), {}, "tokenizer.ggml.pre: default is not known here"),
    "no merges": (("llama", "gpt-2"), {"merges": False}, "tokenizer.ggml.merges: is missing"),
    "an id beyond the vocabulary": (("llama", "llama-bpe"), {"bos": 9999}, "the id of bos, 9999"),
    "a field left out": (("llama", "gpt-2"), {"feed_forward_length": None}, "llama.feed_forward_length: is missing"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_known_is_refused_by_name_and_leaves_nothing(tmp_path, case):
    arguments, changed, says = REFUSED[case]
    file = models.write(tmp_path / "m.gguf", *arguments, **changed)
    with pytest.raises(GgufError, match=says.replace("(", r"\(")):
        convert(file, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.gguf"]


def test_types_damage_and_places_are_refused_in_one_line(tmp_path, capsys):
    file = models.write(tmp_path / "m.gguf", "llama", "gpt-2", Kind.Q5_0)
    assert main([str(file), str(tmp_path / "out")]) == 2
    assert "numbers of type Q5_0 are not read" in capsys.readouterr().err
    whole = models.write(tmp_path / "w.gguf", "llama", "gpt-2").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[: len(whole) // 2])
    assert main([str(tmp_path / "cut.gguf"), str(tmp_path / "out")]) == 2
    assert main([str(tmp_path / "w.gguf"), str(tmp_path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and "is no complete GGUF file" in lines[0] and "is there and not empty" in lines[1]
    assert not (tmp_path / "out").exists()
