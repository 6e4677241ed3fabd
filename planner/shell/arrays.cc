#include "planner/shell/arrays.h"

#include <algorithm>

namespace trireme::planner {
namespace {

std::int64_t number_at(const ShellVariable& array, std::size_t i) {
  return array.places.empty() ? static_cast<std::int64_t>(i) : array.places[i];
}

std::int64_t next_number(const ShellVariable& array) {
  return array.values.empty() ? 0 : number_at(array, array.values.size() - 1) + 1;
}

ElementPlace place_of_key(const ShellVariable& array, const std::string& key) {
  const auto found = std::find(array.keys.begin(), array.keys.end(), key);
  ElementPlace place;
  if (found != array.keys.end()) {
    place.at = static_cast<std::size_t>(found - array.keys.begin());
  }
  return place;
}

ElementPlace place_of_number(const ShellVariable& array, std::int64_t number) {
  ElementPlace place{.number = number < 0 ? next_number(array) + number : number};
  for (std::size_t i = 0; i < array.values.size(); ++i) {
    if (number_at(array, i) == place.number) {
      place.at = i;
    }
  }
  return place;
}

// Puts an element where its number belongs.
void insert_numbered(ShellVariable& array, std::int64_t number, const ShellText& value) {
  if (array.places.empty() && number != next_number(array)) {
    for (std::size_t i = 0; i < array.values.size(); ++i) {
      array.places.push_back(static_cast<std::int64_t>(i));
    }
  }
  const bool numbered = !array.places.empty() || number != std::ssize(array.values);
  const auto behind = std::upper_bound(array.places.begin(), array.places.end(), number);
  const auto at = numbered ? behind - array.places.begin() : std::ssize(array.values);
  array.values.insert(array.values.begin() + at, value);
  if (numbered) {
    array.places.insert(behind, number);
  }
}

}  // namespace

void append_text(ShellText& text, const ShellText& more) {
  text.text += more.text;
  text.lines.insert(text.lines.end(), more.lines.begin(), more.lines.end());
  text.quoted.insert(text.quoted.end(), more.quoted.begin(), more.quoted.end());
  text.outside |= more.outside;
  text.lost |= more.lost;
}

ShellVariable unknown_variable() {
  ShellText nothing;
  nothing.outside = nothing.lost = true;
  return ShellVariable{{nothing}, false};
}

ElementPlace place_of_element(ShellVariables& variables, std::string_view name,
                              const ShellText& subscript) {
  if (subscript.lost || subscript.outside) {
    return {.known = false};
  }
  const auto found = variables.known.find(name);
  const ShellVariable none;
  const bool keyed =
      found != variables.known.end() && (found->second.associative || !found->second.keys.empty());
  if (keyed) {
    return place_of_key(found->second, subscript.text);
  }
  const int line = subscript.lines.empty() ? 0 : subscript.lines.front();
  const auto number = subscript.text.empty() ? std::optional<std::int64_t>(0)
                                             : shell_arithmetic(variables, subscript.text, line);
  const auto again = variables.known.find(name);  // the subscript may have set variables
  const ShellVariable& array = again == variables.known.end() ? none : again->second;
  return number ? place_of_number(array, *number) : ElementPlace{.known = false};
}

void set_element(ShellVariables& variables, const std::string& name, const ShellText& subscript,
                 const ShellText& value, bool adds) {
  ElementPlace place = place_of_element(variables, name, subscript);
  ShellVariable& array = variables.known[name];
  array.array = true;
  const bool named = !place.known && !subscript.outside && !subscript.lost &&
                     (array.values.empty() || !array.keys.empty());
  if (!place.known && !named) {
    array = unknown_variable();
  } else if (place.at) {
    ShellText& element = array.values[*place.at];
    if (adds) {
      append_text(element, value);
    } else {
      element = value;
    }
  } else if (named || array.associative || !array.keys.empty()) {
    array.keys.push_back(subscript.text);  // also of an array that another file declares
    array.values.push_back(value);
  } else if (place.number >= 0) {
    insert_numbered(array, place.number, value);
  }
}

void remove_element(ShellVariables& variables, const std::string& name,
                    const ShellText& subscript) {
  const ElementPlace place = place_of_element(variables, name, subscript);
  const auto found = variables.known.find(name);
  if (found == variables.known.end()) {
    return;
  }
  ShellVariable& array = found->second;
  if (!place.known) {
    array = unknown_variable();
    return;
  }
  if (!place.at) {
    return;
  }
  const auto at = static_cast<std::ptrdiff_t>(*place.at);
  if (array.keys.empty() && array.places.empty()) {
    for (std::size_t i = 0; i < array.values.size(); ++i) {
      array.places.push_back(static_cast<std::int64_t>(i));
    }
  }
  array.values.erase(array.values.begin() + at);
  if (!array.keys.empty()) {
    array.keys.erase(array.keys.begin() + at);
  } else {
    array.places.erase(array.places.begin() + at);
  }
}

void append_elements(ShellVariable& array, const ShellVariable& more) {
  array.array = true;
  for (std::size_t i = 0; i < more.values.size(); ++i) {
    if (i < more.keys.size()) {
      const auto at = place_of_key(array, more.keys[i]).at;
      if (at) {
        array.values[*at] = more.values[i];
        continue;
      }
      array.keys.push_back(more.keys[i]);
      array.values.push_back(more.values[i]);
    } else {
      insert_numbered(array, next_number(array), more.values[i]);
    }
  }
}

std::vector<std::string> element_names(const ShellVariable& variable) {
  std::vector<std::string> names = variable.keys;
  for (std::size_t i = 0; names.size() < variable.values.size(); ++i) {
    names.push_back(std::to_string(number_at(variable, i)));
  }
  return names;
}

}  // namespace trireme::planner
