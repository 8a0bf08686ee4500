// One exception type for everything a user can get wrong, and the sentence it must carry.
//
// Every message reads `[where] expected X, got Y. Hint`. Libraries throw; only runner/main.cpp
// prints.
#pragma once

#include <stdexcept>
#include <string>

namespace gptqb {

// A fault with a place and a remedy. `where` names file, line, key, tensor or offset; it is kept
// apart from the sentence so that tables can show it in a column of its own.
class Error : public std::runtime_error {
 public:
  // `message` is a full clause ("expected 4096 columns, got 4095. Use ..."); what() is "[where]
  // message".
  Error(std::string where, const std::string& message)
      : std::runtime_error("[" + where + "] " + message), where_(std::move(where)) {}

  const std::string& where() const { return where_; }

 private:
  std::string where_;
};

// The user (or a test) asked to stop. Not a failure: finished work is kept and a second run goes on
// from it.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted; run the same command again to resume") {}
};

}  // namespace gptqb
