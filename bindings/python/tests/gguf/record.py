"""Records what transformers' own import makes of the files of models.py: `python record.py`, with transformers, accelerate, torch and gguf.

The recorded numbers are checksums of every tensor in 32 bits, and the ids of its Qwen2 tokenizer for four texts.
"""

import hashlib
import json
import sys
import tempfile
from pathlib import Path

import torch
import transformers

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import models  # noqa: E402


def digest(values):
    return hashlib.sha256(values.to(torch.float32).contiguous().numpy().tobytes()).hexdigest()[:16]


def imported(arguments):
    with tempfile.TemporaryDirectory() as place:
        models.write(Path(place) / "m.gguf", *arguments)
        model = transformers.AutoModelForCausalLM.from_pretrained(place, gguf_file="m.gguf", dtype=torch.float32)
        return {name: digest(value) for name, value in sorted(model.state_dict().items())}


def ids_of_qwen2():
    texts, kinds = models.vocabulary()
    used = {text: i for i, text in enumerate(texts) if kinds[i] == 1}
    made = transformers.Qwen2Tokenizer(vocab=used, merges=[tuple(pair.split(" ")) for pair in models.MERGES], unk_token=None, pad_token=None)
    # Without the special tokens, whose ids the class chooses itself.
    return [made.encode(text) for text in models.TEXTS if "<|" not in text]


recorded = {"transformers": transformers.__version__, "torch": torch.__version__, "ids_of_qwen2": ids_of_qwen2()}
recorded |= {name: imported(arguments) for name, arguments in models.RECORDED.items()}
lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in recorded.items())
(HERE / "recorded.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
