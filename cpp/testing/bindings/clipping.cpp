// tightdp._testing: runs the clipping kernels of a device on the host.
#include "../../bindings/clip_request.hpp"
#include "../clip_emulation.hpp"
#include "../kernel_emulation.hpp"

void bind_clipping(py::module_& m) {
    using namespace py::literals;
    using namespace tightdp;
    bindings::def_clipped_sum(m, "emulate_clipped_sum", &emulate_clipped_sum);
    bindings::def_clipped_sum<std::int64_t, std::int64_t>(m, "emulate_exact_kernels", &emulate_exact_kernels,
                                                          "blocks"_a, "group"_a);
    // The argument `device` is (multiprocessors, bytes of shared memory, resident blocks, threads of a block of
    // sliced_kernel).
    bindings::def_clipped_sum<std::tuple<std::int64_t, std::int64_t, std::int64_t, int>>(
        m, "emulate_clip_kernels",
        [](const ClipRequest& request, const std::tuple<std::int64_t, std::int64_t, std::int64_t, int>& device) {
            const auto [processors, shared, resident, threads] = device;
            return emulate_clip_kernels(request, {processors, shared, resident, threads});
        },
        "device"_a);
}
