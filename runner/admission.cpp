#include "runner/admission.h"

#include <algorithm>
#include <limits>

namespace gptqb {

Admission::Admission(size_t workers, std::optional<int64_t> limit)
    : workers_(workers), limit_(limit) {}

void Admission::ask(size_t who, int64_t planned, int64_t resident) {
  workers_[who] = {false, planned, resident};
  asking_.push_back(who);
}

void Admission::leave(size_t who) {
  workers_[who].at_work = false;
  asking_.erase(std::remove(asking_.begin(), asking_.end(), who), asking_.end());
}

void Admission::end(size_t who) {
  leave(who);
  workers_[who] = {};
}

std::optional<Admission::Grant> Admission::next() {
  if (asking_.empty()) return std::nullopt;
  const size_t who = asking_.front();
  int64_t taken = 0;
  bool alone = true;
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (i == who) continue;
    taken += workers_[i].at_work ? workers_[i].planned : workers_[i].resident;
    alone = alone && !workers_[i].at_work;
  }
  const int64_t limit = limit_.value_or(std::numeric_limits<int64_t>::max());
  const int64_t left = limit - taken - workers_[who].planned;
  if (left < 0 && !alone) return std::nullopt;
  asking_.pop_front();
  workers_[who].at_work = true;
  const int64_t share = std::max<int64_t>(0, left) / static_cast<int64_t>(workers_.size());
  return Grant{who, workers_[who].planned + share};
}

}  // namespace gptqb
