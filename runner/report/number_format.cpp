#include "runner/report/number_format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace gptqb {
namespace {

template <class... Format>
std::string converted(double value, Format... format) {
  if (!std::isfinite(value)) return number_text(value);
  std::array<char, 512> buffer;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format...).ptr;
  return std::string(buffer.data(), end);
}

std::string two_digits(int64_t value) {
  return std::string(value < 10 ? 1 : 0, '0') + std::to_string(value);
}

}  // namespace

std::string fixed_text(double value, int digits) {
  return converted(value, std::chars_format::fixed, digits);
}

std::string significant_text(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return number_text(value);
  const std::string scientific = converted(value, std::chars_format::scientific, digits - 1);
  // The exponent after rounding, so that 9.9996 has as many digits as 10.00.
  const int exponent = std::stoi(scientific.substr(scientific.find('e') + 1));
  if (exponent < -4 || exponent >= 9) return scientific;
  return fixed_text(value, std::max(0, digits - 1 - exponent));
}

std::string signed_text(double value, int digits) {
  if (value == 0) return "0";
  return std::string(value > 0 ? 1 : 0, '+') + significant_text(value, digits);
}

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fixed_text(bytes, unit >= 3 ? 1 : 0) + " " + kUnits[unit];
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return non_finite_text(seconds);
  if (seconds < 60) return fixed_text(seconds, 1) + " s";
  const int64_t total = std::llround(seconds);
  const int64_t hours = total / 3600;
  const int64_t minutes = total / 60 % 60;
  std::string tail(":");
  tail += two_digits(total % 60);
  if (hours == 0) return std::to_string(minutes) + tail;
  return std::to_string(hours) + ":" + two_digits(minutes) + tail;
}

}  // namespace gptqb
