// The machines and programs that cells were made on, side by side.
#include <algorithm>

#include "common/text.h"
#include "runner/report/number_format.h"
#include "runner/report/sections.h"

namespace gptqb {
namespace {

struct Place {
  Environment environment;
  std::string last_time;
  int64_t cells = 0;
};

// What makes two captures one column: everything but when, and with which arguments.
bool same_place(const Environment& a, const Environment& b) {
  Environment other = b;
  other.time = a.time;
  other.argv = a.argv;
  return a == other;
}

std::string libraries_text(const Environment& environment) {
  std::vector<std::string> parts;
  for (const auto& [name, version] : environment.libraries) parts.push_back(name + " " + version);
  return join(parts, ", ");
}

}  // namespace

Section environment_section(const RecordPointers& rows) {
  std::vector<Place> places;
  for (const Record* row : rows) {
    auto place = std::find_if(places.begin(), places.end(), [&](const Place& each) {
      return same_place(each.environment, row->environment);
    });
    if (place == places.end())
      place = places.insert(places.end(), {row->environment, row->environment.time});
    place->environment.time = std::min(place->environment.time, row->environment.time);
    place->last_time = std::max(place->last_time, row->environment.time);
    ++place->cells;
  }
  ReportTable table;
  table.add_column("what");
  for (size_t i = 0; i < places.size(); ++i)
    table.add_column(places.size() == 1 ? "value" : std::to_string(i + 1));
  const auto add = [&](const std::string& title, auto text_of) {
    std::vector<std::string> cells = {title};
    bool any = false;
    for (const Place& place : places) {
      cells.push_back(text_of(place));
      any = any || !cells.back().empty();
    }
    if (any) table.add_row(std::move(cells));
  };
  add("cells", [](const Place& place) { return std::to_string(place.cells); });
  add("device", [](const Place& place) { return device_line(place.environment); });
  add("GPU memory", [](const Place& place) {
    const auto bytes = static_cast<double>(place.environment.gpu_memory_bytes);
    return bytes > 0 ? bytes_text(bytes) : "";
  });
  add("CPU", [](const Place& place) {
    return place.environment.cpu + ", " + std::to_string(place.environment.cores) +
           " cores may be used, " + std::to_string(place.environment.threads) + " threads";
  });
  add("memory", [](const Place& place) {
    const auto bytes = static_cast<double>(place.environment.memory_bytes);
    return bytes > 0 ? bytes_text(bytes) : "";
  });
  add("system", [](const Place& place) { return place.environment.os; });
  add("program", [](const Place& place) { return version_line(place.environment.build); });
  add("commit", [](const Place& place) { return commit_text(place.environment.build); });
  add("build flags", [](const Place& place) { return place.environment.build.flags; });
  add("libraries", [](const Place& place) { return libraries_text(place.environment); });
  add("measured, UTC", [](const Place& place) {
    return place.environment.time == place.last_time
               ? place.last_time
               : place.environment.time + " to " + place.last_time;
  });
  add("first command", [](const Place& place) { return join(place.environment.argv, " "); });
  return {"environment", "Environment", "", std::move(table), {}, ""};
}

}  // namespace gptqb
