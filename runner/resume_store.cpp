#include "runner/resume_store.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "models/safetensors.h"
#include "runner/build_info.h"
#include "runner/layer_json.h"

namespace gptqb {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMetadataKey = "gptqb_block";

Json describe_block(const FinishedBlock& finished, const std::string& inputs) {
  Json json = Json::object();
  json["build_id"] = build_id();
  json["inputs"] = inputs;
  // A u64 does not survive readers that keep numbers as doubles.
  json["output_hash"] = std::to_string(finished.output_hash);
  json["linears"] = Json::object();
  for (const auto& [name, linear] : finished.linears) {
    Json& described = json["linears"][name];
    described = {{"tensors", Json::array()},
                 {"bits", linear.bits},
                 {"group_size", linear.group_size},
                 {"rows", linear.rows},
                 {"columns", linear.columns}};
    for (const auto& [part, tensor] : linear.tensors) described["tensors"].push_back(part);
  }
  json["divided"] = Json::array();
  for (const auto& [producer, scale] : finished.divided) json["divided"].push_back(producer);
  json["health"] = Json::parse(layers_to_json(finished.health));
  return json;
}

KeptLinear read_linear(const SafetensorsFile& file, const std::string& name, const Json& json) {
  KeptLinear linear;
  // Copies: the file is deleted while the model still uses them.
  for (const Json& part : json.at("tensors"))
    linear.tensors[part.get<std::string>()] =
        file.view(name + "." + part.get<std::string>()).clone();
  linear.bits = json.at("bits").get<int64_t>();
  linear.group_size = json.at("group_size").get<int64_t>();
  linear.rows = json.at("rows").get<int64_t>();
  linear.columns = json.at("columns").get<int64_t>();
  linear.validate(file.path().string() + ", " + name);
  return linear;
}

FinishedBlock read_block(const SafetensorsFile& file, const Json& json) {
  FinishedBlock block;
  const std::string hash = json.at("output_hash").get<std::string>();
  if (std::from_chars(hash.data(), hash.data() + hash.size(), block.output_hash).ec != std::errc())
    throw Error(file.path().string(), "expected a number as output_hash, got '" + hash + "'");
  block.health = layers_from_json(json.at("health").dump(), file.path().string());
  for (const auto& [name, description] : json.at("linears").items())
    block.linears[name] = read_linear(file, name, description);
  for (const Json& producer : json.at("divided")) {
    const std::string name = producer.get<std::string>();
    block.divided[name] = file.view("divided." + name).clone();
  }
  return block;
}

}  // namespace

FileResumeStore::FileResumeStore(const std::filesystem::path& output, const std::string& cell_id,
                                 Progress* progress, std::string inputs)
    : folder_(output / "work" / cell_id),
      progress_(progress ? progress : &silent_progress()),
      inputs_(std::move(inputs)) {}

std::filesystem::path FileResumeStore::block_path(int64_t block) const {
  return folder_ / ("block_" + std::to_string(block) + ".safetensors");
}

std::optional<FinishedBlock> FileResumeStore::load(int64_t block) {
  const std::filesystem::path path = block_path(block);
  if (!std::filesystem::exists(path)) return std::nullopt;
  const auto unused = [&](const std::string& reason) {
    progress_->note("block " + std::to_string(block) + " is quantized again: " + reason);
    return std::nullopt;
  };
  try {
    const SafetensorsFile file(path);
    const auto found = file.metadata().find(kMetadataKey);
    if (found == file.metadata().end()) return unused(path.string() + " is no block of a cell");
    const Json json = Json::parse(found->second);
    if (json.at("build_id").get<std::string>() != build_id())
      return unused(path.string() + " is of another build of gptq-bench");
    if (json.at("inputs").get<std::string>() != inputs_)
      return unused(path.string() +
                    " was made from another model, other data or on another device");
    return read_block(file, json);
  } catch (const Error& error) {
    return unused(error.what());
  } catch (const Json::exception& error) {
    return unused("[" + path.string() + "] " + error.what());
  }
}

void FileResumeStore::save(int64_t block, const FinishedBlock& finished) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, linear] : finished.linears)
    for (const auto& [part, tensor] : linear.tensors) tensors[name + "." + part] = tensor;
  for (const auto& [producer, scale] : finished.divided) tensors["divided." + producer] = scale;
  write_safetensors(block_path(block), tensors,
                    {{kMetadataKey, describe_block(finished, inputs_).dump()}});
}

int64_t FileResumeStore::bytes() const {
  int64_t sum = 0;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, failed))
    if (entry.is_regular_file()) sum += static_cast<int64_t>(entry.file_size());
  return sum;
}

void FileResumeStore::discard() {
  std::error_code failed;
  std::filesystem::remove_all(folder_, failed);
  if (failed)
    throw Error(folder_.string(), "expected to remove this folder, got '" + failed.message() + "'");
  // The folder of all cells goes when the last one has left.
  std::filesystem::remove(folder_.parent_path(), failed);
}

}  // namespace gptqb
