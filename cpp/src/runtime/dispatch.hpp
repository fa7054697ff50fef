// Run-time choice among the instruction sets that cmake/simd.cmake compiled.
//
// TIGHTDP_ISA=baseline|avx2|avx512 in the environment caps the choice (tests do, to compare the variants).
#pragma once

namespace tightdp {

enum class Isa { baseline = 0, avx2 = 1, avx512 = 2 };

// The widest instruction set that was compiled, that this processor has and that the environment allows.
// Decided when the library is loaded.
Isa active_isa() noexcept;

const char* isa_name(Isa isa) noexcept;
// Whether TIGHTDP_ISA, which caps what is used, is unset or names an instruction set.
bool isa_cap_is_known() noexcept;

// Instructions of the processor for AES: none, on one block at a time, or on as many as a register holds. None with the
// baseline alone.
enum class AesUnit { none, narrow, wide };
AesUnit aes_unit() noexcept;

// Picks one of three function pointers. On platforms with the baseline alone all three are the same.
template <class F>
F* select_isa(F* baseline, [[maybe_unused]] F* avx2, [[maybe_unused]] F* avx512) noexcept {
    switch (active_isa()) {
        case Isa::avx512:
            return avx512;
        case Isa::avx2:
            return avx2;
        default:
            return baseline;
    }
}

}  // namespace tightdp

// Declares the variants of one kernel: TIGHTDP_DECLARE_SIMD(void, scale, (double* x, int n))
// and selects among them:              TIGHTDP_SELECT_SIMD(scale)(x, n)
#if defined(TIGHTDP_X86_DISPATCH)
#define TIGHTDP_DECLARE_SIMD(ret, name, args) \
    namespace baseline {                      \
    ret name args;                            \
    }                                         \
    namespace avx2 {                          \
    ret name args;                            \
    }                                         \
    namespace avx512 {                        \
    ret name args;                            \
    }
#define TIGHTDP_SELECT_SIMD(name) ::tightdp::select_isa(&baseline::name, &avx2::name, &avx512::name)
#else
#define TIGHTDP_DECLARE_SIMD(ret, name, args) \
    namespace baseline {                      \
    ret name args;                            \
    }
#define TIGHTDP_SELECT_SIMD(name) (&baseline::name)
#endif
