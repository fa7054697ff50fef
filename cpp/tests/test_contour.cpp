// contour/tail_bound/minorant.hpp against the functions it bounds.
#include <cmath>

#include "check.hpp"
#include "contour/tail_bound/minorant.hpp"

using tightdp::contour::sinc_supremum;

int main() {
    // From the right: the largest value seen so far, and all beyond 60 is under 1/60.
    long double largest = 1 / 60.0L;
    constexpr long steps = 600'000;
    for (long i = steps; i > 0; --i) {
        const long double y = 60.0L * i / steps, value = std::fabs(std::sin(y)) / y;
        largest = value > largest ? value : largest;
        const double bound = sinc_supremum(static_cast<double>(y));
        CHECK(bound >= largest * (1 - 1e-15L));
        // Between lobes the envelope is up to half as much again.
        CHECK(bound <= largest * (y < 4.5L ? 1 + 1e-4L : 1.6L));
    }
    return check::failures;
}
