// tightdp._core.GridLaw, shared by the bindings that make one and those that take one.
#pragma once

#include "pld/law.hpp"

struct GridLawHandle {
    tightdp::grid::LawPtr law;
};
