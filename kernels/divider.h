// Many divisions by one number, each rounded as IEEE 754 rounds a division. In a sweep each column
// waits for the quotient of the one before it, and a division proper is a long chain of steps.
#pragma once

#include <cmath>

#include "kernels/host_device.h"

namespace gptqb::kernels {

// value / divisor from the divisor's reciprocal, in two steps of which the second is exact
// (Markstein 1990, "Computation of elementary functions on the IBM RISC System/6000 processor").
template <class T>
struct Divider;

template <>
struct Divider<float> {
  float divisor = 1;
  float reciprocal = 1;
  float lift = 1;

  // `given` > 0 and finite.
  GPTQB_HOST_DEVICE void prepare(float given) {
    // The smallest numbers have no reciprocal, and remainders of small ones would lose bits.
    lift = given < 0x1p-64F ? 0x1p+64F : 1.0F;
    divisor = given * lift;
#ifdef __CUDA_ARCH__
    reciprocal = __frcp_rn(divisor);
#else
    reciprocal = 1.0F / divisor;
#endif
  }
  // The quotient, to the last bit where its size is between 2^-10 and 2^30; a number below or above
  // where it is not.
  GPTQB_HOST_DEVICE float operator()(float value) const {
    const float lifted = value * lift;
    const float first = lifted * reciprocal;
    const float second = fmaf(fmaf(-first, divisor, lifted), reciprocal, first);
    const float third = fmaf(fmaf(-second, divisor, lifted), reciprocal, second);
    return fabsf(first) < 0x1p+30F ? third : first;
  }
};

template <>
struct Divider<double> {
  double divisor = 1;

  GPTQB_HOST_DEVICE void prepare(double given) { divisor = given; }
  GPTQB_HOST_DEVICE double operator()(double value) const {
#ifdef __CUDA_ARCH__
    return __ddiv_rn(value, divisor);
#else
    return value / divisor;
#endif
  }
};

}  // namespace gptqb::kernels
