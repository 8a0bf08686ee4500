// Marks functions that kernels call and host code too, so that tests need no GPU.
#pragma once

#ifdef __CUDACC__
#define GPTQB_HOST_DEVICE __host__ __device__
#else
#define GPTQB_HOST_DEVICE
#endif
