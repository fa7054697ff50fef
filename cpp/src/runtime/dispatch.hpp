// Chooses at run time among the instruction sets for which cmake/simd.cmake compiled the library.
//
// The environment variable TIGHTDP_ISA=baseline|avx2|avx512 sets the largest instruction set that may be chosen. Tests
// set this variable to compare the instruction sets.
#pragma once

namespace tightdp {

enum class Isa { baseline = 0, avx2 = 1, avx512 = 2 };

// Returns the widest instruction set that was compiled, that this processor has, and that the environment allows. The
// choice is made when the library is loaded.
Isa active_isa() noexcept;

const char* isa_name(Isa isa) noexcept;
// Returns whether the environment variable TIGHTDP_ISA is unset or names an instruction set.
bool isa_cap_is_known() noexcept;

// The AES instructions that the library uses. Narrow instructions encrypt one block at a time. Wide instructions
// encrypt as many blocks as a register holds. The baseline uses no AES instructions.
enum class AesUnit { none, narrow, wide };
AesUnit dispatched_aes_unit() noexcept;

// Returns the function pointer for the active instruction set. On platforms that have only the baseline, all three
// pointers are the same.
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

// TIGHTDP_DECLARE_SIMD(void, scale, (double* x, int n)) declares a kernel for each instruction set.
// TIGHTDP_SELECT_SIMD(scale)(x, n) calls the kernel for the active instruction set.
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
