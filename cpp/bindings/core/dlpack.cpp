// tightdp._core.dlpack_array: takes over a DLPack capsule of any device, and describes its array for
// python/tightdp/clipping_and_noise/cuda/arrays.py.
#include "../dlpack.hpp"

namespace {

using namespace tightdp::bindings;

std::string describe_dlpack_dtype(const DlpackArray& array) {
    const dlpack::DataType& found = array.tensor().dtype;
    if (const auto known = dlpack::dlpack_dtype(found)) return name_python_dtype(*known);
    return "DLPack type " + std::to_string(found.code) + " of " + std::to_string(found.bits) + " bits, " +
           std::to_string(found.lanes) + " lanes";
}

// Returns the strides in bytes.
py::tuple make_dlpack_byte_strides(const DlpackArray& array) {
    std::vector<std::int64_t> strides = array.dlpack_strides();
    for (std::int64_t& stride : strides) stride *= array.tensor().dtype.bits / 8;
    return py::tuple(py::cast(strides));
}

}  // namespace

void bind_dlpack(py::module_& m) {
    py::class_<DlpackArray>(m, "DlpackArray")
        .def_property_readonly("address",
                               [](const DlpackArray& a) { return reinterpret_cast<std::uintptr_t>(a.data()); })
        .def_property_readonly("shape", [](const DlpackArray& a) { return py::tuple(py::cast(a.dlpack_shape())); })
        .def_property_readonly("strides", &make_dlpack_byte_strides)
        .def_property_readonly("dtype", &describe_dlpack_dtype)
        .def_property_readonly("device_type", [](const DlpackArray& a) { return a.tensor().device.type; })
        .def_property_readonly("device", [](const DlpackArray& a) { return a.tensor().device.id; })
        .def_property_readonly("read_only", &DlpackArray::is_dlpack_read_only);
    m.def(
        "dlpack_array", [](const py::capsule& capsule) { return std::make_unique<DlpackArray>(capsule); },
        py::arg("capsule"), "Returns the array of a capsule. The capsule cannot be used again.");
}
