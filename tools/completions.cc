#include "tools/completions.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme::tools {
namespace {

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

// All that may follow a command's own words.
std::vector<std::string> words_after(const CommandPage& page) {
  std::vector<std::string> words = page.commands;
  for (const CommandOption& option : page.options) {
    words.insert(words.end(), option.names.begin(), option.names.end());
  }
  return words;
}

std::string path_of(const CommandPage& page) {
  return joined(page.path);
}

// "'…'" of a POSIX shell and of fish.
std::string quoted(const std::string& text, const char* quote) {
  std::string out = "'";
  for (const char c : text) {
    out += c == '\'' ? quote : std::string(1, c);
  }
  return out + "'";
}

// The cases "COMMAND OPTION" that have values, and what follows a command; bash and zsh read the
// same words.
void add_cases(const std::vector<CommandPage>& pages, std::string& text) {
  text += "  case \"$path $previous\" in\n";
  for (const CommandPage& page : pages) {
    for (const CommandOption& option : page.options) {
      if (!option.values.empty()) {
        for (const std::string& name : option.names) {
          text += fmt::format("    '{} {}') values={} ;;\n", path_of(page), name,
                              quoted(joined(option.values), "'\\''"));
        }
      }
    }
  }
  text += "  esac\n  case \"$path\" in\n";
  for (const CommandPage& page : pages) {
    text += fmt::format("    '{}') words={} ;;\n", path_of(page),
                        quoted(joined(words_after(page)), "'\\''"));
  }
  text += "  esac\n";
}

// Sets `path` to the words before the cursor that are commands.
void add_path(const std::vector<CommandPage>& pages, const char* words_before, std::string& text) {
  text += fmt::format("  for word in {}; do\n    case \"$path $word\" in\n", words_before);
  for (const CommandPage& page : pages) {
    if (!page.path.empty()) {
      std::vector<std::string> above(page.path.begin(), page.path.end() - 1);
      text += fmt::format("      '{} {}') path='{}' ;;\n", joined(above), page.path.back(),
                          path_of(page));
    }
  }
  text += "    esac\n  done\n";
}

}  // namespace

std::string bash_completions(const std::vector<CommandPage>& pages) {
  std::string text =
      "# Completions of trireme for bash.\n_trireme() {\n  local path='' word words='' values=''\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n";
  add_path(pages, "\"${COMP_WORDS[@]:1:COMP_CWORD-1}\"", text);
  add_cases(pages, text);
  text +=
      "  if [[ -n $values ]]; then\n    COMPREPLY=($(compgen -W \"$values\" -- \"$current\"))\n"
      "  elif [[ $current == -* || -z $path || $path == topo ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n  fi\n}\n"
      "complete -o default -F _trireme trireme\n";
  return text;
}

std::string zsh_completions(const std::vector<CommandPage>& pages) {
  std::string text =
      "#compdef trireme\n# Completions of trireme for zsh.\n_trireme() {\n  local path_='' word "
      "list='' values=''\n"
      "  local current=${words[CURRENT]} previous=${words[CURRENT-1]}\n";
  std::string body;
  add_path(pages, "\"${(@)words[2,CURRENT-1]}\"", body);
  add_cases(pages, body);
  // `path` and `words` are zsh's own.
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"$path", "$path_"},
                                 {" path=", " path_="},
                                 {" words=", " list="}}) {
    for (auto at = body.find(from); at != std::string::npos; at = body.find(from, at + to.size())) {
      body.replace(at, from.size(), to);
    }
  }
  text += body;
  text +=
      "  if [[ -n $values ]]; then\n    compadd -- ${=values}\n"
      "    [[ $previous == --model || $previous == --cluster ]] && _files\n"
      "  elif [[ $current == -* || -z $path_ || $path_ == topo ]]; then\n    compadd -- ${=list}\n"
      "  else\n    _files\n  fi\n}\n_trireme \"$@\"\n";
  return text;
}

std::string fish_completions(const std::vector<CommandPage>& pages) {
  std::string text =
      "# Completions of trireme for fish.\n"
      "function __trireme_at\n  set -l path\n"
      "  for word in (commandline -opc)[2..-1]\n    switch \"$path $word\"\n";
  for (const CommandPage& page : pages) {
    if (!page.path.empty()) {
      const std::vector<std::string> above(page.path.begin(), page.path.end() - 1);
      text += fmt::format("      case '{} {}'\n        set path {}\n", joined(above),
                          page.path.back(), path_of(page));
    }
  }
  text += "    end\n  end\n  test \"$path\" = \"$argv\"\nend\n";
  for (const CommandPage& page : pages) {
    const std::string when = quoted("__trireme_at " + path_of(page), "\\'");
    if (!page.commands.empty()) {
      text += fmt::format("complete -c trireme -n {} -f -a '{}'\n", when, joined(page.commands));
    }
    for (const CommandOption& option : page.options) {
      text += fmt::format("complete -c trireme -n {}", when);
      for (const std::string& name : option.names) {
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      text += option.type.empty() ? "" : (option.takes_file ? " -r -F" : " -x");
      text += option.values.empty() ? "" : " -a " + quoted(joined(option.values), "\\'");
      text +=
          " -d " + quoted(option.description.substr(0, option.description.find(';')), "\\'") + "\n";
    }
  }
  return text;
}

}  // namespace trireme::tools
