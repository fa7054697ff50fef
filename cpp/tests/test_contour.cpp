// Tests bound_minorant_sinc of contour/tail_bound/minorant.hpp against the function that it bounds.
#include <cmath>

#include "check.hpp"
#include "contour/tail_bound/minorant.hpp"

using tightdp::contour::bound_minorant_sinc;

int main() {
    // The largest value of |sin y| / y from the loop's current y upwards. The loop begins at y = 60. All values beyond
    // 60 are below 1/60.
    long double largest = 1 / 60.0L;
    constexpr long steps = 600'000;
    for (long i = steps; i > 0; --i) {
        const long double y = 60.0L * i / steps, value = std::fabs(std::sin(y)) / y;
        largest = value > largest ? value : largest;
        const double bound = bound_minorant_sinc(static_cast<double>(y));
        CHECK(bound >= largest * (1 - 1e-15L));
        // The bound beyond y = 4.5 is the envelope of the lobes of |sin y| / y. Between two lobes, the envelope lies
        // above the supremum.
        CHECK(bound <= largest * (y < 4.5L ? 1 + 1e-4L : 1.6L));
    }
    return check::failures;
}
