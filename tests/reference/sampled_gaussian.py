"""epsilon(delta) of k Poisson-subsampled Gaussians in 40-digit ball arithmetic (python-flint).

Independent of the library: other arithmetic, other nodes, no error bounds. The truncations are heuristic, so
``epsilon`` solves at two abscissae and returns a value only where they agree to 1e-14.
"""

from __future__ import annotations

import math

import numpy as np

DIGITS = 40
MOST_PAIRS = 20_000
"""Nodes times abscissae: about a tenth of a second."""


class _TooLarge(Exception):
    """The strip is too narrow or the tilt too wide."""


class _Loss:
    """Nodes u of a fine trapezoid rule with log weights under P and losses, in double and in ball arithmetic."""

    def __init__(self, sigma, q, add, tilt, frequency=0.0):
        # 17 standard deviations around everything that a tilt up to `tilt` can favour.
        left, right = -17 - (tilt / sigma if add else 0), 17 + (0 if add else (1 + tilt) / sigma)
        # e^{is loss} turns at most at the rate s / sigma; the rest is the decay of the spectrum at s = 0.
        step = 2 * math.pi / (frequency / sigma + max(6 * 2 * math.pi, 95 / min(math.pi * sigma, 6)))
        if (right - left) / step > MOST_PAIRS:
            raise _TooLarge
        self.u = left + step * np.arange(int((right - left) / step) + 1)
        log_w = np.logaddexp(np.log1p(-q), np.log(q) + self.u / sigma - 0.5 / sigma**2)
        self.log_p = -0.5 * self.u**2 + math.log(step / math.sqrt(2 * math.pi)) + (0 if add else log_w)
        self.y = -log_w if add else log_w
        self.setting = sigma, q, add, left, step

    def exact(self):
        """(log weight under P, loss) of every node as balls."""
        from flint import arb

        sigma, q, add, left, step = self.setting
        s, prob, h = arb(sigma), arb(q), arb(step)
        front = (h / (2 * arb.pi()).sqrt()).log()
        for i in range(len(self.u)):
            u = arb(left) + h * i
            w = (1 - prob + prob * (u / s - 1 / (2 * s * s)).exp()).log()
            yield front - u * u / 2 + (arb(0) if add else w), -w if add else w

    def cumulants(self, c):
        a = self.log_p + c * self.y
        top = a.max()
        w = np.exp(a - top)
        mean = (w * self.y).sum() / w.sum()
        return top + math.log(w.sum()), mean, (w * (self.y - mean) ** 2).sum() / w.sum()


def _bisect(f, low, high):
    for _ in range(200):
        mid = math.sqrt(low * high)
        if f(mid) > 0:
            low = mid
        else:
            high = mid
    return low


def epsilon(sigma, q, steps, delta, add, shifts=(1.0, 0.93)):
    """epsilon(delta) as a Decimal-ready string of 30 digits, or None where the heuristics cannot vouch for it."""
    from flint import ctx

    before = ctx.dps
    ctx.dps = DIGITS
    try:
        values = [_epsilon(sigma, q, steps, delta, add, shift) for shift in shifts]
    except _TooLarge:
        return None
    finally:
        ctx.dps = before
    if any(v is None for v in values):
        return None
    spread = max(abs(float(v - values[0])) for v in values)
    return values[0].str(30, radius=False) if spread <= 1e-14 * abs(float(values[0])) else None


def _terms(loss, c, step, steps, frequency):
    """(z, k ln M(z)) up to where they no longer matter; None if that is beyond the frequency the nodes serve."""
    from flint import acb, arb

    nodes = [(acb(log_p), y) for log_p, y in loss.exact()]
    terms = []
    m = 0
    while float(step) * m <= frequency:
        z = acb(arb(c), step * m)
        terms.append((z, sum(((log_p + z * y).exp() for log_p, y in nodes), acb(0)).log() * steps))
        if float((terms[-1][1] - terms[0][1]).real) - 2 * math.log1p(float(step) * m / (1 + c)) < -62:
            return terms
        m += 1
    return None


def _epsilon(sigma, q, steps, delta, add, shift):
    from flint import arb

    loss = _Loss(sigma, q, add, 60.0)

    def log_delta_at_saddle(c):
        k, mean, variance = loss.cumulants(c)
        v = steps * variance + c**-2 + (1 + c) ** -2
        eps = steps * mean - 1 / c - 1 / (1 + c)
        return steps * k - c * eps - math.log(c * (1 + c)) - 0.5 * math.log(2 * math.pi * v), eps

    saddle = _bisect(lambda c: log_delta_at_saddle(c)[0] - math.log(delta), 1e-6, 1e6)
    if not saddle * 1.3 + 2 < 3000:
        return None
    tilt = saddle * 1.3 + 2
    loss = _Loss(sigma, q, add, tilt)
    guess = log_delta_at_saddle(saddle)[1]
    c = saddle * shift
    k, _, variance = loss.cumulants(c)
    # Aliasing e^{-2 pi a / step} at every auxiliary distance a, with 62 nats to spare; to the left only down to 0.
    step = 2 * math.pi * 0.95 * c / (62 + max(0.0, steps * k - c * guess - math.log(delta)))
    best = 0.0
    for a in np.geomspace(0.02, 40, 200) / math.sqrt(max(steps * variance, 1e-4)) ** 0.5:
        gain = steps * (loss.cumulants(c + a)[0] - k) - a * guess
        best = max(best, 2 * math.pi * a / (62 + max(0.0, gain)))
    step = arb(min(step, best))
    frequency, terms = 14 / math.sqrt(steps * variance), None
    while terms is None:
        nodes = _Loss(sigma, q, add, tilt, frequency)
        if len(nodes.u) * frequency / float(step) > MOST_PAIRS:
            return None
        terms = _terms(nodes, c, step, steps, frequency)
        frequency *= 2

    def log_delta(eps):
        front = terms[0][1].real - arb(c) * eps
        total = arb(0)
        for m, (z, log_m) in enumerate(terms):
            total += (((log_m - z * eps) - front).exp() / (z * (z + 1))).real / (2 if m == 0 else 1)
        return (total * step / arb.pi()).log() + front

    target = arb(delta).log()
    a, b = arb(guess), arb(guess) * (1 + arb("1e-5")) + arb("1e-9")
    fa, fb = log_delta(a) - target, log_delta(b) - target
    for _ in range(12):
        a, fa, b = b, fb, (b - fb * (b - a) / (fb - fa)).mid()
        fb = log_delta(b) - target
        if abs(float(fb)) < 1e-25:
            return b if float(b) > 0 else None
    return None
