#include "kernels/impl/matmul_tiles.cuh"

template void gptqb::kernels::launch_tiles<4>(const TilesLaunch&, void*);
