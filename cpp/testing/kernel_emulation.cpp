#include "kernel_emulation.hpp"

#include <stdexcept>

// The threads of an emulated device are fibers (device_emulation.hpp), which need the GNU C library. With another C
// library, the functions of this file throw, and the tests that call them are skipped.
#if defined(__GLIBC__)

#include "clipping/device/device_request.hpp"
#include "contour/batch/batch_setting.hpp"
#include "device_emulation.hpp"
// The next includes must come after device_emulation.hpp, because they use the device's names that it defines.
#include "clipping/device/exact_clip_kernels.cuh"
#include "clipping/device/held_rows.cuh"
#include "clipping/device/partial_sums.cuh"
#include "clipping/device/rows_read_twice.cuh"
#include "dense_layers/device/product_kernels.cuh"
#include "dense_layers/device/record_clip_kernels.cuh"
#include "runtime/warp_team.cuh"

namespace tightdp {
namespace {

using namespace clipping;
using namespace cuda;

constexpr int kAddThreads = 64;

// Computes a clipped sum with the kernels that serve a device of this size. Returns a text that names these kernels.
template <class T>
std::string emulate_clip(const ClipRequest& r, const SmallDevice& device) {
    std::vector<DeviceSegment> table;
    const DeviceClip clip = make_device_clip(r, table, kWarp);
    const bool dense = table.size() == 1 && table[0].stride == clip.columns * static_cast<std::int64_t>(sizeof(T));
    const Machine machine{device.processors, device.shared / 2 - 2048};
    const HeldShape s =
        choose_held_shape(clip, dense, sizeof(T), machine, [&](const HeldShape&) { return device.resident; });
    constexpr double kPoison = __builtin_nan("");
    std::vector<double> partial;
    std::string chosen;
    if (s.blocks > 0) {
        partial.assign(static_cast<std::size_t>(s.blocks * clip.columns), kPoison);
        on_host::Launch(static_cast<unsigned>(s.blocks), HeldShape::kThreads, s.held_bytes(), [&] {
            held_kernel<T>(clip, s, partial.data());
        }).run_emulated();
        chosen = "held: " + std::to_string(s.blocks) + " blocks of " + std::to_string(s.rows) + " rows, " +
                 std::to_string(s.groups) + " groups" + (s.dense ? ", dense" : "");
    } else {
        const std::int64_t pieces = ceiling_quotient(clip.columns, kDevicePiece), warps = kSumThreads / kWarp;
        const RowShare share(clip.columns, clip.rows, machine.busy_device_blocks());
        const std::int64_t chunks = share.count_clip_launch_chunks(clip.rows);
        // The initial value is not NaN, since factors_kernel would compute the norm again for a NaN.
        std::vector<double> squares(static_cast<std::size_t>(clip.rows * pieces), 1e-20),
            factors(static_cast<std::size_t>(clip.rows), kPoison);
        partial.assign(static_cast<std::size_t>(chunks * clip.columns), kPoison);
        const auto launch_emulated = [](std::int64_t blocks, const std::function<void()>& kernel) {
            on_host::Launch(static_cast<unsigned>(blocks), kSumThreads, 0, kernel).run_emulated();
        };
        launch_emulated(std::min(device.resident * device.processors, ceiling_quotient(clip.rows * pieces, warps)),
                        [&] { squares_kernel<T>(clip, pieces, squares.data()); });
        launch_emulated(ceiling_quotient(clip.rows, warps),
                        [&] { factors_kernel<T>(clip, pieces, squares.data(), factors.data()); });
        launch_emulated(share.count_launch_blocks(clip.rows),
                        [&] { sums_kernel<T>(clip, share, factors.data(), partial.data()); });
        chosen = "twice: " + std::to_string(chunks) + " chunks, " + std::to_string(pieces) + " pieces";
    }
    std::vector<double> sums(static_cast<std::size_t>(clip.columns), kPoison);
    const auto parts = static_cast<std::int64_t>(partial.size() / sums.size());
    on_host::Launch(static_cast<unsigned>(ceiling_quotient(clip.columns, kWarp)), kAddThreads, 8 * kAddThreads, [&] {
        add_partial_kernel(partial.data(), parts, clip.columns, sums.data());
    }).run_emulated();
    const DeviceFinish f = make_device_finish(r, clip, sums.data());
    for (std::int64_t tile = 0; tile * random::kTileValues < clip.columns; ++tile)
        for (int lane = 0; lane < random::kLanes; ++lane)
            r.out_double ? finish_clip_lane<double>(clip, f, tile, lane) : finish_clip_lane<float>(clip, f, tile, lane);
    return chosen;
}

// Does the work of clipping/exact_sum.cu on a device that `blocks` thread blocks keep busy.
template <class T>
void emulate_exact_clip(const ClipRequest& r, std::int64_t blocks) {
    std::vector<DeviceSegment> table;
    DeviceClip clip = make_device_clip(r, table, kSquareLanes);
    const DeviceExact exact = make_device_exact_clip(r, clip);
    std::vector<double> squares(static_cast<std::size_t>(clip.rows * exact.tiles)),
        factors(static_cast<std::size_t>(clip.rows));
    std::vector<unsigned long long> sums(static_cast<std::size_t>(clip.columns));
    const auto launch_emulated = [](std::int64_t count, const std::function<void()>& kernel) {
        on_host::Launch(static_cast<unsigned>(count), kSumThreads, 0, kernel).run_emulated();
    };
    if (clip.rows > 0) {
        launch_emulated(blocks, [&] { exact_squares_kernel<T>(clip, exact.tiles, squares.data()); });
        launch_emulated(ceiling_quotient(clip.rows, kSumThreads),
                        [&] { exact_factors_kernel<T>(clip, exact, squares.data(), factors.data()); });
        const RowShare share(clip.columns, clip.rows, blocks);
        launch_emulated(share.count_launch_blocks(clip.rows),
                        [&] { exact_sums_kernel<T>(clip, share, factors.data(), sums.data()); });
    }
    const ExactFinish f = make_exact_device_finish(r, sums.data());
    launch_emulated(ceiling_quotient(clip.columns, kSumThreads), [&] { exact_finish_kernel(clip, f); });
}

// Packs an operand of a product as the device does. `packed_lines` is the number of its lines with padding.
template <int digits, class Operand>
std::vector<unsigned char> emulate_packing(const Operand& from, std::int64_t packed_lines,
                                           const ProductShares& shares) {
    const PackedExtent extent{packed_lines / kFragmentLines, shares.stages * kStageFragments};
    // Each byte is the digit -1 until it is packed, so a byte that the kernel left out would change the product.
    std::vector<unsigned char> packed(static_cast<std::size_t>(digits * packed_lines * shares.stages * kStageRecords),
                                      0xff);
    const std::int64_t blocks = ceiling_quotient(extent.tiles * extent.blocks, kPackThreads / 32);
    on_host::Launch(static_cast<unsigned>(blocks), kPackThreads, 0, [&] {
        pack_digits_kernel<digits>(from, extent, packed.data());
    }).run_emulated();
    return packed;
}

// Does the work of dense_layers/device/product_launch.cuh.
template <int slots, class Weights, class Inputs>
ProductShares emulate_product(const Weights& w, const Inputs& q, std::int64_t* totals, std::int64_t processors) {
    const ProductShares shares = share_product_among_blocks(w.records, w.lines, q.lines, processors);
    const std::vector<unsigned char> weights = emulate_packing<kWeightDigits>(w, shares.count_device_packed_outputs(), shares),
                                     inputs = emulate_packing<kInputDigits>(q, shares.count_device_packed_columns(), shares);
    on_host::Launch(static_cast<unsigned>(shares.count_launch_blocks()), kProductThreads, slots * kStageBytes, [&] {
        multiply_digits_kernel<slots>(shares, weights.data(), inputs.data(), w.lines, q.lines,
                                      reinterpret_cast<unsigned long long*>(totals));
    }).run_emulated();
    return shares;
}

// Does the work of dense_layers/product_sum.cu.
template <class T>
void emulate_product_chunks(const ProductSum& r, std::int64_t processors, std::int64_t chunk) {
    for (std::int64_t first = 0; first < r.rows; first += chunk) {
        const std::int64_t count = std::min(chunk, r.rows - first);
        std::vector<double> units(2 * r.layers.size() * static_cast<std::size_t>(count), __builtin_nan("")),
            weights(static_cast<std::size_t>(count_layer_outputs(r) * count), __builtin_nan(""));
        std::vector<DeviceLayer> layers;
        const auto rows = [&](const DeviceLayer& layer) {
            return static_cast<const T*>(layer.inputs) + first * layer.columns;
        };
        for (const DenseLayer& layer : r.layers) {
            double* const own = units.data() + 2 * layers.size() * static_cast<std::size_t>(count);
            layers.push_back({layer.inputs, layer.errors, layer.columns, layer.outputs, own, own + count});
            const DeviceLayer& to = layers.back();
            on_host::Launch(static_cast<unsigned>(ceiling_quotient(count, kRowThreads / kRowLanes)), kRowThreads, 0,
                            [&] {
                                row_factors_kernel<T>(rows(to), count, to.columns, least_device_layer_norm(to),
                                                      to.rounding_factors, to.squares);
                            })
                .run_emulated();
        }
        const DeviceClipRecords clip = make_record_clip(r, layers.data(), first, count, weights.data());
        on_host::Launch(static_cast<unsigned>(ceiling_quotient(count, kClipThreads)), kClipThreads, 0, [&] {
            clip_records_kernel<T>(clip);
        }).run_emulated();
        const double* w = weights.data();
        for (std::size_t l = 0; l < layers.size(); w += layers[l++].outputs * count) {
            const DeviceLayer& layer = layers[l];
            if (layer.outputs == 0 || layer.columns == 0) continue;
            if (layer.is_formed_device_layer()) {
                const auto weighted = share_weighted_device_layer_rows(rows(layer), count, layer, w, r.totals[l], processors);
                on_host::Launch(static_cast<unsigned>(weighted.count_launch_blocks()), kRowThreads, 0, [&] {
                    add_rows_kernel<T>(weighted);
                }).run_emulated();
            } else {
                emulate_product<2>(ClippedWeights{w, count, layer.outputs},
                                   RoundedRows<T>{rows(layer), count, layer.columns, layer.rounding_factors},
                                   r.totals[l], processors);
            }
        }
    }
}

}  // namespace

std::vector<cuda::ProductShares> emulate_integer_product(const IntegerProduct& p, std::int64_t processors,
                                                         std::int64_t packed_bytes, bool three) {
    std::vector<ProductShares> chosen;
    if (p.rows == 0 || p.outputs == 0 || p.columns == 0) return chosen;
    const std::int64_t chunk = choose_device_product_chunk(p.rows, p.outputs, p.columns, packed_bytes);
    for (std::int64_t first = 0; first < p.rows; first += chunk) {
        const std::int64_t count = std::min(chunk, p.rows - first);
        const IntegerMatrix<std::int32_t> w{p.w + first * p.outputs, count, p.outputs};
        const IntegerMatrix<std::int16_t> q{p.q + first * p.columns, count, p.columns};
        chosen.push_back(three ? emulate_product<3>(w, q, p.sums, processors)
                               : emulate_product<2>(w, q, p.sums, processors));
    }
    return chosen;
}

void emulate_product_sum(const ProductSum& request, bool full, std::int64_t processors, std::int64_t chunk) {
    full ? emulate_product_chunks<double>(request, processors, chunk)
         : emulate_product_chunks<float>(request, processors, chunk);
}

void emulate_release(const ClipRequest& request, const std::int64_t* sums) {
    std::vector<DeviceSegment> table;
    const DeviceClip clip = make_device_clip(request, table, kSquareLanes);
    const ExactFinish f = make_exact_device_finish(request, reinterpret_cast<const unsigned long long*>(sums));
    on_host::Launch(static_cast<unsigned>(ceiling_quotient(clip.columns, kSumThreads)), kSumThreads, 0, [&] {
        exact_finish_kernel(clip, f);
    }).run_emulated();
}

void emulate_exact_kernels(const ClipRequest& request, std::int64_t blocks) {
    call_for_clip_tile_dtype(request.dtype, [&]<class T> { emulate_exact_clip<T>(request, blocks); });
}

std::string emulate_clip_kernels(const ClipRequest& request, const SmallDevice& device) {
    return call_for_clip_tile_dtype(request.dtype, [&]<class T> { return emulate_clip<T>(request, device); });
}

contour::Result emulate_batch_epsilon(contour::BatchMemory& memory, double sigma, double q, double steps, double delta,
                                      double tolerance) {
    contour::Result found;
    on_host::Launch(1, kWarp, 0, [&] {
        const WarpTeam team;
        const contour::Result own = contour::batch_epsilon(team, memory, sigma, q, steps, delta, tolerance);
        if (team.lane() == 0) found = own;
    }).run_emulated();
    return found;
}

}  // namespace tightdp

#else

namespace tightdp {

std::string emulate_clip_kernels(const ClipRequest&, const SmallDevice&) {
    throw std::runtime_error("kernels are emulated where the C library is GNU's");
}

void emulate_release(const ClipRequest&, const std::int64_t*) {
    throw std::runtime_error("kernels are emulated where the C library is GNU's");
}

void emulate_exact_kernels(const ClipRequest&, std::int64_t) {
    throw std::runtime_error("kernels are emulated where the C library is GNU's");
}

std::vector<cuda::ProductShares> emulate_integer_product(const IntegerProduct&, std::int64_t, std::int64_t, bool) {
    throw std::runtime_error("kernels are emulated where the C library is GNU's");
}

void emulate_product_sum(const ProductSum&, bool, std::int64_t, std::int64_t) {
    throw std::runtime_error("kernels are emulated where the C library is GNU's");
}

contour::Result emulate_batch_epsilon(contour::BatchMemory&, double, double, double, double, double) {
    throw std::runtime_error("kernels are emulated where the C library is GNU's");
}

}  // namespace tightdp

#endif
