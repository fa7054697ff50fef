// Views arrays as rows in memory. The arrays are NumPy's, or objects of any library that return a DLPack capsule
// (DLPack 0.8 or 1, https://dmlc.github.io/dlpack). Nothing is copied. A view is valid as long as both the view and the
// array exist.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "bind.hpp"
#include "clipping/clip_tile.hpp"

namespace tightdp::bindings {

namespace dlpack {

struct Device {
    std::int32_t type, id;
};
struct DataType {
    std::uint8_t code, bits;
    std::uint16_t lanes;
};
struct Tensor {
    void* data;
    Device device;
    std::int32_t ndim;
    DataType dtype;
    std::int64_t* shape;
    std::int64_t* strides;  // in elements. Null if the array is contiguous
    std::uint64_t byte_offset;
};
struct ManagedTensor {
    Tensor tensor;
    void* context;
    void (*deleter)(ManagedTensor*);
};

// The tensor of DLPack 1.0, which replaces ManagedTensor of DLPack 0.8.
struct ManagedTensorVersioned {
    std::uint32_t major, minor;
    void* context;
    void (*deleter)(ManagedTensorVersioned*);
    std::uint64_t flags;
    Tensor tensor;
};
inline constexpr std::uint64_t kReadOnly = 1;

inline constexpr std::int32_t kCpu = 1, kCudaHost = 3;
inline constexpr std::uint8_t kFloat = 2, kBfloat = 4;

inline std::optional<Dtype> dlpack_dtype(DataType t) {
    if (t.lanes != 1) return std::nullopt;
    if (t.code == kBfloat && t.bits == 16) return Dtype::bfloat16;
    if (t.code != kFloat) return std::nullopt;
    if (t.bits == 16) return Dtype::float16;
    if (t.bits == 32) return Dtype::float32;
    if (t.bits == 64) return Dtype::float64;
    return std::nullopt;
}

}  // namespace dlpack

// Takes over the tensor of a capsule. When the last copy of this object is destroyed, the tensor is returned to the
// library that made it.
class DlpackArray {
  public:
    explicit DlpackArray(const py::capsule& capsule) {
        const std::string name = capsule.name() ? capsule.name() : "";
        if (name == "dltensor") {
            take_dlpack_capsule<dlpack::ManagedTensor>(capsule, "dltensor", "used_dltensor");
        } else if (name == "dltensor_versioned") {
            const auto& taken = take_dlpack_capsule<dlpack::ManagedTensorVersioned>(capsule, "dltensor_versioned",
                                                                                    "used_dltensor_versioned");
            if (taken.major != 1)
                throw py::type_error("DLPack version 1 is understood, not " + std::to_string(taken.major));
            read_only_ = (taken.flags & dlpack::kReadOnly) != 0;
        } else {
            throw py::type_error("not a DLPack capsule, or one that was consumed before: " + name);
        }
    }

    const dlpack::Tensor& tensor() const { return *tensor_; }
    void* data() const { return static_cast<char*>(tensor().data) + tensor().byte_offset; }
    std::vector<std::int64_t> dlpack_shape() const { return {tensor().shape, tensor().shape + tensor().ndim}; }
    // Returns the strides in elements.
    std::vector<std::int64_t> dlpack_strides() const {
        const dlpack::Tensor& t = tensor();
        std::vector<std::int64_t> strides(static_cast<std::size_t>(t.ndim));
        std::int64_t dense = 1;
        for (std::size_t i = strides.size(); i-- > 0; dense *= t.shape[i])
            strides[i] = t.strides ? t.strides[i] : dense;
        return strides;
    }
    // Returns whether the array is read-only. Returns nothing if this is unknown, as for DLPack 0.8.
    std::optional<bool> is_dlpack_read_only() const { return read_only_; }

  private:
    template <class Managed>
    const Managed& take_dlpack_capsule(const py::capsule& capsule, const char* name, const char* used) {
        auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), name));
        // Renaming the capsule marks it as consumed: the library that made it then does not free the tensor.
        if (!managed || PyCapsule_SetName(capsule.ptr(), used) != 0) throw py::error_already_set();
        owner_ = std::shared_ptr<Managed>(managed, [](Managed* m) {
            if (m->deleter) m->deleter(m);
        });
        tensor_ = &managed->tensor;
        return *managed;
    }

    std::shared_ptr<void> owner_;
    const dlpack::Tensor* tensor_ = nullptr;
    std::optional<bool> read_only_;
};

