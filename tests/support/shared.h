// Where tests find data that the project must not contain, and how they skip when it is absent.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace gptqb::test {

// The folder that holds data/ and models/: $GPTQ_BENCH_SHARED, else ../shared beside the checkout.
inline std::filesystem::path shared_root() {
  if (const char* root = std::getenv("GPTQ_BENCH_SHARED")) return root;
  return std::filesystem::path(GPTQB_SOURCE_DIR).parent_path() / "shared";
}

// The SmolLM2 folder made by scripts/get_smollm2: $GPTQ_BENCH_MODELS/smollm2-135m.
inline std::filesystem::path smollm2_folder() {
  const char* models = std::getenv("GPTQ_BENCH_MODELS");
  return models ? std::filesystem::path(models) / "smollm2-135m"
                : std::filesystem::path("/nonexistent");
}

}  // namespace gptqb::test

// Skips the test, naming the missing path (scripts/test counts skips; --require-data makes them
// failures).
#define GPTQB_REQUIRE_PATH(path)                                                     \
  do {                                                                               \
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs " << (path).string(); \
  } while (false)
