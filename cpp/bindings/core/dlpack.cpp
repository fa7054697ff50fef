// tightdp._core.dlpack_array: a DLPack capsule of any device, consumed and described. What may be done with
// it: python/tightdp/release/cuda/arrays.py.
#include "../dlpack.hpp"

namespace {

using namespace tightdp::bindings;

// Owns the tensor of a capsule from here on and gives it back to its producer at the end, once.
class DlpackArray {
  public:
    explicit DlpackArray(const py::capsule& capsule) {
        const std::string name = capsule.name() ? capsule.name() : "";
        if (name == "dltensor") {
            taken_ = take<dlpack::ManagedTensor>(capsule, "dltensor", "used_dltensor");
        } else if (name == "dltensor_versioned") {
            versioned_ = take<dlpack::ManagedTensorVersioned>(capsule, "dltensor_versioned", "used_dltensor_versioned");
            if (versioned_->major != 1) {
                const std::string found = std::to_string(versioned_->major);
                give_back();
                throw py::type_error("DLPack version 1 is understood, not " + found);
            }
        } else {
            throw py::type_error("not a DLPack capsule, or one that was consumed before: " + name);
        }
    }
    DlpackArray(const DlpackArray&) = delete;
    DlpackArray& operator=(const DlpackArray&) = delete;
    ~DlpackArray() { give_back(); }

    const dlpack::Tensor& tensor() const { return taken_ ? taken_->tensor : versioned_->tensor; }
    std::uintptr_t address() const {
        return reinterpret_cast<std::uintptr_t>(tensor().data) + static_cast<std::uintptr_t>(tensor().byte_offset);
    }
    py::tuple shape() const {
        return py::tuple(py::cast(std::vector<std::int64_t>(tensor().shape, tensor().shape + tensor().ndim)));
    }
    // In bytes.
    py::tuple strides() const {
        const dlpack::Tensor& t = tensor();
        std::vector<std::int64_t> bytes(static_cast<std::size_t>(t.ndim));
        std::int64_t dense = 1;
        for (std::size_t i = bytes.size(); i-- > 0; dense *= t.shape[i])
            bytes[i] = (t.strides ? t.strides[i] : dense) * (t.dtype.bits / 8);
        return py::tuple(py::cast(bytes));
    }
    std::string dtype() const {
        const auto [code, bits, lanes] = tensor().dtype;
        if (const auto known = dlpack::dtype_of(tensor().dtype)) return name_of(*known);
        return "DLPack type " + std::to_string(code) + " of " + std::to_string(bits) + " bits, " +
               std::to_string(lanes) + " lanes";
    }
    // None: the first version of the standard has no word for it.
    py::object read_only() const {
        return versioned_ ? py::object(py::bool_((versioned_->flags & dlpack::kReadOnly) != 0)) : py::none();
    }

  private:
    template <class Managed>
    static Managed* take(const py::capsule& capsule, const char* name, const char* used) {
        auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), name));
        // The producer's destructor leaves a capsule of that name alone.
        if (!managed || PyCapsule_SetName(capsule.ptr(), used) != 0) throw py::error_already_set();
        return managed;
    }
    void give_back() {
        if (taken_ && taken_->deleter) taken_->deleter(taken_);
        if (versioned_ && versioned_->deleter) versioned_->deleter(versioned_);
        taken_ = nullptr;
        versioned_ = nullptr;
    }

    dlpack::ManagedTensor* taken_ = nullptr;
    dlpack::ManagedTensorVersioned* versioned_ = nullptr;
};

}  // namespace

void bind_dlpack(py::module_& m) {
    py::class_<DlpackArray>(m, "DlpackArray")
        .def_property_readonly("address", &DlpackArray::address)
        .def_property_readonly("shape", &DlpackArray::shape)
        .def_property_readonly("strides", &DlpackArray::strides)
        .def_property_readonly("dtype", &DlpackArray::dtype)
        .def_property_readonly("device_type", [](const DlpackArray& a) { return a.tensor().device.type; })
        .def_property_readonly("device", [](const DlpackArray& a) { return a.tensor().device.id; })
        .def_property_readonly("read_only", &DlpackArray::read_only);
    m.def(
        "dlpack_array", [](const py::capsule& capsule) { return std::make_unique<DlpackArray>(capsule); },
        py::arg("capsule"), "The tensor of a capsule, which is consumed.");
}
