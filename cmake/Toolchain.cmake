# Language level, warnings as errors, and the tools that make rebuilding quick.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# Kernels add -O3 (kernels/CMakeLists.txt); elsewhere it costs compile time and buys nothing.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# Which of AUTO/ON/OFF became true. nvcc alone is not enough for AUTO: it is slow on small machines, and without a
# GPU nothing it makes can run here.
set(GPTQ_BENCH_WITH_CUDA OFF)
if(GPTQ_BENCH_CUDA STREQUAL "ON")
  set(GPTQ_BENCH_WITH_CUDA ON)
elseif(GPTQ_BENCH_CUDA STREQUAL "AUTO")
  find_program(GPTQ_BENCH_NVCC nvcc HINTS /usr/local/cuda/bin)
  if(GPTQ_BENCH_NVCC AND EXISTS /dev/nvidia0)
    set(GPTQ_BENCH_WITH_CUDA ON)
  endif()
elseif(NOT GPTQ_BENCH_CUDA STREQUAL "OFF")
  message(FATAL_ERROR "GPTQ_BENCH_CUDA: expected AUTO, ON or OFF, got '${GPTQ_BENCH_CUDA}'")
endif()

find_program(GPTQ_BENCH_CCACHE ccache)
if(GPTQ_BENCH_CCACHE)
  # Precompiled headers are only cached with these two settings (ccache manual, "Precompiled headers").
  set(_launcher ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${GPTQ_BENCH_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${_launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${_launcher})
endif()

if(GPTQ_BENCH_WITH_CUDA)
  # sm_80 with PTX for everything newer, and the instructions only sm_90a has (wgmma, TMA).
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "80;90a-real")
  endif()
  if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  find_package(CUDAToolkit REQUIRED)
endif()

if(GPTQ_BENCH_SANITIZE)
  add_compile_options(-fsanitize=${GPTQ_BENCH_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${GPTQ_BENCH_SANITIZE})
endif()

# Every target of ours takes these; headers of dependencies are SYSTEM and stay outside.
# g++ 12 and 13 see overlaps and overflows in std::string's operator+ that are not there (GCC bugs 105651, 105329).
# -fPIC for programs too: a precompiled header made with it is refused by code compiled with -fPIE.
add_library(gptqb_flags INTERFACE)
target_compile_options(gptqb_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-fPIC -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds -Werror -Winvalid-pch -fpch-preprocess>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Werror --Werror=all-warnings --expt-relaxed-constexpr>)
target_include_directories(gptqb_flags INTERFACE ${CMAKE_SOURCE_DIR})
