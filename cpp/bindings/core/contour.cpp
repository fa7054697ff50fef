#include "../bind.hpp"
#include "contour/batch/epsilon_batch.hpp"
#include "contour/epsilon_and_delta.hpp"
#include "contour/growing_run.hpp"
#include "unlocked.hpp"

namespace {

using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;
using tightdp::contour::Composition;
using tightdp::contour::Direction;
using tightdp::contour::Result;
using tightdp::contour::Sampled;

const char* const kStatus[] = {"certified", "slow decay", "too many nodes", "inaccurate", "out of work"};

Direction read_python_direction(const std::string& name) {
    return name == "replace" ? Direction::replace : tightdp::contour::contour_composition_direction(name == "add");
}

// Returns a result as (status, lower, upper, errors, nodes, abscissae). Here `errors` is the error budget (aliasing,
// truncation, quadrature, rounding).
py::tuple make_python_contour_result(const Result& r) {
    return py::make_tuple(kStatus[static_cast<int>(r.status)], r.lower, r.upper,
                          py::make_tuple(r.aliasing, r.truncation, r.quadrature, r.rounding), r.nodes,
                          r.abscissae);
}

using Question = Result (*)(const Composition&, double, double);

// Binds a function that computes epsilon or delta of a composition. The argument `sampled` of the Python function is a
// list of triples (sigma, q, count). `mu2` is the sum of 1/sigma^2 over steps without sampling, and `pair` names the
// direction.
void bind_contour_question(py::module_& m, const char* name, Question question, const char* at_name) {
    using namespace py::literals;
    m.def(
        name,
        [question](const std::vector<std::tuple<double, double, double>>& sampled, double mu2, const std::string& pair,
                   double at, double tolerance) {
            std::vector<Sampled> parts;
            parts.reserve(sampled.size());
            for (const auto& [sigma, q, count] : sampled) parts.push_back({sigma, q, count});
            const Direction of = read_python_direction(pair);
            return make_python_contour_result(
                tightdp::bindings::run_unlocked([&] { return question(Composition{parts, mu2, of}, at, tolerance); }));
        },
        "sampled"_a, "mu2"_a, "pair"_a, py::arg(at_name), "tolerance"_a);
}

}  // namespace

void bind_contour(py::module_& m) {
    using namespace py::literals;
    bind_contour_question(m, "contour_epsilon", tightdp::contour::epsilon, "delta");
    bind_contour_question(m, "contour_delta", tightdp::contour::delta, "epsilon");
    m.def(
        "contour_epsilon_batch",
        [](Doubles sigma, Doubles q, Doubles steps, Doubles delta, double tolerance, int threads) {
            const py::ssize_t n = sigma.size();
            py::array_t<double> lower(n), upper(n);
            py::array_t<unsigned char> status(n);
            double *lo = lower.mutable_data(), *up = upper.mutable_data();
            unsigned char* st = status.mutable_data();
            tightdp::bindings::run_unlocked([&] {
                tightdp::contour::epsilon_batch(n, sigma.data(), q.data(), steps.data(), delta.data(), tolerance,
                                                threads, lo, up, st);
            });
            return py::make_tuple(lower, upper, status);
        },
        "sigma"_a, "q"_a, "steps"_a, "delta"_a, "tolerance"_a, "threads"_a);
    using tightdp::contour::GrowingRun;
    py::class_<GrowingRun>(m, "GrowingRun", "A growing run in one direction. Only one thread may use it at a time.")
        .def(py::init([](const std::string& pair) { return GrowingRun(read_python_direction(pair)); }), "pair"_a)
        .def(
            "add",
            [](GrowingRun& run, double sigma, double q, double count) {
                tightdp::bindings::run_unlocked([&] { run.add_steps({sigma, q, count}); });
            },
            "sigma"_a, "q"_a, "count"_a)
        .def("add_plain", &GrowingRun::add_gaussians_to_growing_run, "mu2"_a)
        .def(
            "epsilon",
            [](GrowingRun& run, double delta, double tolerance) {
                return make_python_contour_result(
                    tightdp::bindings::run_unlocked([&] { return run.epsilon(delta, tolerance); }));
            },
            "delta"_a, "tolerance"_a);
}
