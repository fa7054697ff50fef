// Converts runs of the PRV engine from and to the tuples that Python uses. A run is a number of steps with the same
// distribution.
#pragma once

#include <string>
#include <tuple>

#include "prv/epsilon_and_delta.hpp"

namespace tightdp::bindings {

// A run as the tuple (name, first parameter, sampling probability, count, failure probability).
using Entry = std::tuple<std::string, double, double, std::uint64_t, double>;

inline prv::Run read_prv_entry(const Entry& entry) {
    using namespace prv;
    const auto& [name, a, q, count, failure] = entry;
    if (name == "gaussian") return {GaussianLaw{a, 0}, count, failure};
    if (name == "laplace") return {LaplaceLaw{a}, count, failure};
    if (name == "pure") return {PureLaw{a}, count, failure};
    if (name == "sampled_remove") return {SampledLaw{a, q, false}, count, failure};
    if (name == "sampled_add") return {SampledLaw{a, q, true}, count, failure};
    throw std::invalid_argument("unknown law " + name);
}

// Converts a run to a tuple. The member `spread` of a Gaussian is left out, since prv_cells() does not read `spread`.
inline Entry make_prv_entry(const prv::Run& run) {
    using namespace prv;
    if (const auto* l = std::get_if<GaussianLaw>(&run.law)) return {"gaussian", l->mu, 1, run.count, run.failure};
    if (const auto* l = std::get_if<LaplaceLaw>(&run.law)) return {"laplace", l->mu, 1, run.count, run.failure};
    if (const auto* l = std::get_if<PureLaw>(&run.law)) return {"pure", l->eps, 1, run.count, run.failure};
    const auto& l = std::get<SampledLaw>(run.law);
    return {l.add ? "sampled_add" : "sampled_remove", l.sigma, l.q, run.count, run.failure};
}

}  // namespace tightdp::bindings
