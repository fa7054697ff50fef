// A fixed-size array of doubles that starts on a cache line.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

namespace tightdp {

// Owns `size` doubles that are aligned to 64 bytes, the size of a cache line and of the widest vector register. The
// doubles are uninitialised unless the array is made by `make_aligned_zeros`. The constructor throws std::bad_alloc if
// there is no memory. An array can be moved but not copied.
class AlignedArray {
  public:
    AlignedArray() noexcept = default;
    explicit AlignedArray(std::size_t size)
        : data_(static_cast<double*>(::operator new(size * sizeof(double), std::align_val_t{64}))),
          size_(size) {}
    AlignedArray(AlignedArray&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    AlignedArray& operator=(AlignedArray&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~AlignedArray() { ::operator delete(data_, std::align_val_t{64}); }

    static AlignedArray make_aligned_zeros(std::size_t size) {
        AlignedArray a(size);
        if (size) std::memset(a.data_, 0, size * sizeof(double));
        return a;
    }

    double* data() noexcept { return data_; }
    const double* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    double& operator[](std::size_t i) noexcept { return data_[i]; }
    double operator[](std::size_t i) const noexcept { return data_[i]; }

  private:
    double* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace tightdp
