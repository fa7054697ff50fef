#include "dispatch.hpp"

#include <cstdlib>
#include <cstring>

namespace tightdp {
namespace {

constexpr Isa kAll[] = {Isa::baseline, Isa::avx2, Isa::avx512};

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
        for (Isa isa : kAll)
            if (std::strcmp(cap, isa_name(isa)) == 0 && isa < best) best = isa;
    }
    return best;
}

}  // namespace

bool isa_cap_is_known() noexcept {
    const char* const cap = std::getenv("TIGHTDP_ISA");
    if (!cap || !*cap) return true;
    for (Isa isa : kAll)
        if (std::strcmp(cap, isa_name(isa)) == 0) return true;
    return false;
}

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
