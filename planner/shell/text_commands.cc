#include "planner/shell/text_commands.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <regex>
#include <string_view>

#include "planner/shell/value.h"

namespace trireme::planner {
namespace {

using Words = std::vector<std::string>;
using Output = std::optional<std::string>;

constexpr std::size_t kRegexTextMax = 2000;  // std::regex recurses over the text
constexpr std::size_t kRegexMax = 200;

// \n, \t, \\ and octal \0NN as printf and tr read them.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    out += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c == '0' ? '\0' : c;
  }
  return out;
}

std::string joined(const Words& words, std::size_t first) {
  std::string all;
  for (std::size_t i = first; i < words.size(); ++i) {
    all += (i > first ? " " : "") + words[i];
  }
  return all;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string text_of(const std::vector<std::string>& lines, std::size_t first, std::size_t last) {
  std::string text;
  for (std::size_t i = first; i < std::min(last, lines.size()); ++i) {
    text += lines[i] + "\n";
  }
  return text;
}

Output echo(const Words& words) {
  std::size_t first = 1;
  bool escapes = false;
  bool newline = true;
  for (; first < words.size() && (words[first] == "-e" || words[first] == "-n" ||
                                  words[first] == "-ne" || words[first] == "-en");
       ++first) {
    escapes |= words[first].find('e') != std::string::npos;
    newline &= words[first].find('n') == std::string::npos;
  }
  const std::string text = joined(words, first);
  return (escapes ? unescaped(text) : text) + (newline ? "\n" : "");
}

// %s and %d only, the format again for further words.
Output print_formatted(const Words& words) {
  if (words.size() < 2) {
    return {};
  }
  const std::string format = unescaped(words[1]);
  std::string out;
  std::size_t next = 2;
  do {
    const std::size_t before = next;
    for (std::size_t i = 0; i < format.size(); ++i) {
      if (format[i] != '%') {
        out += format[i];
        continue;
      }
      const char kind = i + 1 < format.size() ? format[++i] : ' ';
      if (kind == '%') {
        out += '%';
      } else if (kind == 's' || kind == 'd') {
        out += next < words.size() ? words[next] : "";
        ++next;
      } else {
        return {};
      }
    }
    if (next == before) {
      break;
    }
  } while (next < words.size());
  return out;
}

// "a-c" in a set of tr.
std::string set_of(std::string_view text) {
  const std::string plain = unescaped(text);
  std::string set;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (i + 2 < plain.size() && plain[i + 1] == '-' && plain[i] <= plain[i + 2]) {
      for (char c = plain[i]; c < plain[i + 2]; ++c) {
        set += c;
      }
      ++i;
    } else {
      set += plain[i];
    }
  }
  return set;
}

Output translate(const Words& words, const std::string& input) {
  const bool deletes = words.size() == 3 && words[1] == "-d";
  const bool squeezes = words.size() == 3 && words[1] == "-s";
  if (words.size() != 3 || (words[1].starts_with("-") && !deletes && !squeezes) ||
      words[1].find('[') != std::string::npos || words[2].find("[:") != std::string::npos) {
    return {};
  }
  const std::string from = set_of(words[deletes || squeezes ? 2 : 1]);
  const std::string to = set_of(words[2]);
  std::string out;
  for (const char c : input) {
    const std::size_t at = from.find(c);
    if (at == std::string::npos) {
      out += c;
    } else if (squeezes ? out.empty() || out.back() != c : !deletes && !to.empty()) {
      out += squeezes ? c : to[std::min(at, to.size() - 1)];
    }
  }
  return out;
}

// s/from/to/g with any separator; `from` as the POSIX expressions that both kinds share.
Output substitute(std::string_view script, const std::string& input, bool extended) {
  if (script.size() < 4 || script[0] != 's') {
    return {};
  }
  const char mark = script[1];
  const std::size_t second = script.find(mark, 2);
  const std::size_t third =
      second == std::string_view::npos ? second : script.find(mark, second + 1);
  if (third == std::string_view::npos || input.size() > kRegexTextMax || second > kRegexMax) {
    return {};
  }
  const std::string from(script.substr(2, second - 2));
  std::string to(script.substr(second + 1, third - second - 1));
  const bool all = script.substr(third + 1) == "g";
  if (!all && third + 1 != script.size()) {
    return {};
  }
  // A repeated group can take a time without end; none is tried.
  if (from.find(")*") != std::string::npos || from.find(")+") != std::string::npos ||
      from.find("\\)*") != std::string::npos) {
    return {};
  }
  try {
    const std::regex pattern(from, extended ? std::regex::extended : std::regex::basic);
    std::string out;
    for (const std::string& line : lines_of(input)) {
      out += std::regex_replace(line, pattern, to,
                                std::regex_constants::format_sed |
                                    (all ? std::regex_constants::format_default
                                         : std::regex_constants::format_first_only)) +
             "\n";
    }
    return out;
  } catch (const std::regex_error&) {
    return {};
  }
}

Output edit_stream(const Words& words, std::string input) {
  bool extended = false;
  std::vector<std::string> scripts;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "-E" || words[i] == "-r") {
      extended = true;
    } else if (words[i] != "-e") {
      scripts.push_back(words[i]);
    }
  }
  if (scripts.empty()) {
    return {};
  }
  for (const std::string& script : scripts) {
    const Output next = substitute(script, input, extended);
    if (!next) {
      return {};
    }
    input = *next;
  }
  return input;
}

std::optional<std::size_t> count_in(std::string_view text) {
  std::size_t value = 0;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && stop == text.data() + text.size() ? std::optional(value)
                                                                     : std::nullopt;
}

