#include "kernels/impl/matmul_tiles.cuh"

template void gptqb::kernels::launch_tiles<3>(const TilesLaunch&, void*);
