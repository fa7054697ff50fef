#include "dispatch.hpp"

#include <cstdlib>
#include <cstring>

#if defined(TIGHTDP_X86_DISPATCH)
#include <cpuid.h>
#endif

namespace tightdp {
namespace {

constexpr const char* kNames[] = {"baseline", "avx2", "avx512"};  // in the order of Isa

Isa detect_isa() noexcept {
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
        for (int isa = 0; isa < static_cast<int>(best); ++isa)
            if (std::strcmp(cap, kNames[isa]) == 0) return static_cast<Isa>(isa);
    }
    return best;
}

// The instruction set is determined when the library is loaded, and not in a static variable of a function. If a
// process is forked while another thread initialises such a variable, the child waits for that thread for ever.
const Isa active = detect_isa();

AesUnit detect_processor_aes([[maybe_unused]] Isa isa) noexcept {
#if defined(TIGHTDP_X86_DISPATCH)
    unsigned a, b, c, d;
    if (isa == Isa::baseline || !__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_AES)) return AesUnit::none;
    constexpr unsigned kVaes = 1u << 9;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & kVaes) ? AesUnit::wide : AesUnit::narrow;
#else
    return AesUnit::none;
#endif
}

const AesUnit active_aes = detect_processor_aes(active);

}  // namespace

bool isa_cap_is_known() noexcept {
    const char* const cap = std::getenv("TIGHTDP_ISA");
    if (!cap || !*cap) return true;
    for (const char* name : kNames)
        if (std::strcmp(cap, name) == 0) return true;
    return false;
}

Isa active_isa() noexcept {
    return active;
}

AesUnit dispatched_aes_unit() noexcept {
    return active_aes;
}

const char* isa_name(Isa isa) noexcept {
    return kNames[static_cast<int>(isa)];
}

}  // namespace tightdp
