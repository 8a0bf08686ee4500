#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "runner/layer_json.h"
#include "runner/record_fields.h"

namespace gptqb {
namespace {

using Json = nlohmann::ordered_json;

const char* non_finite_name(double value) {
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

double non_finite_value(const std::string& name) {
  if (name == "inf") return std::numeric_limits<double>::infinity();
  if (name == "-inf") return -std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

template <class T>
Json write(const T& value);

class Writer {
 public:
  template <class T>
  void operator()(const char* key, const T& member) {
    json_[key] = write(member);
  }

  template <class T>
  void optional(const char* key, const T& member) {
    (*this)(key, member);
  }

  void value(const Metric& metric) {
    json_["value"] = write(metric.value);
    if (std::isfinite(metric.value)) return;
    json_["non_finite"] = non_finite_name(metric.value);
    json_["reason"] = metric.reason.empty() ? "no reason was given" : metric.reason;
  }

  void cell(const std::string& text) { json_["cell"] = Json::parse(text.empty() ? "{}" : text); }

  void derived(const Record& record) {
    const std::vector<std::string> layers = gptqb::fallback_layers(record);
    json_["fallback_layers"] = layers.size();
    json_["fallback_layer_names"] = layers;
    json_["layers_worse_than_rtn"] = gptqb::layers_worse_than_rtn(record).size();
  }

  Json take() { return std::move(json_); }

 private:
  Json json_ = Json::object();
};

Json write_value(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json write_value(CellStatus status) { return status_name(status); }
Json write_value(const std::string& text) { return text; }
Json write_value(bool value) { return value; }
Json write_value(int64_t value) { return value; }

template <class T>
Json write_value(const std::optional<T>& value) {
  return value ? write(*value) : Json(nullptr);
}

// Pairs in their order: a JSON object keeps no order that readers may rely on, and CSV columns
// follow this one.
Json write_value(const std::pair<std::string, std::string>& pair) {
  return Json::array({pair.first, pair.second});
}

template <class T>
Json write_value(const std::vector<T>& values) {
  Json json = Json::array();
  for (const auto& value : values) json.push_back(write(value));
  return json;
}

template <class T>
Json write_value(const std::map<std::string, T>& values) {
  Json json = Json::object();
  for (const auto& [key, value] : values) json[key] = write(value);
  return json;
}

template <class T>
requires requires(Writer& writer, const T& value) { describe(writer, value); }
Json write_value(const T& value) {
  Writer writer;
  describe(writer, value);
  return writer.take();
}

template <class T>
Json write(const T& value) {
  return write_value(value);
}

template <class T>
void read(const Json& json, T& value);

class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {
    if (!json.is_object())
      throw Error("", std::string("expected an object, got ") + json.type_name());
  }

  template <class T>
  void operator()(const char* key, T& member) {
    read_key(key, [&](const Json& json) { read(json, member); });
  }

  template <class T>
  void optional(const char* key, T& member) {
    if (json_.contains(key)) (*this)(key, member);
  }

  void value(Metric& metric) {
    read_key("value", [&](const Json& json) { read(json, metric.value); });
    if (!json_.contains("non_finite")) return;
    std::string name;
    read_key("non_finite", [&](const Json& json) { read(json, name); });
    read_key("reason", [&](const Json& json) { read(json, metric.reason); });
    metric.value = non_finite_value(name);
  }

  void cell(std::string& text) {
    read_key("cell", [&](const Json& json) { text = json.dump(); });
  }

  void derived(Record&) {}

 private:
  // Errors carry the path of keys down to the fault.
  template <class Read>
  void read_key(const std::string& key, const Read& read_json) {
    const auto found = json_.find(key);
    if (found == json_.end()) throw Error(key, "expected this key, got none");
    try {
      read_json(*found);
    } catch (const Error& error) {
      const std::string message = std::string(error.what()).substr(error.where().size() + 3);
      throw Error(error.where().empty() ? key : key + "." + error.where(), message);
    }
  }

  const Json& json_;
};

[[noreturn]] void wrong_type(const char* expected, const Json& json) {
  throw Error("", std::string("expected ") + expected + ", got " + json.type_name());
}

void read_value(const Json& json, double& value) {
  if (!json.is_number() && !json.is_null()) wrong_type("a number or null", json);
  value = json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

void read_value(const Json& json, int64_t& value) {
  if (!json.is_number_integer()) wrong_type("an integer", json);
  value = json.get<int64_t>();
}

void read_value(const Json& json, bool& value) {
  if (!json.is_boolean()) wrong_type("true or false", json);
  value = json.get<bool>();
}

void read_value(const Json& json, std::string& value) {
  if (!json.is_string()) wrong_type("text", json);
  value = json.get<std::string>();
}

void read_value(const Json& json, CellStatus& value) {
  std::string name;
  read_value(json, name);
  for (CellStatus status : {CellStatus::kOk, CellStatus::kSkipped, CellStatus::kFailed}) {
    if (name != status_name(status)) continue;
    value = status;
    return;
  }
  throw Error("", "expected ok, skipped or failed, got '" + name + "'");
}

template <class T>
void read_value(const Json& json, std::optional<T>& value) {
  value.reset();
  if (json.is_null()) return;
  read(json, value.emplace());
}

void read_value(const Json& json, std::pair<std::string, std::string>& value) {
  if (!json.is_array() || json.size() != 2) wrong_type("a pair of texts", json);
  read_value(json[0], value.first);
  read_value(json[1], value.second);
}

template <class T>
void read_value(const Json& json, std::vector<T>& values) {
  if (!json.is_array()) wrong_type("an array", json);
  values.clear();
  for (const Json& element : json) read(element, values.emplace_back());
}

template <class T>
void read_value(const Json& json, std::map<std::string, T>& values) {
  if (!json.is_object()) wrong_type("an object", json);
  values.clear();
  for (const auto& [key, element] : json.items()) read(element, values[key]);
}

template <class T>
requires requires(Reader& reader, T& value) { describe(reader, value); }
void read_value(const Json& json, T& value) {
  Reader reader(json);
  describe(reader, value);
}

template <class T>
void read(const Json& json, T& value) {
  read_value(json, value);
}

// Parses `text` and hands it to `read_json`, whose Errors name only a key: they get the file as
// their place.
template <class Read>
void read_text(const std::string& text, const std::string& where, const Read& read_json) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded())
    throw Error(where, "expected JSON, got " + std::to_string(text.size()) +
                           " bytes that are none. Delete the file to have its cell run again");
  try {
    read_json(json);
  } catch (const Error& error) {
    const std::string message = std::string(error.what()).substr(error.where().size() + 3);
    throw Error(error.where().empty() ? where : where + ", key " + error.where(), message);
  }
}

}  // namespace

std::string to_json(const Record& record) {
  Json json = Json::object();
  json["schema_version"] = Record::kSchemaVersion;
  json.update(write(record));
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Record record_from_json(const std::string& text, const std::string& where) {
  Record record;
  read_text(text, where, [&](const Json& json) {
    int64_t version = 0;
    Reader reader(json);
    reader("schema_version", version);
    if (version != Record::kSchemaVersion)
      throw Error("schema_version", "expected " + std::to_string(Record::kSchemaVersion) +
                                        ", got " + std::to_string(version) +
                                        ". The record is of another version of gptq-bench");
    read(json, record);
  });
  return record;
}

std::string layers_to_json(const std::vector<LayerHealth>& layers) {
  return write(layers).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<LayerHealth> layers_from_json(const std::string& text, const std::string& where) {
  std::vector<LayerHealth> layers;
  read_text(text, where, [&](const Json& json) { read(json, layers); });
  return layers;
}

}  // namespace gptqb
