#include "planner/shell/substitution.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "planner/shell/text_commands.h"
#include "planner/shell/tokens.h"

namespace trireme::planner {
namespace {

using Words = std::vector<std::string>;
using Output = std::optional<std::string>;

constexpr int kNestedMax = 20;

// Commands of a pipeline with the operators between them; nothing where a word is not known.
struct Part {
  std::string joint;
  Words words;
};

// `&>/dev/null`, `2>&1` of a cd, which prints nothing: where it leads changes no output.
bool loses_nothing(const ShellToken& redirection, const ShellToken& target, const Words& words) {
  constexpr std::string_view kRedirections[] = {">", ">>", "&>", "&>>", ">&", ">|"};
  return !words.empty() && words.front() == "cd" && target.kind == ShellToken::Kind::kWord &&
         std::find(std::begin(kRedirections), std::end(kRedirections), redirection.text) !=
             std::end(kRedirections);
}

// cat FILE, or < FILE alone, of a file that the script wrote itself: as echo of its text.
void put_in_written(const ShellVariables& variables, Words& words) {
  const auto found = words.size() == 2 && words[0] == "cat" ? variables.written.find(words[1])
                                                            : variables.written.end();
  if (found != variables.written.end()) {
    words = {"echo", found->second};
  }
}

std::optional<std::vector<Part>> parts_of(ShellVariables& variables, std::string_view command,
                                          int line) {
  std::vector<Part> parts(1);
  bool takes_input = false;
  const std::vector<ShellToken> tokens = shell_tokens(command, variables.source);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const ShellToken& token = tokens[i];
    if (token.kind == ShellToken::Kind::kNewline) {
      continue;
    }
    if (token.kind == ShellToken::Kind::kOperator) {
      if (i + 1 < tokens.size() && loses_nothing(token, tokens[i + 1], parts.back().words)) {
        ++i;
        continue;
      }
      if (token.text == "<" && tokens.size() == 2 && i == 0) {
        parts.back().words.emplace_back("cat");
        continue;
      }
      if (token.text.starts_with("<<") && parts.back().words.size() == 1 &&
          parts.back().words[0] == "cat") {
        takes_input = true;
        parts.back().words[0] = "echo";
        continue;
      }
      if (token.text != "|" && token.text != "&&") {
        return {};
      }
      parts.push_back({token.text, {}});
      continue;
    }
    for (const ShellText& word : expand_and_split(variables, token.text, line)) {
      if (word.outside) {
        return {};
      }
      parts.back().words.push_back(word.text);
    }
  }
  for (Part& part : parts) {
    put_in_written(variables, part.words);
  }
  const bool whole =
      std::all_of(parts.begin(), parts.end(), [](const Part& part) { return !part.words.empty(); });
  return whole || takes_input ? std::optional(std::move(parts)) : std::nullopt;
}

// cd FOLDER && pwd; alone, pwd is the folder that the script starts in, as for names in `source`
Output folder_of(const std::vector<Part>& parts) {
  if (parts.size() == 1 && parts[0].words.size() == 1 && parts[0].words[0] == "pwd") {
    return ".";
  }
  const bool goes = parts.size() == 2 && parts[1].joint == "&&" && parts[0].words.size() >= 2 &&
                    parts[0].words[0] == "cd" && parts[1].words[0] == "pwd";
  return goes ? Output(std::filesystem::path(parts[0].words.back()).lexically_normal().string())
              : Output();
}

// IFS=', '; echo …: what joins the words of "${NAME[*]}" in the rest. Returns the rest.
std::string_view with_separator(ShellVariables& variables, std::string_view command, int line) {
  const std::size_t begin = std::min(command.find_first_not_of(" \t\n"), command.size());
  const std::string_view text = command.substr(begin);
  if (!text.starts_with("IFS=")) {
    return command;
  }
  const std::vector<ShellToken> tokens = shell_tokens(text, variables.source);
  if (tokens.size() < 3 || tokens[1].text != ";") {
    return command;
  }
  const std::string& first = tokens[0].text;
  variables.known["IFS"] = ShellVariable{{expand(variables, first.substr(4), line)}, false};
  return text.substr(std::min(text.find(';', first.size()) + 1, text.size()));
}

}  // namespace

std::optional<ShellText> known_output(ShellVariables& variables, std::string_view command,
                                      int line) {
  if (variables.substitutions >= kNestedMax) {
    return {};
  }
  ++variables.substitutions;
  auto before = variables.known.extract("IFS");  // what is set in here is gone behind it
  if (before) {
    variables.known["IFS"] = before.mapped();
  }
  command = with_separator(variables, command, line);
  const auto parts = parts_of(variables, command, line);
  variables.known.erase("IFS");
  variables.known.insert(std::move(before));
  --variables.substitutions;
  if (!parts) {
    return {};
  }
  Output text = folder_of(*parts);
  if (!text) {
    std::string input;
    for (std::size_t i = 0; i < parts->size(); ++i) {
      const Part& part = (*parts)[i];
      text = part.joint == "&&" ? Output() : output_of_command(part.words, input, i == 0);
      if (!text) {
        return {};
      }
      input = *text;
    }
  }
  text->erase(text->find_last_not_of('\n') + 1);
  return plain_text(*text, line);
}

}  // namespace trireme::planner
