// The law of the mean of likelihood ratios: RandomAllocation.
#include "bind.hpp"

#include "../src/cpu/allocation.hpp"
#include "grid_handle.hpp"

namespace {

py::array_t<double> array(const std::vector<double>& x) {
    return py::array_t<double>(static_cast<py::ssize_t>(x.size()), x.data());
}

py::tuple atoms(const tightdp::allocation::Atoms& a) {
    return py::make_tuple(array(a.loss), array(a.mass), a.infinity, a.minus_infinity, a.loss_slack, a.mass_rel);
}

// Atoms whose masses, rounded outward, add up to 1 within total_rel.
GridLawHandle law_of(const py::array_t<double>& losses, const py::array_t<double>& log_masses,
                     const py::array_t<double>& rel, double infinity, double minus_infinity, double mass_rel,
                     double loss_slack, double total_rel) {
    if (log_masses.size() != losses.size() || rel.size() != losses.size())
        throw std::invalid_argument("expected arrays of one length");
    std::vector<tightdp::grid::Atom> list(static_cast<std::size_t>(losses.size()));
    for (std::size_t i = 0; i < list.size(); ++i) list[i] = {losses.data()[i], log_masses.data()[i], rel.data()[i]};
    const auto law = tightdp::grid::atoms(std::move(list), infinity, minus_infinity, mass_rel, loss_slack, 0, 0);
    std::const_pointer_cast<tightdp::grid::Law>(law)->total_rel = total_rel;
    return {law};
}

}  // namespace

void bind_allocation(py::module_& m) {
    using namespace py::literals;
    m.def("allocation",
          [](const GridLawHandle& h, std::uint64_t steps, double spacing, double floor, std::size_t most_cells) {
              tightdp::allocation::Mean mean;
              {
                  py::gil_scoped_release release;
                  mean = tightdp::allocation::mean_of_ratios(*h.law, steps, spacing, floor, most_cells);
              }
              return py::make_tuple(atoms(mean.upper), atoms(mean.lower), mean.work);
          },
          "law"_a, "steps"_a, "spacing"_a, "floor"_a, "most_cells"_a);
    m.def("allocation_law", &law_of, "losses"_a, "log_masses"_a, "rel"_a, "infinity"_a, "minus_infinity"_a,
          "mass_rel"_a, "loss_slack"_a, "total_rel"_a);
}
