// Small pieces of text handling that several layers share: suggestions, globs, joins, hex.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gptqb {

// "a, b, c".
std::string join(const std::vector<std::string>& parts, std::string_view separator);

// The known name closest to `name` by edit distance, or "" if none is near (more than a third of
// its letters differ).
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

// "expected one of a, b, c; got 'x'. Did you mean 'a'?"
std::string unknown_name(std::string_view name, const std::vector<std::string>& known);

// The shortest decimal text that reads back as `value`, the same in every locale; "nan", "inf",
// "-inf" where it is not finite.
std::string number_text(double value);

// Whether `text` as a whole matches `pattern`, where `*` stands for any run of characters and `?`
// for one. "model.layers.1.*" does not match "model.layers.10.mlp".
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace gptqb
