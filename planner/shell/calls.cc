#include "planner/shell/calls.h"

#include <algorithm>

#include "core/error.h"
#include "planner/shell/built_in.h"
#include "planner/shell/command_string.h"
#include "planner/shell/names.h"
#include "planner/shell/structure.h"

namespace trireme::planner {
namespace {

constexpr std::size_t kOpenMost = 20;
constexpr int kFunctionsMost = 200;
constexpr std::size_t kFilesMost = 40;
constexpr std::size_t kTextMost = 100'000;  // against a text that feeds itself

int line_of(const SimpleCommand& command) {
  const std::vector<int>& lines = command.command.words.front().lines;
  return lines.empty() ? 0 : lines.front();
}

// bash train.sh, sbatch train.slurm: what is in the file is to be read.
bool starts_a_script(std::string_view text) {
  const auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  return (has("sh ") || has("sbatch ")) &&
         (has(".sh") || has(".bash") || has(".slurm") || has(".sbatch"));
}

// sbatch $0, and the same by the script's name from its own folder.
bool names_itself(std::string_view word, std::string_view source) {
  while (word.starts_with("./")) {
    word.remove_prefix(2);
  }
  return source == word ||
         (!word.empty() && source.size() > word.size() && source.ends_with(word) &&
          source[source.size() - word.size() - 1] == '/');
}

// Whether the word's value is the next one: sbatch -N 2, sbatch --nodes 2 (all of sbatch's options
// but a few have one).
bool takes_next_of_sbatch(const std::vector<ShellText>& words, std::size_t at) {
  constexpr std::string_view kAlone =
      " -H --hold -h --help -I --contiguous -k --no-kill -O --overcommit -s --oversubscribe -Q "
      "--quiet --parsable --requeue --no-requeue --reboot --spread-job --test-only -v --verbose -V "
      "--version -W --wait --use-min-nodes --exclusive --get-user-env --nice --wrap ";
  const std::string& word = words[at].text;
  const bool sbatch = std::any_of(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(at),
                                  [](const ShellText& each) { return each.text == "sbatch"; });
  return sbatch && word.starts_with("-") && word.find('=') == std::string::npos &&
         (word.starts_with("--") || word.size() == 2) &&
         kAlone.find(" " + word + " ") == std::string_view::npos;
}

// Whether there is anything to work out in a text of commands: others keep the lines of their
// words, cut as they are (planner/shell/command_string.h).
bool is_open_text(const ShellText& text) {
  return (!text.outside && !text.lost && text.text.find_first_of("$`") != std::string::npos) ||
         starts_a_script(text.text);
}

// The script in a here-document, as the shell that is fed reads it (bash manual, Here Documents).
std::string script_in(const ShellToken& document) {
  const std::string inside = document.text.substr(1, document.text.size() - 2);
  const bool literal = document.text.front() == '\'';
  std::string text;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (literal && inside.compare(i, 4, "'\\''") == 0) {
      text += '\'';
      i += 3;
    } else if (!literal && inside[i] == '\\' && i + 1 < inside.size() &&
               std::string_view("$`\"\\").find(inside[i + 1]) != std::string_view::npos) {
      text += inside[++i];
    } else {
      text += inside[i];
    }
  }
  return text;
}

}  // namespace

bool Calls::open(const SimpleCommand& command, const Joined& joined) {
  return calls_.size() < kOpenMost &&
         (call_function(command, joined) || evaluate(command, joined) || source(command, joined) ||
          start_script(command, joined));
}

bool Calls::call_function(const SimpleCommand& command, const Joined& joined) {
  const std::vector<ShellText>& words = command.command.words;
  const auto body = functions_.find(words[0].text);
  if (body == functions_.end() || ++called_ > kFunctionsMost) {
    return false;
  }
  Call call{.words = script_.variables.positional};
  const bool hands_on_open = words.size() == 1 && words[0].open_after;  // main "$@"
  if (script_.variables.positional || !hands_on_open) {
    script_.variables.positional.emplace(words.begin() + 1, words.end());
  }
  script_.variables.hidden.emplace_back();
  put_in(std::move(call), body->second, command, joined);
  return true;
}

// eval NAME=…, eval "$COMMAND"
bool Calls::evaluate(const SimpleCommand& command, const Joined& joined) {
  const std::vector<ShellText>& words = command.command.words;
  if (words[0].text != "eval" || words.size() < 2) {
    return false;
  }
  const ShellText text = joined_words(words, 1);
  put_in_ += text.text.size();
  if (put_in_ >= kTextMost || (assigned_name(words[1].text).empty() && !is_open_text(text))) {
    return false;
  }
  auto tokens = tokens_of_text(text);
  if (!tokens) {
    return false;
  }
  put_in({.kind = Kind::kEvaluated}, std::move(*tokens), command, joined);
  return true;
}

