// Who of several workers may start its cell, so that the memory planned for all of them fits.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace gptqb {

class Admission {
 public:
  // `limit`: host bytes of all together; empty: no limit.
  Admission(size_t workers, std::optional<int64_t> limit);

  // Worker `who`, which holds `resident` bytes now, wants to work with `planned` bytes.
  void ask(size_t who, int64_t planned, int64_t resident);
  // Its cell is done. What it had resident still counts, until it asks again.
  void leave(size_t who);
  // It has ended.
  void end(size_t who);

  struct Grant {
    size_t who;
    int64_t bytes;  // it may take at most: its plan and a share of what is left over
  };
  // The one who asked first, if it fits beside those at work and what the others have resident; or
  // if nobody is at work: one cell at a time is what its own plan was made for. Empty if none may
  // start now. A large cell is not passed by smaller ones that asked later.
  std::optional<Grant> next();

 private:
  struct Worker {
    bool at_work = false;
    int64_t planned = 0;
    int64_t resident = 0;
  };
  std::vector<Worker> workers_;
  std::optional<int64_t> limit_;
  std::deque<size_t> asking_;
};

}  // namespace gptqb
