#include "kernels/impl/matmul_tiles.cuh"

template void gptqb::kernels::launch_tiles<8>(const TilesLaunch&, void*);
