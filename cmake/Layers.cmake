# gptqb_layer(<name> SOURCES ... LINKS ... [TORCH]): the library of a folder. TORCH marks layers that see ATen; they share
# one precompiled <ATen/ATen.h> (27 s to make, once).
function(gptqb_layer name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;LINKS" ${ARGN})
  if(NOT ARG_SOURCES)  # TEMPORARY while layers are being written
    file(WRITE ${CMAKE_BINARY_DIR}/generated/empty_${name}.cpp "")
    set(ARG_SOURCES ${CMAKE_BINARY_DIR}/generated/empty_${name}.cpp)
  endif()
  add_library(gptqb_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(gptqb_${name} PUBLIC gptqb_flags ${ARG_LINKS})
  if(ARG_TORCH)
    gptqb_use_torch(gptqb_${name})
  endif()
endfunction()

# Links ATen and reuses the precompiled header.
function(gptqb_use_torch target)
  target_link_libraries(${target} PUBLIC gptqb_torch)
  if(NOT TARGET gptqb_pch)
    file(WRITE ${CMAKE_BINARY_DIR}/generated/pch.cpp "// holds the precompiled header\n")
    add_library(gptqb_pch OBJECT ${CMAKE_BINARY_DIR}/generated/pch.cpp)
    target_link_libraries(gptqb_pch PRIVATE gptqb_flags gptqb_torch)
    target_precompile_headers(gptqb_pch PRIVATE $<$<COMPILE_LANGUAGE:CXX>:<ATen/ATen.h$<ANGLE-R>>)
  endif()
  target_precompile_headers(${target} REUSE_FROM gptqb_pch)
endfunction()
