"""Base classes of mechanisms and compositions, which define composing and the methods that bound privacy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from ._support import _check
from .bound import Bound, Curve
from .options import Neighbors, Options, accept_options_as_arguments

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike
    from typing_extensions import Unpack

FEW_PARTS = 8
"""Largest number of distinct mechanisms that engines get in canonical order, which does not depend on the order of
composing. If a composition has more, engines get its mechanisms in the order of ``Composition.parts_in_composition_order``."""


class CompositionQuestions(Protocol):
    """The quantities that can be asked of one composition, for one neighbouring relation and one engine.

    The class ``Question`` in ``accounting/questions/question.py`` computes these quantities.
    """

    def epsilon(self, delta: float) -> Bound: ...
    def delta(self, epsilon: float) -> Bound: ...
    def profile(self, epsilons: ArrayLike) -> Curve: ...
    def tradeoff(self, alphas: ArrayLike) -> Curve: ...
    def renyi(self, orders: ArrayLike) -> Curve: ...
    def gdp(self, delta: float) -> Bound: ...
    def bayes_risk(self, prior: ArrayLike) -> Curve: ...


class CompositionCertificate(Protocol):
    """A bound that a checker can prove. ``certificates.py`` defines the class that has this interface."""

    @property
    def lower(self) -> float: ...
    @property
    def upper(self) -> float: ...
    def to_json(self) -> str: ...


class Composable:
    """Base of mechanisms and compositions, with the methods that bound their privacy.

    Most of these methods take the same keywords. ``neighbors`` is the neighbouring relation: "add", "remove",
    "add_or_remove", "replace" or "replace_special". The default, "add_or_remove", is the worse of "add" and "remove".
    Under "replace_special" a record is replaced by one that contributes nothing, or the reverse. ``engine`` is "auto"
    or the name of an engine (docs/accounting.md lists them). ``width`` is the relative width that "auto" tries to
    reach. The "prv" engine reads ``eps_error`` and ``delta_error`` instead of ``width``.
    """

    __slots__ = ()
    _open_question: ClassVar[Callable[..., CompositionQuestions]]
    """Function that returns the ``CompositionQuestions`` about a composition, with checked options. This attribute is
    set in ``__init__.py``, so that this module does not import the engines."""
    _see_as_group: ClassVar[Callable[[Composition, int], Composition]]
    """Function that returns the composition for groups of records. This attribute is set in ``__init__.py``."""
    _draw_curves: ClassVar[Callable[..., Figure]]
    """Function that draws the curves (``plots.privacy``). This attribute is set in ``__init__.py``."""
    _certify: ClassVar[Callable[..., CompositionCertificate]]
    """Function that returns the certificate of a bound. This attribute is set in ``__init__.py``."""

    def _to_composition(self) -> Composition:
        """Returns the composition of this mechanism, or this composition itself."""
        raise NotImplementedError

    def _sort_key(self) -> tuple[Any, ...]:
        """Returns the key that the parts of a composition are sorted by."""
        raise NotImplementedError

    def __add__(self, other: Composable) -> Composition:
        if not isinstance(other, Composable):
            return NotImplemented
        one, two = self._to_composition(), other._to_composition()
        return one._build_composition_lazily(((one, 1), (two, 1)), one._most + two._most)

    def __radd__(self, other: object) -> Composition:
        if other == 0 and type(other) is int:  # the start of sum()
            return self._to_composition()
        return NotImplemented

    def __mul__(self, count: int) -> Composition:
        run, count = self._to_composition(), _check.check_count_argument("count", count)
        return run._build_composition_lazily(((run, count),), run._most * count)

    __rmul__ = __mul__

    def _to_question(self, options: Options) -> CompositionQuestions:
        """Returns the ``CompositionQuestions`` about this composition, with checked options."""
        return Composable._open_question(self._to_composition(), **options)

    @accept_options_as_arguments
    def epsilon(self, delta: float, **options: Unpack[Options]) -> Bound:
        """Returns bounds on the smallest epsilon >= 0, in nats, such that (epsilon, ``delta``)-DP holds.

        At delta 0 this epsilon is the largest privacy loss, which is infinite for Gaussian noise.

        Raises ValueError for ``delta`` out of its range, or a relation that is not proved for a mechanism.

        Parameters
        ----------
        delta : a number in [0, 1).
        neighbors : the neighbouring relation, "add_or_remove" (default), "add", "remove", "replace" or
            "replace_special".
        engine : "auto" (default) or the name of an engine (docs/accounting.md).
        width : the relative width that "auto" tries to reach, > 0.
        eps_error, delta_error : the absolute errors that the engine "prv" allows: > 0 of epsilon, and in (0, 1) of
            delta.

        >>> run = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000
        >>> print(run.epsilon(1e-5).interval(".6f"))
        [1.828236, 1.828237]
        """
        return self._to_question(options).epsilon(delta)

    @accept_options_as_arguments
    def delta(self, epsilon: float, **options: Unpack[Options]) -> Bound:
        """Returns bounds on the smallest delta such that (``epsilon``, delta)-DP holds.

        Raises ValueError for ``epsilon`` out of its range, or a relation that is not proved for a mechanism.

        Parameters
        ----------
        epsilon : any finite number, in nats.
        neighbors, engine, width, eps_error, delta_error : as for ``epsilon``.

        >>> run = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000
        >>> print(f"delta <= {run.delta(2.0):.2e}")
        delta <= 2.67e-06
        """
        return self._to_question(options).delta(epsilon)

    @accept_options_as_arguments
    def profile(self, epsilons: ArrayLike, **options: Unpack[Options]) -> Curve:
        """Returns the privacy profile: bounds on delta at each of ``epsilons``, any finite reals of any shape.

        Raises ValueError for ``epsilons`` out of its range, or a relation that is not proved for a mechanism.

        Parameters
        ----------
        epsilons : finite numbers of any shape, in nats.
        neighbors, engine, width, eps_error, delta_error : as for ``epsilon``.

        >>> run = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000
        >>> print([float(f"{delta:.1e}") for delta in run.profile([1.0, 2.0]).upper])
        [0.0026, 2.7e-06]
        """
        return self._to_question(options).profile(epsilons)

    @accept_options_as_arguments
    def tradeoff(self, alphas: ArrayLike, **options: Unpack[Options]) -> Curve:
        """Returns the trade-off curve of f-DP: bounds on the least type II error beta at each type I error in
        ``alphas``.

        The curve belongs to the worst neighbours, and to the best test that tells them apart. A type I error is to
        decide that the record is in the data when it is not. With ``neighbors="add"`` a type I error is the opposite
        mistake. For a relation of two directions, such as the default, the smaller beta of the two directions counts.

        Raises ValueError for ``alphas`` out of its range, or a relation that is not proved for a mechanism.

        Parameters
        ----------
        alphas : type I errors, probabilities in [0, 1] of any shape.
        neighbors, engine, eps_error, delta_error : as for ``epsilon``.
        width : the absolute width of the bounds on beta that "auto" tries to reach, > 0.

        >>> run = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000
        >>> print(f"{run.tradeoff([0.01]).lower[0]:.3f}")
        0.971
        """
        return self._to_question(options).tradeoff(alphas)

    def renyi(self, orders: ArrayLike, *, neighbors: Neighbors = "add_or_remove") -> Curve:
        """Returns bounds on the Renyi divergence, in nats, at each of ``orders``: the curve of RDP.

        Orders are finite numbers > 1, of any shape.

        The larger divergence of the two directions counts. Both ends agree up to roundings for Gaussians, Laplace
        noise, pure mechanisms, zCDP, and Poisson samples of Gaussians. For other mechanisms the lower end is the
        divergence of a mechanism of the class, or 0 (docs/theory/conversions.md section 14). The divergence is infinite
        if everything may be revealed.

        ``neighbors`` is as for ``epsilon``. Raises ValueError for an order that is not above 1.

        >>> curve = (dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000).renyi([2, 16])
        >>> [round(float(x), 4) for x in curve.upper]
        [0.1718, 3087.8508]
        """
        return self._to_question({"neighbors": neighbors}).renyi(orders)

    def gdp(self, delta: float = 0.0, *, neighbors: Neighbors = "add_or_remove") -> Bound:
        """Returns bounds on the smallest mu such that the mechanism is mu-GDP up to ``delta`` in [0, 1).

        The mechanism is compared with a Gaussian of noise multiplier 1/mu. For every epsilon >= 0 and in both
        directions, delta(epsilon) is at most the larger of ``delta`` and the Gaussian's delta(epsilon). No test then
        has a type II error that is smaller than for this Gaussian by more than ``delta``. ``delta=0`` is Gaussian
        differential privacy itself. Sampling does not decrease the mu of a Gaussian at ``delta=0``, because sampling
        does not help far in the tails. A small ``delta`` leaves the tails out. The bounds aim at a relative width of
        1/1000 (docs/theory/conversions.md section 15). Source: Dong, Roth and Su (2022), Definition 4.

        ``neighbors`` is as for ``epsilon``. Raises ValueError for ``delta`` out of its range.

        >>> run = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000
        >>> f"{run.gdp():.3f}, {run.gdp(1e-6):.3f}"
        '31.623, 0.475'
        """
        return self._to_question({"neighbors": neighbors}).gdp(delta)

    @accept_options_as_arguments
    def certificate(
        self, *, epsilon: float | None = None, delta: float | None = None, **options: Unpack[Options]
    ) -> CompositionCertificate:
        """Returns bounds on epsilon at ``delta``, or on delta at ``epsilon``, as a certificate.

        ``tightdp.verify`` can prove both ends again, with code that shares nothing with the engines
        (docs/reference/certificate.md).

        Parameters
        ----------
        epsilon, delta : exactly one of the two: epsilon is a finite number in nats, and delta is in (0, 1).
        neighbors, engine, width, eps_error, delta_error : as for ``epsilon``.

        Raises TypeError unless exactly one of ``epsilon`` and ``delta`` is given, and ValueError as ``epsilon`` does.

        >>> certificate = (dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000).certificate(delta=1e-5)
        >>> from tightdp import verify
        >>> verify.check(certificate.to_json())
        True
        """
        return Composable._certify(self._to_composition(), epsilon, delta, options)

    def group(self, size: int) -> Composition:
        """Returns this run for neighbours that differ by a group of ``size`` records, an integer in [1, 1000].

        The records are added, removed or replaced together. The result has all methods of a composition. See ``Group``.

        Raises ValueError for a ``size`` out of its range.

        >>> run = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000
        >>> f"{run.epsilon(1e-5):.2f}, {run.group(3).epsilon(1e-5):.2f}"
        '1.83, 6.35'
        """
        return Composable._see_as_group(self._to_composition(), size)

    @accept_options_as_arguments
    def advantage(self, **options: Unpack[Options]) -> Bound:
        """Returns bounds on the membership advantage, the largest difference of a true and a false positive rate:
        delta(0).

        Raises ValueError for an option out of its range, or a relation that is not proved for a mechanism.

        The keywords ``neighbors``, ``engine``, ``width``, ``eps_error`` and ``delta_error`` are as for ``epsilon``.

        >>> run = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000
        >>> print(f"{run.advantage():.3f}")
        0.162
        """
        return self._to_question(options).delta(0.0)

    @accept_options_as_arguments
    def bayes_risk(self, prior: ArrayLike, **options: Unpack[Options]) -> Curve:
        """Returns bounds on the least probability of guessing wrongly which neighbour was used, at each ``prior``.

        ``prior``, in [0, 1], is the probability before the release that the record is in the data. With
        ``neighbors="add"`` the ``prior`` is the probability that the record is not in the data. The risk is at most
        min(prior, 1 - prior).

        Raises ValueError for ``prior`` out of its range, or a relation that is not proved for a mechanism.

        The keywords ``neighbors``, ``engine``, ``width``, ``eps_error`` and ``delta_error`` are as for ``epsilon``.

        >>> run = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000
        >>> print(f"{run.bayes_risk([0.5]).lower[0]:.3f}")
        0.419
        """
        return self._to_question(options).bayes_risk(prior)

    def plot(self, **options: Any) -> Figure:
        """Draws the privacy profile beside the trade-off curve, with the band between the bounds.

        ``options`` are those of ``tightdp.plots.privacy``: ``least_delta``, ``points``, ``title``, ``dark``, and the
        options of ``epsilon``. Returns a matplotlib ``Figure``. Raises ImportError if matplotlib is not installed.

        >>> figure = dp.Gaussian(2.0).plot(points=9)
        >>> figure.get_suptitle()
        'Gaussian(2.0) * 1'
        """
        return Composable._draw_curves(self, **options)


class Mechanism(Composable):
    """One release. Multiply by a count and add to compose: ``Gaussian(2.0) * 10 + Laplace(1.0)``.

    This is the base class of all mechanisms. Build one of its subclasses.

    >>> isinstance(dp.Gaussian(2.0), dp.Mechanism)
    True
    >>> print(dp.Gaussian(2.0).epsilon(1e-5).interval(".4f"))
    [1.9930, 1.9931]
    """

    __slots__ = ()
    relations: ClassVar[frozenset[Neighbors]]
    """Relations with a proved dominating pair. Other relations are refused (docs/theory/conversions.md section 1)."""
    unproved_mechanism_reason: ClassVar[str] = "no dominating pair is proved here"
    """Reason why other relations are refused."""
    symmetric: ClassVar[bool]
    """True if the pairs (P, Q) and (Q, P) have the same privacy profile, so that "add" and "remove" agree."""
    any_size: ClassVar[bool]
    """True if one dominating pair holds for data sets of every size. The pair then holds for every link of a chain of
    data sets that differ by one record each (docs/theory/derived.md section 2). If False, the pair holds for data sets
    of ``dataset_size`` records."""
    sampled_relations: ClassVar[frozenset[Neighbors]] = frozenset()
    """Relations under which the mechanism on a Poisson sample has a dominating pair (docs/theory/grid.md section 6).
    The set is empty if the mechanism cannot run on a sample."""

    def __init_subclass__(cls) -> None:
        """Raises TypeError for a subclass that does not declare the attributes that the proofs need."""
        for field in ("relations", "symmetric", "any_size"):
            if not hasattr(cls, field):
                raise TypeError(f"{cls.__name__} must declare {field}: what combines mechanisms asks for it")

    def _to_composition(self) -> Composition:
        return Composition(((self, 1),))

    def _to_canonical_mechanism(self) -> tuple[Mechanism, int]:
        """Returns the simplest mechanism, with a count, whose composition has exactly the same privacy profile."""
        return self, 1

    def _list_parameters(self) -> Mapping[str, Any]:
        """Returns the arguments of the constructor that build this mechanism again."""
        names: tuple[str, ...] = getattr(self, "__match_args__", ())
        return {name: getattr(self, name) for name in names}

    def _sort_key(self) -> tuple[Any, ...]:
        values = self._list_parameters().values()
        return (type(self).__name__, *(v._sort_key() if isinstance(v, Composable) else v for v in values))


Parts: TypeAlias = tuple[tuple[Mechanism, int], ...]
"""Type of distinct mechanisms with their counts, in a fixed order."""


def sort_composition_parts(parts: Parts) -> Parts:
    """Returns the parts in canonical order, which is the same for equal compositions."""
    return tuple(sorted(parts, key=lambda part: part[0]._sort_key()))


class Composition(Composable):
    """Mechanisms with their counts, which run on the same data.

    All mechanisms are fixed before the first mechanism runs. If earlier outputs influence the choice of mechanisms, use
    a ``PrivacyFilter``.

    A composition can be hashed, and its repr builds it again. Two compositions are equal if they hold the same
    mechanisms with the same counts, in any order. Composing takes constant time, because sums and multiples are merged
    only when they are first needed. Equal compositions have the same bounds if they have at most eight distinct
    mechanisms. With more mechanisms the order of composition may change the last digits of the bounds, which are valid
    in either case.

    Parameters
    ----------
    parts : pairs (mechanism, count); a count is an integer in [1, 2^53].

    Raises TypeError for any other part, and ValueError for a count out of its range. Usually ``+`` and
    ``*`` make the composition:

    >>> run = dp.Gaussian(2.0) * 10 + dp.Laplace(1.0)
    >>> run == dp.Composition([(dp.Laplace(1.0), 1), (dp.Gaussian(2.0), 10)])
    True
    >>> len(run), run.epsilon(1e-5).upper > dp.Gaussian(2.0).epsilon(1e-5).upper
    (11, True)
    """

    __slots__ = ("_latest", "_most", "_parts", "_pending")

    def __init__(self, parts: Iterable[tuple[Mechanism, int]] = ()) -> None:
        checked = []
        for part in parts:
            if not (isinstance(part, (tuple, list)) and len(part) == 2 and isinstance(part[0], Mechanism)):
                raise TypeError(f"parts must be pairs (Mechanism, count), got {part!r}; runs are composed by + and *")
            mechanism, count = part
            checked.append((mechanism, _check.check_count_argument("count", count)))
        self._pending: tuple[tuple[Any, int], ...] = tuple(checked)
        self._latest: Parts | None = None
        self._parts: Parts | None = None
        self._most = sum(count for _, count in checked)
        self._check_counts_of_composition()

    @classmethod
    def _build_composition_lazily(cls, pending: tuple[tuple[Any, int], ...], most: int) -> Composition:
        """Returns a composition of sums and multiples that are not merged yet. No count exceeds ``most``."""
        made = cls.__new__(cls)
        made._pending, made._latest, made._parts, made._most = pending, None, None, most
        made._check_counts_of_composition()
        return made

    def _check_counts_of_composition(self) -> None:
        """Merges the parts if ``_most``, a bound of all counts, is too large. Raises ValueError if a count is too
        large."""
        if self._most > _check.MAX_COUNT:
            self._most = max(count for _, count in self._merge_parts_of_composition())

    def _to_composition(self) -> Composition:
        return self

    def _sort_key(self) -> tuple[Any, ...]:
        return type(self).__name__, *((mechanism._sort_key(), count) for mechanism, count in self.parts)

    @property
    def parts(self) -> Parts:
        """Distinct mechanisms, each in its simplest form, with their counts, in a canonical order."""
        if self._parts is None:
            self._parts = sort_composition_parts(self._merge_parts_of_composition())
        return self._parts

    @property
    def parts_in_composition_order(self) -> Parts:
        """The same parts as ``parts``. If there are more than ``FEW_PARTS``, they are in the order of composition.

        A part is then at the place of its latest use. If a run grows, the parts that do not change come first, so that
        an engine can continue from its result for these parts.
        """
        merged = self._merge_parts_of_composition()
        return self.parts if len(merged) <= FEW_PARTS else merged

    def _merge_parts_of_composition(self) -> Parts:
        """Returns distinct mechanisms with their counts, in the order of ``parts_in_composition_order``, and keeps them."""
        if self._latest is None:
            latest = _flatten_pieces_of_composition(self._get_pieces_of_composition())
            for _, total in latest:
                _check.check_count_argument("count", total)
            self._latest = latest
            self._pending = ()
        return self._latest

    def _get_pieces_of_composition(self) -> tuple[tuple[Any, int], ...]:
        """Returns the sums and multiples that are still to be merged, or the parts if everything is merged.

        This method may run while another thread merges. The merging thread sets the parts before it drops the sums and
        multiples, and this method reads the two in the opposite order. So this method never finds both missing.
        """
        pending = self._pending
        return pending if self._latest is None else self._latest

    @property
    def symmetric(self) -> bool:
        """True if "add" and "remove" have the same privacy profile."""
        return all(mechanism.symmetric for mechanism, _ in self._merge_parts_of_composition())

    def __len__(self) -> int:
        """Returns the number of mechanisms, repetitions included."""
        return sum(count for _, count in self._merge_parts_of_composition())

    def __iter__(self) -> Iterator[tuple[Mechanism, int]]:
        return iter(self.parts)

    def __bool__(self) -> bool:
        return bool(self._merge_parts_of_composition())

    def __eq__(self, other: object) -> bool:
        return self.parts == other.parts if isinstance(other, Composition) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.parts)

    def __repr__(self) -> str:
        return " + ".join(f"{mechanism!r} * {count}" for mechanism, count in self.parts) or "Composition()"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.parts_in_composition_order,)


def _flatten_pieces_of_composition(pieces: tuple[tuple[Any, int], ...]) -> Parts:
    """Returns the mechanisms in a tree of sums and multiples, with their counts.

    A loop walks the tree, because recursion would go as deep as the number of sums.
    """
    found: dict[Mechanism, list[int]] = {}  # lists, so that adding to a count hashes the mechanism only once
    stack = list(pieces)
    while stack:  # takes pieces from the last to the first
        node, times = stack.pop()
        if isinstance(node, Composition):
            pieces = node._get_pieces_of_composition()
            stack.extend(pieces if times == 1 else [(child, times * count) for child, count in pieces])
        else:
            simple, count = node._to_canonical_mechanism()
            found.setdefault(simple, [0])[0] += times * count
    return tuple([(mechanism, total[0]) for mechanism, total in reversed(found.items())])
