// Vectors exactly one register wide, for the Fourier transform: its butterflies fill the register file, and the
// eight-lane vectors of tightdp/simd/vec.hpp would spill wherever registers are narrower.
//
// For .simd.cpp files alone. Everything has internal linkage, so the linker cannot mix instruction sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace tightdp::TIGHTDP_ISA {
namespace {

#if defined(TIGHTDP_ISA_avx512)
inline constexpr std::size_t kLanes = 8;
#elif defined(TIGHTDP_ISA_avx2)
inline constexpr std::size_t kLanes = 4;
#else
inline constexpr std::size_t kLanes = 2;  // SSE2 and NEON
#endif

typedef double Vec __attribute__((vector_size(kLanes * sizeof(double))));
typedef std::int64_t Mask __attribute__((vector_size(kLanes * sizeof(double))));
typedef double UnalignedVec __attribute__((vector_size(kLanes * sizeof(double)), aligned(8), may_alias));

inline Vec load(const double* p) {
    return *reinterpret_cast<const UnalignedVec*>(p);
}
inline void store(double* p, Vec v) {
    *reinterpret_cast<UnalignedVec*>(p) = v;
}
inline Vec broadcast(double x) {
    return x - Vec{};
}

template <std::size_t S, std::size_t... L>
inline void exchange(Vec& a, Vec& b, std::index_sequence<L...>) {
    const Vec low = __builtin_shufflevector(a, b, ((L & S) == 0 ? L : kLanes + L - S)...);
    b = __builtin_shufflevector(a, b, ((L & S) == 0 ? L + S : kLanes + L)...);
    a = low;
}

template <std::size_t S>
inline void exchange_all(Vec (&rows)[kLanes]) {
    for (std::size_t i = 0; i < kLanes; ++i)
        if ((i & S) == 0) exchange<S>(rows[i], rows[i + S], std::make_index_sequence<kLanes>{});
}

// Transposes a kLanes x kLanes block held in registers.
inline void transpose(Vec (&rows)[kLanes]) {
    exchange_all<1>(rows);
    if constexpr (kLanes > 2) exchange_all<2>(rows);
    if constexpr (kLanes > 4) exchange_all<4>(rows);
}

}  // namespace
}  // namespace tightdp::TIGHTDP_ISA
