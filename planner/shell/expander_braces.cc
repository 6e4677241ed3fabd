// ${…} of a word: which value it names, and what is done with it.
#include <algorithm>

#include "planner/shell/arrays.h"
#include "planner/shell/expander.h"
#include "planner/shell/names.h"

namespace trireme::planner {
namespace {

bool is_positional(std::string_view name) {
  return !name.empty() && name[0] >= '1' && name[0] <= '9';
}

}  // namespace

void Expander::unknown(std::string_view name, ShellText& out) {
  missing_ = name;
  out.outside = out.lost = true;
}

void Expander::braces(std::string_view inside, int line, bool in_quotes, ShellText& out) {
  const BraceForm form = brace_form(inside);
  if (form.indirect || form.counts) {
    form.counts ? counted(form, line, in_quotes, out) : indirect(form, line, in_quotes, out);
    return;
  }
  if (open_positional(form, line, in_quotes, out)) {
    return;
  }
  const char op = form.operation;
  if (op == '+' || ((op == '-' || op == '=') && !is_set(form, line))) {
    if (op != '+' || is_set(form, line)) {
      alternative(form, op == '=', line, in_quotes, out);
      out.lost |= form.rest.size() == 1;  // ${TP:-}: whoever starts it may set it
    }
    return;
  }
  if (form.rest.empty() || op == '?' || op == '-' || op == '=') {
    value(form.name, form.index, line, in_quotes, out);
    return;
  }
  bool separate = false;
  auto values = values_of(form, line, separate);
  if (values && op == ':') {
    values = slice(std::move(*values), form, line);
  } else if (values) {
    const ShellText worked = Expander(variables_).run(form.rest.substr(1), line);
    for (ShellText& one : *values) {
      const auto changed =
          worked.lost || one.lost ? std::nullopt : edited_value(one.text, op, worked);
      if (!changed) {
        values.reset();
        break;
      }
      one = plain_text(*changed, line);
    }
  }
  if (!values) {
    unknown(form.name, out);
    return;
  }
  all_values(*values, !separate, line, in_quotes, out);
}

bool Expander::open_positional(const BraceForm& form, int line, bool in_quotes, ShellText& out) {
  const bool words = is_positional(form.name) || form.name == "@" || form.name == "*";
  if (!words || words_are_known(variables_)) {
    return false;
  }
  const char op = form.operation;
  const bool falls_back = (op == '-' || op == '=') && !variables_.in_function;
  variables_.uses_words |= !variables_.in_function && variables_.calls == 0;
  if (falls_back) {  // as it runs without words, which were not given
    alternative(form, false, line, in_quotes, out);
  }
  out.outside |= !falls_back;
  out.lost |= !falls_back;
  return true;
}

void Expander::counted(const BraceForm& form, int line, bool in_quotes, ShellText& out) {
  if (form.name == "@" || form.name == "*") {
    special("#", line, in_quotes, out);
    return;
  }
  if (names_all(form)) {
    const auto found = variables_.known.find(form.name);
    const bool known = found != variables_.known.end();
    for (std::size_t i = 0; known && i < found->second.values.size(); ++i) {
      const ShellText& one = found->second.values[i];
      if (one.text.empty() && (one.outside || one.lost)) {
        unknown(form.name, out);
        return;
      }
    }
    number(known ? std::ssize(found->second.values) : 0, line, in_quotes, out);
    return;
  }
  ShellText one;
  value(form.name, form.index, line, true, one);
  missing_ = {};
  if (one.lost || one.outside) {
    unknown(form.name, out);
  } else {
    number(std::ssize(one.text), line, in_quotes, out);
  }
}

void Expander::indirect(const BraceForm& form, int line, bool in_quotes, ShellText& out) {
  const auto found = variables_.known.find(form.name);
  if (found == variables_.known.end() || found->second.values.empty()) {
    unknown(form.name, out);
    return;
  }
  if (names_all(form)) {
    std::vector<ShellText> names;
    for (const std::string& name : element_names(found->second)) {
      names.push_back(plain_text(name, line));
    }
    all_values(names, form.index == "*", line, in_quotes, out);
    return;
  }
  ShellText name;
  value(form.name, form.index, line, true, name);
  if (name.lost || name.outside || !is_shell_name(assigned_name(name.text + "="))) {
    unknown(form.name, out);
    return;
  }
  const std::string inside =
      name.text + std::string(form.colon ? ":" : "") + std::string(form.rest);
  braces(inside, line, in_quotes, out);
  missing_ = missing_.empty() ? missing_ : form.name;  // that of `inside` ends here
}

std::optional<std::vector<ShellText>> Expander::values_of(const BraceForm& form, int line,
                                                          bool& separate) {
  separate = form.name == "@" || form.index == "@";
  if (form.name == "@" || form.name == "*") {
    return variables_.positional;
  }
  const auto found = variables_.known.find(form.name);
  if (names_all(form)) {
    return found == variables_.known.end() ? std::vector<ShellText>() : found->second.values;
  }
  ShellText one;
  value(form.name, form.index, line, true, one);
  separate = true;
  return one.lost || one.outside ? std::nullopt : std::optional(std::vector<ShellText>{one});
}

std::optional<std::vector<ShellText>> Expander::slice(std::vector<ShellText> values,
                                                      const BraceForm& form, int line) {
  const auto [from, how_many] = offset_and_length(form.rest.substr(1));
  const auto offset = raw_arithmetic(variables_, from, line);
  const auto length = how_many ? raw_arithmetic(variables_, *how_many, line) : std::nullopt;
  if (!offset || (how_many && !length)) {
    return {};
  }
  const bool of_text = !names_all(form);
  const bool words = form.name == "@" || form.name == "*";
  if (words) {  // counted from 1: $0 is the script
    values.insert(values.begin(), plain_text(variables_.source, line));
  }
  const auto found = variables_.known.find(form.name);
  if (!of_text && !words && found != variables_.known.end() && !found->second.places.empty()) {
    return {};  // offsets of an array with gaps are of its numbers
  }
  const std::int64_t size =
      of_text ? std::ssize(values.front().text) : static_cast<std::int64_t>(values.size());
  const auto bounds = slice_bounds(size, *offset, length, of_text);
  if (!bounds) {
    return {};
  }
  const auto begin = static_cast<std::size_t>(bounds->first);
  const auto end = static_cast<std::size_t>(bounds->second);
  if (of_text) {
    return std::vector<ShellText>{plain_text(values.front().text.substr(begin, end - begin), line)};
  }
  return std::vector<ShellText>(values.begin() + bounds->first, values.begin() + bounds->second);
}

void Expander::alternative(const BraceForm& form, bool assigns, int line, bool in_quotes,
                           ShellText& out) {
  ShellText text;
  walk(form.rest.substr(1), line, false, text);
  if (assigns && form.index.empty()) {
    variables_.known[std::string(form.name)] = ShellVariable{{text}, false};
  }
  append(text, in_quotes, out);
}

bool Expander::is_set(const BraceForm& form, int line) {
  const bool not_empty = form.colon;
  if (is_positional(form.name)) {
    const auto at = static_cast<std::size_t>(number_in(form.name));
    return at <= variables_.positional->size() &&
           !(not_empty && (*variables_.positional)[at - 1].text.empty());
  }
  if (form.name == "@" || form.name == "*") {
    return !variables_.positional->empty();
  }
  const auto found = variables_.known.find(form.name);
  if (found == variables_.known.end() || found->second.values.empty()) {
    return form.name == "0" || form.name == "#";
  }
  if (names_all(form)) {
    return true;
  }
  const ElementPlace place =
      place_of_element(variables_, form.name, Expander(variables_).run(form.index, line));
  return place.known ? place.at && !(not_empty && found->second.values[*place.at].text.empty())
                     : true;
}

void Expander::value(std::string_view name, std::string_view index, int line, bool in_quotes,
                     ShellText& out) {
  if (name == "BASH_SOURCE") {
    append(plain_text(file_of(variables_, line), line), in_quotes, out);
    return;
  }
  if (!is_shell_name(name)) {
    special(name, line, in_quotes, out);
    return;
  }
  const auto found = variables_.known.find(name);
  if (found == variables_.known.end()) {
    variables_.unset.insert(std::string(name));  // as bash: nothing
    missing_ = name;
    out.lost = true;
    return;
  }
  const std::vector<ShellText>& values = found->second.values;
  if (values.size() == 1 && values[0].text.empty() && (values[0].outside || values[0].lost)) {
    missing_ = name;
    missing_command_ = values[0].open_after;
  }
  if (index == "@" || index == "*") {
    all_values(values, index == "*", line, in_quotes, out);
    return;
  }
  const ElementPlace place =
      place_of_element(variables_, name, Expander(variables_).run(index, line));
  if (!place.known) {  // ${SIZES[$SLURM_ARRAY_TASK_ID]}: any of them
    missing_ = name;
    out.lost = true;
  } else if (place.at) {
    append(values[*place.at], in_quotes, out);
  }
}

void Expander::all_values(const std::vector<ShellText>& values, bool star, int line, bool in_quotes,
                          ShellText& out) {
  const auto separators = variables_.known.find("IFS");
  const bool own = star && in_quotes && separators != variables_.known.end() &&
                   !separators->second.values.empty() &&
                   !separators->second.values.front().text.empty();
  if (star && in_quotes && !own) {
    ShellText one;
    joined(values, 0, line, false, one);
    append(one, true, out);
    return;
  }
  joined(values, 0, line, in_quotes, out, own ? separators->second.values.front().text[0] : ' ');
}

}  // namespace trireme::planner
