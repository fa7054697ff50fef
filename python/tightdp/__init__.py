"""Certified two-sided bounds for differential privacy, and private training whose releases are all accounted for."""

import typing as _typing

from ._core import __version__
from ._support.number_texts import format_down, format_up
from .accounting.questions.calibration import calibrate, noise_multiplier
from .accounting.questions.many_settings import epsilon_batch
from .accounting.questions.question import Question as _Question
from .accounting.running_accounts.accountant import Accountant
from .accounting.running_accounts.filters import BudgetExceeded, Odometer, PrivacyFilter
from .bound import Bound, ContradictionError, Curve
from .certificates import Certificate
from .certificates import make_certificate as _make_certificate
from .composition import Composable as _Composable
from .composition import Composition
from .mechanisms import (
    ZCDP,
    ApproximateDP,
    BoundedRange,
    DiscreteGaussian,
    DiscreteGaussianVector,
    DiscreteLaplace,
    FixedSizeSampled,
    Gaussian,
    Group,
    Laplace,
    Mechanism,
    MixtureOfGaussians,
    PoissonSampled,
    PrivacyLoss,
    PureDP,
    RandomAllocation,
    RandomizedResponse,
    RepeatAndSelect,
    SampledWithReplacement,
    TreeAggregation,
    TruncatedPoissonSampled,
    banded_factorization,
)
from .mechanisms.selections_and_groups import build_group_of_mechanisms as _group_composition

_Composable._open_question = _Question.from_question_options
_Composable._see_as_group = _group_composition


def _draw_curves(releases: _Composable, **options: _typing.Any) -> _typing.Any:
    from . import plots

    return plots.privacy(releases, **options)


_Composable._draw_curves = _draw_curves
_Composable._certify = _make_certificate

if _typing.TYPE_CHECKING:
    from . import audit as audit
    from . import cuda as cuda
    from . import metrics as metrics
    from . import model_selection as model_selection
    from . import pipeline as pipeline
    from . import plots as plots
    from . import preprocessing as preprocessing
    from . import tables as tables
    from . import torch as torch
    from . import train as train
    from . import verify as verify
    from ._support.headers import get_cmake_dir, get_include, get_library
    from .clipping_and_noise.exact_noise import (
        ExactRelease,
        discrete_gaussian,
        discrete_laplace,
        exact_release,
        rounded_gaussian,
    )
    from .clipping_and_noise.gradients import clip_and_noise, clipped_sum, exact_grid
    from .clipping_and_noise.noise import Philox, RandomSource, SecureRandom
    from .clipping_and_noise.noisy_sums import add_noise
    from .frequent import FrequentValues, frequent_values
    from .ledger import Ledger, LedgerError
    from .statement import Statement
    from .tables import TableModel, load

__all__ = [
    "ZCDP",
    "Accountant",
    "ApproximateDP",
    "Bound",
    "BoundedRange",
    "BudgetExceeded",
    "Certificate",
    "Composition",
    "ContradictionError",
    "Curve",
    "DiscreteGaussian",
    "DiscreteGaussianVector",
    "DiscreteLaplace",
    "ExactRelease",
    "FixedSizeSampled",
    "FrequentValues",
    "Gaussian",
    "Group",
    "Laplace",
    "Ledger",
    "LedgerError",
    "Mechanism",
    "MixtureOfGaussians",
    "Odometer",
    "Philox",
    "PoissonSampled",
    "PrivacyFilter",
    "PrivacyLoss",
    "PureDP",
    "RandomAllocation",
    "RandomSource",
    "RandomizedResponse",
    "RepeatAndSelect",
    "SampledWithReplacement",
    "SecureRandom",
    "Statement",
    "TableModel",
    "TreeAggregation",
    "TruncatedPoissonSampled",
    "__version__",
    "add_noise",
    "banded_factorization",
    "calibrate",
    "clip_and_noise",
    "clipped_sum",
    "discrete_gaussian",
    "discrete_laplace",
    "epsilon_batch",
    "exact_grid",
    "exact_release",
    "format_down",
    "format_up",
    "frequent_values",
    "get_cmake_dir",
    "get_include",
    "get_library",
    "load",
    "noise_multiplier",
    "rounded_gaussian",
]

# Type checkers see the imports above instead of ``__getattr__``, so that they can report a name that does not exist.
if not _typing.TYPE_CHECKING:
    _LATER = {
        name: module
        for module, names in {
            "frequent": ("FrequentValues", "frequent_values"),
            "_support.headers": ("get_cmake_dir", "get_include", "get_library"),
            "ledger": ("Ledger", "LedgerError"),
            "clipping_and_noise.exact_noise": (
                "ExactRelease", "discrete_gaussian", "discrete_laplace", "exact_release", "rounded_gaussian",
            ),
            "clipping_and_noise.gradients": ("clip_and_noise", "clipped_sum", "exact_grid"),
            "clipping_and_noise.noise": ("Philox", "RandomSource", "SecureRandom"),
            "clipping_and_noise.noisy_sums": ("add_noise",),
            "statement": ("Statement",),
            "tables": ("TableModel", "load"),
        }.items()
        for name in names
    }  # fmt: skip
    """Names that are imported on their first use, with their modules. A program that only computes bounds needs no
    such name."""
    _LATER_MODULES = frozenset(
        {
            "audit", "cuda", "metrics", "model_selection", "pipeline", "plots", "preprocessing", "tables", "torch",
            "train", "verify",
        }
    )  # fmt: skip
    """Modules and folders of modules that are imported on their first use."""

    def __getattr__(name):
        """Imports a name on its first use.

        Raises AttributeError for an unknown name. The same error is raised if a module cannot be imported because a
        library is missing, so that ``hasattr`` and ``help`` work.
        """
        from importlib import import_module

        if name in _LATER_MODULES:
            try:
                return import_module(f".{name}", __name__)
            except ModuleNotFoundError as error:
                raise AttributeError(f"{__name__}.{name} cannot be imported: {error}") from error
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f".{_LATER[name]}", __name__), name)
        return value

    def __dir__():
        """Lists the public names, imported or not."""
        return sorted({*__all__, *_LATER_MODULES, *(name for name in globals() if name.startswith("__"))})
