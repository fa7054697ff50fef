// tightdp._core.prv_*: the PRV engine.
#include <algorithm>
#include <cmath>

#include "../bind.hpp"
#include "../prv_entry.hpp"
#include "unlocked.hpp"

namespace {

using namespace tightdp::prv;

using tightdp::bindings::Entry;
using tightdp::bindings::make_prv_entry;
using tightdp::bindings::read_prv_entry;

// Wraps a Python function that composes runs. A run is a number of steps with the same distribution. The function is
// called as compose([(name, parameter, q, count, 0)], h, n, [(first cell, number of cells)]), where each list has one
// tuple for each run. The 0 is the failure probability of the run, because a Composer gets only runs that do not fail.
// The function returns (values, [(total, moment, magnitude)], kappa, mass error), with n values and one triple for each
// run. Circle explains the arguments, and Composite the results (prv/epsilon_and_delta.hpp).
Composer wrap_python_composer(const py::function& compose) {
    return [&compose](const std::vector<Run>& runs, const Circle& circle) {
        py::gil_scoped_acquire acquire;
        std::vector<Entry> entries;
        std::vector<std::pair<long long, std::int64_t>> spans;
        for (const Run& r : runs) entries.push_back(make_prv_entry(r));
        for (const auto& span : circle.spans) spans.emplace_back(span.first, span.count);
        using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;
        using Sums = std::vector<std::tuple<double, double, double>>;
        const auto [values, sums, kappa, mass_error] =
            py::cast<std::tuple<Doubles, Sums, double, double>>(compose(entries, circle.h, circle.n, spans));
        if (static_cast<std::size_t>(values.size()) != circle.n || sums.size() != runs.size())
            throw std::invalid_argument("compose must return n values and the sums of every part");
        Composite made{tightdp::AlignedArray(circle.n), {}, kappa, mass_error};
        std::copy_n(values.data(), circle.n, made.values.data());
        for (const auto& [total, moment, magnitude] : sums) made.sums.push_back({total, moment, magnitude});
        return made;
    };
}

using Question = Bounds (*)(const std::vector<Run>&, double, const Request&, const Composer&);

// Binds a function that bounds epsilon or delta. `most` is the largest possible epsilon or delta. It is also the upper
// bound that is returned if the budget of work is spent before a better one is known.
void bind_prv_question(py::module_& m, const char* name, Question question, double most, const char* at_name,
                       const char* doc) {
    m.def(
        name,
        [question, most](const std::vector<Entry>& entries, double at, double eps_error, double delta_error,
                         double max_bytes, const std::optional<py::function>& compose, double bytes_a_point) {
            std::vector<Run> runs;
            for (const Entry& entry : entries) runs.push_back(read_prv_entry(entry));
            const Composer composer = compose ? wrap_python_composer(*compose) : Composer(compose_on_cpu);
            const Request request{eps_error, delta_error, max_bytes, bytes_a_point};
            const Bounds b = tightdp::bindings::run_unlocked([&] {
                try {
                    return question(runs, at, request, composer);
                } catch (const tightdp::OutOfWork&) {
                    return Bounds{0, most, 0, 0, 0, 0, 0};
                }
            });
            return py::make_tuple(b.lower, b.upper, b.mesh, b.tails, b.rounding, b.step, b.points);
        },
        py::arg("runs"), py::arg(at_name), py::arg("eps_error"), py::arg("delta_error"), py::arg("max_bytes"),
        py::arg("compose") = py::none(), py::arg("bytes_a_point") = 0.0, doc);
}

}  // namespace

void bind_prv(py::module_& m) {
    py::register_exception<TooLarge>(m, "PrvTooLarge", PyExc_ValueError);
    bind_prv_question(m, "prv_epsilon", epsilon, HUGE_VAL, "delta",
                      "Returns (lower, upper, mesh, tails, rounding, step, points) for epsilon(delta).");
    bind_prv_question(m, "prv_delta", delta, 1.0, "eps",
                      "Returns (lower, upper, mesh, tails, rounding, step, points) for delta(eps).");
}
