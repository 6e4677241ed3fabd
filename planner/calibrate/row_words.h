// What the words of a row say where its keys are silent: a table in row_words.json.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace trireme::planner {

// The row with the keys set that the words of its texts stand for. `row` must be an object.
nlohmann::json with_words_read(nlohmann::json row);

}  // namespace trireme::planner
