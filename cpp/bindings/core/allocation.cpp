// tightdp._core: the distribution of a mean of likelihood ratios, for RandomAllocation.
#include "../bind.hpp"
#include "../grid_handle.hpp"
#include "random_allocation/ratio_mean.hpp"
#include "unlocked.hpp"

namespace {

using tightdp::bindings::make_numpy_array;

py::tuple make_python_atoms(const tightdp::allocation::Atoms& a) {
    return py::make_tuple(make_numpy_array(a.loss), make_numpy_array(a.mass), a.infinity, a.minus_infinity,
                          a.loss_slack, a.mass_rel);
}

}  // namespace

void bind_allocation(py::module_& m) {
    using namespace py::literals;
    m.def(
        "allocation",
        [](const GridLawHandle& h, std::uint64_t steps, double spacing, double floor, std::size_t most_cells) {
            const auto mean = tightdp::bindings::run_unlocked([&] {
                // The work does not count against the work budget of one question (runtime/work_budget.hpp), because
                // the caller keeps the result for many questions.
                const tightdp::work::Aside kept;
                return tightdp::allocation::bound_mean_of_ratios(*h.law, steps, spacing, floor, most_cells);
            });
            return py::make_tuple(make_python_atoms(mean.upper), make_python_atoms(mean.lower), mean.work);
        },
        "law"_a, "steps"_a, "spacing"_a, "floor"_a, "most_cells"_a);
}
