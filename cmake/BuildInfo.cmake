# What the record calls the build: commit, dirty flag, compiler, flags. Made at configure time; the commit is read again
# at each build so that it is never stale.
set(GPTQ_BENCH_BUILD_FLAGS "${CMAKE_BUILD_TYPE} ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_RELEASE}")
add_custom_target(gptqb_build_info ALL
  COMMAND ${CMAKE_COMMAND}
    -DSOURCE=${CMAKE_SOURCE_DIR} -DOUTPUT=${CMAKE_BINARY_DIR}/generated/build_info.inc
    -DVERSION=${PROJECT_VERSION} -DCOMPILER=${CMAKE_CXX_COMPILER_ID}-${CMAKE_CXX_COMPILER_VERSION}
    "-DFLAGS=${GPTQ_BENCH_BUILD_FLAGS}" -DTORCH=${GPTQ_BENCH_TORCH_VERSION}
    "-DCUDA=${CMAKE_CUDA_COMPILER_VERSION}" "-DARCHITECTURES=${CMAKE_CUDA_ARCHITECTURES}"
    -P ${CMAKE_SOURCE_DIR}/cmake/WriteBuildInfo.cmake
  BYPRODUCTS ${CMAKE_BINARY_DIR}/generated/build_info.inc
  COMMENT "" VERBATIM)
