// Binds tightdp._core.GridLaw, a privacy-loss distribution of the grid engine, and the functions that bound epsilon and
// delta of compositions of such distributions.
#include <array>

#include "../bind.hpp"
#include "../grid_handle.hpp"
#include "grid/grid_engine.hpp"
#include "grid/result_store.hpp"
#include "unlocked.hpp"

namespace {

using namespace tightdp::grid;
using Array = py::array_t<double, py::array::c_style | py::array::forcecast>;

using Handle = GridLawHandle;

Handle make_grid_law_of_numpy(const Array& losses, const Array& log_masses, const Array& rel, double infinity,
                              double minus_infinity, double mass_rel, double loss_slack, double anchor, double step,
                              double total_rel) {
    if (log_masses.size() != losses.size() || rel.size() != losses.size())
        throw std::invalid_argument("expected arrays of one length");
    std::vector<Atom> list(static_cast<std::size_t>(losses.size()));
    for (std::size_t i = 0; i < list.size(); ++i) list[i] = {losses.data()[i], log_masses.data()[i], rel.data()[i]};
    return {
        make_atomic_losses(std::move(list), infinity, minus_infinity, mass_rel, loss_slack, anchor, step, total_rel)};
}

// Returns the distribution make(arguments) as an object for Python.
template <auto make, class... Arguments>
Handle wrap_grid_law(Arguments... arguments) {
    return {make(arguments...)};
}

using WeightTuple = std::array<double, 2>;

std::vector<Weight> read_python_weights(const std::vector<WeightTuple>& given) {
    std::vector<Weight> weights;
    for (const auto& [shift, probability] : given) weights.push_back({shift, probability});
    return weights;
}

using PartTuple = std::tuple<Handle, double>;

using Question = Bounds (*)(const std::vector<Part>&, double, double, std::size_t);

std::vector<Part> read_python_parts(const std::vector<PartTuple>& given) {
    std::vector<Part> parts;
    for (const auto& [law, count] : given) parts.push_back({law.law, count});
    return parts;
}

// Binds a question under a name for Python. A question bounds epsilon at a given delta, or delta at a given epsilon.
// `at_name` is the name for Python of the number that is given.
void bind_grid_question(py::module_& m, const char* name, Question question, const char* at_name) {
    using namespace py::literals;
    m.def(
        name,
        [question](const std::vector<PartTuple>& given, double at, double width, std::size_t most_points) {
            const std::vector<Part> parts = read_python_parts(given);
            const Bounds b = tightdp::bindings::run_unlocked([&] { return question(parts, at, width, most_points); });
            py::dict budget;
            budget["lattice"] = b.lattice;
            budget["rounding"] = b.rounding;
            budget["wrapping"] = b.wrapping;
            budget["truncation"] = b.truncation;
            return py::make_tuple(b.lower, b.upper, budget, b.points, b.levels);
        },
        "parts"_a, py::arg(at_name), "width"_a, "most_points"_a);
}

}  // namespace

