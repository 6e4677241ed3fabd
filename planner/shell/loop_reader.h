// The loops of a script that are open while it is read: which round is read next, and where they
// end.
#pragma once

#include <string_view>
#include <vector>

#include "planner/shell/branches.h"
#include "planner/shell/loops.h"
#include "planner/shell/script.h"

namespace trireme::planner {

class LoopReader {
 public:
  LoopReader(TokenStream& stream, Branches& branches, ShellScript& script)
      : stream_(stream), branches_(branches), script_(script) {}

  // Behind `for` or `select`, `while` and `until`: the tokens of a first round come next, or none.
  // False: it does not count, or does not end.
  bool open_for();
  bool open_while(bool until);
  // One of the words of loops.h; false: another word. `last`: whether the last command succeeded,
  // and behind the loop whether that did.
  bool own_word(std::string_view word, std::optional<bool>& last);
  // break and continue of the loops beyond `outside`, which are open around the innermost call;
  // false: another command.
  bool leaves(std::string_view command, std::size_t outside);
  // The values of the loops that are open: "TP=2 PP=4".
  [[nodiscard]] std::string round() const;
  [[nodiscard]] std::size_t depth() const { return loops_.size(); }
  // What is open beyond so many ends where the stream stands: a function returned from inside.
  void leave_to(std::size_t depth) { loops_.resize(depth); }

 private:
  void start(LoopRounds rounds);
  void next();
  void end_round(std::optional<bool>& last);
  // A loop of which one round was read: what it changed is not known.
  void forget_changes(const LoopRounds& rounds);

  TokenStream& stream_;
  Branches& branches_;
  ShellScript& script_;
  std::vector<LoopRounds> loops_;
  std::size_t put_in_ = 0;  // tokens of rounds so far
};

}  // namespace trireme::planner
