#include "kernels/impl/matmul_wide.cuh"

template void gptqb::kernels::launch_wide<2>(const WideLaunch&, void*);
