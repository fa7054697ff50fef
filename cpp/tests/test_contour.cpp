// Tests contour/tail_bound/minorant.hpp against the functions that it bounds.
#include <cmath>

#include "check.hpp"
#include "contour/tail_bound/minorant.hpp"

using tightdp::contour::sinc_supremum;

int main() {
    // Going down from 60, this is the largest value so far. All values beyond 60 are below 1/60.
    long double largest = 1 / 60.0L;
    constexpr long steps = 600'000;
    for (long i = steps; i > 0; --i) {
        const long double y = 60.0L * i / steps, value = std::fabs(std::sin(y)) / y;
        largest = value > largest ? value : largest;
        const double bound = sinc_supremum(static_cast<double>(y));
        CHECK(bound >= largest * (1 - 1e-15L));
        // The envelope is up to half as much again between lobes.
        CHECK(bound <= largest * (y < 4.5L ? 1 + 1e-4L : 1.6L));
    }
    return check::failures;
}
