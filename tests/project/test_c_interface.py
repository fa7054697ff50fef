"""The C interface: the answers of Python, and a code and a message for everything else."""

import ctypes
import itertools
import math
import shutil
import subprocess
import sys
import threading

import pytest

import tightdp as dp

OK, INVALID, ARITHMETIC = 0, 1, 2


class Entry(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in ("noise_multiplier", "sampling_probability", "steps")]


class Interval(ctypes.Structure):
    _fields_ = [("lower", ctypes.c_double), ("upper", ctypes.c_double)]


@pytest.fixture(scope="module")
def library():
    found = ctypes.CDLL(dp.get_library())
    for function in (found.tightdp_epsilon, found.tightdp_delta):
        function.argtypes = [ctypes.POINTER(Entry), ctypes.c_size_t, ctypes.c_double, ctypes.POINTER(Interval)]
    found.tightdp_last_error.restype = found.tightdp_version.restype = ctypes.c_char_p
    return found


def ask(function, entries, at):
    out = Interval(-7, -7)
    code = function((Entry * len(entries))(*entries), len(entries), at, ctypes.byref(out))
    return code, out


RUNS = [
    [(1.1, 0.01, 10000)],
    [(1.0, 0.01, 1000), (2.0, 0.02, 500), (3.0, 1.0, 4)],
    [(1.0, 1.0, 1)],
    [(0.7, 1e-4, 3)],  # few steps at a small sampling probability: the grid's
]


@pytest.mark.parametrize("entries", RUNS, ids=repr)
def test_answers_are_those_of_python(library, entries):
    run = sum((dp.PoissonSampled(dp.Gaussian(s), q) * int(k) for s, q, k in entries), dp.Composition())
    for at, function, bound in [
        (1e-5, library.tightdp_epsilon, run.epsilon(1e-5)),
        (1.0, library.tightdp_delta, run.delta(1.0)),
        (-1.0, library.tightdp_delta, run.delta(-1.0)),
    ]:
        code, out = ask(function, entries, at)
        assert code == OK and library.tightdp_last_error() == b""
        assert out.lower <= bound.upper and bound.lower <= out.upper  # two intervals around one number
        assert out.upper - out.lower <= 2e-6 * max(out.upper, 1e-9) + 2 * bound.width


@pytest.mark.parametrize(
    ("entries", "at", "names"),
    [
        ([], 1e-5, b"run"),
        ([(0.0, 0.1, 1)], 1e-5, b"noise_multiplier"),
        ([(math.nan, 0.1, 1)], 1e-5, b"noise_multiplier"),
        ([(1.0, 0.0, 1)], 1e-5, b"sampling_probability"),
        ([(1.0, 1.5, 1)], 1e-5, b"sampling_probability"),
        ([(1.0, 0.1, 0.5)], 1e-5, b"steps"),
        ([(1.0, 0.1, math.inf)], 1e-5, b"steps"),
        ([(1.0, 0.1, 1)], 0.0, b"delta"),
        ([(1.0, 0.1, 1)], math.nan, b"delta"),
    ],
    ids=repr,
)
def test_bad_input_is_a_code_and_a_message(library, entries, at, names):
    code, out = ask(library.tightdp_epsilon, entries, at)
    assert code == INVALID and names in library.tightdp_last_error()
    assert (out.lower, out.upper) == (0, math.inf)


def test_bad_input_of_delta(library):
    code, out = ask(library.tightdp_delta, [(1.0, 0.1, 1)], math.inf)
    assert code == INVALID and b"epsilon" in library.tightdp_last_error()
    assert (out.lower, out.upper) == (0, 1)


def test_null_pointers(library):
    out = Interval()
    assert library.tightdp_epsilon(None, 3, 1e-5, ctypes.byref(out)) == INVALID
    assert library.tightdp_epsilon((Entry * 1)((1.0, 0.1, 1)), 1, 1e-5, None) == INVALID


def test_a_message_belongs_to_its_thread(library):
    assert ask(library.tightdp_epsilon, [], 1e-5)[0] == INVALID
    seen = []

    def elsewhere():
        seen.append(library.tightdp_last_error())
        seen.append(ask(library.tightdp_epsilon, RUNS[0], 1e-5)[0])

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [b"", OK] and b"run" in library.tightdp_last_error()


