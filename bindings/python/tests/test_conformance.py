"""Methods written in Python: the table of checks, and the exact oracle."""

import numpy as np
import pytest

import grpo_lambda
from grpo_lambda import Mdp, conformance

ORDER = ["gradient", "permutation", "agreeing group", "shifted rewards", "micro-batches", "finite"]
#: Methods of the library that do on purpose what a fault would do too.
BY_DESIGN = {
    # A penalty of the ratio, a bonus for short responses, whitening over the batch, signs of rewards: rewards alone are not compared within the group.
    "agreeing group": {"dro", "grpo_lead", "reinforce_pp", "reinforce_pp_baseline", "w_reinforce"},
    # The place in the group says which responses were drawn together.
    "permutation": {"systematic_rloo"},
}


def reinforce(groups, logps, *, slope=1.0, hold=True, of=None, log=False):
    """A sum over the tokens of a response, centred rewards; each keyword is a way to spoil it."""
    total, dlogps = 0.0, []
    count = sum(len(group["rewards"]) for group in groups)
    for group, rows in zip(groups, logps):
        rewards = np.asarray(group["rewards"], dtype=float)
        advantages = (rewards - rewards.mean()) if of is None else of(rewards)
        total -= sum(a * row.sum() for a, row in zip(advantages, rows)) / count
        dlogps.append([np.full(len(row), -slope * a / count) for a, row in zip(advantages, rows)])
    return total, dlogps


def verdicts(method, **settings):
    return {check.name: check.verdict for check in conformance(method, **settings).checks}


def test_a_sound_method_holds_everywhere_and_prints_as_a_table():
    report = conformance(reinforce)
    assert [check.name for check in report.checks] == ORDER and report.ok
    assert {check.verdict for check in report.checks} == {"holds"}
    lines = str(report).splitlines()
    assert len(lines) == 6 and lines[0].startswith("gradient         holds    dlogps against finite differences")


@pytest.mark.parametrize(
    "spoilt, failing",
    [
        (lambda g, x: reinforce(g, x, slope=1.01), "gradient"),
        (lambda g, x: reinforce(g, x, of=lambda r: r - r[0]), "permutation"),
        (lambda g, x: reinforce(g, x, of=lambda r: r), "agreeing group"),
        (lambda g, x: reinforce(g, x, of=lambda r: (r - r.mean()) / r.max() ** 0.5 * np.inf), "finite"),
    ],
    ids=["gradient", "permutation", "agreeing group", "finite"],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_spoilt_method_fails_at_its_fault(spoilt, failing):
    report = conformance(spoilt)
    assert not report.ok and {check.name: check.verdict for check in report.checks}[failing] == "fails"


def test_a_token_mean_depends_on_the_split_and_an_uncentred_reward_on_a_shift():
    assert verdicts("grpo", reduction="token_mean")["micro-batches"] == "depends"
    assert verdicts(lambda g, x: reinforce(g, x, of=lambda r: r))["shifted rewards"] == "depends"


@pytest.mark.parametrize("method", [m for m in grpo_lambda.methods() if not m.extra_inputs], ids=lambda m: m.name)
def test_methods_of_the_library_pass_but_for_what_they_mean(method):
    failed = {check.name for check in conformance(method.name).checks if check.verdict == "fails"}
    assert failed == {name for name, methods in BY_DESIGN.items() if method.name in methods}


def test_a_weight_that_a_method_holds_constant_is_no_fault():
    held = {m.name for m in grpo_lambda.methods() if not m.extra_inputs and verdicts(m.name)["gradient"] == "held"}
    assert held == {"cispo", "vespo", "dppo", "topr", "fipo"}
    report = conformance("cispo")
    assert report.ok and "with the weights that it holds constant" in report.checks[0].detail


def test_wrong_forms_are_refused_by_name():
    for method, settings, text in [
        (lambda g, x: 3, {}, r"^method\(groups, logps\) = int; must be \(loss, dlogps\)"),
        (lambda g, x: (0.0, [[row[:1] for row in rows] for rows in x]), {}, "^dlogps: must have the shapes of logps"),
        (reinforce, {"lambda": 1}, "^lambda: a callable has no settings"),
        ("grop", {}, "did you mean `grpo`"),
        (3, {}, "^method = 3; must be the name of a method, or a callable$"),
    ]:
        with pytest.raises(ValueError, match=text):
            conformance(method, **settings)


def test_the_oracle_takes_a_callable_and_gives_what_the_compiled_method_gives():
    def rloo(groups, logps):
        dlogps = []
        for group, rows in zip(groups, logps):
            rewards = np.array(group["rewards"])
            n = len(rewards)
            assert [len(t) for t in group["tokens"]] == [len(row) for row in rows]
            dlogps.append([np.full(len(row), -a / (n - 1)) for a, row in zip(rewards - rewards.mean(), rows)])
        return 0.0, dlogps

    mdp = Mdp(tokens="a b EOS", eos="EOS", horizon=2, rewards=[{"pattern": "a *", "reward": 1.0}])
    ours, theirs = mdp.expected(rloo, group_size=3), mdp.expected("rloo", group_size=3)
    assert ours.how == theirs.how == "exact"
    assert np.abs(ours.update - theirs.update).max() < 1e-13 and np.abs(ours.variance - theirs.variance).max() < 1e-12
    assert mdp.expected(rloo, group_size=6, samples=50).how == "sampled"  # 7^6 groups are many calls


def test_a_callable_that_fails_raises_its_own_error():
    mdp = Mdp(tokens="a b EOS", eos="EOS", horizon=1)
    for method, settings, error, text in [
        (lambda g, x: 1 / 0, {}, ZeroDivisionError, "division"),
        (lambda g, x: (0.0, [[[np.nan] for _ in rows] for rows in x]), {}, ValueError, r"dlogps\[0\]\[0\]: must be 1 finite"),
        (lambda g, x: (0.0, []), {}, ValueError, "dlogps: 0 entries for 1 groups"),
        (lambda g, x: 3, {}, ValueError, r"^method\(groups, logps\) = 3; must be \(loss, dlogps\)$"),
        (reinforce, {"beta": 1}, ValueError, "^beta: a callable has no settings"),
        (3, {}, ValueError, "^method = 3; must be the name of a method, or a callable$"),
    ]:
        with pytest.raises(error, match=text):
            mdp.expected(method, group_size=2, **settings)
