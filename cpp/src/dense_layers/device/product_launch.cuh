// Launches the kernels of integer products for one chunk of records.
#pragma once

#include "dense_layers/device/product_kernels.cuh"
#include "runtime/cuda_scratch.hpp"

namespace tightdp::cuda {

// The packed digits of an operand (the weights or the inputs of all records), in device memory. The constructor packs
// the operand, and the destructor frees the memory.
template <int digits>
class PackedOperand {
  public:
    template <class Operand>
    PackedOperand(const Operand& from, std::int64_t packed_lines, const ProductShares& shares, cudaStream_t stream)
        : memory_(static_cast<std::size_t>(digits * packed_lines * shares.stages * kStageRecords), stream) {
        const PackedExtent extent{packed_lines / kFragmentLines, shares.stages * kStageFragments};
        constexpr std::int64_t kWarps = kPackThreads / 32;
        const auto blocks = static_cast<unsigned>((extent.tiles * extent.blocks + kWarps - 1) / kWarps);
        pack_digits_kernel<digits><<<blocks, kPackThreads, 0, stream>>>(from, extent, packed_digits());
        check_cuda(cudaGetLastError(), "the packing of an integer product");
    }
    unsigned char* packed_digits() const noexcept { return memory_.as<unsigned char>(); }

  private:
    Scratch memory_;
};

template <int slots>
void launch_packed_product(const ProductShares& shares, const unsigned char* weights, const unsigned char* inputs,
                           std::int64_t outputs, std::int64_t columns, unsigned long long* totals,
                           cudaStream_t stream) {
    constexpr int bytes = slots * kStageBytes;
    check_cuda(cudaFuncSetAttribute(multiply_digits_kernel<slots>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
               "shared memory");
    multiply_digits_kernel<slots>
        <<<static_cast<unsigned>(shares.count_launch_blocks()), kProductThreads, bytes, stream>>>(
            shares, weights, inputs, outputs, columns, totals);
    check_cuda(cudaGetLastError(), "the launch of an integer product");
}

// Adds sum_k w[k][o] q[k][j], over all records k of the operands w and q, to the total of output o and column j. The
// totals are an array [outputs][columns].
template <class Weights, class Inputs>
void launch_device_product(const Weights& w, const Inputs& q, std::int64_t* totals, cudaStream_t stream) {
    const ProductShares shares =
        share_product_among_blocks(w.records, w.lines, q.lines, cuda_attribute(cudaDevAttrMultiProcessorCount));
    const PackedOperand<kWeightDigits> weights(w, shares.count_device_packed_outputs(), shares, stream);
    const PackedOperand<kInputDigits> inputs(q, shares.count_device_packed_columns(), shares, stream);
    const bool three = cuda_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) >= 3 * kStageBytes;
    (three ? launch_packed_product<3>
           : launch_packed_product<2>)(shares, weights.packed_digits(), inputs.packed_digits(), w.lines, q.lines,
                                       reinterpret_cast<unsigned long long*>(totals), stream);
}

}  // namespace tightdp::cuda