// . FILE WORDS
bool Calls::source(const SimpleCommand& command, const Joined& joined) {
  const std::vector<ShellText>& words = command.command.words;
  if ((words[0].text != "source" && words[0].text != ".") || words.size() < 2) {
    return false;
  }
  const ShellText& name = words[1];
  const std::string* own = written_text(name.text);
  const auto text = script_.variables.files.size() >= kFilesMost ? std::nullopt
                    : own != nullptr                             ? std::optional(*own)
                    : world_.read && !name.outside               ? world_.read(name.text)
                                                                 : std::nullopt;
  if (!text) {
    script_.unread.push_back({name.text, line_of(command)});
    return true;
  }
  Call call{.kind = Kind::kSourced};
  if (words.size() > 2) {
    call.words = script_.variables.positional;
    script_.variables.positional.emplace(words.begin() + 2, words.end());
  }
  put_in(std::move(call), tokens_of_file(name.text, *text), command, joined);
  return true;
}

// bash FILE, sbatch FILE and ./FILE, written by the script itself or beside it; bash -c TEXT; bash
// <<EOF.
bool Calls::start_script(const SimpleCommand& command, const Joined& joined) {
  const std::vector<ShellText>& words = command.command.words;
  bool shell = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    const bool starts =
        (shell || word.starts_with("./")) && !names_itself(word, script_.variables.source);
    const auto text = starts ? text_of_script(words[i]) : std::nullopt;
    if (text && script_.variables.files.size() < kFilesMost) {
      put_in_script(tokens_of_file(word, *text), i + 1, false, command, joined);
      return true;
    }
    const bool value =
        shell && !word.starts_with("-") && i > 0 && takes_next_of_sbatch(words, i - 1);
    shell = is_shell(word) || word == "sbatch" || (shell && word.starts_with("-")) || value;
  }
  return start_text(command, joined) || start_document(command, joined);
}

bool Calls::start_text(const SimpleCommand& command, const Joined& joined) {
  const std::vector<ShellText>& words = command.command.words;
  const auto at = command_word(words);
  if (!at || !is_open_text(words[*at]) || (put_in_ += words[*at].text.size()) >= kTextMost) {
    return false;
  }
  auto tokens = tokens_of_text(words[*at]);
  if (!tokens) {
    return false;
  }
  put_in_script(std::move(*tokens), std::min(*at + 2, words.size()), false, command, joined);
  if (*at + 1 < words.size()) {
    script_.variables.named = words[*at + 1];
  }
  return true;
}

std::optional<std::vector<ShellToken>> Calls::tokens_of_text(const ShellText& text) const {
  const std::string& source = script_.variables.source;
  try {
    return with_brackets(shell_tokens(text.text, source, text.lines), source);
  } catch (const Error&) {  // an apostrophe: cut as it is
    return {};
  }
}

bool Calls::start_document(const SimpleCommand& command, const Joined& joined) {
  if (!command.document) {
    return false;
  }
  const ShellToken& document = *command.document;
  const std::vector<ShellText>& words = command.command.words;
  std::vector<ShellToken> tokens = script_tokens(script_in(document), script_.variables.source);
  for (ShellToken& token : tokens) {
    token.line += document.line - 1;
  }
  const auto fed = std::find_if(words.begin(), words.end(),
                                [](const ShellText& word) { return word.text == "-s"; });
  const auto first = static_cast<std::size_t>(fed - words.begin()) + 1;
  put_in_script(std::move(tokens), std::min(first, words.size()), document.text.front() == '"',
                command, joined);
  return true;
}

const std::string* Calls::written_text(const std::string& name) const {
  const auto& written = script_.variables.written;
  for (const std::string& each : {name, "./" + name, name.substr(name.starts_with("./") ? 2 : 0)}) {
    if (const auto found = written.find(each); found != written.end()) {
      return &found->second;
    }
  }
  return nullptr;
}

std::optional<std::string> Calls::text_of_script(const ShellText& name) const {
  if (const std::string* own = written_text(name.text)) {
    return *own;
  }
  const bool beside = world_.read && !name.outside && is_script_name(name.text);
  return beside ? world_.read(name.text) : std::nullopt;
}

std::vector<ShellToken> Calls::tokens_of_file(const std::string& name, const std::string& text) {
  script_.variables.files.push_back(name);
  std::vector<ShellToken> tokens = script_tokens(text, name);
  for (ShellToken& token : tokens) {
    token.line += static_cast<int>(script_.variables.files.size()) * kLinesOfFile;
  }
  return tokens;
}

