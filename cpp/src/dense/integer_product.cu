// Launches the kernels of integer products, for one chunk of records after the other. docs/theory/exact-products.md,
// section 8.
#include "dense/device/product_kernels.cuh"
#include "integer_product.cuda.hpp"
#include "runtime/cuda_scratch.hpp"

namespace tightdp::cuda {
namespace {

template <int digits, class T>
void pack(const T* values, std::int64_t records, std::int64_t lines, std::int64_t packed_lines, std::int64_t stages,
          const Scratch& to, cudaStream_t stream) {
    const OperandRows<T> from{values, records, lines, packed_lines / kFragmentLines, stages * kStageFragments};
    constexpr std::int64_t kWarps = kPackThreads / 32;
    const auto blocks = static_cast<unsigned>((from.tiles * from.blocks + kWarps - 1) / kWarps);
    pack_digits_kernel<T, digits><<<blocks, kPackThreads, 0, stream>>>(from, to.as<unsigned char>());
    check(cudaGetLastError(), "the packing of an integer product");
}

template <int slots>
void multiply(const ProductShares& shares, const Scratch& weights, const Scratch& inputs, const IntegerProduct& p,
              cudaStream_t stream) {
    constexpr int bytes = slots * kStageBytes;
    check(cudaFuncSetAttribute(multiply_digits_kernel<slots>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
          "shared memory");
    multiply_digits_kernel<slots><<<static_cast<unsigned>(shares.blocks()), kProductThreads, bytes, stream>>>(
        shares, weights.as<unsigned char>(), inputs.as<unsigned char>(), p.outputs, p.columns,
        reinterpret_cast<unsigned long long*>(p.sums));
    check(cudaGetLastError(), "the launch of an integer product");
}

}  // namespace

void add_integer_product(const IntegerProduct& p, cudaStream_t stream) {
    if (p.rows == 0 || p.outputs == 0 || p.columns == 0) return;
    const std::int64_t processors = attribute(cudaDevAttrMultiProcessorCount),
                       shared = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    ProductShares shares = share_product(p.rows, p.outputs, p.columns, processors, kDevicePackedBytes);
    const std::int64_t chunk = shares.stages * kStageRecords;
    const Scratch weights(static_cast<std::size_t>(kWeightDigits * shares.packed_outputs() * chunk), stream);
    const Scratch inputs(static_cast<std::size_t>(kInputDigits * shares.packed_columns() * chunk), stream);
    for (std::int64_t first = 0; first < p.rows; first += chunk) {
        const std::int64_t count = std::min(chunk, p.rows - first);
        shares = share_product(count, p.outputs, p.columns, processors, kDevicePackedBytes);
        pack<kWeightDigits>(p.w + first * p.outputs, count, p.outputs, shares.packed_outputs(), shares.stages, weights,
                            stream);
        pack<kInputDigits>(p.q + first * p.columns, count, p.columns, shares.packed_columns(), shares.stages, inputs,
                           stream);
        (shared >= 3 * kStageBytes ? multiply<3> : multiply<2>)(shares, weights, inputs, p, stream);
    }
}

}  // namespace tightdp::cuda
