// tightdp._core: checks the assumptions about arithmetic that all error analyses make.
#include "runtime/arithmetic.hpp"

#include "../bind.hpp"

void bind_arithmetic(py::module_& m) {
    const char* fault = tightdp::arithmetic_fault();
    const std::string found = fault ? fault : tightdp::find_library_fault();
    if (!found.empty())
        throw py::import_error("tightdp cannot vouch for its bounds here: " + found +
                               " (docs/theory/closed-forms.md section 1)");
    m.def(
        "check_arithmetic",
        [] {
            if (const char* fault = tightdp::arithmetic_fault())
                throw std::runtime_error(std::string("no bound is certain here: ") + fault +
                                         " (docs/theory/closed-forms.md section 1)");
        },
        "Raises RuntimeError if the calling thread does not round to nearest or flushes subnormal numbers to "
        "zero.");
}
