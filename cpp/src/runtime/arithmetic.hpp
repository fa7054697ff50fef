// Whether arithmetic is what every error analysis of this library assumes (docs/theory/closed-forms.md, section 1).
#pragma once

#include <string>

namespace tightdp {

// Tests the arithmetic of the calling thread: it rounds to nearest, and subnormal numbers are neither flushed to zero
// nor taken for zero. Returns null, or words for what is wrong. Takes some nanoseconds.
const char* arithmetic_fault() noexcept;

// Tests the functions of the C library at the arguments in hard_arguments.hpp. Names the first one whose error is
// larger than the proofs assume, or returns an empty string. Takes some microseconds.
std::string library_fault();

}  // namespace tightdp
