#include "planner/shell/options.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "planner/shell/arrays.h"

namespace trireme::planner {
namespace {

bool starts_training(const std::vector<ShellToken>& tokens) {
  return has_word(tokens, "torchrun") || has_word(tokens, "srun") ||
         std::any_of(tokens.begin(), tokens.end(), [](const ShellToken& token) {
           return token.text.find(".py") != std::string::npos;
         });
}

// $1, or how many words there are.
bool names_first_word(const ShellToken& token) {
  return token.text.find("$1") != std::string::npos ||
         token.text.find("${1") != std::string::npos ||
         token.text.find("$#") != std::string::npos || token.text.find("${#}") != std::string::npos;
}

void set_text(ShellVariables& variables, const std::string& name, const std::string& text,
              int line) {
  variables.known[name] = ShellVariable{{plain_text(text, line)}, false};
}

// OPTIND, the number of the word that is looked at next.
std::size_t next_word(const ShellVariables& variables) {
  std::size_t next = 1;
  if (const auto found = variables.known.find("OPTIND");
      found != variables.known.end() && !found->second.values.empty()) {
    const std::string& text = found->second.values.front().text;
    std::from_chars(text.data(), text.data() + text.size(), next);
  }
  return std::clamp<std::size_t>(next, 1, 1'000'000);
}

}  // namespace

bool names_all_words(std::string_view raw) {
  raw.remove_prefix(raw.starts_with('"') ? 1 : 0);
  return raw.starts_with("$@") || raw.starts_with("$*") || raw.starts_with("${@") ||
         raw.starts_with("${*");
}

bool words_are_open(const ShellVariables& variables) {
  return !variables.positional && !variables.in_function;
}

bool shifts_options(const std::vector<ShellToken>& round) {
  const auto body = std::find_if(round.begin(), round.end(),
                                 [](const ShellToken& token) { return is_word(token, "then"); });
  const bool for_ever = std::any_of(round.begin(), body, [](const ShellToken& token) {
    return is_word(token, "true") || is_word(token, ":");
  });
  const bool asks = std::any_of(round.begin(), for_ever ? round.end() : body, names_first_word);
  const bool takes = has_word(round, "getopts") || (asks && has_word(round, "shift"));
  return takes && !starts_training(round);
}

bool looks_for_options(const std::vector<ShellToken>& body) {
  const bool compares =
      has_word(body, "case") || std::any_of(body.begin(), body.end(), [](const ShellToken& token) {
        return token.text.starts_with("--") || token.text.starts_with("\"--");
      });
  return compares && !starts_training(body);
}

std::optional<bool> take_option(const std::vector<ShellText>& words, ShellVariables& variables) {
  const int line = first_line(words[0]);
  const std::string& known = words[1].text;
  const std::string& name = words[2].text;
  if (!words_are_known(variables) || words[1].outside) {
    variables.known[name] = variables.known["OPTARG"] = unknown_variable();
    set_text(variables, "OPTIND", "1", line);
    return {};
  }
  std::vector<ShellText> given(words.begin() + 3, words.end());
  if (given.empty()) {
    given = *variables.positional;
  }
  std::size_t next = next_word(variables);
  std::size_t& taken = variables.option_letters;
  const auto word = [&] { return next <= given.size() ? given[next - 1].text : std::string(); };
  if (taken == 0 && (word().size() < 2 || word()[0] != '-' || word() == "--")) {
    set_text(variables, "OPTIND", std::to_string(next + (word() == "--" ? 1 : 0)), line);
    set_text(variables, name, "?", line);
    return false;
  }
  taken = std::max<std::size_t>(taken, 1);
  const std::string all = word();
  const char letter = taken < all.size() ? all[taken++] : '?';
  const std::size_t found = letter == ':' ? std::string::npos : known.find(letter);
  set_text(variables, name, found == std::string::npos ? "?" : std::string(1, letter), line);
  variables.known.erase("OPTARG");
  if (found != std::string::npos && known.substr(found + 1).starts_with(':')) {
    const bool glued = taken < all.size();
    next += glued ? 0 : 1;
    set_text(variables, "OPTARG", glued ? all.substr(taken) : word(), line);
    taken = all.size();
  }
  if (taken >= all.size()) {
    ++next;
    taken = 0;
  }
  set_text(variables, "OPTIND", std::to_string(next), line);
  return true;
}

}  // namespace trireme::planner
