// Whether arithmetic is what every error analysis of this library assumes (docs/theory/closed-forms.md, section 1).
#pragma once

#include <string>

namespace tightdp {

// Of the calling thread: rounding to nearest, and subnormal numbers that are neither flushed to zero nor
// taken for zero. Null, or what is wrong. Some nanoseconds.
const char* arithmetic_fault() noexcept;

// Of the C library: the first of the arguments in hard_arguments.hpp at which a function is off by more than
// is assumed. Empty, or what is wrong. Some microseconds.
std::string library_fault();

}  // namespace tightdp
