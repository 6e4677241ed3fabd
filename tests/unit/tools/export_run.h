// Runs `trireme export` in the process and reads what it wrote, for the tests of its formats.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tools/program.h"

namespace trireme::tools {

struct Exported {
  int code = -1;
  std::string out, err;
};

inline std::string content_of(std::FILE* file) {
  std::string text;
  std::rewind(file);
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) {
    text.push_back(static_cast<char>(c));
  }
  std::fclose(file);
  return text;
}

inline Exported run_words(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  Console console;
  console.out = std::tmpfile();
  console.err = std::tmpfile();
  Exported result;
  result.code = run_program(words, console);
  result.out = content_of(console.out);
  result.err = content_of(console.err);
  return result;
}

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
    std::erase(word, '"');
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
