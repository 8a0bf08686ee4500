#include "kernels/impl/matmul_strips.cuh"

template void gptqb::kernels::launch_strips<4>(const StripsLaunch&, void*);
