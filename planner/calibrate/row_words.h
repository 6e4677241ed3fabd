// What the words of a row say where its keys are silent: tables in row_words.json and, of libraries
// of fine-tuning, library_words.json. An entry applies where the row has the key `within` and lacks
// the key `absent`, the text `in` (a dot leads into a dict) holds `word` or one of `any` but not
// `unless`, and the row's date is `from` or later and before `until`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace trireme::planner {

// Whether the words of a row say `part`.
inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The row with the keys set that the words of its texts stand for. `row` must be an object.
nlohmann::json with_words_read(nlohmann::json row);

}  // namespace trireme::planner
