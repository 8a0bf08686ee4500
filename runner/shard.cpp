#include "runner/shard.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "runner/plan.h"

namespace gptqb {

void take_shard(Plan& plan, int64_t shard, int64_t shards) {
  if (shards <= 1) return;
  std::vector<std::string> ids;
  for (const PlannedCell& planned : plan.cells) ids.push_back(planned.cell.id());
  std::sort(ids.begin(), ids.end());
  std::set<std::string> mine;
  for (size_t i = 0; i < ids.size(); ++i)
    if (static_cast<int64_t>(i) % shards == shard) mine.insert(ids[i]);
  std::vector<PlannedCell> kept;
  for (PlannedCell& planned : plan.cells)
    if (mine.count(planned.cell.id()) > 0) kept.push_back(std::move(planned));
  plan.other_shards = static_cast<int64_t>(plan.cells.size() - kept.size());
  plan.cells = std::move(kept);
}

}  // namespace gptqb
