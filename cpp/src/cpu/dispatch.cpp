#include "dispatch.hpp"

#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace tightdp {
namespace {

Isa detect() noexcept {
    Isa best = Isa::baseline;
#if defined(TIGHTDP_X86_DISPATCH)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        best = Isa::avx2;
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
            best = Isa::avx512;
    }
#endif
    if (const char* cap = std::getenv("TIGHTDP_ISA")) {
        for (Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512})
            if (std::strcmp(cap, isa_name(isa)) == 0 && isa < best) best = isa;
    }
    return best;
}

}  // namespace

Isa active_isa() noexcept {
    static const Isa isa = detect();
    return isa;
}

const char* isa_name(Isa isa) noexcept {
    switch (isa) {
        case Isa::avx512: return "avx512";
        case Isa::avx2: return "avx2";
        default: return "baseline";
    }
}

}  // namespace tightdp
