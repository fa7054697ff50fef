// The type of tightdp._core.GridLaw, for all bindings that make or take such a distribution.
#pragma once

#include "loss_distributions/loss_distribution.hpp"

struct GridLawHandle {
    tightdp::grid::LossDistributionPtr law;
};
