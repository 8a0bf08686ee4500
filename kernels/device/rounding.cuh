// Rounding as the CPU kernels do it, whatever the build's fast-math flags: a value may lie on a
// rounding boundary.
#pragma once

__device__ inline float round_half_even(float x) { return rintf(x); }
__device__ inline double round_half_even(double x) { return rint(x); }
__device__ inline float divide(float a, float b) { return __fdiv_rn(a, b); }
__device__ inline double divide(double a, double b) { return __ddiv_rn(a, b); }
__device__ inline float square_root(float x) { return __fsqrt_rn(x); }
__device__ inline double square_root(double x) { return __dsqrt_rn(x); }
