"""Sums over nodes at every abscissa, against 40 digits (docs/theory/contour.md section 5.2)."""

import os
import subprocess
import sys

import mpmath as mp
import numpy as np
import pytest

pytest.importorskip("tightdp._testing", reason="built without TIGHTDP_BUILD_TESTS")

ABSCISSAE = (
    *(1, 2, 31, 33, 127, 128),  # each follows from the one before
    *(129, 130, 160, 161, 162, 193, 194, 226),  # about the first two centres
    *(2207, 2208, 2209, 2240, 2241, 2242, 4288, 4289, 4300),  # about each 32nd
)
SETTINGS = [(32, 20.0), (96, 0.3), (256, 1e-9)]
"""Numbers of nodes, and the largest loss."""
STEP, SIGN = 0.37, -1.0
U = 2.0**-53


def nodes(n, scale):
    rng = np.random.default_rng(n)
    loss = scale * np.sort(rng.uniform(-1, 1, n)) ** 3
    return loss, rng.dirichlet(np.full(n, 0.3))


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_within_what_is_certified(isa, tmp_path):
    code = (
        "import sys, numpy as np; from tightdp import _testing\n"
        "given = np.load(sys.argv[1]); put = {}\n"
        "for n in ['32', '96', '256']:\n"
        f"    for count in (5, 128, 129, 200, {ABSCISSAE[-1]}):\n"
        f"        sums = _testing.contour_products(given['loss' + n], {SIGN}, given['mass' + n], {STEP}, count)\n"
        "        put[n + '_' + str(count)] = np.array(sums)\n"
        "np.savez(sys.argv[2], **put)"
    )
    given, put = tmp_path / "given.npz", tmp_path / "put.npz"
    drawn = {n: nodes(n, scale) for n, scale in SETTINGS}
    np.savez(
        given, **{name + str(n): x for n, pair in drawn.items() for name, x in zip(("loss", "mass"), pair, strict=True)}
    )
    subprocess.run([sys.executable, "-c", code, given, put], env={**os.environ, "TIGHTDP_ISA": isa}, check=True)
    found = np.load(put)
    for n, (loss, mass) in drawn.items():
        most = found[f"{n}_{ABSCISSAE[-1]}"]
        for name in found.files:
            if name.startswith(f"{n}_"):  # fewer abscissae are the first ones
                some = found[name]
                near = np.abs(some - most[:, : some.shape[1]])
                assert (near <= 500 * U * np.arange(1, some.shape[1] + 1) * STEP * (mass @ np.abs(loss))).all()
        with mp.workdps(40):
            size = mp.fdot(mass, np.abs(loss)) * mp.mpf(STEP)
            for m in ABSCISSAE:
                truth = mp.fsum(
                    mp.mpf(a) * mp.expm1(mp.mpc(0, 1) * m * mp.mpf(STEP) * SIGN * y)
                    for a, y in zip(mass.tolist(), map(mp.mpf, loss.tolist()), strict=True)
                )
                error = abs(mp.mpc(*most[:, m - 1].tolist()) - truth)
                assert error <= U * m * size * (2 * (m if m <= 128 else 44) + n + 40), (isa, n, m)
