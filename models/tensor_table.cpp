#include "models/tensor_table.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "common/error.h"
#include "common/text.h"
#include "models/message_text.h"

namespace gptqb {
namespace {

// Buffers that old versions of transformers and fairseq saved along; they are computed from the
// config.
constexpr std::array kLeftovers = {"*rotary_emb.inv_freq", "*rotary_emb.cos_cached",
                                   "*rotary_emb.sin_cached", "*decoder.version"};

bool is_leftover(const std::string& name) {
  return std::any_of(kLeftovers.begin(), kLeftovers.end(),
                     [&](const char* glob) { return glob_match(glob, name); });
}

// The packed layer that stands for the matrix `in_file`; "" if none does.
std::string packed_layer(const TensorSpec& spec, const std::string& in_file,
                         const PackedLinears* packed) {
  constexpr std::string_view kEnd = ".weight";
  if (packed == nullptr || spec.shape.size() != 2 || !in_file.ends_with(kEnd)) return "";
  const std::string layer = in_file.substr(0, in_file.size() - kEnd.size());
  return packed->has(layer) ? layer : "";
}

// "<layer>.bias" of a packed layer, all zeros.
bool is_empty_bias(const std::string& name, const TensorReader& tensors,
                   const PackedLinears* packed) {
  constexpr std::string_view kEnd = ".bias";
  return packed != nullptr && name.ends_with(kEnd) &&
         packed->has(name.substr(0, name.size() - kEnd.size())) &&
         tensors.view(name).eq(0).all().item<bool>();
}

// The spelling of the table's prefix in this checkpoint: the one most of whose tensors are there.
std::string find_prefix(const TensorTable& table, const TensorReader& tensors,
                        const PackedLinears* packed) {
  const auto present = [&](const std::string& prefix) {
    return std::count_if(table.specs.begin(), table.specs.end(), [&](const TensorSpec& spec) {
      const std::string name = tensor_name(spec.name, 0);
      if (!name.starts_with(table.prefix)) return false;
      const std::string in_file = prefix + name.substr(table.prefix.size());
      return tensors.has(in_file) || !packed_layer(spec, in_file, packed).empty();
    });
  };
  std::string best = table.prefix;
  for (const std::string& prefix : table.other_prefixes)
    if (present(prefix) > present(best)) best = prefix;
  return best;
}

void check_tensor(const TensorSpec& spec, const std::string& name, const TensorReader& tensors) {
  const TensorInfo& info = tensors.info(name);
  if (info.shape != spec.shape)
    throw Error(tensors.describe(name), "expected shape " + shape_text(spec.shape) +
                                            " (from config.json), got " + shape_text(info.shape));
  if (info.dtype != at::kHalf && info.dtype != at::kBFloat16 && info.dtype != at::kFloat)
    throw Error(tensors.describe(name),
                "expected dtype F16, BF16 or F32, got " + safetensors_dtype_name(info.dtype));
}

}  // namespace

std::string tensor_name(const std::string& pattern, int64_t block) {
  const size_t place = pattern.find("{}");
  if (place == std::string::npos) return pattern;
  return std::string(pattern).replace(place, 2, std::to_string(block));
}

MatchedTensors match_tensors(const TensorTable& table, const TensorReader& tensors,
                             const PackedLinears* packed) {
  const std::string prefix = find_prefix(table, tensors, packed);
  MatchedTensors matched;
  std::set<std::string> used;
  std::vector<std::string> missing;
  for (const TensorSpec& spec : table.specs) {
    const bool per_block = spec.name.find("{}") != std::string::npos;
    for (int64_t block = 0; block < (per_block ? table.blocks : 1); ++block) {
      const std::string name = tensor_name(spec.name, block);
      const std::string in_file =
          name.starts_with(table.prefix) ? prefix + name.substr(table.prefix.size()) : name;
      if (const std::string layer = packed_layer(spec, in_file, packed); !layer.empty()) {
        packed->layout(layer, spec.shape[0], spec.shape[1]);
        matched.packed.emplace(name, layer);
        matched.packed_shapes.emplace(name, spec.shape);
        for (const std::string& part : packed->tensors_of(layer)) used.insert(part);
        if (tensors.has(in_file))
          throw Error(tensors.describe(in_file),
                      "expected this weight packed or dense, got both in the folder");
        continue;
      }
      if (!tensors.has(in_file)) {
        if (!spec.optional) missing.push_back(in_file);
        continue;
      }
      check_tensor(spec, in_file, tensors);
      matched.dense.emplace(name, in_file);
      used.insert(in_file);
    }
  }
  if (!missing.empty())
    throw Error(tensors.folder().string(),
                "expected tensors that the checkpoint lacks: " + shorten_list(missing));

  std::vector<std::string> extra;
  for (const std::string& name : tensors.names()) {
    if (used.contains(name) || is_leftover(name)) continue;
    (is_empty_bias(name, tensors, packed) ? matched.passed_over : extra).push_back(name);
  }
  if (!extra.empty())
    throw Error(tensors.folder().string(),
                "expected only tensors that the architecture and config.json call for, got also: " +
                    shorten_list(extra) +
                    ". Computing without them would give another model's numbers.");
  return matched;
}

}  // namespace gptqb
