"""Files and programs of strangers: refused in a line, or used, within bounded memory and time."""

import json, math, re, resource, shutil, struct

from common import LLM_TRAIN, SIM, TINY, run

BOUND = [(resource.RLIMIT_AS, 8_000_000_000)]
ROW = '{"problem": "1+1?", "answer": "2"}\n'
CYCLE = "{% set ns = namespace() %}{% set ns.a = ns %}"
TEMPLATES = [CYCLE + f"{{{{ {use} }}}}" for use in (
    "ns", "ns|tojson", "ns|string", "[ns]|sort", "[ns, ns]|unique|list", "[ns]|max", "[ns]|min", "[ns]|groupby('a')", "{'x': ns}", "ns == ns")] + [
    "{% set ns = namespace(x='a ') %}{% for i in range(" + str(n) + ") %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}" for n in (15, 20, 25, 30, 60)] + [
    "{% for i in range(100000000) %}{{ i }}{% endfor %}", "{{ 'a' * 1000000000 }}", "{{ range(10000000000)|list }}", "{" * 100000, "{{ " + "(" * 50000 + ")" * 50000,
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{% for i in range(10000) %}" * 8 + "x" + "{% endfor %}" * 8, "{{ messages|tojson(indent=1000000000) }}",
    "{{ '%s' % '\\x1b]0;owned\\x07' }}", "{{ 1 / 0 }}", "{{ 10 ** 100000000 }}", "{% include '/etc/passwd' %}", "{{ ''.__class__ }}", "\x00\x1b[2J", "{{ undefined.x }}"]