// An array viewed as rows. The first axis counts the rows, and all other axes are flattened.
struct RowsView {
    void* data = nullptr;
    std::optional<Dtype> dtype;
    std::vector<std::int64_t> shape;
    std::ptrdiff_t stride = 0;  // distance between successive rows in bytes
    bool contiguous = false;    // true if each row is contiguous in memory
    bool writable = true;
    std::shared_ptr<const DlpackArray> owner;  // owner of the memory. Null for arrays of NumPy

    std::int64_t columns() const {
        std::int64_t n = 1;
        for (std::size_t i = 1; i < shape.size(); ++i) n *= shape[i];
        return n;
    }
};

namespace detail {

// Sets `stride` and `contiguous` of a view from the strides of the array, which are in elements. `item` is the size of
// an element in bytes.
inline void set_row_strides(RowsView& view, const std::vector<std::int64_t>& strides, std::int64_t item) {
    std::int64_t expected = 1;
    view.contiguous = true;
    for (std::size_t i = view.shape.size(); i-- > 1;) {
        if (view.shape[i] != 1 && strides[i] != expected) view.contiguous = false;
        expected *= view.shape[i];
    }
    view.stride = view.shape.empty() ? 0 : static_cast<std::ptrdiff_t>(strides[0] * item);
}

// Returns the type of a NumPy dtype, or nothing if the dtype is not supported. The function reads NumPy's character
// code where this suffices, since reading any other attribute of a dtype takes a microsecond.
inline std::optional<Dtype> numpy_dtype(const py::dtype& t) {
    const char order = t.byteorder();
    if (order != '=' && order != '|') return std::nullopt;
    switch (t.char_()) {
        case 'e': return Dtype::float16;
        case 'f': return Dtype::float32;
        case 'd': return Dtype::float64;
        default: break;
    }
    constexpr int kUserDefined = 256;  // NumPy's NPY_USERDEF
    if (t.num() < kUserDefined) return std::nullopt;
    if (std::string(py::str(t.attr("name"))) == "bfloat16" && py::cast<bool>(t.attr("isnative")))
        return Dtype::bfloat16;
    return std::nullopt;
}

inline RowsView view_numpy_rows(const py::array& a) {
    RowsView view;
    view.data = const_cast<void*>(a.data());
    view.writable = a.writeable();
    view.dtype = numpy_dtype(a.dtype());
    const auto item = static_cast<std::int64_t>(a.itemsize());
    std::vector<std::int64_t> strides;
    for (py::ssize_t i = 0; i < a.ndim(); ++i) {
        view.shape.push_back(a.shape(i));
        // A stride that is no multiple of the item size is replaced by -1, which no contiguous array has.
        strides.push_back(a.strides(i) % item == 0 ? a.strides(i) / item : -1);
    }
    set_row_strides(view, strides, item);
    if (!strides.empty() && a.strides(0) % item != 0) view.contiguous = false;
    return view;
}

inline RowsView view_dlpack_rows(const py::object& array) {
    auto taken = std::make_shared<const DlpackArray>(py::capsule(array.attr("__dlpack__")()));
    const dlpack::Tensor& t = taken->tensor();
    if (t.device.type != dlpack::kCpu && t.device.type != dlpack::kCudaHost)
        throw py::type_error("the array is not in the memory of the host");
    RowsView view;
    view.data = taken->data();
    view.dtype = dlpack::dlpack_dtype(t.dtype);
    view.shape = taken->dlpack_shape();
    set_row_strides(view, taken->dlpack_strides(), t.dtype.bits / 8);
    view.owner = std::move(taken);
    return view;
}

}  // namespace detail

inline RowsView view_python_rows(const py::object& array) {
    if (py::isinstance<py::array>(array)) return detail::view_numpy_rows(py::reinterpret_borrow<py::array>(array));
    if (py::hasattr(array, "__dlpack__")) return detail::view_dlpack_rows(array);
    throw py::type_error("neither a NumPy array nor one with __dlpack__");
}

inline const char* name_python_dtype(Dtype dtype) {
    return kDtypeNames[static_cast<int>(dtype)];
}

}  // namespace tightdp::bindings
