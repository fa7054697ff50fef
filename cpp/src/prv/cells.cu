// Computes the cells of a privacy loss distribution on a device, with one thread for each cell (prv/cell_mass.hpp).
#include "cell_mass.hpp"
#include "cells.cuda.hpp"
#include "runtime/cuda_check.hpp"

namespace tightdp::cuda {
namespace {

constexpr int kThreads = 128;

template <class L>
__global__ void __launch_bounds__(kThreads) cells_kernel(L law, prv::Cells cells, double* out) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (i < cells.count) out[i] = prv::cell_mass(law, cells, i);
}

}  // namespace

void prv_cells(const prv::Law& law, double h, long long first, std::int64_t count, double* out, cudaStream_t stream) {
    if (count == 0) return;
    // The number of blocks is below the limit of 2^31. A composition is computed on a circular grid of at most 2^30
    // points, and a distribution has hardly more cells than the grid has points.
    const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
    std::visit(
        [&](const auto& l) { cells_kernel<<<blocks, kThreads, 0, stream>>>(l, prv::Cells{h, first, count}, out); },
        law);
    check_cuda(cudaGetLastError(), "the launch of the cells");
}

}  // namespace tightdp::cuda
