// A temporary folder that one run holds against all others.
#pragma once

#include <filesystem>

namespace gptqb {

// Lies in every folder that this program has begun and not finished; held with flock(2), so that a
// killed run holds nothing.
constexpr const char* kWritingMarker = ".gptq-bench-writing";

// Throws Error if `folder` is something that this program did not begin: a folder without the
// marker, unless it is empty, a link, a file.
void check_begun_here(const std::filesystem::path& folder);

class ClaimedFolder {
 public:
  // Makes `folder`, or empties what an interrupted run left there. Throws Error as
  // check_begun_here(), and if another run holds it.
  explicit ClaimedFolder(std::filesystem::path folder);
  // Removes the folder, unless the marker has left it.
  ~ClaimedFolder();
  ClaimedFolder(const ClaimedFolder&) = delete;
  ClaimedFolder& operator=(const ClaimedFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }
  // Moves the marker to the folder whose place this one takes: what is removed later is begun, and
  // what is complete is not. Throws Error.
  void move_marker(const std::filesystem::path& other);
  // Removes the marker: the folder is complete, and nobody's to remove. Throws Error.
  void remove_marker();

 private:
  std::filesystem::path folder_;
  int descriptor_ = -1;
  bool marked_ = true;
};

}  // namespace gptqb
