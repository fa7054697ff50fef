// Certified bounds on epsilon and delta of Gaussian mechanisms on Poisson samples (DP-SGD), in one call. Link with
// tightdp::tightdp.
//
//     const tightdp::SampledGaussians run[] = {{1.1, 0.01, 10000}, {2.0, 0.02, 500}};
//     const tightdp::Interval epsilon = tightdp::sampled_gaussians_epsilon(run, 1e-5);
//
// All steps of all entries of `run` may come in any order, and be chosen adaptively. Neighbours add or remove one
// record, and the bounds hold for the worse of these two cases. Both ends of an interval are certified by the contour
// engine (docs/theory/contour.md). If the contour engine declines, as it does for few steps with a small sampling
// probability, the grid engine is used (docs/theory/grid.md). Bounds on epsilon are at least 0.
//
// Both functions throw std::invalid_argument before any work, with a message that names the argument and its range.
// Both throw std::runtime_error if the calling thread or the C library does not compute as the proofs assume, and
// std::bad_alloc if memory is short.
#pragma once

#include <span>

#include "tightdp/accounting/interval.hpp"

namespace tightdp {

struct SampledGaussians {
    double noise_multiplier;      // sigma / sensitivity, in [1e-6, 1e12]
    double sampling_probability;  // in (0, 1]; 1 means no sampling
    double steps;                 // an integer in [1, 2^53)
};

// Bounds the least epsilon >= 0 for which the run is (epsilon, delta)-private, where 0 < delta < 1.
Interval sampled_gaussians_epsilon(std::span<const SampledGaussians> run, double delta);

// Bounds delta at any finite epsilon.
Interval sampled_gaussians_delta(std::span<const SampledGaussians> run, double epsilon);

}  // namespace tightdp
