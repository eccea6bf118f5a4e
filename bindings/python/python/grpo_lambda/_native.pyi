from collections.abc import Mapping, Sequence
from typing import Any, Generic

from ._conformance import Function
from ._methods import MethodName
from ._types import Form, Groups, Padded

import numpy as np
from numpy.typing import NDArray

__version__: str

class Credit(Generic[Form]):
    """A batch whose credit is fixed. Its length is the number of responses."""

    @property
    def method(self) -> str: ...
    @property
    def settings(self) -> list[tuple[str, str]]: ...
    @property
    def advantages(self) -> Form:
        """Advantage of every token, in the form of the batch."""
    @property
    def weights(self) -> Form:
        """Weight of every token in the loss, 0 where it is masked."""
    @property
    def eligible(self) -> Any | None:
        """True for each token that a selective trace may read; ``None`` if the trace reads all."""
    def loss(self, logps: Any = None) -> tuple[float, Form, dict[str, float]]: ...
    def _loss_around(self, logps: Any, frozen: Any) -> float: ...
    def _clip_fractions(self, logps: Any) -> NDArray[np.float64]: ...
    def __len__(self) -> int: ...

class Mdp:
    """A token-MDP with a policy on it: every quantity is an exact sum over its responses."""

    def __init__(
        self,
        *,
        tokens: str | Sequence[str],
        eos: str,
        horizon: int,
        name: str = "mdp",
        gamma: float = 1.0,
        reward_kind: str = "binary",
        default_reward: float = 0.0,
        rewards: Sequence[Mapping[str, Any]] | None = None,
        illegal: Sequence[Mapping[str, Any]] | None = None,
        policy: Sequence[Mapping[str, Any]] | None = None,
        max_leaves: int = ...,
    ) -> None: ...
    @staticmethod
    def zoo(name: str) -> Mdp: ...
    def with_logits(self, logits: Any) -> Mdp: ...
    @property
    def name(self) -> str: ...
    @property
    def gamma(self) -> float: ...
    @property
    def size(self) -> tuple[int, int, int]:
        """Numbers of prefixes, edges and responses."""
    @property
    def edges(self) -> list[tuple[list[str], str]]:
        """Prefix and next token of every edge; every array of this class has one entry per edge, in this order."""
    @property
    def j(self) -> float:
        """The expected discounted reward of the policy."""
    @property
    def j_best(self) -> float: ...
    @property
    def grad_j(self) -> NDArray[np.float64]:
        """The gradient of ``j`` with respect to the logits."""
    @property
    def probabilities(self) -> NDArray[np.float64]: ...
    @property
    def visits(self) -> NDArray[np.float64]:
        """The probability that a sampled response takes the edge."""
    @property
    def advantages(self) -> NDArray[np.float64]: ...
    def expected(
        self,
        method: MethodName | Function,
        /,
        *,
        group_size: int = 8,
        how: str = "auto",
        samples: int = 20000,
        seed: int = 0,
        **settings: Any,
    ) -> Expected: ...

class Expected:
    """The expected update of a method with its variance, compared with the policy gradient."""

    @property
    def update(self) -> NDArray[np.float64]: ...
    @property
    def credit(self) -> NDArray[np.float64]: ...
    @property
    def variance(self) -> NDArray[np.float64]: ...
    @property
    def total_variance(self) -> float: ...
    @property
    def how(self) -> str: ...
    @property
    def cosine(self) -> float: ...
    @property
    def scale(self) -> float: ...
    @property
    def bias(self) -> float: ...
    @property
    def sign_agreement(self) -> float: ...
    @property
    def signal_to_noise(self) -> float: ...

def methods() -> list[dict[str, Any]]: ...
def settings(method: str, /, **settings: Any) -> list[tuple[str, str]]: ...
def extra_inputs(method: str, /, **settings: Any) -> list[str]: ...
def require(method: str, provided: list[str], settings: dict[str, Any] | None) -> None: ...
def credit_reads_tokens(method: str, settings: dict[str, Any] | None) -> bool: ...
def explain(method: str, groups: int, group_size: int, max_len: int, settings: dict[str, Any] | None) -> str: ...
def credit(method: str, groups: list[Any], settings: dict[str, Any] | None) -> Credit[Groups]: ...
def credit_padded(
    method: str,
    rewards: Any,
    old_logps: Any,
    mask: Any,
    group_of_row: list[int],
    ref_logps: Any,
    truncated: Any,
    tokens: Any,
    extra_inputs: dict[str, Any] | None,
    settings: dict[str, Any] | None,
) -> Credit[Padded]: ...
def credit_from_rows(
    method: str,
    advantages: Any,
    weights: Any,
    old_logps: Any,
    mask: Any,
    eligible: Any,
    ref_logps: Any,
    sampler_logps: Any,
    settings: dict[str, Any] | None,
) -> Credit[Padded]: ...
def diagnose(
    groups: list[Any],
    advantages: Any,
    token_losses: Any,
    gradient: Any,
    loss: Any,
    tolerance: float,
    beta: float | None,
    max_length: float | None,
    correction: str | None,
    parts: Any,
) -> list[dict[str, Any]]: ...
def conventions() -> list[dict[str, Any]]: ...
def grade_all(
    golds: list[Any],
    answers: list[str],
    extract: str,
    rules: str | None,
    problems: list[str | None] | None,
    cut_off: list[bool] | None,
) -> list[tuple[str, float | None, str, str | None]]: ...
def wilson(successes: int, n: int, level: float) -> tuple[float, float, float, float] | None: ...
def clopper_pearson(successes: int, n: int, level: float) -> tuple[float, float, float, float] | None: ...
def t_interval(values: Any, level: float) -> tuple[float, float, float, float] | None: ...
def two_proportions(
    successes_1: int, n_1: int, successes_2: int, n_2: int, level: float
) -> tuple[float, float, float, float] | None: ...
def paired_permutation(x: Any, y: Any, draws: int, seed: int) -> tuple[float, float, bool] | None: ...
def sign_flip_test(differences: list[int]) -> float | None: ...
def holm(p: Any) -> list[float]: ...
def pass_at_k(n: int, successes: int, k: int) -> float | None: ...
def bootstrap_iqm(
    tasks: list[Any], level: float, resamples: int, seed: int
) -> tuple[float, float, float, float] | None: ...
def probability_of_improvement(x: list[Any], y: list[Any]) -> float | None: ...
