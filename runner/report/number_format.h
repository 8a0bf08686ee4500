// Numbers as text, the same in every locale; number_text is in common/text.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/text.h"

namespace gptqb {

// With `digits` after the point.
std::string fixed_text(double value, int digits);
// With `digits` significant digits, trailing zeros kept where they are digits: 5.850 for (5.85, 4);
// plain notation from 1e-4 to 1e9, else with an exponent.
std::string significant_text(double value, int digits);
// With its sign: "+0.012", "-0.012", "0".
std::string signed_text(double value, int digits);
// "1.5 GiB", "512 MiB", "100 B".
std::string bytes_text(double bytes);
// "1:05:09", "5:09", "8.2 s".
std::string duration_text(double seconds);

}  // namespace gptqb