def test_equal_entries_are_one(library):
    """Many entries that differ in nothing but their steps, and one that has all steps."""
    code, out = ask(library.tightdp_epsilon, [(1.0, 0.01, 1), (1.0, 1.0, 1)] * 500, 1e-5)
    whole = (dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 500 + dp.Gaussian(1.0) * 500).epsilon(1e-5)
    assert code == OK and out.upper - out.lower <= 2e-6 * out.upper
    assert out.lower <= whole.upper and whole.lower <= out.upper


@pytest.mark.parametrize(
    "entries",
    [
        [(1e-6, 0.1, 1)],
        [(1e-4, 0.3, 10)],
        pytest.param([(1.0, 0.01, 2.0**53 - 1)] * 2000, marks=pytest.mark.slow),
    ],
    ids=len,
)
def test_hard_questions_have_answers(library, entries):
    for function, at in ((library.tightdp_epsilon, 1e-5), (library.tightdp_delta, 1.0)):
        code, out = ask(function, entries, at)
        assert code == OK and 0 <= out.lower <= out.upper


@pytest.mark.parametrize("entries", [[(1e-6, 0.1, 1)], [(1e-5, 0.3, 10), (2.0, 0.01, 100)]], ids=len)
def test_where_all_else_fails_there_is_the_run_without_sampling(library, entries):
    out = ask(library.tightdp_epsilon, entries, 1e-5)[1]
    deviation = math.sqrt(sum(steps / sigma**2 for sigma, _, steps in entries))
    run = dp.Gaussian(1 / deviation).epsilon(1e-5)
    assert run.lower * 0.99 <= out.upper <= run.upper * (1 + 1e-9)
    assert out.lower <= run.upper


