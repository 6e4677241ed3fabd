// Words of a script, cut at blanks as bash does (bash manual, Word Splitting).
#include "planner/shell/value.h"

#include <fmt/format.h>

#include "core/error.h"
#include "planner/shell/braces.h"
#include "planner/shell/expander.h"

namespace trireme::planner {

void put_character(ShellText& text, char c, int line, bool quoted) {
  text.text += c;
  text.lines.push_back(line);
  text.quoted.push_back(quoted);
}

const std::string& file_of(const ShellVariables& variables, int line) {
  const auto file = static_cast<std::size_t>(line / kLinesOfFile);
  return file == 0 || file > variables.files.size() ? variables.source : variables.files[file - 1];
}

ShellText part_of_text(const ShellText& text, std::size_t begin, std::size_t end) {
  ShellText part;
  part.outside = text.outside;
  part.lost = text.lost;
  for (std::size_t i = begin; i < end; ++i) {
    put_character(part, text.text[i], text.lines[i], text.quoted[i]);
  }
  return part;
}

ShellText plain_text(const std::string& text, int line) {
  return ShellText{text, std::vector<int>(text.size(), line), std::vector<bool>(text.size())};
}

std::string place_of(const ShellVariables& variables, int line) {
  return fmt::format("{}:{}", file_of(variables, line), line % kLinesOfFile);
}

ShellValues copy_of_values(ShellVariables& variables) {
  constexpr std::size_t kCopiedMost = 100'000'000;
  for (const auto& [name, variable] : variables.known) {
    for (const ShellText& value : variable.values) {
      variables.copied += value.text.size() + 1;
    }
  }
  if (variables.copied > kCopiedMost) {
    throw Error(variables.source, "opens subshells without end; a script that ends would be right");
  }
  return variables.known;
}

ShellText expand(ShellVariables& variables, std::string_view raw, int line) {
  const std::size_t noted = variables.unset_words.size();
  ShellText text = Expander(variables).run(raw, line);
  text.open_after = text.text.empty() && variables.unset_words.size() > noted &&
                    variables.unset_words.back().command;
  return text;
}

std::vector<ShellText> split(const ShellText& text) {
  std::vector<ShellText> words;
  bool inside = false;
  for (std::size_t i = 0; i < text.text.size(); ++i) {
    const char c = text.text[i];
    if (!text.quoted[i] && (c == ' ' || c == '\t' || c == '\n' || c == '\r')) {
      inside = false;
      continue;
    }
    if (!inside) {
      words.emplace_back();
      words.back().outside = text.outside;
      inside = true;
    }
    if (c == kEmptyWord && !text.quoted[i]) {
      continue;
    }
    put_character(words.back(), c, text.lines[i], text.quoted[i]);
  }
  return words;
}

std::vector<ShellText> expand_and_split(ShellVariables& variables, std::string_view raw, int line,
                                        ShellText& whole) {
  std::vector<ShellText> all;
  for (const std::string& one : without_braces(raw)) {
    const ShellText text = Expander(variables).run_marked(one, line);
    const std::vector<ShellText> words = split(text);
    all.insert(all.end(), words.begin(), words.end());
    whole.outside |= text.outside;
    whole.lost |= text.lost;
  }
  return all;
}

std::vector<ShellText> expand_and_split(ShellVariables& variables, std::string_view raw, int line) {
  ShellText whole;
  return expand_and_split(variables, raw, line, whole);
}

std::vector<ShellText> expand_and_split(ShellVariables& variables, std::string_view raw, int line,
                                        const std::vector<ShellText>& before, ShellText& whole) {
  const std::size_t noted = variables.unset_words.size();
  std::vector<ShellText> words = expand_and_split(variables, raw, line, whole);
  for (std::size_t i = noted; i < variables.unset_words.size(); ++i) {
    if (variables.unset_words[i].after.empty() && !before.empty()) {
      variables.unset_words[i].after = before.back().text;
    }
  }
  return words;
}

std::string words_after(const std::vector<ShellText>& words, std::size_t first) {
  std::string text;
  for (std::size_t i = first; i < words.size(); ++i) {
    text += (i > first ? " " : "") + words[i].text;
  }
  return text;
}

bool holds_arguments(const ShellText& word) {
  return word.text.starts_with("--") || word.text.find(".py") != std::string::npos;
}

}  // namespace trireme::planner
