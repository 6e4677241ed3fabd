// What a command of a script stands for: the body of a function, a file that it sources or starts,
// the text of eval, `bash -c` or a here-document. Its commands come next, in a frame of their own.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/shell/branches.h"
#include "planner/shell/loop_reader.h"
#include "planner/shell/script.h"
#include "planner/shell/simple_command.h"
#include "planner/shell/token_stream.h"

namespace trireme::planner {

// The end of what was put in, between its commands.
constexpr std::string_view kReturn = "\x01return";

class Calls {
 public:
  Calls(TokenStream& stream, Branches& branches, LoopReader& loops, const ShellWorld& world,
        ShellScript& script)
      : stream_(stream), branches_(branches), loops_(loops), world_(world), script_(script) {}

  void keep_function(const std::string& name, std::vector<ShellToken> body) {
    functions_[name] = std::move(body);
  }
  // What the command stands for comes next, if it can be had; false: a command of its own.
  bool open(const SimpleCommand& command, const Joined& joined);
  // Behind kReturn: what held inside is gone. Returns whether the call succeeded, its last command
  // with `last`, and how it is joined; nothing where none is open.
  std::optional<std::pair<std::optional<bool>, Joined>> close(std::optional<bool> last);
  // return and exit: reading goes on behind what they end, if the file says that they run. `last`
  // as above. False: another command.
  bool leaves(const std::vector<ShellText>& words, const Joined& joined, std::optional<bool>& last);
  // The words that start the script which is being read: srun bash -c.
  [[nodiscard]] const std::vector<ShellText>& lead() const { return lead_; }
  [[nodiscard]] std::size_t depth() const { return calls_.size(); }
  // The loops around the innermost call, which it does not leave.
  [[nodiscard]] std::size_t loops_outside() const {
    return calls_.empty() ? 0 : calls_.back().loops;
  }

 private:
  using Functions = std::map<std::string, std::vector<ShellToken>, std::less<>>;
  enum class Kind : std::uint8_t { kFunction, kSourced, kEvaluated, kScript };

  struct Call {
    Kind kind = Kind::kFunction;
    std::size_t frames = 0, loops = 0;  // that are open around it
    bool maybe_left = false;            // by a return that the file does not decide
    // What the caller has instead: where nothing, the same.
    std::optional<std::optional<std::vector<ShellText>>> words = {};
    std::optional<ShellText> named = {};
    std::optional<ShellValues> known = {};
    std::optional<Functions> functions = {};
    SetAlone set_alone = {};  // A=1 f: what A was
    std::vector<ShellText> lead = {};
  };

  bool call_function(const SimpleCommand& command, const Joined& joined);
  bool evaluate(const SimpleCommand& command, const Joined& joined);
  bool source(const SimpleCommand& command, const Joined& joined);
  bool start_script(const SimpleCommand& command, const Joined& joined);
  bool start_text(const SimpleCommand& command, const Joined& joined);
  bool start_document(const SimpleCommand& command, const Joined& joined);
  [[nodiscard]] const std::string* written_text(const std::string& name) const;
  [[nodiscard]] std::optional<std::string> text_of_script(const ShellText& name) const;
  // Those of a text of commands; nothing where a quote or a bracket does not close.
  [[nodiscard]] std::optional<std::vector<ShellToken>> tokens_of_text(const ShellText& text) const;
  // The tokens of another file; its name is kept for the lines.
  std::vector<ShellToken> tokens_of_file(const std::string& name, const std::string& text);
  void put_in(Call call, std::vector<ShellToken> tokens, const SimpleCommand& command,
              const Joined& joined);
  // A script of its own: of our variables it sees those that are exported, or all of them where
  // ours are put in before it starts.
  void put_in_script(std::vector<ShellToken> tokens, std::size_t first_word, bool sees_all,
                     const SimpleCommand& command, const Joined& joined);
  // Reading goes on at the end of the n-th call.
  void leave_to_end_of(std::size_t call);

  TokenStream& stream_;
  Branches& branches_;
  LoopReader& loops_;
  const ShellWorld& world_;
  ShellScript& script_;
  Functions functions_;  // bodies of those called later
  std::vector<Call> calls_;
  std::vector<ShellText> lead_;
  int called_ = 0;          // functions so far
  std::size_t put_in_ = 0;  // characters of eval and bash -c so far
};

}  // namespace trireme::planner
