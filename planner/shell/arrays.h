// Elements of a variable: by number, by key, and those that were never set between them (bash
// manual, Arrays).
#pragma once

#include <string>
#include <string_view>

#include "planner/shell/value.h"

namespace trireme::planner {

struct ElementPlace {
  std::optional<std::size_t> at = {};  // in `values`; nothing: no element of that name
  std::int64_t number = 0;             // of a numbered array, counted from the front
  bool known = true;                   // false: the subscript is not known
};

// The element that a subscript names, its `$` worked out. An empty one is element 0.
ElementPlace place_of_element(ShellVariables& variables, std::string_view name,
                              const ShellText& subscript);
// NAME[SUBSCRIPT]=value, or += of it. Where the subscript is not known, neither is the array.
void set_element(ShellVariables& variables, const std::string& name, const ShellText& subscript,
                 const ShellText& value, bool adds);
void remove_element(ShellVariables& variables, const std::string& name, const ShellText& subscript);
// NAME+=( … )
void append_elements(ShellVariable& array, const ShellVariable& more);
// The numbers or keys of the elements, as ${!NAME[@]} gives them.
std::vector<std::string> element_names(const ShellVariable& variable);
// Text after text, with its lines.
void append_text(ShellText& text, const ShellText& more);
// A variable of which nothing is known.
ShellVariable unknown_variable();

}  // namespace trireme::planner
