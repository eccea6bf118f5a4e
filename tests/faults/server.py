"""A server that lies to `llm-train train`."""

import http.client, json, math, os, re, subprocess, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from common import COIN, LLM_TRAIN, MODEL_SERVER, difference, run, tree



class Server:
    """The tests' server of a checkpoint (llm/crates/engines/examples/model_server.rs) on a free port, ended with the block."""

    def __init__(self, where, model):
        self.child = subprocess.Popen([MODEL_SERVER, model], cwd=where, stdout=subprocess.PIPE, env={**os.environ, "RAYON_NUM_THREADS": "1"})
        self.port = int(re.search(rb"http://[^:]+:(\d+)", self.child.stdout.readline()).group(1))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()


def change(path, value):
    """A lie: the value at `path` of each choice of an answer is `value(old)`."""
    def lie(answer):
        for choice in answer.get("choices", []):
            at = choice
            for key in path[:-1]:
                at = at[key] if at.get(key) is not None else {}
            if path[-1] in at and at[path[-1]] is not None:
                at[path[-1]] = value(at[path[-1]])
        return answer
    return lie


EACH = lambda f: lambda old: [f(x) for x in old]
LOGPS, ENTROPIES = ("logprobs", "token_logprobs"), ("logprobs", "token_entropies")
LIES = {
    **{f"entropies {x}": change(ENTROPIES, EACH(lambda old, x=x: x)) for x in (1e300, -5.0, 1e9, "x", None)},
    **{f"log-probabilities {x}": change(LOGPS, EACH(lambda old, x=x: x)) for x in (0.0, 1.0, -1e300, None, "x", -1.0)},
    "log-probabilities raised": change(LOGPS, EACH(lambda x: x / 2)), "one fewer log-probability": change(LOGPS, lambda old: old[:-1]),
    "one more entropy": change(ENTROPIES, lambda old: old + [1.0]), "one fewer token": change(("token_ids",), lambda old: old[:-1]), "no token": change(("token_ids",), lambda old: []),
    "tokens of another model": change(("token_ids",), EACH(lambda x: x + 100_000)), "negative tokens": change(("token_ids",), EACH(lambda x: -x - 1)),
    "other tokens": change(("token_ids",), EACH(lambda x: (x + 1) % 100 + 5)), "too many tokens": change(("token_ids",), lambda old: old * 1000),
    "another prompt": change(("prompt_token_ids",), lambda old: old + [1]), "an unknown end": change(("finish_reason",), lambda old: "tool_calls"),
    "stop for length": change(("finish_reason",), lambda old: "stop"), "length for stop": change(("finish_reason",), lambda old: "length"),
    "fewer choices": lambda answer: {**answer, "choices": answer["choices"][:-1]}, "no choices": lambda answer: {**answer, "choices": []},
    "the same response for all": lambda answer: {**answer, "choices": [answer["choices"][0]] * len(answer["choices"])},
    "a list": lambda answer: [answer], "no JSON": lambda answer: "\x1b[2J", "deep": lambda answer: "[" * 100_000, "another version": lambda answer: {**answer, "weight_version": "7"},
    "NaN": change(LOGPS, EACH(lambda x: math.nan)), "a text of 30 MB": lambda answer: {**answer, "x": "y" * 30_000_000},
}


def proxy(port, lie, after):
    """A server between trainer and an honest one that lies in completions after the first `after` of them; returns it and how often it lied."""
    reported, asked = [0], [0]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request(self.command, self.path, body, {"Content-Type": "application/json"})
            back = connection.getresponse()
            data = back.read()
            if self.path == "/v1/completions" and back.status == 200:
                asked[0] += 1
                if asked[0] > after:
                    reported[0] += 1
                    lied = lie(json.loads(data))
                    data = (lied if isinstance(lied, str) else json.dumps(lied)).encode()
            self.send_response(back.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            try:
                self.wfile.write(data)
            except OSError:
                pass

        do_GET = do_POST = answer

        def log_message(self, *_):
            pass
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, reported


def liar(bench, size, random):
    """A server that lies to `train` in every field of its answers: refused or warned of, or the numbers of an honest one"""
    settings = [word for word in COIN if not word.startswith(("sft.", "rl.steps"))] + ["sft.steps=0", "rl.steps=3", "rollout.engine=vllm", "rollout.retries=1", "rollout.timeout=20"]

    def trained(where, lie, after):
        with Server(where, bench.model() / "hf") as server:
            between, reported = proxy(server.port, lie, after)
            words = [word for word in settings if not word.startswith("model.")] + [f"model.checkpoint={bench.model() / 'hf'}", "rollout.weights=w",
                     f"rollout.url=http://127.0.0.1:{between.server_port}"]
            done = run([LLM_TRAIN, "train", "--run", "r", *words], where)
            between.shutdown()
            return done, reported[0]

    def honest():
        def make(directory):
            done, _ = trained(directory, lambda answer: answer, 0)
            assert done.status == 0, done.err
        return bench.once("honest", make) / "r"
    numbers = lambda run: {name: found for name, found in tree(run).items() if name in ("metrics.jsonl", "samples.jsonl") or name.endswith("model.safetensors")}

    def trial(where, _, lie, after):
        honest()
        done, reported = trained(where, lie, after)
        if done.crash() or done.mib > 2048:
            return done.crash() or f"{done.mib} MiB resident"
        if done.status != 0 or "warning" in done.err or reported == 0:
            return None
        changed = difference(numbers(honest()), numbers(where / "r"))
        return changed and f"believed: {changed}"
    for i in range([1, 3, 6][size]):
        for name, lie in LIES.items():
            after = 0 if size == 0 else random.randrange(12)
            yield f"{name}, after {after}", lambda where, random, lie=lie, after=after: trial(where, random, lie, after)


CLASSES = [liar]
