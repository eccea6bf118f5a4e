"""The command line as the oracle of the package."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SIM = Path(os.environ.get("SIM", ROOT / "target/debug/sim"))


class Sim:
    """`sim estimate` on groups."""

    def run(self, method, settings, text, *options):
        words = [str(SIM), "estimate", "--method", method, *options]
        words += [f"{key}={value}" for key, value in settings.items()]
        return subprocess.run(words, input=text, capture_output=True, text=True)

    def estimate(self, method, settings, groups, *options):
        """The printed lines, or the text of the refusal."""
        done = self.run(method, settings, "\n".join(map(json.dumps, groups)), *options)
        if done.returncode == 0:
            return [json.loads(line) for line in done.stdout.splitlines()]
        assert done.returncode == 2, done.stderr
        return done.stderr.strip().splitlines()[-1]


@pytest.fixture(scope="session")
def sim():
    if not SIM.exists():
        pytest.fail(f"SIM = {SIM}: no such file; build it with `cargo build --bin sim`, or run test.sh")
    return Sim()
