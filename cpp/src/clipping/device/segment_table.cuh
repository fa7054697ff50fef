// The table of the arrays of a call, in device memory.
#pragma once

#include <algorithm>
#include <vector>

#include "clip.hpp"
#include "runtime/cuda_check.hpp"
#include "runtime/cuda_scratch.hpp"

namespace tightdp::cuda {

// A few entries of the table, which are passed as an argument of a kernel. A copy from host memory could make the host
// wait for the stream.
struct TablePiece {
    static constexpr int kMost = 64;  // takes 3.5 kB of the 4 kB that the arguments of a kernel may have
    clipping::DeviceSegment entries[kMost];
};
static __global__ void table_kernel(TablePiece piece, int count, clipping::DeviceSegment* table) {
    if (static_cast<int>(threadIdx.x) < count) table[threadIdx.x] = piece.entries[threadIdx.x];
}

class SegmentTable {
  public:
    SegmentTable(const std::vector<clipping::DeviceSegment>& table, cudaStream_t stream)
        : memory_(table.size() * sizeof(clipping::DeviceSegment), stream) {
        for (std::size_t i = 0; i < table.size(); i += TablePiece::kMost) {
            TablePiece piece;
            const std::size_t count = std::min<std::size_t>(table.size() - i, TablePiece::kMost);
            std::copy_n(table.begin() + static_cast<std::ptrdiff_t>(i), count, piece.entries);
            table_kernel<<<1, TablePiece::kMost, 0, stream>>>(piece, static_cast<int>(count), at() + i);
        }
        check(cudaGetLastError(), "the table of arrays");
    }
    clipping::DeviceSegment* at() const noexcept { return memory_.as<clipping::DeviceSegment>(); }

  private:
    Scratch memory_;
};

}  // namespace tightdp::cuda
