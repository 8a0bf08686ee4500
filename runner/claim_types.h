// An entry of `claim`: cells that are compared with each other, and what makes the claim hold.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gptqb {

struct ClaimPart {
  std::string metric;
  // Settings (dotted key, value as text) of the cells on either side.
  std::vector<std::pair<std::string, std::string>> of;
  std::vector<std::pair<std::string, std::string>> against;
  // Within which the metric of `of` over that of `against`, or the one less the other, must lie.
  std::optional<double> ratio_at_least;
  std::optional<double> ratio_at_most;
  std::optional<double> difference_at_least;
  std::optional<double> difference_at_most;

  bool about_ratio() const { return ratio_at_least || ratio_at_most; }
  bool operator==(const ClaimPart&) const = default;
};

struct Claim {
  std::string statement;  // empty: there is no claim
  std::vector<ClaimPart> parts;
  bool operator==(const Claim&) const = default;
};

}  // namespace gptqb
