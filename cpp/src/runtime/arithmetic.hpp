// Tests whether arithmetic is as all error analyses of this library assume (docs/theory/closed-forms.md, section 1).
#pragma once

#include <string>

namespace tightdp {

// Tests whether the arithmetic of the calling thread rounds to nearest, and whether it neither flushes subnormal
// results to zero nor reads subnormal arguments as zero. Returns null if so, and otherwise a description of the fault.
// The test takes some nanoseconds.
const char* arithmetic_fault() noexcept;

// Tests the functions of the C library at the arguments in hard_arguments.hpp. Returns a message about the first
// function whose error is larger than the proofs assume. If there is no such function, the message is empty. The test
// takes some microseconds.
std::string find_library_fault();

}  // namespace tightdp
