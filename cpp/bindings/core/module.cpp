// The extension module. Each function bind_... binds one concept, and is defined in its own file.
#include "../bind.hpp"
#include "runtime/dispatch.hpp"

using Bind = void(py::module_&);
Bind bind_arithmetic, bind_contour, bind_dense_layers, bind_dlpack, bind_exact_noise, bind_fft, bind_fixed_size,
    bind_core_clipped_sum, bind_prv, bind_selection, bind_special, bind_random, bind_grid, bind_allocation,
    bind_work_budget;

// The module does not need the interpreter's lock. All its state belongs to a thread, is atomic, or is protected by a
// lock of its own (tests/processes/test_threads.py, tests/processes/test_races.py).
PYBIND11_MODULE(_core, m, py::mod_gil_not_used()) {
    if (!tightdp::isa_cap_is_known())
        throw py::import_error("TIGHTDP_ISA must be baseline, avx2 or avx512: the most that may be used");
    m.doc() = "The compiled core of tightdp. Private: use the tightdp package.";
    m.attr("__version__") = TIGHTDP_VERSION;
    for (Bind* const bind : {bind_arithmetic, bind_contour, bind_dense_layers, bind_dlpack, bind_exact_noise, bind_fft,
                             bind_fixed_size, bind_core_clipped_sum, bind_prv, bind_selection, bind_special,
                             bind_random, bind_grid, bind_allocation, bind_work_budget})
        bind(m);
    m.def(
        "isa", [] { return tightdp::isa_name(tightdp::active_isa()); },
        "The instruction set in use: baseline, avx2 or avx512.");
}
