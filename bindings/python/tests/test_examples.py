"""Every example runs. Those of torch, TRL and verl run where these are installed; .ci/weekly installs them."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
#: The package that an example needs besides numpy, and the text that it prints. `tests/trl/check.py` runs with_trl.py, which needs a model.
RUNS = {
    "check_my_trainer.py": (None, "as TRL loss_type=dapo (the default)"),
    "exact_bias.py": (None, "median baseline  cosine 1.0000"),
    "own_loop.py": ("torch", "step 30: reward 0.8"),
    "with_verl.py": ("verl", "gradient of the first response"),
}


def test_every_example_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*RUNS, "with_trl.py"}


@pytest.mark.parametrize("name", RUNS)
def test_an_example(name):
    needs, printed = RUNS[name]
    spec = importlib.util.find_spec(needs) if needs else None
    if needs and (spec is None or spec.origin is None):  # a folder of these tests has the name, and no origin
        pytest.skip(f"{needs} is not installed")
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0 and printed in done.stdout, done.stdout + done.stderr
