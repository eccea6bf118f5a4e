"""Requests that attack `llm-train serve`, and a server that lies to `llm-train train`."""

import http.client, json, math, os, re, signal, socket, struct, subprocess, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from common import COIN, LLM_TRAIN, difference, last_line, run, tree

OURS = {"prompt": [5, 17, 20], "max_tokens": 4, "logprobs": 0, "return_token_ids": True}
GROWTH = 600  # MiB that a server may take beside what it had


class Server:
    """`llm-train serve` on a free port, ended with the block."""

    def __init__(self, where, model, *words, token=None):
        self.log = open(where / "serve.log", "w+b")
        env = {**os.environ, "RUST_BACKTRACE": "0", **({"LLM_TRAIN_TOKEN": token} if token else {})}
        self.child = subprocess.Popen([LLM_TRAIN, "serve", "--model", model, "--port", "0", "--threads", "1", *words], cwd=where, stdout=self.log, stderr=self.log, env=env)
        end, found = time.monotonic() + 60, None
        while not found and time.monotonic() < end and self.child.poll() is None:
            time.sleep(0.05)
            found = re.search(rb"http://[^:]+:(\d+)", (where / "serve.log").read_bytes())
        assert found, (where / "serve.log").read_text()
        self.port = int(found.group(1))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.terminate()
        try:
            self.child.wait(15)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.log.close()

    def mib(self):
        """Largest resident memory so far."""
        with open(f"/proc/{self.child.pid}/status") as file:
            return int(re.search(r"VmHWM:\s+(\d+)", file.read()).group(1)) >> 10

    def health(self, token=None):
        """A problem unless the server lives and answers within ten seconds."""
        if self.child.poll() is not None:
            return f"the server is gone: exit status {self.child.returncode}"
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
            connection.request("GET", "/health", headers={"Authorization": f"Bearer {token}"} if token else {})
            return None if connection.getresponse().status == 200 else "/health is not 200"
        except OSError as error:
            return f"/health does not answer: {error}"

    def send(self, pieces, wait=0.3, seconds=5):
        """Sends raw bytes, reads what comes back for a while."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as link:
                for piece in pieces:
                    link.sendall(piece)
                link.settimeout(wait)
                return link.recv(1 << 16)
        except OSError:
            return b""


def request(body, method="POST", path="/v1/completions", more="", length=None):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    length = len(body) if length is None else length
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n".encode() + body


def attacks():
    """Single attacks: by name the pieces to send, how many connections, and whether they stay open."""
    found = {f"Content-Length {n}": ([request(b"", length=n)], 8, False) for n in (10**10, 10**11, 10**12, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -1, "x")}
    found |= {
        "a header without end": ([b"GET / HTTP/1.1\r\nX: "] + [b"a" * (1 << 20)] * 300, 1, False),
        "headers without end": ([b"GET / HTTP/1.1\r\n"] + [b"X: y\r\n" * 100_000] * 100, 1, False),
        "a method without end": ([b"A" * (1 << 20)] * 300, 1, False),
        "silent bodies": ([request(b"", length=10_000_000)], 150, True),
        "half a head": ([b"POST /v1/comp"], 150, True),
        "chunks of 2^60": ([b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" + b"0" * 15 + b"\r\n"], 20, False),
        "a text of 10 MB": ([request({"prompt": "a b " * 2_500_000, "max_tokens": 1})], 6, False),
        "100,000 stops": ([request({**OURS, "stop": [f"s{i}" for i in range(100_000)], "max_tokens": 200})], 3, False),
        "deep JSON": ([request(b"[" * 1_000_000)], 5, False), "n of 10^9": ([request({**OURS, "n": 10**9})], 3, False),
        "many prompts": ([request({**OURS, "prompt": [[5]] * 100_000})], 3, False), "smuggled": ([request(b"{}", more="Transfer-Encoding: chunked\r\n")], 5, False),
    }
    return found


def serve(bench, size, random):
    """Single attacks on `serve`, each also where it wants a token: it lives, answers within ten seconds, and grows by 600 MiB at most"""
    def trial(where, _, pieces, many, stay, token):
        with Server(where, bench.reference("plain") / "r", token=token) as server:
            before, links = server.mib(), []
            threads = [threading.Thread(target=lambda: links.append(server.send(pieces)), daemon=True) for _ in range(0 if stay else many)]
            for thread in threads:
                thread.start()
            if stay:
                for _ in range(many):
                    links.append(socket.create_connection(("127.0.0.1", server.port), timeout=5))
                    links[-1].sendall(pieces[0])
            for thread in threads:
                thread.join(30)
            problem = server.health(token)
            # What waits for a body may keep its place for a moment, not for ever.
            end = time.monotonic() + 40
            while problem and "gone" not in problem and time.monotonic() < end:
                problem = server.health(token)
            grown = server.mib() - before if server.child.poll() is None else 0
            return problem or (f"grew by {grown} MiB" if grown > GROWTH else None)
    for _ in range([1, 2, 4][size]):
        for name, (pieces, many, stay) in attacks().items():
            for token in (None, "s3cret"):
                yield f"{name}{' with a token' if token else ''}", lambda where, random, given=(pieces, many, stay, token): trial(where, random, *given)


def hostile(random):
    """A random hostile request."""
    body = dict(OURS)
    for _ in range(random.randrange(3)):
        key = random.choice(["prompt", "max_tokens", "n", "temperature", "top_p", "top_k", "seed", "stop", "logprobs", "model", "stream", "min_tokens", "address", "x"])
        body[key] = random.choice([None, -1, 0, 2**63, 1e308, "", "x" * 10_000, [], [[]], [[-1]], [2**32], {}, True, ["a"] * 1000, "\ud800", "é" * 5000])
    data = bytearray(request(body, random.choice(["POST", "POST", "GET", "PUT", "\x00", "OPTIONS"]), random.choice(["/v1/completions", "/v1/models", "/pause", "/collective_rpc",
                     "/../../etc/passwd", "/" + "a" * 9000, "/%00", "*", ""]), random.choice(["", "Origin: http://evil\r\n", "X: " + "y" * 9000 + "\r\n", "Expect: 100-continue\r\n",
                     "Connection: Upgrade\r\n", "Authorization: Bearer \xff\r\n"]), random.choice([None, None, None, 0, 5, 10**7, 10**12])))
    for _ in range(random.choice([0, 0, 1, 5])):
        data[random.randrange(len(data))] = random.randrange(256)
    return bytes(data[:random.choice([len(data), len(data), random.randrange(len(data)) + 1])])


def flood(bench, size, random):
    """Random hostile requests, thousands to one server: no answer of 500, bounded memory, and it answers as before"""
    def trial(where, random, many):
        with Server(where, bench.reference("plain") / "r") as server:
            asked = request({**OURS, "seed": 1})
            answer = lambda: re.sub(rb'"(id|created)":("[^"]*"|\d+)', b"", server.send([asked], wait=20).split(b"\r\n\r\n", 1)[-1])
            first, wrong, before = answer(), [], server.mib()
            for i in range(many):
                sent = hostile(random)
                back = server.send([sent], wait=0.02)
                if re.match(rb"HTTP/1.1 500", back):
                    wrong.append(sent[:200])
                if i % 500 == 499 and server.health():
                    return f"after {i + 1} requests: {server.health()}"
            problem, grown = server.health(), server.mib() - before
            if problem or wrong or grown > GROWTH:
                return problem or (f"500 for {wrong[0]!r}" if wrong else f"grew by {grown} MiB")
            return None if answer() == first else "another answer to the same question"
    for _ in range([1, 20, 40][size]):
        yield "500 requests", lambda where, random: trial(where, random, 500)
    if size:
        yield "10,000 requests to one server", lambda where, random: trial(where, random, 10_000)


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
    """A server between trainer and `serve` that lies in completions after the first `after` of them; returns it and how often it lied."""
    told, asked = [0], [0]

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
                    told[0] += 1
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
    return server, told


def liar(bench, size, random):
    """A server that lies to `train` in every field of its answers: refused or warned of, or the numbers of an honest one"""
    settings = [word for word in COIN if not word.startswith(("sft.", "rl.steps"))] + ["sft.steps=0", "rl.steps=3", "rollout.engine=vllm", "rollout.retries=1", "rollout.timeout=20"]

    def trained(where, lie, after):
        with Server(where, bench.model() / "hf", "--reload-from", str(where)) as server:
            between, told = proxy(server.port, lie, after)
            words = [word for word in settings if not word.startswith("model.")] + [f"model.checkpoint={bench.model() / 'hf'}", "rollout.weights=w",
                     f"rollout.url=http://127.0.0.1:{between.server_port}"]
            done = run([LLM_TRAIN, "train", "--run", "r", *words], where)
            between.shutdown()
            return done, told[0]

    def honest():
        def make(directory):
            done, _ = trained(directory, lambda answer: answer, 0)
            assert done.status == 0, done.err
        return bench.once("honest", make) / "r"
    numbers = lambda run: {name: found for name, found in tree(run).items() if name in ("metrics.jsonl", "samples.jsonl") or name.endswith("model.safetensors")}

    def trial(where, _, lie, after):
        honest()
        done, told = trained(where, lie, after)
        if done.crash() or done.mib > 2048:
            return done.crash() or f"{done.mib} MiB resident"
        if done.status != 0 or "warning" in done.err or told == 0:
            return None
        changed = difference(numbers(honest()), numbers(where / "r"))
        return changed and f"believed: {changed}"
    for i in range([1, 3, 6][size]):
        for name, lie in LIES.items():
            after = 0 if size == 0 else random.randrange(12)
            yield f"{name}, after {after}", lambda where, random, lie=lie, after=after: trial(where, random, lie, after)


serve.parallel = flood.parallel = False
CLASSES = [serve, flood, liar]
