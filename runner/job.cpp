#include "runner/job.h"

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "models/packed_layer.h"
#include "runner/cell_memory.h"
#include "runner/record.h"

namespace gptqb {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json nullable(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::optional<int64_t> bytes_of(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<int64_t>());
}

// As a record of a cell that did not run: its settings and what it is held against.
Json planned_to_json(const PlannedCell& planned, const Claim& claim) {
  Record record;
  record.cell_id = planned.cell.id();
  record.position = planned.position;
  record.cell = planned.cell.canonical();
  record.settings = planned.cell.settings();
  record.status = CellStatus::kSkipped;
  record.reason = planned.skip_reason;
  record.expectations = planned.expectations;
  if (!claim.statement.empty()) record.claim = claim;
  return Json::parse(to_json(record));
}

PlannedCell planned_from_json(const Json& json, const std::string& where, Claim& claim) {
  Record record = record_from_json(json.dump(), where);
  if (record.claim) claim = *record.claim;
  PlannedCell planned{Cell::from_json(record.cell), record.reason, std::move(record.expectations)};
  planned.position = record.position;
  return planned;
}

Json save_to_json(const std::optional<SaveSettings>& save) {
  if (!save) return nullptr;
  Json json = {{"path", save->path},
               {"format", nullptr},
               {"shard_bytes", save->shard_bytes},
               {"folder_per_cell", save->folder_per_cell}};
  if (save->format) json["format"] = format_name(*save->format);
  return json;
}

std::optional<SaveSettings> save_from_json(const Json& json) {
  if (json.is_null()) return std::nullopt;
  SaveSettings save;
  save.path = json.at("path").get<std::string>();
  if (!json.at("format").is_null())
    save.format = json.at("format") == "gptq" ? PackedFormat::kGptq : PackedFormat::kGptqV2;
  save.shard_bytes = json.at("shard_bytes").get<int64_t>();
  save.folder_per_cell = json.at("folder_per_cell").get<bool>();
  return save;
}

}  // namespace

RunOptions run_options(const Job& job) {
  RunOptions options;
  options.device = one_device(job.device);
  options.output = job.output;
  options.data_root = job.data_root;
  options.base = job.base;
  options.fresh = job.fresh;
  options.verify = job.verify;
  options.argv = job.argv;
  options.resume = job.plan.resume;
  options.dump_hessians = job.plan.dump_hessians;
  options.save = job.plan.save;
  options.limits = within_machine(job.plan.limits, options.device);
  return options;
}

std::string job_to_json(const Job& job) {
  Json json = {{"experiment", job.plan.name},
               {"tier", job.plan.tier},
               {"file", job.plan.file},
               {"resume", job.plan.resume},
               {"device_memory", nullable(job.plan.limits.device)},
               {"host_memory", nullable(job.plan.limits.host)},
               {"dump_hessians", job.plan.dump_hessians},
               {"save", save_to_json(job.plan.save)},
               {"device", job.device},
               {"output", job.output.string()},
               {"data_root", job.data_root.string()},
               {"base", job.base.string()},
               {"fresh", job.fresh},
               {"verify", job.verify},
               {"argv", job.argv},
               {"cells", Json::array()}};
  for (const PlannedCell& planned : job.plan.cells)
    json["cells"].push_back(planned_to_json(planned, job.plan.claim));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Job job_from_json(const std::string& text, const std::string& where) {
  Job job;
  try {
    const Json json = Json::parse(text);
    job.plan.name = json.at("experiment").get<std::string>();
    job.plan.tier = json.at("tier").get<std::string>();
    job.plan.file = json.at("file").get<std::string>();
    job.plan.resume = json.at("resume").get<bool>();
    job.plan.limits = {bytes_of(json.at("device_memory")), bytes_of(json.at("host_memory"))};
    job.plan.dump_hessians = json.at("dump_hessians").get<bool>();
    job.plan.save = save_from_json(json.at("save"));
    job.device = json.at("device").get<std::string>();
    job.output = json.at("output").get<std::string>();
    job.data_root = json.at("data_root").get<std::string>();
    job.base = json.at("base").get<std::string>();
    job.fresh = json.at("fresh").get<bool>();
    job.verify = json.at("verify").get<bool>();
    job.argv = json.at("argv").get<std::vector<std::string>>();
    for (const Json& cell : json.at("cells"))
      job.plan.cells.push_back(planned_from_json(cell, where, job.plan.claim));
  } catch (const Json::exception& error) {
    throw Error(where, std::string("expected a job of gptq-bench, got a fault: ") + error.what());
  }
  return job;
}

}  // namespace gptqb
