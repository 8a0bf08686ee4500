#include "kernels/impl/matmul_strips.cuh"

template void gptqb::kernels::launch_strips<8>(const StripsLaunch&, void*);