void bind_grid(py::module_& m) {
    using namespace py::literals;
    py::class_<Handle>(m, "GridLaw", "An immutable privacy-loss distribution of the grid engine.")
        .def_static("gaussian", &wrap_grid_law<make_gaussian_losses, double>, "mu"_a)
        .def_static("gaussian_replaced", &wrap_grid_law<make_replaced_gaussian_losses, double, double>, "mu"_a, "q"_a)
        .def_static("laplace", &wrap_grid_law<make_laplace_losses, double>, "mu"_a)
        .def_static("bounded_range", &wrap_grid_law<make_range_losses, double>, "eta"_a)
        .def_static("approximate_dp", &wrap_grid_law<make_approximate_dp_losses, double, double>, "epsilon"_a,
                    "delta"_a)
        .def_static("randomized_response", &wrap_grid_law<make_randomized_response_losses, double, double>, "p"_a,
                    "buckets"_a)
        .def_static("discrete_gaussian", &wrap_grid_law<make_discrete_gaussian_losses, double, double>, "sigma"_a,
                    "sensitivity"_a)
        .def_static("discrete_gaussian_replaced",
                    &wrap_grid_law<make_replaced_discrete_gaussian_losses, double, double, double>, "sigma"_a,
                    "sensitivity"_a, "q"_a)
        .def_static("discrete_laplace_replaced",
                    &wrap_grid_law<make_replaced_discrete_laplace_losses, double, double, double>, "scale"_a,
                    "sensitivity"_a, "q"_a)
        .def_static("laplace_replaced_member", &wrap_grid_law<make_replaced_laplace_member_losses, double, double>,
                    "mu"_a, "q"_a)
        .def_static("discrete_laplace", &wrap_grid_law<make_discrete_laplace_losses, double, double>, "scale"_a,
                    "sensitivity"_a)
        .def_static(
            "gaussian_mixtures",
            [](const std::vector<WeightTuple>& ahead, const std::vector<WeightTuple>& behind, double sigma, double lost,
               double rel) {
                const auto [upper, lower] = bound_gaussian_mixture_losses(
                    read_python_weights(ahead), read_python_weights(behind), sigma, lost, rel);
                return py::make_tuple(Handle{upper}, lower == upper ? py::none() : py::cast(Handle{lower}));
            },
            "ahead"_a, "behind"_a, "sigma"_a, "lost"_a, "rel"_a)
        .def_static("zeroed_out", &wrap_grid_law<make_zeroed_out_losses, double, double, bool>, "mu"_a, "q"_a, "add"_a)
        .def_static("zeroed_out_member", &wrap_grid_law<make_zeroed_out_member_losses, double, double, bool>, "mu"_a,
                    "q"_a, "add"_a)
        .def_static("atoms", &make_grid_law_of_numpy, "losses"_a, "log_masses"_a, "rel"_a, "infinity"_a,
                    "minus_infinity"_a, "mass_rel"_a, "loss_slack"_a, "anchor"_a, "step"_a, "total_rel"_a)
        .def(
            "poisson",
            [](const Handle& h, double q, bool add) { return Handle{make_poisson_sampled_losses(h.law, q, add)}; },
            "q"_a, "add"_a)
        .def(
            "replace_one", [](const Handle& h, double q) { return Handle{make_replace_one_losses(h.law, q)}; }, "q"_a)
        .def(
            "labelled",
            [](const Handle& one, double share, double rest, const Handle& other, double rel) {
                return Handle{join_labelled_losses(one.law, share, rest, other.law, rel)};
            },
            "share"_a, "rest"_a, "other"_a, "rel"_a)
        .def("reversed", [](const Handle& h) { return Handle{make_reversed_losses(h.law)}; });
    m.def("grid_crossings", &count_grid_crossings);
    m.def("grid_keep", [](std::size_t bytes) { Store::get_shared_store().limit_store_bytes(bytes); }, "bytes"_a);
    m.def("grid_kept", [] { return Store::get_shared_store().count_store_bytes(); });
    m.def("grid_found", [] { return Store::get_shared_store().count_store_hits(); });
    m.attr("GRID_USER_TOTAL") = kUserTotal;
    m.attr("GRID_LEAST_SHIFT") = kLeastShift;
    m.attr("GRID_MOST_SHIFT") = kMostShift;
    m.attr("GRID_LEAST_SCALE") = kLeastScale;
    m.attr("GRID_MOST_ATOMS") = kMostAtoms;
    m.attr("GRID_KEPT_DEVIATIONS") = kKeptDeviations;
    m.attr("GRID_STORE_BYTES") = Store::kMostBytes;
    bind_grid_question(m, "grid_epsilon", bound_grid_epsilon, "delta");
    bind_grid_question(m, "grid_delta", bound_grid_delta, "epsilon");
    m.def(
        "grid_deltas",
        [](const std::vector<PartTuple>& given, const Array& epsilons, double width, double floor,
           std::size_t most_points) {
            const std::vector<Part> parts = read_python_parts(given);
            const auto n = static_cast<std::size_t>(epsilons.size());
            py::array_t<double> lower(epsilons.size()), upper(epsilons.size());
            double *const low = lower.mutable_data(), *const high = upper.mutable_data();
            tightdp::bindings::run_unlocked(
                [&] { return bound_grid_deltas(parts, epsilons.data(), n, width, floor, most_points, low, high), 0; });
            return py::make_tuple(lower, upper);
        },
        "parts"_a, "epsilons"_a, "width"_a, "floor"_a, "most_points"_a);
}
