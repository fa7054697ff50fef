// The device's batched contour engine run by the host, so that its formulas are tested where there is no device.
#pragma once

#include <cstdint>

namespace tightdp::contour {

// As contour/batch/epsilon_batch.hpp, with settings shared by `lanes` threads in step: 1 (no threads), 2, 4 .. 32.
// nodes, abscissae: of each setting.
void emulate_epsilon_batch(std::int64_t n, const double* sigma, const double* q, const double* steps,
                           const double* delta, double tolerance, int lanes, double* lower, double* upper,
                           unsigned char* status, std::int64_t* nodes, std::int64_t* abscissae);

}  // namespace tightdp::contour
