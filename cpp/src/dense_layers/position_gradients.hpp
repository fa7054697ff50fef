// Forms the gradients of records that pass a layer at several positions, on several threads.
#pragma once

#include <array>
#include <cstdint>

namespace tightdp {

// The arguments of form_product_gradients, which computes out[k][i][j] = sum_t left[k][t][i] right[k][t][j].
struct ProductGradients {
    const float* left;   // array [records][positions][left_size]
    const float* right;  // array [records][positions][right_size]
    std::int64_t records, positions, left_size, right_size;
    float* out;  // array [records][left_size][right_size]
};

// Three numbers, one for each axis of an image: depth, height and width.
using ImageAxes = std::array<std::int64_t, 3>;

// The arguments of form_convolution_gradients, which computes the gradient of each record by the weights of a
// convolution without groups: out[k][o][c][z] = sum_t errors[k][o][t] images[k][c][t stride + z dilation - padding].
// Here t is a position of the output, z is a position of the kernel, and the image is 0 outside of its memory.
struct ConvolutionGradients {
    const float* images;  // array [records][channels][image]
    const float* errors;  // array [records][outputs][output]
    std::int64_t records, channels, outputs;
    ImageAxes image, output, kernel, stride, padding, dilation;
    float* out;  // array [records][outputs][channels][kernel]
};

// Row k of the results depends on record k alone, bit for bit. The sums are added in the order of PositionGradient
// (position_gradients.simd.hpp).
void form_product_gradients(const ProductGradients& request);

// Precondition: all numbers of the request fit one another. The output has no position at which the kernel would
// exceed the padded image, and the stride is positive.
void form_convolution_gradients(const ConvolutionGradients& request);

}  // namespace tightdp
