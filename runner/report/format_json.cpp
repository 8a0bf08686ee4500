// results.json: every record as it lies on disk, and the verdicts.
#include <nlohmann/json.hpp>

#include "runner/report/report.h"

namespace gptqb {
namespace {

using Json = nlohmann::ordered_json;

Json optional_number(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json verdict_json(const Verdict& verdict) {
  return {{"cell_id", verdict.cell_id},
          {"experiment", verdict.experiment},
          {"where", verdict.where},
          {"metric", verdict.metric},
          {"expected", verdict.expected},
          {"measured", optional_number(verdict.measured)},
          {"deviation", optional_number(verdict.deviation)},
          {"verdict", outcome_name(verdict.outcome)},
          {"reason", verdict.reason},
          {"source", verdict.source}};
}

}  // namespace

std::string render_json(const ReportData& data) {
  Json json = Json::object();
  json["schema_version"] = Record::kSchemaVersion;
  json["records"] = Json::array();
  for (const Record& record : data.records) json["records"].push_back(Json::parse(to_json(record)));
  json["verdicts"] = Json::array();
  for (const Verdict& verdict : data.verdicts) json["verdicts"].push_back(verdict_json(verdict));
  json["damaged_records"] = data.damaged;
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gptqb
