// What every binding file shares. Bindings hold no mathematics: convert, release the GIL, compute, wrap.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace py = pybind11;