def test_floating_point_exceptions_stay_inside():
    """A caller that asked for signals gets none, and still has what it asked for afterwards."""
    program = f"""
import ctypes
class Entry(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in "abc"]
library, c = ctypes.CDLL({dp.get_library()!r}), ctypes.CDLL("libm.so.6")
c.feenableexcept(13)  # invalid, divide by zero, overflow
out = (ctypes.c_double * 2)()
code = library.tightdp_delta(ctypes.byref(Entry(1.0, 0.01, 1000)), 1, ctypes.c_double(750.0), out)
print(code, c.fegetexcept())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, ["0", "13"]), done.stderr


def test_the_version_is_that_of_the_package(library):
    assert library.tightdp_version().decode() == dp.__version__


def doubles(*values):
    return (ctypes.c_double * len(values))(*values)


NOISE = (0.5, 1.0, 1.5), (0.2, 0.5, 0.3)
"""Sensitivities and probabilities of a mixture."""
MECHANISMS = {  # arguments of tightdp_add_..., a sampling probability but for randomised response, and the mechanism
    "gaussian": ((1.5,), 0.1, dp.Gaussian(1.5)),
    "laplace": ((2.0,), 0.1, dp.Laplace(2.0)),
    "discrete_gaussian": ((3.0, 2.0), 0.2, dp.DiscreteGaussian(3.0, 2)),
    "discrete_laplace": ((4.0, 3.0), 0.2, dp.DiscreteLaplace(4.0, 3)),
    "approximate_dp": ((0.5, 1e-7), 0.3, dp.ApproximateDP(0.5, 1e-7)),
    "bounded_range": ((0.5,), 0.3, dp.BoundedRange(0.5)),
    "randomized_response": ((0.4, 3.0), None, dp.RandomizedResponse(0.4, 3)),
    "mixture_of_gaussians": ((2.0, doubles(*NOISE[0]), doubles(*NOISE[1]), 3), 0.2, dp.MixtureOfGaussians(2.0, *NOISE)),
}


@pytest.fixture
def composition(library):
    library.tightdp_composition_new.restype = ctypes.c_void_p
    made = ctypes.c_void_p(library.tightdp_composition_new())
    yield made
    library.tightdp_composition_free(made)


def c(value):
    return ctypes.c_double(value) if isinstance(value, float) else value


def add(library, composition, name, q, count):
    arguments = [ctypes.c_size_t(a) if isinstance(a, int) else c(a) for a in MECHANISMS[name][0]]
    sampling = [] if MECHANISMS[name][1] is None else [c(q)]
    return getattr(library, f"tightdp_add_{name}")(composition, *arguments, *sampling, c(float(count)))


def question(library, name, composition, at):
    out = Interval(-7, -7)
    return getattr(library, f"tightdp_composition_{name}")(composition, c(at), ctypes.byref(out)), out


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("sampled", [False, True])
def test_each_mechanism_answers_as_in_python(library, composition, name, sampled):
    _, q, mechanism = MECHANISMS[name]
    q = q if sampled and q else 1.0
    run = (mechanism if q == 1 else dp.PoissonSampled(mechanism, q)) * 5 + dp.Laplace(10.0)
    assert add(library, composition, name, q, 5) == OK
    assert library.tightdp_add_laplace(composition, c(10.0), c(1.0), c(1.0)) == OK
    for curve, at, bound in [("epsilon", 1e-5, run.epsilon(1e-5)), ("delta", 0.3, run.delta(0.3))]:
        code, out = question(library, curve, composition, at)
        assert code == OK and out.lower <= bound.upper and bound.lower <= out.upper
        assert out.upper <= bound.upper * (1 + 1e-5) + 1e-9


ADD_OR_REMOVE, REPLACE, REPLACE_SPECIAL = 0, 1, 2
JOINED = {"laplace", "bounded_range"}
"""Mechanisms whose samples have no exact pair under "replace"."""


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("sampled", [False, True])
def test_each_mechanism_answers_as_in_python_under_replace(library, composition, name, sampled):
    _, q, mechanism = MECHANISMS[name]
    q = q if sampled and q else 1.0
    run = (mechanism if q == 1 else dp.PoissonSampled(mechanism, q)) * 5 + dp.Laplace(10.0)
    assert library.tightdp_composition_set_neighbors(composition, REPLACE) == OK
    assert add(library, composition, name, q, 5) == OK
    assert library.tightdp_add_laplace(composition, c(10.0), c(1.0), c(1.0)) == OK
    # The library's only bound of these is the grid's, where Python has further ones.
    ask_of = {"neighbors": "replace", "engine": "grid" if sampled and name in JOINED else "auto"}
    for curve, at, bound in [("epsilon", 1e-5, run.epsilon(1e-5, **ask_of)), ("delta", 0.3, run.delta(0.3, **ask_of))]:
        code, out = question(library, curve, composition, at)
        assert code == OK and out.lower <= bound.upper and bound.lower <= out.upper
        assert out.upper <= bound.upper * (1 + 1e-5) + 1e-9


@pytest.mark.parametrize(("sigma", "count"), [(0.5, 1), (2.0, 1), (2.0, 10)])
def test_replacing_a_record_of_a_gaussian_moves_it_twice_as_far(library, composition, sigma, count):
    """With mu = 2 sqrt(count) / sigma, delta is Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu)."""

    def phi(z):
        return 0.5 * math.erfc(-z / math.sqrt(2))

    mu, epsilon = 2 * math.sqrt(count) / sigma, 1.0
    exact = phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu)
    assert library.tightdp_composition_set_neighbors(composition, REPLACE) == OK
    assert library.tightdp_add_gaussian(composition, c(sigma), c(1.0), c(float(count))) == OK
    code, out = question(library, "delta", composition, epsilon)
    assert code == OK and out.lower <= exact + 1e-14 and exact - 1e-14 <= out.upper
    assert out.upper - out.lower <= 1e-6 * exact


def enumerated_class(epsilon, delta, q, at):
    """delta at ``at`` of replacing a record, from the densities of replace.md section 1 on each layer."""
    big = math.exp(epsilon)
    s = (1 - delta) / (1 + big)
    edges = sorted({0.0, delta, s, 1 - s, 1 - delta, 1.0})
    total = q * delta  # a point that the other distribution does not have
    for low, high in itertools.pairwise(edges):
        middle = 0.5 * (low + high)

        def density(x):
            return big if x < s else 1 / big if x < 1 - delta else 0.0

        p, other = (1 - q + q * density(x) for x in (middle, 1 - middle))
        total += (high - low) * max(p - math.exp(at) * other, 0.0)
    return total


@pytest.mark.parametrize("q", [1.0, 0.3])
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 4.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.01])
def test_replacing_a_record_of_a_class(library, composition, epsilon, delta, q):
    """Epsilon and delta are those of adding or removing one record."""
    assert library.tightdp_composition_set_neighbors(composition, REPLACE) == OK
    assert library.tightdp_add_approximate_dp(composition, c(epsilon), c(delta), c(q), c(1.0)) == OK
    for at in (0.0, 0.1, 0.9 * epsilon, 1.7 * epsilon):
        code, out = question(library, "delta", composition, at)
        exact = enumerated_class(epsilon, delta, q, at)
        assert code == OK and out.lower <= exact + 1e-15 and exact - 1e-15 <= out.upper
        assert out.upper - out.lower <= 1e-6 * exact + 1e-12


@pytest.mark.parametrize("q", [1.0, 0.3])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.3), (2.0, 0.2), (700.0, 1e-6), (700.0, 5e-324), (1.0, 1.0)])
def test_a_class_that_may_reveal_all_has_bounds_too(library, composition, epsilon, delta, q):
    assert library.tightdp_composition_set_neighbors(composition, REPLACE) == OK
    assert library.tightdp_add_approximate_dp(composition, c(epsilon), c(delta), c(q), c(1.0)) == OK
    known = (
        dp.ApproximateDP(epsilon, delta) if q == 1 else dp.PoissonSampled(dp.ApproximateDP(epsilon, delta), q)
    ).delta(0.2, neighbors="replace")
    code, out = question(library, "delta", composition, 0.2)
    assert code == OK and out.lower <= known.upper and known.lower <= out.upper


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_record_that_contributes_nothing_is_like_no_record(library, composition, name):
    answers = []
    for relation in (ADD_OR_REMOVE, REPLACE_SPECIAL):
        run = ctypes.c_void_p(library.tightdp_composition_new())
        assert library.tightdp_composition_set_neighbors(run, relation) == OK
        assert add(library, run, name, MECHANISMS[name][1] or 1.0, 3) == OK
        out = question(library, "epsilon", run, 1e-5)[1]
        answers.append((out.lower, out.upper))
        library.tightdp_composition_free(run)
    assert answers[0] == answers[1]


def test_the_relation_is_chosen_first(library, composition):
    assert library.tightdp_composition_set_neighbors(None, REPLACE) == INVALID
    assert library.tightdp_last_error().startswith(b"run:")
    assert library.tightdp_add_laplace(composition, c(10.0), c(1.0), c(1.0)) == OK
    assert library.tightdp_composition_set_neighbors(composition, REPLACE) == INVALID
    assert library.tightdp_last_error().startswith(b"run:")
    assert question(library, "delta", composition, 0.05)[0] == INVALID


@pytest.mark.parametrize("relation", [-1, 3])
def test_an_unknown_relation_is_named(library, composition, relation):
    assert library.tightdp_composition_set_neighbors(composition, relation) == INVALID
    assert library.tightdp_last_error().startswith(b"neighbors:")


def test_noise_is_calibrated_for_a_replaced_record(library):
    def run_at(noise, run, _):
        run = ctypes.c_void_p(run)
        code = library.tightdp_composition_set_neighbors(run, REPLACE)
        return code or library.tightdp_add_gaussian(run, c(noise), c(0.1), c(20.0))

    code, noise = calibrated(library, run_at, 1.0, 1e-6, 1e-3, 1e3)
    run = dp.PoissonSampled(dp.Gaussian(noise), 0.1) * 20
    assert code == OK and run.epsilon(1e-6, neighbors="replace").lower <= 1.0
    less = dp.PoissonSampled(dp.Gaussian(noise * (1 - 1e-4)), 0.1) * 20
    assert less.epsilon(1e-6, neighbors="replace").upper > 1.0


def test_as_many_sensitivities_as_have_cells_of_their_own(library, composition):
    """Of 48 the least probable is taken for its neighbour, so that the lower end must be another pair's: with one
    output z at which the loss of removal is epsilon, delta is sum p_i P[N(c_i) > z] - e^epsilon P[N(0) > z]."""
    norms = [k / 16 for k in range(1, 49)]
    shares = [5 / 256] * 48
    shares[10] = 1 / 256
    shares[-1] = 1 - sum(shares[:-1])

    def above(z):
        return 0.5 * math.erfc(z / math.sqrt(2))

    low, high = -3.0, 3.0
    for _ in range(60):
        z = 0.5 * (low + high)
        ratio = math.fsum(p * math.exp(c * z - c * c / 2) for c, p in zip(norms, shares, strict=True))
        low, high = (z, high) if ratio < math.e else (low, z)
    exact = math.fsum(p * above(z - c) for c, p in zip(norms, shares, strict=True)) - math.e * above(z)
    arrays = doubles(*norms), doubles(*shares), ctypes.c_size_t(48)
    assert library.tightdp_add_mixture_of_gaussians(composition, c(1.0), *arrays, c(1.0), c(1.0)) == OK
    code, out = question(library, "delta", composition, 1.0)
    assert code == OK and out.lower <= exact * (1 + 1e-12) and exact * (1 - 1e-12) <= out.upper


@pytest.mark.parametrize(
    ("name", "arguments", "at"),
    [
        ("discrete_gaussian", (5.0, 1.0, 1.0, 1.0), 12.0),  # losses of every size, if rarely
        ("discrete_gaussian", (5.0, 1.0, 0.5, 3.0), 40.0),
        ("approximate_dp", (0.5, 5e-324, 0.1, 1.0), 3.0),  # with a probability that is no double
    ],
)
def test_what_is_not_pure_has_a_delta_above_zero(library, composition, name, arguments, at):
    assert getattr(library, f"tightdp_add_{name}")(composition, *map(c, arguments)) == OK
    code, out = question(library, "delta", composition, at)
    assert code == OK and out.lower == 0 < out.upper <= 1e-300


def test_nothing_released_reveals_nothing(library, composition):
    assert library.tightdp_add_approximate_dp(composition, c(0.0), c(0.0), c(0.5), c(3.0)) == OK
    code, out = question(library, "epsilon", composition, 1e-5)
    assert (code, out.lower, out.upper) == (OK, 0, 0)


BAD = [  # function, arguments, the argument that the message names
    ("gaussian", (0.0, 1.0, 1.0), b"noise_multiplier"),
    ("gaussian", (1.0, 0.0, 1.0), b"sampling_probability"),
    ("gaussian", (1.0, 1.0, 0.5), b"count"),
    ("laplace", (math.nan, 1.0, 1.0), b"noise_multiplier"),
    ("discrete_gaussian", (1e9, 1.0, 1.0, 1.0), b"sigma"),
    ("discrete_gaussian", (1.0, 0.5, 1.0, 1.0), b"sensitivity"),
    ("discrete_laplace", (-1.0, 1.0, 1.0, 1.0), b"scale"),
    ("approximate_dp", (-1.0, 0.0, 1.0, 1.0), b"epsilon"),
    ("approximate_dp", (1.0, 2.0, 1.0, 1.0), b"delta"),
    ("bounded_range", (math.inf, 1.0, 1.0), b"eta"),
    ("randomized_response", (0.0, 2.0, 1.0), b"noise_parameter"),
    ("randomized_response", (0.5, 1.0, 1.0), b"num_buckets"),
    ("mixture_of_gaussians", (1.0, doubles(1.0, 1.0), doubles(0.5, 0.5), 2, 1.0, 1.0), b"sensitivities"),
    ("mixture_of_gaussians", (1.0, doubles(1.0, 2.0), doubles(0.5, 0.4), 2, 1.0, 1.0), b"probabilities"),
    ("mixture_of_gaussians", (1.0, None, doubles(0.5), 1, 1.0, 1.0), b"sensitivities"),
]


@pytest.mark.parametrize(("name", "arguments", "named"), BAD)
def test_a_bad_argument_is_named_and_remembered(library, composition, name, arguments, named):
    given = [ctypes.c_size_t(a) if isinstance(a, int) else c(a) for a in arguments]
    function = getattr(library, f"tightdp_add_{name}")
    assert add(library, composition, "laplace", 1.0, 1) == OK
    assert question(library, "epsilon", composition, 2.0)[0] == INVALID  # a bad question changes nothing
    assert question(library, "epsilon", composition, 1e-5)[0] == OK
    assert function(composition, *given) == INVALID and library.tightdp_last_error().startswith(named + b":")
    message = library.tightdp_last_error()
    assert function(None, *given) == INVALID and library.tightdp_last_error().startswith(b"run:")
    assert add(library, composition, "laplace", 1.0, 1) == INVALID and library.tightdp_last_error() == message
    for curve, at, most in (("epsilon", 1e-5, math.inf), ("delta", 1.0, 1)):
        code, out = question(library, curve, composition, at)
        assert (code, out.lower, out.upper, library.tightdp_last_error()) == (INVALID, 0, most, message)


def test_a_relation_that_was_refused_is_remembered(library, composition):
    assert library.tightdp_composition_set_neighbors(composition, 7) == INVALID
    assert add(library, composition, "laplace", 1.0, 1) == INVALID
    assert question(library, "epsilon", composition, 1e-5)[0] == INVALID
    assert library.tightdp_last_error().startswith(b"neighbors:")


def test_a_callback_that_ignores_a_failure_meets_no_target(library):
    def run_at(noise, run, _):
        library.tightdp_add_laplace(ctypes.c_void_p(run), c(0.0), c(1.0), c(1.0))
        return OK

    assert calibrated(library, run_at, 1.0, 1e-6, 1e-3, 1e3) == (INVALID, math.inf)


RunAt = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p)


def calibrated(library, run_at, epsilon, delta, low, high):
    out = ctypes.c_double(-7)
    code = library.tightdp_calibrate(RunAt(run_at), None, *map(c, (epsilon, delta, low, high)), ctypes.byref(out))
    return code, out.value


def test_calibrated_noise_meets_the_target_and_little_less_does_not(library):
    def run_at(noise, run, _):
        return library.tightdp_add_laplace(ctypes.c_void_p(run), c(noise), c(0.1), c(20.0))

    code, noise = calibrated(library, run_at, 1.0, 1e-6, 1e-3, 1e3)
    assert code == OK
    at, below = ((dp.PoissonSampled(dp.Laplace(s), 0.1) * 20).epsilon(1e-6) for s in (noise, noise * (1 - 1e-4)))
    assert at.lower <= 1.0 < below.upper


def test_calibration_for_dp_sgd(library):
    out = ctypes.c_double()
    assert library.tightdp_noise_multiplier(*map(c, (2.0, 1e-5, 0.01, 1000.0)), ctypes.byref(out)) == OK
    assert (dp.PoissonSampled(dp.Gaussian(out.value), 0.01) * 1000).epsilon(1e-5).lower <= 2.0
    assert abs(out.value / dp.noise_multiplier(2.0, 1e-5, sampling_probability=0.01, steps=1000) - 1) < 1e-8


def test_a_target_that_is_not_met_and_bad_arguments_of_a_calibration(library):
    def run_at(noise, run, _):
        return library.tightdp_add_gaussian(ctypes.c_void_p(run), c(noise), c(1.0), c(1.0))

    for arguments, named in [
        ((1e-3, 1e-9, 0.5, 2.0), b"epsilon"),
        ((-1.0, 1e-5, 0.5, 2.0), b"epsilon"),
        ((1.0, 1.0, 0.5, 2.0), b"delta"),
        ((1.0, 1e-5, 0.0, 2.0), b"low"),
        ((1.0, 1e-5, 2.0, 1.0), b"high"),
    ]:
        code, noise = calibrated(library, run_at, *arguments)
        assert (code, noise) == (INVALID, math.inf) and library.tightdp_last_error().startswith(named + b":")
    assert calibrated(library, lambda *_: 1, 1.0, 1e-5, 0.5, 2.0)[0] == INVALID


def test_the_library_says_its_version_and_shows_its_own_symbols_alone(library):
    """As linkers see it: a SONAME that ends in a version, and no symbol of C++."""
    readelf = shutil.which("readelf")
    if readelf is None or not sys.platform.startswith("linux"):
        pytest.skip("needs readelf, and a library of ELF")
    read = [readelf, "--wide", "--dynamic", "--dyn-syms", dp.get_library()]
    said = subprocess.run(read, capture_output=True, text=True, check=True).stdout
    assert "soname: [libtightdp_c.so.0]" in said
    lines = [line.split() for line in said.splitlines() if " GLOBAL " in line or " WEAK " in line]
    shown = {line[7].split("@")[0] for line in lines if line[6] != "UND"} - {"TIGHTDP_0.1"}
    assert "tightdp_calibrate" in shown and all(name.startswith("tightdp_") for name in shown)
