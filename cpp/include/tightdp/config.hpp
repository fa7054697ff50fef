// The one file that asks which compiler reads it.
#pragma once

// Marks a formula that is compiled for the host and, under nvcc, for the device too.
#if defined(__CUDACC__)
#define TIGHTDP_HD __host__ __device__
#else
#define TIGHTDP_HD
#endif

namespace tightdp {

// Unit roundoff of double, round to nearest: every error bound of the project is written in multiples of it.
inline constexpr double kUnitRoundoff = 0x1p-53;

}  // namespace tightdp
