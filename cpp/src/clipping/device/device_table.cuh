// A table, in device memory, of the arrays or layers that a call reads.
#pragma once

#include <algorithm>
#include <vector>

#include "clip_formulas.hpp"
#include "runtime/cuda_check.hpp"
#include "runtime/cuda_scratch.hpp"

namespace tightdp::cuda {

// A few entries of the table. Pieces are passed as arguments of a kernel, because a copy from host memory could make
// the host wait for the stream.
template <class Entry>
struct TablePiece {
    static constexpr int kMost = 3584 / sizeof(Entry);  // the arguments of a kernel may have 4 kB
    Entry entries[kMost];
};
template <class Entry>
__global__ void device_table_kernel(TablePiece<Entry> piece, int count, Entry* table) {
    if (static_cast<int>(threadIdx.x) < count) table[threadIdx.x] = piece.entries[threadIdx.x];
}

template <class Entry>
class DeviceTable {
    using Piece = TablePiece<Entry>;

  public:
    DeviceTable(const std::vector<Entry>& table, cudaStream_t stream) : memory_(table.size() * sizeof(Entry), stream) {
        for (std::size_t i = 0; i < table.size(); i += Piece::kMost) {
            Piece piece;
            const std::size_t count = std::min<std::size_t>(table.size() - i, Piece::kMost);
            std::copy_n(table.begin() + static_cast<std::ptrdiff_t>(i), count, piece.entries);
            device_table_kernel<<<1, Piece::kMost, 0, stream>>>(piece, static_cast<int>(count),
                                                                device_table_entries() + i);
        }
        check_cuda(cudaGetLastError(), "the table of arrays");
    }
    Entry* device_table_entries() const noexcept { return memory_.as<Entry>(); }

  private:
    Scratch memory_;
};

using SegmentTable = DeviceTable<clipping::DeviceSegment>;

}  // namespace tightdp::cuda