REPLACE = lambda pattern, content: {"type": "Replace", "pattern": pattern, "content": content}
SPLIT = lambda regex: {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
SEQUENCE = lambda field, parts: {"type": "Sequence", field: parts}
# Changes of tokenizer.json: field and value.
TOKENIZERS = [("normalizer", SEQUENCE("normalizers", [REPLACE(pattern, "a")] * 40)) for pattern in ({"Regex": ""}, {"String": ""}, {"Regex": "(?=.)"}, {"Regex": "^"})] + [
    ("normalizer", SEQUENCE("normalizers", [{"type": "ByteLevel"}] * 40)), ("normalizer", SEQUENCE("normalizers", [REPLACE({"String": "a"}, "a" * 1000)] * 20)),
    ("normalizer", SEQUENCE("normalizers", [{"type": "Prepend", "prepend": "x" * 10_000_000}] * 9)),
    ("pre_tokenizer", SEQUENCE("pretokenizers", [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}] * 40)),
    ("pre_tokenizer", SPLIT("(?:(?=.)(?:.|\\n))(?=(?:(?!q).)*)")), ("pre_tokenizer", SPLIT("(a+)+$")), ("pre_tokenizer", SPLIT("(" * 5000 + ")" * 5000)),
    ("post_processor", {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 50_000, "pair": [], "special_tokens": {}}),
    ("decoder", SEQUENCE("decoders", [REPLACE({"String": ""}, "a")] * 40)), ("decoder", SEQUENCE("decoders", [REPLACE({"Regex": ""}, "aa")] * 60)),
    ("added_tokens", [{"id": 2**32 - 1, "content": "x", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}]),
    ("model", {"type": "BPE", "vocab": {}, "merges": []}), ("model", {"type": "Unigram", "vocab": [["a", -math.inf]], "unk_id": 9}), ("truncation", {"max_length": 0}),
    ("padding", {"strategy": {"Fixed": 2**40}, "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "x"})]
NUMBERS = [0, -1, 1, 3, 7, 2**31, 2**63, 1e308, "x", None, [], True]


def refused_or_used(done):
    """The problem with how a program took the input of a stranger, if any."""
    lines = len(done.err.splitlines())
    if done.crash() or lines > 40:
        return done.crash() or f"{lines} lines of error"
    return "a raw escape sequence on the terminal" if "\x1b" in done.out + done.err else None


def models(bench, size, random):
    """Templates, tokenizers, configurations and safetensors of a stranger, in `data`, `generate`, `score` and `train --dry-run`"""
    hf = bench.model() / "hf"

    def template(where, _, text):
        (where / "t.jinja").write_text(text)
        (where / "d.jsonl").write_text(ROW)
        return refused_or_used(run([LLM_TRAIN, "data", "d.jsonl", "--template", "t.jinja", "--model", hf], where, patience=60, limits=BOUND))

    def used(where, name, data, rows=ROW):
        shutil.copytree(hf, where / "m")
        (where / "m" / name).write_bytes(data)
        (where / "d.jsonl").write_text(rows)
        for words, asked in ((["train", "--dry-run", "model.checkpoint=m"], ""), (["score", "--model", "m"], '{"ids":[5,6]}\n'), (["data", "d.jsonl", "--model", "m"], ""),
                             (["generate", "--model", "m", "--prompt", "é1+1", "--max-new-tokens", "3", "--threads", "1"], "")):
            problem = refused_or_used(run([LLM_TRAIN, *words], where, asked, patience=60, limits=BOUND))
            if problem:
                return f"{words[0]}: {problem}"

    def tokenizer(where, _, field, value):
        rows = json.dumps({"problem": "é" + "a b" * 13_000, "answer": "2"}) + "\n"
        return used(where, "tokenizer.json", json.dumps({**json.loads((hf / "tokenizer.json").read_text()), field: value}).encode(), rows)

    def configuration(where, random):
        config = json.loads((hf / "config.json").read_text())
        for key in random.sample(sorted(config), random.choice([1, 1, 2])):
            config[key] = random.choice(NUMBERS)
        return used(where, "config.json", json.dumps(config).encode())

    def weights(where, random):
        data = (hf / "model.safetensors").read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header, kind = json.loads(data[8:8 + length]), random.randrange(4)
        name = random.choice([name for name in header if name != "__metadata__"])
        if kind == 0:
            return used(where, "model.safetensors", struct.pack("<Q", random.choice([0, 1, length - 1, length + 1, 2**40, 2**63, 2**64 - 1])) + data[8:])
        if kind == 1:
            header[name]["data_offsets"] = random.choice([[0, 0], [0, 2**63], [2**64 - 1, 0], [8, 4], [-1, 3], [1, len(data)]])
        elif kind == 2:
            header[name]["shape"] = random.choice([[0], [2**32, 2**32], [2**64 - 1], [], [1] * 1000, [-1]])
        else:
            header[name]["dtype"] = random.choice(["F64", "I8", "BOOL", "x", "BF16", None])
        text = json.dumps(header).encode()
        return used(where, "model.safetensors", struct.pack("<Q", len(text)) + text + data[8 + length:])

    cases = [(f"template {text[:60]!r}", lambda where, random, text=text: template(where, random, text)) for text in TEMPLATES]
    cases += [(f"tokenizer {field} {str(value)[:60]}", lambda where, random, field=field, value=value: tokenizer(where, random, field, value)) for field, value in TOKENIZERS]
    yield from cases
    for i in range([10, 160, 320][size]):
        yield ("configuration", configuration) if i % 2 else ("weights", weights)


# Programs of reward.command, in Python, with what must hold: `lengths`: rewards are lengths, or the program is refused; `any`: no crash.
PROLOGUE = "import sys, json, os, time\n"
EACH = "for l in sys.stdin:\n  q = json.loads(l)\n  "
PROGRAMS = {
    "honest": ("lengths", EACH + "print(len(q['completion']), flush=True)"),
    "one number first": ("lengths", "print(0)\n" + EACH + "print(len(q['completion']), flush=True)"),
    "a word first": ("lengths", "print('loaded', flush=True)\n" + EACH + "print(len(q['completion']), flush=True)"),
    "two at the seventh": ("lengths", "n = 0\n" + EACH + "n += 1; print(len(q['completion'])); n == 7 and print(1); sys.stdout.flush()"),
    "one late": ("lengths", EACH + "print(len(q['completion']), flush=True)\ntime.sleep(.1); print(3, flush=True)"),
    "closes its output": ("any", "os.close(1); time.sleep(300)"), "closes its input": ("any", "os.close(0); time.sleep(300)"),
    "silent": ("any", "time.sleep(300)"), "ends": ("any", ""), "ends with 3": ("any", "sys.exit(3)"), "dies": ("any", "os.kill(os.getpid(), 9)"),
    "zeros": ("any", "while 1: os.write(1, bytes(1 << 16))"), "ones": ("any", "while 1: os.write(1, b'1\\n' * (1 << 15))"), "a line of 1 GB": ("any", "for _ in range(1000): os.write(1, b'1' * 1000000)"),
    "errors without end": ("any", "while 1: os.write(2, b'x' * 65536)"),
    "NaN": ("empty", EACH + "print('NaN', flush=True)"), "null": ("empty", EACH + "print('null', flush=True)"), "1e308": ("any", EACH + "print(1e308, flush=True)"),
    "1e200": ("any", EACH + "print(1e200 * (q['tokens'] % 3), flush=True)"), "1e400": ("any", EACH + "print('1e400', flush=True)"), "inf": ("any", EACH + "print('inf', flush=True)"),
    "-1e308": ("any", EACH + "print(-1e308, flush=True)"), "words": ("any", EACH + "print('one', flush=True)"), "escapes": ("any", EACH + "print('\\x1b[2J', flush=True)"),
    "no UTF-8": ("any", EACH + "os.write(1, b'\\xff\\n')"), "a list": ("any", EACH + "print('[1]', flush=True)"), "half a line": ("any", EACH + "os.write(1, b'1')"),
    "leaves a child": ("any", "if os.fork() == 0: time.sleep(30)\nelse: sys.exit(0)"),
}


def rewards(bench, size, random):
    """Programs of reward.command that lie, flood, hang or die: right rewards or a refusal, 2 GB and 60 s at most"""
    def trial(where, _, expected, text):
        (where / "program.py").write_text(PROLOGUE + text)
        done = run([LLM_TRAIN, "train", "--run", "r", *TINY, "rl.steps=4", "reward.command=python3 program.py", "reward.command_timeout=3", "--quiet"], where, patience=60)
        if refused_or_used(done) or done.mib > 2048:
            return refused_or_used(done) or f"{done.mib} MiB resident"
        if done.status != 0:
            return None
        samples = [json.loads(line) for line in (where / "r/samples.jsonl").read_text().splitlines()]
        wrong = [sample for sample in samples if expected == "lengths" and sample["rewards"].get("command") != len(sample["response"])]
        if wrong:
            return f"a reward of {wrong[0]['rewards']} for a response of {len(wrong[0]['response'])} characters"
        return columns((where / "r/metrics.csv").read_text(), (where / "r/metrics.jsonl").read_text(), expected == "empty")
    for _ in range([1, 3, 6][size]):
        for name, (expected, text) in PROGRAMS.items():
            yield name, lambda where, random, expected=expected, text=text: trial(where, random, expected, text)


def columns(table, lines, empty):
    """The problem with the numbers of a log: an infinity, NaN or -0; a mean of rewards where no response has one."""
    bad = re.search(r"(?m)(^|,)(-?inf|NaN|-0)(,|$)", table)
    if bad or "-0.0" in re.findall(r"-0\.0(?=[,}])", lines):
        return f"metrics hold {bad.group(2) if bad else '-0.0'}"
    rows = [json.loads(line) for line in lines.splitlines()]
    if any(row.get(name) is not None for row in rows if row["stage"] == "rl" for name in ("reward", "reward_command") if empty):
        return "a mean of rewards although no response has one"


MDP = 'name = "m"\ntokens = ["a", "b", "EOS"]\neos = "EOS"\nhorizon = 4\nreward_kind = "binary"\n[[rewards]]\npattern = "a EOS"\nreward = 1.0\n'
MDPS = [("horizon = 4", "horizon = 30\nmax_leaves = 1000000000000000000"), ('"m"', '"\\u001b]0;owned\\u0007"'), ('"a"', '"\\u001b[2J"'), ("= 4", "= 1000000000"),
        ('"binary"', '"any"'), ("1.0", "1e200"), ("1.0", "nan"), ("1.0", "-1e308"), ("a EOS", "a b " * 100000), ('"EOS"]', '"EOS", ' + '"c", ' * 10000 + '"d"]')]
GROUPS = ['{"rewards":[1e308,1e308],"logps":[[-1],[-1]],"old_logps":[[-1],[-1]]}', '{"rewards":[1,0],"logps":[[-1e308],[1e308]],"old_logps":[[-1],[-1]]}', "[" * 100000,
          '{"rewards":[],"logps":[],"old_logps":[]}', '{"rewards":[1,0],"logps":[[],[]],"old_logps":[[],[]]}', '{"rewards":[null,1],"logps":[[-1],[-1]],"old_logps":[[-1],[-1]]}']


def inputs(bench, size, random):
    """Hostile MDPs, groups, data sets and settings in `grpo-sim` and `llm-train`"""
    def mdp(where, _, change):
        (where / "m.toml").write_text(MDP.replace(*change))
        done = run([SIM, "mdp", "m.toml", "--method", "grpo"], where, patience=60, limits=[(resource.RLIMIT_AS, 4_000_000_000)])
        return refused_or_used(done) or (done.status == 0 and re.search(r"(?i)\b(inf|nan)\b", done.out) and "a number that is none" or None)

    def group(where, _, text):
        for method in ("grpo", "grpo_lambda"):
            done = run([SIM, "estimate", "--method", method], where, text + "\n", patience=60)
            if refused_or_used(done) or done.status == 0 and re.search(r"\b(inf|nan)\b", done.out, re.I):
                return refused_or_used(done) or "a number that is none"

    def data(where, random):
        text = bytearray((ROW * 5).encode())
        for _ in range(random.choice([1, 2, 30])):
            at = random.randrange(len(text))
            text[at:at + random.randrange(3)] = random.choice([b"\0", b"\xff", b"\xef\xbb\xbf", b"\\ud800", b"\n", b'"', b"{" * 3000, b"\x1b[2J", b"1e999"])
        (where / "d.jsonl").write_bytes(text)
        return refused_or_used(run([LLM_TRAIN, "data", "d.jsonl"], where, patience=60, limits=BOUND))

    def setting(where, random):
        help_ = run([LLM_TRAIN, "train", "--print-config", "task.kind=addition"], where).out
        section, keys = "", []
        for line in help_.splitlines():
            section = line.strip("[]") + "." if line.startswith("[") else section
            keys += [section + line.split(" = ")[0]] if " = " in line else []
        words = [f"{key}={random.choice(['0', '-1', '1', '1e308', 'nan', 'inf', '2', '18446744073709551616', 'x', '', 'true', '3,3'])}"
                 for key in random.sample(keys, random.choice([1, 2, 3])) if key not in ("threads", "reward.command") and not key.startswith("rollout")]
        kept = [word for word in TINY + ["rl.steps=2"] if word.split("=")[0] not in [other.split("=")[0] for other in words]]
        done = run([LLM_TRAIN, "train", "--run", "r", *kept, *words, "--quiet"], where, patience=20, limits=BOUND)
        return None if done.late else refused_or_used(done) and f"{words}: {refused_or_used(done)}"  # absurd numbers of steps take long

    for change in MDPS:
        yield f"MDP with {change[1][:40]!r}", lambda where, random, change=change: mdp(where, random, change)
    for text in GROUPS:
        yield f"group {text[:60]}", lambda where, random, text=text: group(where, random, text)
    for i in range([10, 200, 400][size]):
        yield ("data set", data) if i % 2 else ("settings", setting)


CLASSES = [models, rewards, inputs]
