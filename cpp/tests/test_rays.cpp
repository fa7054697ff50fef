// Tests can_invert_on_rays of contour/rays/invert_on_rays.hpp, which tells whether a composition can be computed on
// rays.
#include <vector>

#include "check.hpp"
#include "contour/rays/invert_on_rays.hpp"

using namespace tightdp::contour;

namespace {

bool serves(double sigma, double q, double count, double mu2 = 0, Direction direction = Direction::remove) {
    const std::vector<Sampled> one{{sigma, q, count}};
    return can_invert_on_rays({one, mu2, direction});
}

}  // namespace

int main() {
    CHECK(serves(0.8, 1e-4, 2));
    // Counts must be integers, because powers with other exponents have several branches.
    CHECK(!serves(0.8, 1e-4, 2.5));
    CHECK(!serves(0.8, 1e-4, 0.5));
    CHECK(!serves(0.8, 1e-4, 2, 1));
    CHECK(!serves(0.8, 1e-4, 2, 0, Direction::add));
    // Paths that would need too many nodes are not started.
    for (const double sigma : {1e-6, 1e-2, 1e2, 1e12}) CHECK(!serves(sigma, 1e-4, 2));
    CHECK(!serves(0.8, 1e-300, 2));
    return check::failures;
}
