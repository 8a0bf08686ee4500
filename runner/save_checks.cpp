#include "runner/save_checks.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "common/error.h"
#include "common/text.h"
#include "models/save_target.h"
#include "runner/disk_plan.h"
#include "runner/packed_save.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

std::string gigabytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f GB", static_cast<double>(bytes) / 1e9);
  return text;
}

// The smallest form that the cell or one of its rules gives a linear; one that is left dense is
// larger.
int64_t least_bytes(const Cell& cell, int64_t out, int64_t in) {
  int64_t least = packed_bytes(cell.quant(), out, in);
  for (const OverrideRule& rule : cell.overrides())
    if (!rule.choice.skip) least = std::min(least, packed_bytes(rule.choice.quant, out, in));
  return least;
}

}  // namespace

int64_t least_checkpoint_bytes(const Cell& cell, const ModelSizes& sizes) {
  int64_t block = 0, linears = 0, ends = sizes.end_elements * sizes.element_bytes;
  for (const int64_t elements : sizes.block_tensors) block += elements * sizes.element_bytes;
  for (const ModelSizes::Stage& stage : sizes.stages)
    for (const int64_t out : stage.outs) {
      linears += least_bytes(cell, out, stage.in);
      block -= out * stage.in * sizes.element_bytes;
    }
  if (const auto head = cell.head(); head && !sizes.stages.empty())
    ends += packed_bytes(*head, sizes.vocabulary, sizes.stages.front().in) -
            sizes.head_elements * sizes.element_bytes;
  return sizes.blocks * (block + linears) + ends;
}

void check_saves(const Plan& plan, const std::map<std::string, ModelSizes>& sizes,
                 const fs::path& base) {
  if (!plan.save) return;
  std::set<std::string> faults;
  std::map<fs::path, int64_t> needed;  // by the folder that all are in
  for (const PlannedCell& planned : plan.cells) {
    const Cell& cell = planned.cell;
    if (!planned.skip_reason.empty() || cell.dense() || cell.measures_kernels()) continue;
    const fs::path folder = save_folder(*plan.save, cell, base);
    const fs::path source = cell.model().synthetic.asked() ? fs::path() : base / cell.model().path;
    try {
      check_save_target(folder, source);
      const auto known = sizes.find(cell.id());
      if (known == sizes.end() || fs::exists(folder)) continue;
      const int64_t bytes = needed[folder.parent_path()] +=
          least_checkpoint_bytes(cell, known->second);
      if (const int64_t room = room_for_checkpoint(folder); bytes > room)
        faults.insert("[" + folder.string() + "] expected room for at least " + gigabytes(bytes) +
                      " of packed checkpoints, got " + gigabytes(room) +
                      ". Free some, or choose another save.path");
    } catch (const std::exception& fault) {
      faults.insert(fault.what());
    }
  }
  if (!faults.empty())
    throw Error(plan.file, "save: " + join({faults.begin(), faults.end()}, "; "));
}

}  // namespace gptqb
