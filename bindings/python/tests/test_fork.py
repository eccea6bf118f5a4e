"""Child processes grade: pools of reward managers and workers of data loaders are such children, by `fork` up to Python 3.13 on Linux."""

import multiprocessing

import grpo_lambda
import pytest


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_a_child_grades_a_batch(start):
    if start not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {start}")
    golds, answers = ["1/2"] * 1000, ["0.5"] * 1000
    mine = [verdict.name for verdict in grpo_lambda.grade_batch(golds, answers)]
    with multiprocessing.get_context(start).Pool(2) as pool:
        theirs = [pool.apply_async(graded, (golds, answers)) for _ in range(2)]
        assert all(child.get(timeout=60) == mine for child in theirs)


def graded(golds, answers):
    return [verdict.name for verdict in grpo_lambda.grade_batch(golds, answers)]


class Rewards:
    """A data set whose items are graded by the worker that loads them."""

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return graded(["1/2"] * 300, ["0.5" if i % 2 else "2"] * 300)


def test_workers_of_a_data_loader_grade_after_their_parent_did():
    data = pytest.importorskip("torch.utils.data", reason="torch is not installed")
    mine = [Rewards()[i] for i in range(4)]
    assert mine[0] != mine[1]
    for start in {"fork", "spawn"} & set(multiprocessing.get_all_start_methods()):
        loader = data.DataLoader(Rewards(), batch_size=None, num_workers=2, multiprocessing_context=start, timeout=120)
        assert list(loader) == mine, start
