// The one file that asks which compiler reads it.
#pragma once

#if defined(__CUDACC__)
#define TIGHTDP_HD __host__ __device__
#else
#define TIGHTDP_HD
#endif
