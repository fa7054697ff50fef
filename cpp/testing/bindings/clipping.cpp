// tightdp._testing: runs the clipping kernels of a device on the host.
#include "../../bindings/clip_request.hpp"
#include "../clip_emulation.hpp"
#include "../kernel_emulation.hpp"

namespace {

template <class Out>
void emulate_release(const py::array_t<std::int64_t, py::array::c_style>& sums,
                     py::array_t<Out, py::array::c_style> out, double scale, double deviation,
                     const tightdp::bindings::SealedStream& noise) {
    tightdp::ClipRequest r;
    r.segments.push_back({nullptr, 0, static_cast<std::size_t>(sums.size()), out.mutable_data(), 0});
    r.out_double = sizeof(Out) == 8;
    r.grid = scale;
    r.deviation = deviation;
    r.stream = &*noise;
    tightdp::emulate_release(r, sums.data());
}

}  // namespace

void bind_testing_clipping(py::module_& m) {
    using namespace py::literals;
    using namespace tightdp;
    bindings::bind_clipped_sum(m, "emulate_clipped_sum", &emulate_clipped_sum);
    bindings::bind_clipped_sum<std::int64_t>(m, "emulate_exact_kernels", &emulate_exact_kernels, "blocks"_a);
    const auto bind_release = [&](auto function) {
        m.def("emulate_release", function, "sums"_a.noconvert(), "out"_a.noconvert(), "scale"_a, "deviation"_a,
              "noise"_a);
    };
    bind_release(&emulate_release<float>);
    bind_release(&emulate_release<double>);
    // The argument `device` has the three numbers of a SmallDevice (kernel_emulation.hpp).
    bindings::bind_clipped_sum<std::tuple<std::int64_t, std::int64_t, std::int64_t>>(
        m, "emulate_clip_kernels",
        [](const ClipRequest& request, const std::tuple<std::int64_t, std::int64_t, std::int64_t>& device) {
            const auto [processors, shared, resident] = device;
            return emulate_clip_kernels(request, {processors, shared, resident});
        },
        "device"_a);
}
