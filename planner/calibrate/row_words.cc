#include "planner/calibrate/row_words.h"

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "core/embedded_file.h"
#include "core/json_reader.h"

namespace trireme::planner {

namespace embedded {
std::span<const core::EmbeddedFile> row_words();
}  // namespace embedded

nlohmann::json with_words_read(nlohmann::json row) {
  static const nlohmann::json table =
      parse_json(embedded::row_words()[0].content, "row_words.json");
  for (const nlohmann::json& entry : table.at("words")) {
    const auto text = row.find(entry.at("in").get<std::string>());
    if (text != row.end() && text->is_string() &&
        text->get_ref<const std::string&>().find(entry.at("word").get<std::string>()) !=
            std::string::npos) {
      row.merge_patch(entry.at("row"));
    }
  }
  return row;
}

}  // namespace trireme::planner
