// A minimal test framework. CHECK prints and counts failures, and main() of a test program returns their number.
#pragma once

#include <cmath>
#include <cstdio>

namespace check {

inline int failures = 0;

inline bool expect(bool holds, const char* what, const char* file, int line) {
    if (!holds) {
        ++failures;
        std::printf("%s:%d: %s\n", file, line, what);
    }
    return holds;
}

inline bool near(double computed, double exact, double relative_error) {
    return std::fabs(computed - exact) <= relative_error * std::fabs(exact);
}

}  // namespace check

#define CHECK(condition) check::expect((condition), #condition, __FILE__, __LINE__)
