// YAML read strictly into a tree in which every node knows its place.
//
// The parser's events are used, not its node type, because only they tell a quoted scalar from a
// plain one, show both of two equal keys, and show anchors. Refused, each with line and column:
// duplicate keys, anchors, aliases, merge keys, explicit tags, tabs in indentation. Scalars stay
// text; schema.h gives them types.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"

namespace gptqb {

// 1-based place in a file. Line 0: the node came from the command line and `file` says which
// option.
struct Position {
  std::string file;
  int line = 0;
  int column = 0;
  // "experiment.yaml:3:5".
  std::string text() const;
};

struct YamlEntry;

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  std::string text;     // of a scalar, `${...}` unexpanded
  bool quoted = false;  // a scalar in quotes or a block scalar: text whatever it looks like
  Position position;
  std::vector<YamlNode> items;     // of a list
  std::vector<YamlEntry> entries;  // of a map, in the order of the file

  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_map() const { return kind == Kind::kMap; }
  // The entry's value, or null.
  const YamlNode* find(const std::string& key) const;
  // For messages: "a list", "a map", "nothing", "'text'".
  std::string describe() const;
};

struct YamlEntry {
  std::string key;
  Position position;  // of the key
  YamlNode value;
};

// Every fault of a file in one exception. With one fault it reads like a plain Error; with several,
// one a line.
class ErrorList : public Error {
 public:
  ErrorList(const std::string& file, std::vector<Error> errors);
  const std::vector<Error>& errors() const { return errors_; }

 private:
  std::vector<Error> errors_;
};

// Collects faults so that a reader can go on after one.
class Faults {
 public:
  // `key` may be empty.
  void add(const Position& position, const std::string& key, const std::string& message);
  bool empty() const { return faults_.empty(); }
  // Whether some fault was found at `key` or at a key below it.
  bool mentions(const std::string& key) const;
  // Throws ErrorList, in the order of the file, if anything was added; equal faults are told once.
  void raise(const std::string& file) const;

 private:
  struct Fault {
    Error error;
    Position position;
    std::string key;
  };
  std::vector<Fault> faults_;
};

// The documents of `text`, parted by `---`; empty documents are left out. Faults of syntax end the
// reading; the refused constructions above are collected.
std::vector<YamlNode> parse_yaml(const std::string& text, const std::string& file, Faults& faults);

// `${NAME}` and `${NAME:-default}` replaced by environment variables (the default also stands in
// for an empty variable). Throws std::invalid_argument with a clause for an unset variable and for
// a malformed `${`.
std::string expand_variables(const std::string& text);

}  // namespace gptqb
