// Model folders for tests: the golden ones, and copies of them with something changed.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "common/error.h"
#include "models/causal_lm.h"
#include "models/checkpoint.h"
#include "tests/support/temporary_folder.h"

namespace gptqb::test {

inline std::filesystem::path golden_folder(const std::string& variant) {
  return std::filesystem::path(GPTQB_SOURCE_DIR) / "tests/models/golden" / variant;
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A golden model taken apart: change config and tensors, then open() it from a folder of its own.
class EditedModel {
 public:
  explicit EditedModel(const std::string& variant) {
    std::ifstream file(golden_folder(variant) / "config.json");
    config = nlohmann::json::parse(file);
    const TensorReader reader(golden_folder(variant));
    for (const std::string& name : reader.names()) tensors[name] = reader.view(name).clone();
  }

  nlohmann::json config;
  std::map<std::string, at::Tensor> tensors;

  const std::filesystem::path& path() const { return folder_.path(); }

  void write() const {
    write_text(path() / "config.json", config.dump());
    write_safetensors(path() / "model.safetensors", tensors);
  }

  std::unique_ptr<CausalLm> open(const std::string& dtype = "float32") const {
    write();
    return open_model(path(), {dtype, at::kCPU});
  }

  // What open() throws; "" if it does not.
  std::string open_error(const std::string& dtype = "float32") const {
    try {
      open(dtype);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

 private:
  TemporaryFolder folder_;
};

// What `action` throws as Error; "" if it does not.
template <class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Logits [sequences, seqlen, vocab] block by block.
inline at::Tensor run_model(CausalLm& model, const at::Tensor& ids) {
  at::Tensor hidden = model.embed(ids);
  for (int64_t block = 0; block < model.block_count(); ++block) {
    model.load_block(block);
    hidden = model.run_block(hidden);
  }
  model.release_block();
  return model.logits(hidden);
}

inline double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

}  // namespace gptqb::test
