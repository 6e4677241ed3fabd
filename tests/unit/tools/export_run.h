// What `trireme export` writes, read back for the tests of its formats.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/unit/tools/command.h"

namespace trireme::tools {

using Exported = Answer;

// What `export` prints; the test fails when it refuses.
inline std::string exported(const std::string& options) {
  Exported result = run_words("export " + options);
  EXPECT_EQ(result.code, 0) << options << "\n" << result.err;
  return result.out;
}

// What a file says, by key.
using Values = std::map<std::string, std::string>;

inline void expect_values(const Values& found, const Values& expected) {
  for (const auto& [key, value] : expected) {
    const auto at = found.find(key);
    ASSERT_NE(at, found.end()) << key << " is missing";
    EXPECT_EQ(at->second, value) << key;
  }
}

// Values of Megatron's flags, "" for a switch; quotes are taken off.
inline Values flags_in(const std::string& script) {
  Values flags;
  std::istringstream stream(script.substr(script.find("torchrun --nproc")));
  std::string flag;
  for (std::string word; stream >> word;) {
    std::erase_if(word, [](char c) { return c == '"' || c == '\''; });
    if (word.starts_with("--")) {
      flag = word.substr(2);
      flags[flag] = "";
    } else if (word != "\\" && !flag.empty()) {
      flags[flag] += (flags[flag].empty() ? "" : " ") + word;
    }
  }
  return flags;
}

// KEY and VALUE of each line "KEY = VALUE" or "KEY: VALUE", comments left out.
inline Values lines_in(const std::string& text) {
  Values values;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    for (const char* mark : {" = ", ": "}) {
      const auto at = line.find(mark);
      if (!line.starts_with("#") && at != std::string::npos) {
        const auto first = line.find_first_not_of(' ');
        values[line.substr(first, at - first)] = line.substr(at + std::string(mark).size());
        break;
      }
    }
  }
  return values;
}

}  // namespace trireme::tools
