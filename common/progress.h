// Where long work reports to. Libraries call it; the command line decides what is shown (stderr,
// quiet when stderr is no terminal); tests pass a silent one.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace gptqb {

class Progress {
 public:
  virtual ~Progress() = default;
  // A new stretch of `total` steps named `what` ("blocks", "windows") begins; it replaces the one
  // before.
  virtual void begin(const std::string& what, int64_t total) = 0;
  virtual void advance(int64_t steps = 1) = 0;
  // One line for the log: something the user should know that is no failure.
  virtual void note(const std::string& line) = 0;
};

// A Progress that shows nothing.
Progress& silent_progress();

// Set by Ctrl-C (and by tests); long loops call throw_if_interrupted() between units of work.
std::atomic<bool>& interrupt_requested();

// Throws Interrupted if interrupt_requested().
void throw_if_interrupted();

}  // namespace gptqb
