#include "planner/shell/command_string.h"

#include <algorithm>
#include <string_view>

#include "planner/shell/tokens.h"

namespace trireme::planner {
namespace {

constexpr std::size_t kLeadMax = 64;  // a launcher and its flags

// -c, -lc, -exc
bool takes_command(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && word[1] != '-' && word.ends_with('c');
}

void put(ShellText& word, const ShellText& from, std::size_t i) {
  word.text += from.text[i];
  word.lines.push_back(from.lines[i]);
  word.quoted.push_back(true);
}

class Cutter {
 public:
  // `commands` holds the command that is being read as its last one.
  Cutter(const ShellText& line, std::vector<ShellText> lead, bool lines_end,
         std::vector<std::vector<ShellText>>& commands)
      : line_(line), lead_(std::move(lead)), lines_end_(lines_end), commands_(commands) {}

  void run() {
    const std::string& text = line_.text;
    while (at_ < text.size()) {
      const char c = text[at_];
      if (c == '\'' || c == '"') {
        take_quoted(c);
      } else if (c == '\\' && at_ + 1 < text.size()) {
        if (text[at_ + 1] != '\n') {
          add(at_ + 1);
        }
        at_ += 2;
      } else if (is_blank(c) || (c == '\n' && !lines_end_)) {
        end_word();
        ++at_;
      } else if (c == '<' || c == '>' || (c == '&' && text.substr(at_, 2) == "&>")) {
        skip_redirection();
      } else if (c == ';' || c == '|' || c == '&' || c == '\n') {
        end_command();
        ++at_;
      } else {
        add(at_++);
      }
    }
    end_word();
  }

 private:
  void add(std::size_t i) {
    put(word_, line_, i);
    open_ = true;
  }

  void take_quoted(char quote) {
    const std::string& text = line_.text;
    const std::size_t end = text.find(quote, at_ + 1);
    if (end == std::string::npos) {
      add(at_++);  // an apostrophe
      return;
    }
    open_ = true;
    for (++at_; at_ < end; ++at_) {
      add(at_);
    }
    ++at_;
  }

  void end_word() {
    if (open_ && !skips_) {
      word_.outside = line_.outside;
      commands_.back().push_back(std::move(word_));
    }
    skips_ = skips_ && !open_;
    word_ = ShellText();
    open_ = false;
  }

  void end_command() {
    end_word();
    skips_ = false;
    if (commands_.back().size() > lead_.size()) {
      commands_.push_back(lead_);
    }
  }

  // 2>&1, &> FILE, >> FILE: the number before and the word after belong to it.
  void skip_redirection() {
    const bool number = std::all_of(word_.text.begin(), word_.text.end(),
                                    [](char c) { return c >= '0' && c <= '9'; });
    if (number) {
      word_ = ShellText();
      open_ = false;
    }
    end_word();
    while (at_ < line_.text.size() &&
           std::string_view("<>&|").find(line_.text[at_]) != std::string_view::npos) {
      ++at_;
    }
    skips_ = true;
  }

  const ShellText& line_;
  std::vector<ShellText> lead_;
  bool lines_end_;  // a new line ends a command; in the value of a variable it is a blank
  std::vector<std::vector<ShellText>>& commands_;
  std::size_t at_ = 0;
  ShellText word_;
  bool open_ = false;   // `word_` is one, perhaps of empty quotes
  bool skips_ = false;  // the next word is where a redirection goes
};

}  // namespace

bool is_shell(std::string_view word) {
  return word == "bash" || word == "sh" || word.ends_with("/bash") || word.ends_with("/sh");
}

bool is_script_name(std::string_view name) {
  return name.ends_with(".sh") || name.ends_with(".bash") || name.ends_with(".slurm") ||
         name.ends_with(".sbatch");
}

std::optional<std::size_t> command_word(const std::vector<ShellText>& words) {
  bool shell = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (shell && takes_command(words[i - 1].text)) {
      return i;
    }
    shell = shell || is_shell(words[i].text);
  }
  return {};
}

ShellText joined_words(const std::vector<ShellText>& words, std::size_t begin) {
  ShellText all;
  for (std::size_t i = begin; i < words.size(); ++i) {
    if (i > begin) {
      all.text += ' ';
      all.lines.push_back(words[i].lines.empty() ? 0 : words[i].lines.front());
      all.quoted.push_back(false);
    }
    all.text += words[i].text;
    all.lines.insert(all.lines.end(), words[i].lines.begin(), words[i].lines.end());
    all.quoted.insert(all.quoted.end(), words[i].quoted.begin(), words[i].quoted.end());
    all.outside |= words[i].outside;
  }
  return all;
}

std::vector<std::vector<ShellText>> commands_of_words(const std::vector<ShellText>& words) {
  std::vector<std::vector<ShellText>> commands(1);
  if (!words.empty() &&
      (words.front().text == "[[" || words.front().text == "[" || words.front().text == "test")) {
    return commands;  // a test of arguments starts nothing
  }
  if (words.size() > 1 && words.front().text == "eval") {
    Cutter(joined_words(words, 1), {}, false, commands).run();
    return commands;
  }
  const auto text = command_word(words);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const ShellText& word = words[i];
    const bool script = text == i;
    if (script || word.text.find(" --") != std::string::npos) {
      const std::size_t lead = script ? std::min(commands.back().size(), kLeadMax) : 0;
      Cutter(word, {commands.back().begin(), commands.back().begin() + std::ptrdiff_t(lead)},
             script, commands)
          .run();
    } else {
      commands.back().push_back(word);
    }
  }
  return commands;
}

}  // namespace trireme::planner
