"""Types of the numbers of every token, which only type checkers and documentation import."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

Padded = NDArray[np.float64]
Groups = list[list[NDArray[np.float64]]]

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    #: ``Padded`` or ``Groups``: the form of a batch.
    Form = TypeVar("Form", default=Any)
else:
    from typing import TypeVar

    Form = TypeVar("Form")
