#include "kernel_emulation.hpp"

#include <stdexcept>

// The fibers are those of the GNU C library. A build for another C library lacks this test.
#if defined(__GLIBC__)

#include "clipping/device/request.hpp"
#include "contour/batch/setting.hpp"
#include "on_host.hpp"
// The next includes follow on_host.hpp, which defines the names of a device.
#include "clipping/device/exact_kernels.cuh"
#include "clipping/device/one_read.cuh"
#include "clipping/device/partial_sums.cuh"
#include "runtime/warp_team.cuh"

namespace tightdp {
namespace {

using namespace clipping;
using namespace cuda;

constexpr int kAddThreads = 64;

template <class T>
std::string emulate(const ClipRequest& r, const SmallDevice& device) {
    std::vector<DeviceSegment> table;
    const DeviceClip clip = device_clip(r, table, kWarp);
    const bool dense = table.size() == 1 && table[0].stride == clip.columns * static_cast<std::int64_t>(sizeof(T));
    const Machine machine{device.processors, device.shared / 2 - 2048, device.shared - 1024, true, 0};
    const Shape shape = choose_shape(
        clip, dense, sizeof(T), machine, [&](const HeldShape&) { return device.resident; }, device.slice_threads);
    constexpr double kPoison = __builtin_nan("");
    std::vector<double> partial;
    std::string chosen;
    if (shape.way == Way::held) {
        const HeldShape& s = shape.held;
        partial.assign(static_cast<std::size_t>(s.blocks * clip.columns), kPoison);
        on_host::Launch(static_cast<unsigned>(s.blocks), HeldShape::kThreads, s.bytes(), [&] {
            held_kernel<T>(clip, s, partial.data());
        }).run();
        chosen = "held: " + std::to_string(s.blocks) + " blocks of " + std::to_string(s.rows) + " rows, " +
                 std::to_string(s.groups) + " groups, " + std::to_string(s.pieces) + " pieces" +
                 (s.dense ? ", dense" : "");
    } else if (shape.way == Way::sliced) {
        const SliceShape& s = shape.sliced;
        partial.assign(static_cast<std::size_t>(s.teams * clip.columns), kPoison);
        // The initial value is not NaN, since for a NaN the norm would be computed again.
        std::vector<double> exchange(static_cast<std::size_t>(s.exchange()), 1e-20);
        std::vector<unsigned long long> arrived(static_cast<std::size_t>(s.counters()), 0);
        on_host::Launch(static_cast<unsigned>(s.teams * s.blocks), static_cast<unsigned>(s.threads), s.bytes(), [&] {
            sliced_kernel<T>(clip, s, exchange.data(), arrived.data(), partial.data());
        }).run();
        chosen = "sliced: " + std::to_string(s.teams) + " teams of " + std::to_string(s.blocks) + " blocks, " +
                 std::to_string(s.rows) + " rows of " + std::to_string(s.slice) + " columns, " +
                 std::to_string(s.pieces) + " pieces";
    } else {
        throw std::invalid_argument("a device of this size takes the plain way");
    }
    std::vector<double> sums(static_cast<std::size_t>(clip.columns), kPoison);
    const auto parts = static_cast<std::int64_t>(partial.size() / sums.size());
    on_host::Launch(static_cast<unsigned>(ceiling(clip.columns, kWarp)), kAddThreads, 8 * kAddThreads, [&] {
        add_partial_kernel(partial.data(), parts, clip.columns, sums.data());
    }).run();
    const DeviceFinish f = device_finish(r, clip, sums.data());
    for (std::int64_t tile = 0; tile * random::kTileValues < clip.columns; ++tile)
        for (int lane = 0; lane < random::kLanes; ++lane)
            r.out_double ? finish_lane<double>(clip, f, tile, lane) : finish_lane<float>(clip, f, tile, lane);
    return chosen;
}

// Does the work of clipping/exact_sum.cu on a device of `blocks` blocks, in groups of `group` rows.
template <class T>
void emulate_exact(const ClipRequest& r, std::int64_t blocks, std::int64_t group) {
    std::vector<DeviceSegment> table;
    DeviceClip clip = device_clip(r, table, kSquareLanes);
    const DeviceExact exact = device_exact(r, clip);
    std::vector<double> squares(static_cast<std::size_t>(group * exact.tiles)),
        factors(static_cast<std::size_t>(group));
    std::vector<unsigned long long> sums(static_cast<std::size_t>(clip.columns));
    const auto launch = [](std::int64_t count, const std::function<void()>& kernel) {
        on_host::Launch(static_cast<unsigned>(count), kExactThreads, 0, kernel).run();
    };
    for (std::int64_t begin = 0; begin < clip.rows; begin += group) {
        const std::int64_t count = std::min(group, clip.rows - begin);
        launch(blocks, [&] { exact_squares_kernel<T>(clip, exact.tiles, begin, count, squares.data()); });
        launch(ceiling(count, kExactThreads),
               [&] { exact_factors_kernel<T>(clip, exact, begin, count, squares.data(), factors.data()); });
        const ExactShare share(clip.columns, count, blocks);
        launch(share.blocks(count),
               [&] { exact_sums_kernel<T>(clip, share, begin, count, factors.data(), sums.data()); });
    }
    const ExactFinish f = exact_finish(r, sums.data());
    launch(ceiling(clip.columns, kExactThreads), [&] { exact_finish_kernel(clip, f); });
}

}  // namespace

void emulate_exact_kernels(const ClipRequest& request, std::int64_t blocks, std::int64_t group) {
    with_dtype(request.dtype, [&]<class T> { emulate_exact<T>(request, blocks, group); });
}

std::string emulate_clip_kernels(const ClipRequest& request, const SmallDevice& device) {
    return with_dtype(request.dtype, [&]<class T> { return emulate<T>(request, device); });
}

contour::Result emulate_batch_epsilon(contour::BatchMemory& memory, double sigma, double q, double steps, double delta,
                                      double tolerance) {
    contour::Result found;
    on_host::Launch(1, kWarp, 0, [&] {
        const WarpTeam team;
        const contour::Result own = contour::batch_epsilon(team, memory, sigma, q, steps, delta, tolerance);
        if (team.lane() == 0) found = own;
    }).run();
    return found;
}

}  // namespace tightdp

#else

namespace tightdp {

std::string emulate_clip_kernels(const ClipRequest&, const SmallDevice&) {
    throw std::runtime_error("kernels are emulated where the C library is GNU's");
}

void emulate_exact_kernels(const ClipRequest&, std::int64_t, std::int64_t) {
    throw std::runtime_error("kernels are emulated where the C library is GNU's");
}

contour::Result emulate_batch_epsilon(contour::BatchMemory&, double, double, double, double, double) {
    throw std::runtime_error("kernels are emulated where the C library is GNU's");
}

}  // namespace tightdp

#endif
