// The includes and helpers of every binding file. A binding converts the arguments, releases the interpreter's lock
// (the GIL), calls a function of the library and wraps the result.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace py = pybind11;

namespace tightdp::bindings {

inline py::array_t<double> make_numpy_array(const std::vector<double>& x) {
    return py::array_t<double>(static_cast<py::ssize_t>(x.size()), x.data());
}

// Returns a new array of this shape. fill(data) writes the array without the interpreter's lock.
template <class T, class Fill>
py::array_t<T, py::array::c_style> fill_new_numpy(std::vector<py::ssize_t> shape, const Fill& fill) {
    py::array_t<T, py::array::c_style> out(std::move(shape));
    T* const data = out.mutable_data();
    py::gil_scoped_release release;
    fill(data);
    return out;
}

}  // namespace tightdp::bindings
