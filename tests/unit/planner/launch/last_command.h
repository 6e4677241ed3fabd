// What a script comes to.
#pragma once

#include <string>

#include "planner/shell/script.h"

namespace trireme::planner {

// The words of its last command, joined by '|'; an empty word is "".
inline std::string last_command(const std::string& text) {
  const ShellScript script = read_shell(text, "run.sh", {});
  std::string words;
  if (!script.commands.empty()) {
    for (const ShellText& word : script.commands.back().words) {
      words += (words.empty() ? "" : "|") + word.text;
    }
  }
  return words;
}

}  // namespace trireme::planner
