"""Privacy losses in high precision: distribution functions, means, and curves by their definition."""

from __future__ import annotations

import mpmath as mp

from .normal import cdf


class Sampled:
    """Poisson-subsampled Gaussian; ``direction`` "remove" or "add"."""

    def __init__(self, sigma: float, q: float, direction: str) -> None:
        self.sigma, self.q, self.remove = mp.mpf(sigma), mp.mpf(q), direction == "remove"

    def cdf(self, y: mp.mpf) -> mp.mpf:
        y = mp.mpf(y)
        if self.remove:
            if y <= mp.log(1 - self.q):
                return mp.mpf(0)
            x = self._x(y)
            return (1 - self.q) * cdf(x / self.sigma) + self.q * cdf((x - 1) / self.sigma)
        if y >= -mp.log(1 - self.q):
            return mp.mpf(1)
        return cdf(-self._x(-y) / self.sigma)

    def mean(self) -> mp.mpf:
        s, q = self.sigma, self.q

        def weighted(x: mp.mpf) -> mp.mpf:
            loss = mp.log1p(q * mp.expm1((2 * x - 1) / (2 * s * s)))
            base = mp.npdf(x, 0, s)
            return ((1 - q) * base + q * mp.npdf(x, 1, s)) * loss if self.remove else -base * loss

        return mp.quad(weighted, mp.linspace(-14 * s, 1 + 14 * s, 29))

    def delta(self, eps: float) -> mp.mpf:
        """One step, in closed form: where ln dP/dQ = eps cuts the line, and the masses beyond."""
        eps, s, q = mp.mpf(eps), self.sigma, self.q
        if self.remove:
            if eps <= mp.log(1 - q):
                return -mp.expm1(eps)
            z = self._x(eps) / s
            return q * cdf(1 / s - z) + (1 - q) * cdf(-z) - mp.exp(eps) * cdf(-z)
        if eps >= -mp.log(1 - q):
            return mp.mpf(0)
        z = self._x(-eps) / s
        return cdf(z) - mp.exp(eps) * (q * cdf(z - 1 / s) + (1 - q) * cdf(z))

    def _x(self, y: mp.mpf) -> mp.mpf:
        return self.sigma**2 * mp.log((mp.expm1(y) + self.q) / self.q) + mp.mpf(1) / 2


class Laplace:
    def __init__(self, mu: float) -> None:
        self.mu = mp.mpf(mu)

    def cdf(self, y: mp.mpf) -> mp.mpf:
        if y < -self.mu:
            return mp.mpf(0)
        return mp.mpf(1) if y >= self.mu else mp.exp((mp.mpf(y) - self.mu) / 2) / 2

    def mean(self) -> mp.mpf:
        return self.mu + mp.expm1(-self.mu)

    def delta(self, eps: float) -> mp.mpf:
        eps = mp.mpf(eps)
        if eps >= self.mu:
            return mp.mpf(0)
        if eps <= -self.mu:
            return -mp.expm1(eps)
        return 1 - mp.exp((eps - self.mu) / 2)

    def delta_of_two(self, eps: float) -> mp.mpf:
        """delta of Y1 + Y2: one of them summed over, its two atoms and its density e^{(y - mu)/2} / 4 apart."""
        eps, mu = mp.mpf(eps), self.mu
        atoms = self.delta(eps - mu) / 2 + mp.exp(-mu) / 2 * self.delta(eps + mu)
        kinks = sorted({-mu, *(p for p in (eps - mu, eps + mu) if -mu < p < mu), mu})
        return atoms + mp.quad(lambda y: mp.exp((y - mu) / 2) / 4 * self.delta(eps - y), kinks)


class Gaussian:
    def __init__(self, mu: float) -> None:
        self.mu = mp.mpf(mu)

    def cdf(self, y: mp.mpf) -> mp.mpf:
        return cdf(mp.mpf(y) / self.mu - self.mu / 2)

    def mean(self) -> mp.mpf:
        return self.mu**2 / 2


def randomized_response_delta(eps0: float, count: int, eps: float) -> mp.mpf:
    """count-fold eps0-DP at its worst: Kairouz, Oh and Viswanath 2015, Theorem 3.3, at any real eps."""
    eps0, eps = mp.mpf(eps0), mp.mpf(eps)
    p = 1 / (1 + mp.exp(-eps0))
    total = mp.mpf(0)
    for i in range(count + 1):
        loss = (2 * i - count) * eps0
        if loss > eps:
            total += mp.binomial(count, i) * p**i * (1 - p) ** (count - i) * -mp.expm1(eps - loss)
    return total
