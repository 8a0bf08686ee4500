// Several runs may write into one output folder, on one machine or on several that share it: what
// each holds alone is a cell, or the tables while they are written, never the folder.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace gptqb {

// Ranges of <output>/.lock, one byte for each name: locks of an open file, which the system lets go
// of when their process ends, however it ends, and which network file systems pass on. No file is
// left behind for a name, and a killed owner leaves nothing to clean up.
class OutputLock {
 public:
  // Makes the folder. Throws Error if it or the file cannot be made.
  explicit OutputLock(const std::filesystem::path& output);

  // Whether runs write to the folder, as far as their file tells: published results have none.
  static bool is_used_in(const std::filesystem::path& output);

  // What is held, until this goes.
  class Held {
   public:
    Held(Held&& other) noexcept = default;
    Held& operator=(Held&&) = delete;
    ~Held();

   private:
    friend class OutputLock;
    Held(std::shared_ptr<int> file, int64_t byte) : file_(std::move(file)), byte_(byte) {}

    std::shared_ptr<int> file_;  // null: moved from
    int64_t byte_;
  };

  // Empty if another has `name` (a cell's id). Throws Error on a file system without locks.
  std::optional<Held> try_name(const std::string& name) const;
  // Waits for the one who has it. For what takes moments.
  Held wait_name(const std::string& name) const;

 private:
  bool take(int64_t byte, bool wait) const;

  std::filesystem::path path_;
  std::shared_ptr<int> file_;
};

// The name that is held while tables are rebuilt from all records: whoever is last then has seen
// every record.
constexpr const char* kTablesLock = "tables";

}  // namespace gptqb
