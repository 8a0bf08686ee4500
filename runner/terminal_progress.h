// Progress for a person at a terminal: one line that is redrawn, and notes above it.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

#include "common/progress.h"

namespace gptqb {

// What the line says of memory: resident size, and the GPU's allocations once there are any.
std::string memory_text();

class TerminalProgress : public Progress {
 public:
  // Without a terminal (`terminal` false: a pipe, a log file) only notes are written. `clock` gives
  // seconds.
  TerminalProgress(std::ostream& out, bool terminal, std::function<double()> clock = steady_seconds,
                   std::function<std::string()> memory = memory_text);
  // Ends the line.
  ~TerminalProgress() override;

  // The line: "blocks 12/30  40 %  1.30/s  0:14 left  1.2 GiB". It is drawn at most ten times a
  // second and cut to 100 columns.
  void begin(const std::string& what, int64_t total) override;
  void advance(int64_t steps = 1) override;
  void note(const std::string& line) override;

  static double steady_seconds();

 private:
  void draw();
  void erase();
  std::string line() const;

  std::ostream& out_;
  bool terminal_;
  std::function<double()> clock_;
  std::function<std::string()> memory_;
  std::string what_;
  int64_t total_ = 0;
  int64_t done_ = 0;
  double started_ = 0;
  double drawn_ = 0;
  bool shown_ = false;
};

}  // namespace gptqb
