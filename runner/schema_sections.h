// How the table of keys is written: one call a key, and the functions that append each section.
// For the files schema_*.cpp alone.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "runner/schema.h"

namespace gptqb::schema {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// A key without a typed field: read by experiment.cpp, or planned.
inline KeySpec plain(std::string key, KeyType type, Scope scope, std::string default_text,
                     std::string meaning) {
  KeySpec spec;
  spec.key = std::move(key);
  spec.type = type;
  spec.scope = scope;
  spec.default_text = std::move(default_text);
  spec.meaning = std::move(meaning);
  return spec;
}

// A bool, number or text that fills `part.member`; its default is that of the struct.
template <class Part, class T>
KeySpec field(std::string key, KeyType type, Part ResolvedSettings::*part, T Part::*member,
              Range range, std::string meaning) {
  KeySpec spec;
  spec.key = std::move(key);
  spec.type = type;
  spec.range = range;
  spec.default_value = ResolvedSettings{}.*part.*member;
  spec.default_text = value_text(spec.default_value);
  spec.meaning = std::move(meaning);
  spec.bind = [part, member](ResolvedSettings& settings, const nlohmann::json& value) {
    settings.*part.*member = value.get<T>();
  };
  return spec;
}

template <class Part>
KeySpec boolean(std::string key, Part ResolvedSettings::*part, bool Part::*member,
                std::string meaning) {
  return field(std::move(key), KeyType::kBool, part, member, {}, std::move(meaning));
}

template <class Part>
KeySpec integer(std::string key, Part ResolvedSettings::*part, int64_t Part::*member, double min,
                std::string meaning) {
  return field(std::move(key), KeyType::kInteger, part, member, {min, kUnbounded},
               std::move(meaning));
}

// An enum (or a bool spelled as words) that fills `part.member`.
template <class Part, class Enum>
KeySpec choice(std::string key, Part ResolvedSettings::*part, Enum Part::*member,
               Choices<Enum> choices, std::string meaning) {
  KeySpec spec;
  spec.key = std::move(key);
  spec.type = KeyType::kChoice;
  std::vector<std::pair<std::string, Enum>> known;
  for (const auto& [word, value] : choices) {
    spec.words.push_back(word);
    known.emplace_back(word, value);
    if (value == ResolvedSettings{}.*part.*member) spec.default_value = word;
  }
  spec.default_text = value_text(spec.default_value);
  spec.meaning = std::move(meaning);
  spec.bind = [part, member, known](ResolvedSettings& settings, const nlohmann::json& value) {
    for (const auto& [word, meant] : known)
      if (value == word) settings.*part.*member = meant;
  };
  return spec;
}

// One of several words that stays text.
inline KeySpec word(std::string key, std::vector<std::string> words, nlohmann::json default_value,
                    std::string meaning) {
  KeySpec spec;
  spec.key = std::move(key);
  spec.type = KeyType::kChoice;
  spec.words = std::move(words);
  spec.default_value = std::move(default_value);
  spec.default_text = spec.default_value.is_null() ? "" : value_text(spec.default_value);
  spec.meaning = std::move(meaning);
  return spec;
}

// Of a model's text settings.
inline KeySpec model_word(std::string key, std::string ModelSpec::*member,
                          std::vector<std::string> words, std::string meaning) {
  KeySpec spec = word(std::move(key), std::move(words), ModelSpec{}.*member, std::move(meaning));
  spec.bind = [member](ResolvedSettings& settings, const nlohmann::json& value) {
    settings.model.*member = value.get<std::string>();
  };
  return spec;
}

// Bits of an end of the model; `none` leaves it dense.
inline KeySpec model_end(std::string key, std::optional<int64_t> ResolvedSettings::*bits,
                         std::string meaning) {
  KeySpec spec = word(std::move(key), {"none", "2", "3", "4", "8"}, "none", std::move(meaning));
  spec.bind = [bits](ResolvedSettings& settings, const nlohmann::json& value) {
    settings.*bits = value.is_string() ? std::nullopt : std::optional(value.get<int64_t>());
  };
  return spec;
}

// No value of `spec` but the default works yet.
inline KeySpec planned(KeySpec spec) {
  spec.planned = {"*"};
  return spec;
}

inline KeySpec planned(KeySpec spec, std::vector<std::string> values) {
  spec.planned = std::move(values);
  return spec;
}

inline KeySpec with_default(KeySpec spec, nlohmann::json value) {
  spec.default_text = value_text(value);
  spec.default_value = std::move(value);
  return spec;
}

inline KeySpec with_words(KeySpec spec, std::vector<std::string> words) {
  spec.words = std::move(words);
  return spec;
}

inline KeySpec with_range(KeySpec spec, double min, double max = kUnbounded) {
  spec.range = {min, max};
  return spec;
}

inline KeySpec with_arity(KeySpec spec, Arity arity) {
  spec.arity = arity;
  return spec;
}

inline KeySpec with_bind(KeySpec spec,
                         std::function<void(ResolvedSettings&, const nlohmann::json&)> bind) {
  spec.bind = std::move(bind);
  return spec;
}

// A dataset as the file spells it: by name, or {name, source, join, field}.
DatasetSpec dataset_from_json(const nlohmann::json& value);

// The sections, in the order of the table: rules patch `quant`, which is bound before them.
void append_model(std::vector<KeySpec>& table);  // and what names the document
void append_calibration(std::vector<KeySpec>& table);
void append_method(std::vector<KeySpec>& table);
void append_run(std::vector<KeySpec>& table);
void append_quant(std::vector<KeySpec>& table);
void append_compat(std::vector<KeySpec>& table);
void append_overrides(std::vector<KeySpec>& table);
void append_evaluate(std::vector<KeySpec>& table);
void append_kernels(std::vector<KeySpec>& table);
void append_products(std::vector<KeySpec>& table);    // save
void append_structures(std::vector<KeySpec>& table);  // sweep, cells, ..., expect
void append_executor(std::vector<KeySpec>& table);

}  // namespace gptqb::schema
