"""A child of `fork` grades: process pools of reward managers and workers of data loaders are such children on Linux."""

import multiprocessing
import sys

import grpo_lambda
import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="fork is the start method of Linux")
def test_a_forked_child_grades_a_batch():
    golds, answers = ["1/2"] * 1000, ["0.5"] * 1000
    mine = [verdict.name for verdict in grpo_lambda.grade_batch(golds, answers)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        theirs = [pool.apply_async(graded, (golds, answers)) for _ in range(2)]
        assert all(child.get(timeout=60) == mine for child in theirs)


def graded(golds, answers):
    return [verdict.name for verdict in grpo_lambda.grade_batch(golds, answers)]
