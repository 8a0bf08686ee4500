// What a worker and the process that started it say to each other, a line each.
//
// To the worker: the job (job_to_json), then "run INDEX" for a cell, "go BYTES" in answer to
// "need". From it, a JSON array each: ["note", text]; ["need", planned host bytes, resident bytes]
// before the work of a cell; ["done", index, outcome]; ["busy", index] if another run is at the
// cell.
#pragma once

#include <string>

namespace gptqb::worker_words {

inline constexpr const char* kRun = "run ";
inline constexpr const char* kGo = "go ";
inline constexpr const char* kNote = "note";
inline constexpr const char* kNeed = "need";
inline constexpr const char* kDone = "done";
inline constexpr const char* kBusy = "busy";

}  // namespace gptqb::worker_words
