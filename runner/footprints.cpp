#include "runner/footprints.h"

#include "models/causal_lm.h"
#include "models/published_shapes.h"
#include "runner/report/markdown_table.h"
#include "runner/report/number_format.h"

namespace gptqb {
namespace {

Footprint of_shape(const std::string& name) {
  SyntheticModel shape;
  shape.like = name;
  const auto model = open_synthetic(shape, {.dtype = "float16"});
  Footprint footprint{name, model->parameter_count(), 0, model->cached_per_token()};
  const ModelSizes sizes = model->sizes();
  for (const ModelSizes::Stage& stage : sizes.stages)
    for (const int64_t out : stage.outs) footprint.linear_weights += sizes.blocks * stage.in * out;
  return footprint;
}

// Jiang et al. 2024, table 1: each of 8 experts is a gated MLP, a router of one row each chooses
// two.
Footprint mixtral() {
  constexpr int64_t kHidden = 4096, kInner = 14336, kBlocks = 32, kKeys = 8 * 128, kExperts = 8;
  constexpr int64_t kVocabulary = 32000;
  constexpr int64_t kAttention = 2 * kHidden * kHidden + 2 * kHidden * kKeys;
  constexpr int64_t kLinears = kAttention + kExperts * 3 * kHidden * kInner;
  constexpr int64_t kRest = kExperts * kHidden + 2 * kHidden;
  return {"mixtral-8x7b", kBlocks * (kLinears + kRest) + 2 * kVocabulary * kHidden + kHidden,
          kBlocks * kLinears, kBlocks * 2 * kKeys, /*runs=*/false};
}

}  // namespace

double Footprint::packed_bytes(int64_t bits, int64_t group_size) const {
  const double a_weight =
      static_cast<double>(bits) + static_cast<double>(16 + bits) / static_cast<double>(group_size);
  return static_cast<double>(linear_weights) * a_weight / 8 +
         2.0 * static_cast<double>(parameters - linear_weights);
}

std::vector<Footprint> footprints() {
  std::vector<Footprint> all;
  for (const std::string& name : published_shapes()) all.push_back(of_shape(name));
  all.push_back(mixtral());
  return all;
}

std::string footprints_text() {
  MarkdownTable table;
  table.add_column("model");
  for (const char* title : {"weights, billions", "float16, GB", "8 bits g128, GB",
                            "4 bits g128, GB", "3 bits g128, GB", "cache of 2048 tokens, GB"})
    table.add_column(title, true);
  table.add_column("");
  const auto gigabytes = [](double bytes) { return fixed_text(bytes / 1e9, 2); };
  for (const Footprint& each : footprints())
    table.add_row({each.model, fixed_text(static_cast<double>(each.parameters) / 1e9, 2),
                   gigabytes(each.float16_bytes()), gigabytes(each.packed_bytes(8, 128)),
                   gigabytes(each.packed_bytes(4, 128)), gigabytes(each.packed_bytes(3, 128)),
                   gigabytes(each.cache_bytes(2048)),
                   each.runs ? "" : "shapes only: this program does not compute it"});
  return table.text() +
         "\nPredicted from shapes: linears packed, embedding, head and norms in float16; "
         "activations are in no column. Measured: experiments/claims/memory_by_format.yaml.\n";
}

}  // namespace gptqb
