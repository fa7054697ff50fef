// epsilon and delta of a run of Poisson-sampled Gaussians (DP-SGD), certified, in one call. Link with
// tightdp::tightdp.
//
//     const tightdp::SampledGaussians run[] = {{1.1, 0.01, 10000}, {2.0, 0.02, 500}};
//     const tightdp::Interval epsilon = tightdp::sampled_gaussians_epsilon(run, 1e-5);
//
// The run composes all entries of the list, in any order, and adaptively. Neighbours add or remove one
// record: the bounds hold for the worse of the two. Both ends are certified (docs/theory/contour.md; where
// its engine declines, as for a few steps of small sampling probability, docs/theory/grid.md). Bounds on
// epsilon are at least 0.
//
// Both throw std::invalid_argument, which names the argument and its range, before any work;
// std::runtime_error where the calling thread does not round to nearest or flushes subnormal numbers; and
// std::bad_alloc.
#pragma once

#include <span>

#include "tightdp/accounting/interval.hpp"

namespace tightdp {

struct SampledGaussians {
    double noise_multiplier;      // sigma / sensitivity, in [1e-6, 1e12]
    double sampling_probability;  // in (0, 1]; 1: plain Gaussians
    double steps;                 // an integer in [1, 2^53)
};

// Bounds on the least epsilon >= 0 for which the run is (epsilon, delta)-private; 0 < delta < 1.
Interval sampled_gaussians_epsilon(std::span<const SampledGaussians> run, double delta);

// Bounds on delta at any finite epsilon.
Interval sampled_gaussians_delta(std::span<const SampledGaussians> run, double epsilon);

}  // namespace tightdp
