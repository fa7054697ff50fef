#include "arithmetic.hpp"

#include <cfenv>
#include <cfloat>
#include <cmath>
#include <cstdio>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tightdp {
namespace {

#if !defined(__x86_64__)
// Constants of the tests in arithmetic_fault(). Without `volatile`, the compiler would evaluate these tests itself, in
// the usual rounding mode.
volatile double one = 1, half_ulp = 0x1p-53, smallest = 0x1p-1022, subnormal = 0x1p-1074, half = 0.5;
#endif

// A test of one function at one argument, from a line of hard_arguments.hpp. The C library computes `found`, and the
// exact result is `value` plus `rest`. The error of `found` is allowed to be at most `units` times 2^-53 |value|.
struct Hard {
    const char* name;
    double found, value, rest, units;
};

// Returns whether the error of `found` is larger than allowed. The difference found - value is computed exactly if
// `found` is close to `value` (Sterbenz). If the two are not close, the difference is far above the allowed error.
bool exceeds_arithmetic_error(const Hard& h) {
    return !(std::abs((h.found - h.value) - h.rest) <= h.units * 0x1p-53 * std::abs(h.value) + DBL_TRUE_MIN);
}

}  // namespace

const char* arithmetic_fault() noexcept {
#if defined(__x86_64__)
    const unsigned mode = _mm_getcsr();
    const bool nearest = (mode & 0x6000) == 0, gradual = (mode & 0x8040) == 0;  // FTZ and DAZ make subnormals zero
#else
    const bool nearest = one + half_ulp == 1 && -one - half_ulp == -1;
    const bool gradual = smallest * half != 0 && subnormal * 0x1p1000 == 0x1p-74;
#endif
    if (!nearest || std::fegetround() != FE_TONEAREST) return "this thread does not round to nearest";
    if (!gradual)
        return "this thread takes subnormal numbers for zero: a library that was built with -ffast-math "
               "may have set this mode when it was loaded";
    return nullptr;
}

std::string find_library_fault() {
    // The arguments are copied through a volatile variable, so that the compiler does not evaluate the functions
    // itself.
    const auto at = [](double x) {
        volatile double hidden = x;
        return double(hidden);
    };
#define TIGHTDP_ARGUMENTS_1(x) at(x)
#define TIGHTDP_ARGUMENTS_2(x, y) at(x), at(y)
#define TIGHTDP_PICK(_1, _2, name, ...) name
#define TIGHTDP_ARGUMENTS(...) TIGHTDP_PICK(__VA_ARGS__, TIGHTDP_ARGUMENTS_2, TIGHTDP_ARGUMENTS_1, )(__VA_ARGS__)
#define HARD(name, arguments, value, rest, units) \
    {#name #arguments, std::name(TIGHTDP_ARGUMENTS arguments), value, rest, units},
    const Hard table[] = {
#include "hard_arguments.hpp"
    };
#undef HARD
    for (const Hard& h : table) {
        if (!exceeds_arithmetic_error(h)) continue;
        char text[160];
        std::snprintf(text, sizeof text,
                      "the C library's %s is %.17g, and %.17g is right: off by more than %g units of 2^-53",
                      h.name, h.found, h.value, h.units);
        return text;
    }
    return {};
}

}  // namespace tightdp