void Calls::put_in(Call call, std::vector<ShellToken> tokens, const SimpleCommand& command,
                   const Joined& joined) {
  call.frames = branches_.depth();
  call.loops = loops_.depth();
  call.set_alone = call.known ? SetAlone() : command.before;
  script_.variables.calls += call.words ? 1 : 0;
  branches_.open({.kind = Frame::Kind::kCall, .joined = joined});
  stream_.put_in(std::move(tokens), line_of(command), kReturn);
  calls_.push_back(std::move(call));
}

void Calls::put_in_script(std::vector<ShellToken> tokens, std::size_t first_word, bool sees_all,
                          const SimpleCommand& command, const Joined& joined) {
  ShellVariables& variables = script_.variables;
  const std::vector<ShellText>& words = command.command.words;
  ShellValues seen;
  Functions functions;
  const auto passes = [&](const std::string& name) {
    return sees_all || variables.exported.contains(name) ||
           std::any_of(command.before.begin(), command.before.end(),
                       [&](const auto& set) { return set.first == name; });
  };
  for (const auto& [name, variable] : variables.known) {
    if (passes(name)) {
      seen.emplace(name, variable);
    }
  }
  for (const auto& [name, body] : functions_) {
    if (passes(name)) {
      functions.emplace(name, body);
    }
  }
  restore(command.before, variables);
  Call call{.kind = Kind::kScript, .words = variables.positional, .lead = lead_};
  call.named = std::exchange(variables.named, {});
  call.known = std::exchange(variables.known, std::move(seen));
  call.functions = std::exchange(functions_, std::move(functions));
  variables.positional.emplace(words.begin() + static_cast<std::ptrdiff_t>(first_word),
                               words.end());
  const auto lead_end = words.begin() + static_cast<std::ptrdiff_t>(first_word) - 1;
  lead_.insert(lead_.end(), words.begin(), lead_end);
  put_in(std::move(call), std::move(tokens), command, joined);
}

std::optional<std::pair<std::optional<bool>, Joined>> Calls::close(std::optional<bool> last) {
  if (calls_.empty()) {
    return {};
  }
  Call call = std::move(calls_.back());
  calls_.pop_back();
  while (branches_.depth() > call.frames + 1) {
    branches_.close();
  }
  loops_.leave_to(call.loops);
  ShellVariables& variables = script_.variables;
  if (call.kind == Kind::kFunction) {
    leave_call(variables);
  }
  restore(call.set_alone, variables);
  if (call.words) {
    variables.positional = std::move(*call.words);
    --variables.calls;
  }
  if (call.known) {
    variables.named = std::move(call.named);
    variables.known = std::move(*call.known);
    functions_ = std::move(*call.functions);
    lead_ = std::move(call.lead);
  }
  Joined joined;
  if (branches_.depth() > call.frames) {  // a file may hold the words of loops.h itself
    joined = branches_.top().joined;
    branches_.close();
  }
  return std::pair(call.maybe_left ? std::nullopt : last, joined);
}

bool Calls::leaves(const std::vector<ShellText>& words, const Joined& joined,
                   std::optional<bool>& last) {
  const bool returns = words[0].text == "return";
  if (!returns && words[0].text != "exit") {
    return false;
  }
  const auto ends = std::find_if(calls_.rbegin(), calls_.rend(), [&](const Call& call) {
    return returns ? call.kind == Kind::kFunction || call.kind == Kind::kSourced
                   : call.kind == Kind::kScript;
  });
  if (returns && ends == calls_.rend()) {
    return true;
  }
  const std::size_t inside = ends == calls_.rend() ? 0 : ends->frames + 1;
  // Whoever has its doubts exits where something is missing; the file alone cannot say that.
  const bool sure = returns ? branches_.sure_from(inside) && !joined.open()
                            : branches_.plain_from(inside) && joined.joint == Joint::kNone;
  if (!sure) {
    if (returns) {
      ends->maybe_left = true;
    }
    return true;
  }
  const std::string code = words.size() > 1 ? words[1].text : "";
  last = words.size() < 2 ? last
         : words[1].outside || code.find_first_not_of("0123456789") != std::string::npos
             ? std::nullopt
             : std::optional(code.find_first_not_of('0') == std::string::npos);
  if (ends == calls_.rend()) {
    stream_.at = stream_.tokens.size();
  } else {
    leave_to_end_of(static_cast<std::size_t>(calls_.rend() - ends) - 1);
  }
  return true;
}

void Calls::leave_to_end_of(std::size_t call) {
  for (; calls_.size() > call + 1;) {
    while (!stream_.done() && !is_word(stream_.next(), kReturn)) {
      ++stream_.at;
    }
    ++stream_.at;
    close(true);
  }
  while (!stream_.done() && !is_word(stream_.next(), kReturn)) {
    ++stream_.at;
  }
}

}  // namespace trireme::planner