// head -n 1, head -1, tail -n 1
Output ends(const Words& words, const std::string& input) {
  std::string_view text = words.size() > 1 ? std::string_view(words.back()) : "10";
  text.remove_prefix(std::min(text.find_first_of("0123456789"), text.size()));
  const auto count = count_in(text);
  if (!count || words.size() > 3) {
    return {};
  }
  const std::vector<std::string> lines = lines_of(input);
  const std::size_t first =
      words[0] == "head" || *count >= lines.size() ? 0 : lines.size() - *count;
  return text_of(lines, first, words[0] == "head" ? *count : lines.size());
}

// cut -d, -f2 and awk -F, '{print $2}': one field of each line.
Output field(const Words& words, const std::string& input) {
  const bool awk = words[0] == "awk";
  char mark = awk ? ' ' : '\t';
  std::optional<std::size_t> number;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const char* key = awk ? "-F" : "-d";
    if (word.starts_with(key)) {
      const std::string value = word.size() > 2        ? word.substr(2)
                                : i + 1 < words.size() ? words[++i]
                                                       : "";
      mark = value.size() == 1 ? value[0] : '\0';
    } else if (!awk && word.starts_with("-f")) {
      number = count_in(word.size() > 2 ? word.substr(2) : i + 1 < words.size() ? words[++i] : "");
    } else if (awk && word.starts_with("{print $") && word.ends_with("}")) {
      number = count_in(std::string_view(word).substr(8, word.size() - 9));
    } else {
      return {};
    }
  }
  if (!number || *number == 0 || mark == '\0') {
    return {};
  }
  std::string out;
  for (const std::string& line : lines_of(input)) {
    std::vector<std::string> parts(1);
    for (const char c : line) {
      const bool cuts = awk && mark == ' ' ? c == ' ' || c == '\t' : c == mark;
      if (!cuts) {
        parts.back() += c;
      } else if (!(awk && mark == ' ' && parts.back().empty())) {
        parts.emplace_back();
      }
    }
    const bool whole = !awk && parts.size() == 1;  // cut prints a line without its mark
    out += (whole ? line : *number <= parts.size() ? parts[*number - 1] : "") + "\n";
  }
  return out;
}

// wc -l, -w and -c, without blanks before the number as over a pipe.
Output counted(const Words& words, const std::string& input) {
  if (words.size() != 2 || words[1].size() != 2 || words[1][0] != '-') {
    return {};
  }
  const char what = words[1][1];
  const auto count = what == 'l'   ? std::count(input.begin(), input.end(), '\n')
                     : what == 'w' ? std::ssize(split(plain_text(input, 0)))
                                   : std::ssize(input);
  const bool known = what == 'l' || what == 'w' || what == 'c';
  return known ? Output(std::to_string(count) + "\n") : Output();
}

Output sequence(const Words& words) {
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto number = count_in(words[i]);
    if (!number || *number > 100'000) {
      return {};
    }
    numbers.push_back(static_cast<std::int64_t>(*number));
  }
  if (numbers.empty() || numbers.size() > 3) {
    return {};
  }
  const std::int64_t first = numbers.size() == 1 ? 1 : numbers.front();
  const std::int64_t step = numbers.size() == 3 ? numbers[1] : 1;
  std::string out;
  for (std::int64_t value = first; step > 0 && value <= numbers.back(); value += step) {
    out += std::to_string(value) + "\n";
  }
  return out;
}

// dirname, basename, realpath and readlink -f of a path, without a look at the disk.
Output path_part(const Words& words) {
  namespace fs = std::filesystem;
  if (words.size() < 2) {
    return {};
  }
  const fs::path path(words[0] == "basename" ? words[1] : words.back());
  if (words[0] == "basename") {
    std::string name = path.filename().string();
    if (words.size() == 3 && name.size() > words[2].size() && name.ends_with(words[2])) {
      name.resize(name.size() - words[2].size());
    }
    return name + "\n";
  }
  if (words[0] == "dirname") {
    const std::string folder = path.parent_path().string();
    return (folder.empty() ? "." : folder) + "\n";
  }
  return path.lexically_normal().string() + "\n";
}

// bc without a scale: whole numbers.
Output calculated(const Words& words, const std::string& input) {
  const std::vector<std::string> lines = lines_of(input);
  const bool sums = lines.size() == 1 &&
                    lines.front().find_first_not_of("0123456789+-*/%() ") == std::string::npos;
  if (words.size() > 1 || !sums) {  // ^ is a power there, and the shell's **
    return {};
  }
  ShellVariables none{.source = "bc", .known = {}, .unset = {}};
  const auto value = shell_arithmetic(none, lines.front(), 0);
  return value ? Output(std::to_string(*value) + "\n") : Output();
}

}  // namespace

Output output_of_command(const Words& words, const std::string& input, bool first) {
  const std::string& name = words.front();
  if (first) {
    return name == "echo"     ? echo(words)
           : name == "printf" ? print_formatted(words)
           : name == "seq"    ? sequence(words)
           : name == "dirname" || name == "basename" || name == "realpath" || name == "readlink"
               ? path_part(words)
               : Output();
  }
  if (name == "cat" && words.size() == 1) {
    return input;
  }
  if (name == "xargs") {
    const std::string start = words.size() > 1 && words[1] != "echo" ? joined(words, 1) + " " : "";
    std::string all;
    for (const ShellText& part : split(plain_text(input, 0))) {
      all += (all.empty() ? "" : " ") + part.text;
    }
    return start + all + "\n";
  }
  return name == "tr"                       ? translate(words, input)
         : name == "sed"                    ? edit_stream(words, input)
         : name == "head" || name == "tail" ? ends(words, input)
         : name == "cut" || name == "awk"   ? field(words, input)
         : name == "wc"                     ? counted(words, input)
         : name == "bc"                     ? calculated(words, input)
                                            : Output();
}

}  // namespace trireme::planner
