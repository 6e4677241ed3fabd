#include "planner/shell/names.h"

#include <algorithm>

namespace trireme::planner {

bool is_shell_name(std::string_view text) {
  return !text.empty() && (text[0] < '0' || text[0] > '9') &&
         std::all_of(text.begin(), text.end(), is_name_character);
}

std::string_view assigned_name(std::string_view word) {
  std::string_view name = word.substr(0, std::min(word.find('='), word.size()));
  if (name.size() == word.size()) {
    return {};
  }
  if (name.ends_with('+')) {
    name.remove_suffix(1);
  }
  if (const auto bracket = name.find('['); bracket != std::string_view::npos) {
    name = name.substr(0, bracket);
  }
  return is_shell_name(name) ? name : std::string_view();
}

}  // namespace trireme::planner
