// The type of tightdp._core.GridLaw, for all bindings that make or take such a distribution.
#pragma once

#include "pld/law.hpp"

struct GridLawHandle {
    tightdp::grid::LawPtr law;
};
