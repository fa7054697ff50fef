// Vectors of complex numbers, with the real and imaginary parts in separate registers.
#pragma once

#include "vec.hpp"

namespace tightdp::TIGHTDP_ISA {

struct Complex {
    Vec re, im;
};

TIGHTDP_VINLINE Complex operator+(Complex a, Complex b) {
    return {a.re + b.re, a.im + b.im};
}
TIGHTDP_VINLINE Complex operator-(Complex a, Complex b) {
    return {a.re - b.re, a.im - b.im};
}

// Returns the product a b. The error is at most 2 sqrt(2) u (1 + u) |a||b| with u = 2^-53, with or without fused
// multiply-adds (docs/theory/fft.md, Lemma 2).
TIGHTDP_VINLINE Complex times(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
TIGHTDP_VINLINE Complex times_conj(Complex a, Complex b) {
    return {a.re * b.re + a.im * b.im, a.im * b.re - a.re * b.im};
}
TIGHTDP_VINLINE Complex times_i(Complex a) {
    return {-a.im, a.re};
}

TIGHTDP_VINLINE Complex load(const double* re, const double* im) {
    return {load(re), load(im)};
}
TIGHTDP_VINLINE void store(double* re, double* im, Complex z) {
    store(re, z.re);
    store(im, z.im);
}

}  // namespace tightdp::TIGHTDP_ISA
